//! Reading back: which events of the hot path exist and are still its own.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{DoneRows, EventStore, Found, Lease, Settlement, Token, TxStore};

use super::{
    LONG, NONE, StoreHarness, birth, claim_one, insert, order_placed, stored, unused_token, write, write_born,
};

/// W13: committed events are found, with number and time as the table has them.
pub async fn committed_events_are_read_back(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    let birth = birth(LONG);
    write_born(harness, std::slice::from_ref(&event), &birth).await;

    let found = read_back(harness, birth.token, &[&event]).await;

    let row = stored(harness, event.id()).await;
    assert_eq!(found, [Found { event_id: row.event_id, seq: row.seq, created_at: row.created_at }]);
}

/// W13: many events are read back at once, and none are.
pub async fn many_events_are_read_back_at_once(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..1_200).map(|n| order_placed(&format!("order-{n}"))).collect();
    let birth = birth(LONG);
    write_born(harness, &events, &birth).await;

    let found = read_back(harness, birth.token, &events.iter().collect::<Vec<_>>()).await;

    let mut found: Vec<&str> = found.iter().map(|found| found.event_id.as_str()).collect();
    found.sort_unstable();
    let mut written: Vec<&str> = events.iter().map(Event::id).collect();
    written.sort_unstable();
    assert_eq!(found, written);
    assert_eq!(read_back(harness, birth.token, &[]).await, []);
}

/// W13: events of a transaction that is still open are not found.
pub async fn uncommitted_events_are_not_read_back<H: StoreHarness>(harness: &H) {
    let event = order_placed("order-17");
    let birth = birth(LONG);
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, std::slice::from_ref(&event), Some(&birth)).await.unwrap();

    assert_eq!(read_back(harness, birth.token, &[&event]).await, []);

    H::Store::commit(tx).await.unwrap();
    assert_eq!(read_back(harness, birth.token, &[&event]).await.len(), 1);
}

/// W13: events that were rolled back, alone or with their transaction, are not found.
pub async fn rolled_back_events_are_not_read_back<H: StoreHarness>(harness: &H) {
    let [kept, undone, lost] = ["order-1", "order-2", "order-3"].map(order_placed);
    let birth = birth(LONG);
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, std::slice::from_ref(&kept), Some(&birth)).await.unwrap();
    let savepoint = harness.savepoint(connection).await;
    insert(harness, connection, std::slice::from_ref(&undone), Some(&birth)).await.unwrap();
    harness.rollback_to(connection, savepoint).await;
    H::Store::commit(tx).await.unwrap();
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, std::slice::from_ref(&lost), Some(&birth)).await.unwrap();
    H::Store::rollback(tx).await.unwrap();

    let found = read_back(harness, birth.token, &[&kept, &undone, &lost]).await;

    assert_eq!(found.len(), 1);
    assert_eq!(found[0].event_id, kept.id());
}

/// W13: events that are nobody's, or another's, are not found.
pub async fn events_of_others_are_not_read_back(harness: &impl StoreHarness) {
    let [ours, others, unclaimed] = ["order-1", "order-2", "order-3"].map(order_placed);
    let birth_of_ours = birth(LONG);
    write_born(harness, std::slice::from_ref(&ours), &birth_of_ours).await;
    write_born(harness, std::slice::from_ref(&others), &birth(LONG)).await;
    write(harness, std::slice::from_ref(&unclaimed)).await;

    let all = [&ours, &others, &unclaimed];
    let found = read_back(harness, birth_of_ours.token, &all).await;

    assert_eq!(found.len(), 1);
    assert_eq!(found[0].event_id, ours.id());
    assert_eq!(read_back(harness, unused_token(), &all).await, []);
}

/// W13, S10: an event whose lease passed to another is not found any more.
pub async fn event_taken_by_another_is_not_read_back(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    let birth = birth(Duration::ZERO);
    write_born(harness, std::slice::from_ref(&event), &birth).await;
    assert_eq!(read_back(harness, birth.token, &[&event]).await.len(), 1);

    let taken = claim_one(harness).await;

    assert_eq!(read_back(harness, birth.token, &[&event]).await, []);
    assert_eq!(harness.store().renew(&[taken.lease], LONG).await.unwrap(), NONE);
}

/// W13, S2: an event that was settled is not found any more, whatever became of it.
pub async fn settled_event_is_not_read_back(harness: &impl StoreHarness) {
    for outcome in super::settlements::outcomes() {
        let event = order_placed("order-17");
        let birth = birth(LONG);
        write_born(harness, std::slice::from_ref(&event), &birth).await;
        let seq = read_back(harness, birth.token, &[&event]).await[0].seq;

        let lease = Lease { seq, token: birth.token.of_event(event.id()), attempts: 0, starts: 0 };
        let settlement = Settlement::new(event.id(), lease, outcome.clone());
        assert_eq!(harness.store().settle(&[settlement], DoneRows::Keep).await.unwrap(), NONE);

        assert_eq!(read_back(harness, birth.token, &[&event]).await, [], "{outcome:?}");
    }
}

async fn read_back(harness: &impl StoreHarness, token: Token, events: &[&Event]) -> Vec<Found> {
    let ids: Vec<String> = events.iter().map(|event| event.id().to_owned()).collect();
    harness.store().read_back(token, &ids).await.unwrap()
}
