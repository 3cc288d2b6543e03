//! Writing inside a transaction.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{Administration, InsertError, Status, TxStore};

use super::steps::ids;
use super::{StoreHarness, claim, claim_one, insert, order_placed, stored, write};

/// W1, S2: what was committed can be taken.
pub async fn commit_makes_events_visible(harness: &impl StoreHarness) {
    let event = order_placed("order-17");

    write(harness, std::slice::from_ref(&event)).await;

    assert_eq!(claim_one(harness).await.event, Ok(event));
}

/// W1: what was rolled back never was.
pub async fn rollback_leaves_no_row<H: StoreHarness>(harness: &H) {
    let event = order_placed("order-17");
    let mut tx = harness.store().begin().await.unwrap();
    insert(harness, H::Store::connection_mut(&mut tx), std::slice::from_ref(&event), None).await.unwrap();

    H::Store::rollback(tx).await.unwrap();

    assert!(harness.store().find(event.id()).await.unwrap().is_none());
    assert!(claim(harness, 10).await.events.is_empty());
}

/// W1, W5: dropping a transaction rolls it back, and the next one is not disturbed.
pub async fn dropped_transaction_leaves_no_row<H: StoreHarness>(harness: &H) {
    let (dropped, next) = (order_placed("order-17"), order_placed("order-18"));
    let mut tx = harness.store().begin().await.unwrap();
    insert(harness, H::Store::connection_mut(&mut tx), std::slice::from_ref(&dropped), None).await.unwrap();

    drop(tx);
    write(harness, std::slice::from_ref(&next)).await;

    assert_eq!(ids(&claim(harness, 10).await.events), [next.id()]);
    assert!(harness.store().find(dropped.id()).await.unwrap().is_none());
}

/// W1: before the commit nobody else sees anything.
pub async fn uncommitted_events_are_seen_by_nobody_else<H: StoreHarness>(harness: &H) {
    let event = order_placed("order-17");
    let mut tx = harness.store().begin().await.unwrap();
    insert(harness, H::Store::connection_mut(&mut tx), std::slice::from_ref(&event), None).await.unwrap();

    assert!(harness.store().find(event.id()).await.unwrap().is_none());
    assert_eq!(harness.store().stats().await.unwrap().pending(), 0);

    H::Store::commit(tx).await.unwrap();
    assert_eq!(harness.store().stats().await.unwrap().pending(), 1);
}

/// W1: going back to a savepoint takes the events behind it along, and no others.
pub async fn savepoint_rollback_leaves_no_row<H: StoreHarness>(harness: &H) {
    let [before, behind, after] = ["order-1", "order-2", "order-3"].map(order_placed);
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, std::slice::from_ref(&before), None).await.unwrap();

    let savepoint = harness.savepoint(connection).await;
    insert(harness, connection, std::slice::from_ref(&behind), None).await.unwrap();
    harness.rollback_to(connection, savepoint).await;
    insert(harness, connection, std::slice::from_ref(&after), None).await.unwrap();
    H::Store::commit(tx).await.unwrap();

    assert_eq!(ids(&claim(harness, 10).await.events), [before.id(), after.id()]);
}

/// W1, W12: events written in a transaction of the user's own driver are taken like all others.
pub async fn foreign_transaction_writes_events<H: StoreHarness>(harness: &H) {
    let event = order_placed("order-17");
    let mut tx = harness.open().await;
    let connection = H::Store::foreign_connection(&mut tx);
    insert(harness, connection, std::slice::from_ref(&event), None).await.unwrap();

    assert!(harness.store().find(event.id()).await.unwrap().is_none());
    harness.commit(tx).await;

    assert_eq!(claim_one(harness).await.event, Ok(event));
}

/// W1: the rollback of a transaction that is not ours leaves no row either.
pub async fn foreign_rollback_leaves_no_row<H: StoreHarness>(harness: &H) {
    let mut tx = harness.open().await;
    let connection = H::Store::foreign_connection(&mut tx);
    insert(harness, connection, &[order_placed("order-17")], None).await.unwrap();

    harness.rollback(tx).await;

    assert!(claim(harness, 10).await.events.is_empty());
}

/// W5: beginning, committing and rolling back own what they need, so that they run to their end.
pub async fn transaction_steps_run_in_tasks_of_their_own<H: StoreHarness>(harness: &H) {
    let mut tx = tokio::spawn(harness.store().begin()).await.unwrap().unwrap();
    insert(harness, H::Store::connection_mut(&mut tx), &[order_placed("order-17")], None).await.unwrap();
    tokio::spawn(H::Store::commit(tx)).await.unwrap().unwrap();

    let tx = tokio::spawn(harness.store().begin()).await.unwrap().unwrap();
    tokio::spawn(H::Store::rollback(tx)).await.unwrap().unwrap();

    assert_eq!(claim(harness, 10).await.events.len(), 1);
}

/// W1: transactions that run side by side, in this process and in another, all commit.
pub async fn concurrent_writes_all_arrive(harness: &impl StoreHarness) {
    let here = Arc::clone(harness.store());
    let elsewhere = harness.elsewhere().await.unwrap_or_else(|| Arc::clone(&here));

    let writers: Vec<_> = (0..8)
        .map(|n| tokio::spawn(write_ten(Arc::clone(if n % 2 == 0 { &here } else { &elsewhere }))))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }

    assert_eq!(claim(harness, 100).await.events.len(), 80);
}

async fn write_ten<S: TxStore>(store: Arc<S>) {
    for _ in 0..10 {
        let mut tx = store.begin().await.unwrap();
        let events = [order_placed("order-17")];
        store.insert(S::connection_mut(&mut tx), &events, None).await.unwrap();
        S::commit(tx).await.unwrap();
    }
}

/// W2: a call with more events than one statement takes is complete, and keeps their order.
pub async fn insert_of_many_events_is_complete(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..1_200).map(|n| order_placed(&format!("order-{n}"))).collect();

    write(harness, &events).await;

    let taken = claim(harness, 2_000).await.events;
    assert_eq!(ids(&taken), ids(&events));
}

/// W2: a call with more bytes than one statement takes is complete.
pub async fn insert_of_large_events_is_complete(harness: &impl StoreHarness) {
    let large = |n: u8| Event::of_bytes("ReportMade", vec![n; pillarbox::MAX_PAYLOAD]).unwrap();
    let events: Vec<Event> = (0..9).map(large).collect();

    write(harness, &events).await;

    let taken = claim(harness, 20).await.events;
    let taken: Vec<Event> = taken.into_iter().map(|taken| taken.event.unwrap()).collect();
    assert!(taken == events);
}

/// W2: a call without events changes nothing.
pub async fn insert_of_nothing_changes_nothing(harness: &impl StoreHarness) {
    write(harness, &[]).await;

    assert!(claim(harness, 10).await.events.is_empty());
}

/// S1: a row appears with status 0, nothing counted, nobody's, and due at once.
pub async fn inserted_events_are_new_and_due(harness: &impl StoreHarness) {
    let event = order_placed("order-17");

    write(harness, std::slice::from_ref(&event)).await;

    let row = stored(harness, event.id()).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::New), 0, 0));
    assert_eq!((row.locked_by, row.done_at, row.last_error, row.reason), (None, None, None, None));
    assert_eq!(row.available_at, row.due_at);
    let apart = row.due_at.as_micros().abs_diff(row.created_at.as_micros());
    assert!(apart < 1_000_000, "due {apart} µs from its creation");
}

/// S10: `created_at` is the time of the statement and not of the transaction.
pub async fn events_are_created_at_their_statement<H: StoreHarness>(harness: &H) {
    let events: Vec<Event> = (0..300).map(|n| order_placed(&format!("order-{n}"))).collect();
    let mut tx = harness.store().begin().await.unwrap();
    for event in &events {
        let connection = H::Store::connection_mut(&mut tx);
        insert(harness, connection, std::slice::from_ref(event), None).await.unwrap();
    }
    H::Store::commit(tx).await.unwrap();

    let first = stored(harness, events[0].id()).await;
    let last = stored(harness, events[299].id()).await;
    assert!(first.created_at < last.created_at);
    assert!(first.due_at < last.due_at);
    assert!(last.created_at.saturating_since(first.created_at) < Duration::from_secs(60));
}

/// V6: an id that is in the table is refused by name, and nothing of the call is inserted.
pub async fn id_in_the_table_is_refused<H: StoreHarness>(harness: &H) {
    let there = order_placed("order-17");
    let fresh = order_placed("order-18");
    write(harness, std::slice::from_ref(&there)).await;
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);

    let refused = insert(harness, connection, &[fresh.clone(), there.clone()], None).await;

    assert_duplicate(refused, &there);
    let _ = H::Store::commit(tx).await;
    assert_eq!(ids(&claim(harness, 10).await.events), [there.id()]);
}

/// V6: an id that is twice in a call is refused by name, and nothing of the call is inserted.
pub async fn id_twice_in_a_call_is_refused<H: StoreHarness>(harness: &H) {
    let (twice, once) = (order_placed("order-17"), order_placed("order-18"));
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);

    let refused = insert(harness, connection, &[twice.clone(), once, twice.clone()], None).await;

    assert_duplicate(refused, &twice);
    let _ = H::Store::commit(tx).await;
    assert!(claim(harness, 10).await.events.is_empty());
}

/// V6: an id that this transaction has written already is refused by name.
pub async fn id_twice_in_a_transaction_is_refused<H: StoreHarness>(harness: &H) {
    let event = order_placed("order-17");
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, std::slice::from_ref(&event), None).await.unwrap();

    let refused = insert(harness, connection, std::slice::from_ref(&event), None).await;

    assert_duplicate(refused, &event);
    H::Store::rollback(tx).await.unwrap();
}

/// V6, W2: a repeated id in a later statement of the call undoes the earlier ones too.
pub async fn repeated_id_far_behind_inserts_nothing<H: StoreHarness>(harness: &H) {
    let mut events: Vec<Event> = (0..1_200).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events[1_100..1_101]).await;
    events.rotate_left(1);
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);

    let refused = insert(harness, connection, &events, None).await;

    assert_duplicate(refused, &events[1_099]);
    let _ = H::Store::commit(tx).await;
    assert_eq!(ids(&claim(harness, 2_000).await.events), [events[1_099].id()]);
}

/// S1: ids compare by their bytes: neither case, nor a space at the end, nor Unicode's forms are alike.
pub async fn ids_compare_by_bytes(harness: &impl StoreHarness) {
    let ids = ["straße-é", "STRASSE-É", "straße-e\u{301}", "straße-é ", " straße-é", "Straße-é", "strasse-é"];
    let events = ids.map(|id| Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap());

    write(harness, &events).await;

    for (id, event) in ids.iter().zip(&events) {
        let row = stored(harness, id).await;
        assert_eq!((row.event_id.as_str(), row.event.as_ref()), (*id, Ok(event)));
    }
    assert!(harness.store().find("straße-É").await.unwrap().is_none());
}

#[track_caller]
fn assert_duplicate(result: Result<(), InsertError>, event: &Event) {
    match result {
        Err(InsertError::DuplicateId { id }) => assert_eq!(id, event.id()),
        other => panic!("not refused as a repeated id: {other:?}"),
    }
}
