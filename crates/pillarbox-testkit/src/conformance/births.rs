//! Leases from birth, and delays.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, InsertError, LONGEST_LEASE, Lease, Outcome, Settlement, Status,
    StoreError, TxStore,
};
use pillarbox::{Event, EventBuilder, Schedule, Timestamp};

use super::steps::ids;
use super::{
    LONG, NONE, StoreHarness, birth, claim, claim_one, insert, order_placed, order_placed_available_at,
    stored, within, write, write_born,
};

/// 2100-01-01.
const FAR_AHEAD: i64 = 4_102_444_800_000_000;

/// S5: an event that was claimed at birth is taken by nobody else.
pub async fn born_event_is_not_taken_by_others(harness: &impl StoreHarness) {
    write_born(harness, &[order_placed("order-17")], &birth(LONG)).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    let wait = batch.next_due_in.expect("the lease ends");
    assert!(wait > Duration::ZERO && wait <= LONG, "{wait:?}");
}

/// S5: the claim at birth counts as one start and names its owner.
pub async fn born_event_has_one_start(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    let birth = birth(LONG);

    write_born(harness, std::slice::from_ref(&event), &birth).await;

    let row = stored(harness, event.id()).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::New), 0, 1));
    assert_eq!(row.locked_by, Some(birth.owner.to_string()));
    within(row.due_at, row.created_at, Duration::ZERO);
    within(row.available_at, row.created_at, LONG);
}

/// S5: when the lease from birth ends without an outcome, any poller takes over.
pub async fn ended_birth_lease_can_be_taken(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    write_born(harness, std::slice::from_ref(&event), &birth(Duration::ZERO)).await;

    let taken = claim_one(harness).await;

    assert_eq!(taken.lease.starts, 1);
    assert_eq!(stored(harness, event.id()).await.starts, 2);
}

/// S10: a lease from birth runs from the statement and not from the begin of the transaction.
pub async fn birth_lease_runs_from_its_statement<H: StoreHarness>(harness: &H) {
    let events: Vec<Event> = (0..300).map(|n| order_placed(&format!("order-{n}"))).collect();
    let birth = birth(LONG);
    let mut tx = harness.store().begin().await.unwrap();
    for event in &events {
        let connection = H::Store::connection_mut(&mut tx);
        insert(harness, connection, std::slice::from_ref(event), Some(&birth)).await.unwrap();
    }
    H::Store::commit(tx).await.unwrap();

    let first = stored(harness, events[0].id()).await;
    let last = stored(harness, events[299].id()).await;
    assert!(first.available_at < last.available_at);
}

/// S10: events that are born together have tokens of their own: after a failover a number can be another's.
pub async fn born_event_is_not_settled_by_its_neighbours_token(harness: &impl StoreHarness) {
    let [ours, neighbour] = ["order-1", "order-2"].map(order_placed);
    let birth = birth(LONG);
    write_born(harness, &[ours.clone(), neighbour.clone()], &birth).await;
    let seq = stored(harness, ours.id()).await.seq;
    let token = birth.token.of_event(neighbour.id());
    let lease = Lease { seq, token, attempts: 0, starts: 0 };

    for outcome in super::settlements::outcomes() {
        let settlement = Settlement::new(neighbour.id(), lease, outcome.clone());
        let lost = harness.store().settle(&[settlement], DoneRows::Keep).await.unwrap();
        assert_eq!(lost, [seq], "{outcome:?}");
    }
    assert_eq!(harness.store().renew(&[lease], LONG).await.unwrap(), [seq]);
    let own = Lease { seq: stored(harness, neighbour.id()).await.seq, ..lease };
    let done = [lease, own].map(|lease| Settlement::new(neighbour.id(), lease, Outcome::Done));
    let lost = harness.store().settle(&done, DoneRows::Delete).await.unwrap();

    assert_eq!(lost, [seq]);
    let row = stored(harness, ours.id()).await;
    assert_eq!((row.status, row.attempts), (Ok(Status::New), 0));
    assert!(harness.store().find(neighbour.id()).await.unwrap().is_none());
}

/// S10: the writer settles and releases by the token of the birth.
pub async fn born_event_is_settled_by_its_token(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    let birth = birth(LONG);
    write_born(harness, std::slice::from_ref(&event), &birth).await;
    let found = harness.store().read_back(birth.token, &[event.id().to_owned()]).await.unwrap();
    let lease = Lease { seq: found[0].seq, token: birth.token.of_event(event.id()), attempts: 0, starts: 0 };

    let released = Settlement::new(event.id(), lease, Outcome::Released);
    let lost = harness.store().settle(&[released], DoneRows::Keep).await.unwrap();

    assert_eq!(lost, NONE);
    assert_eq!(claim_one(harness).await.lease.starts, 0);
}

/// V8: a delayed event is nobody's at birth, whoever wrote it, and disturbs no other.
pub async fn delayed_event_is_not_claimed_at_birth(harness: &impl StoreHarness) {
    let after = reminder().deliver_after(LONG).build().unwrap();
    let at = reminder().available_at(Timestamp::from_micros(FAR_AHEAD)).build().unwrap();
    let prompt = order_placed("order-17");

    write_born(harness, &[after.clone(), prompt.clone(), at.clone()], &birth(LONG)).await;

    for delayed in [after, at] {
        let row = stored(harness, delayed.id()).await;
        assert_eq!((row.starts, row.locked_by), (0, None));
        assert_eq!(row.available_at, row.due_at);
    }
    assert_eq!(stored(harness, prompt.id()).await.starts, 1);
}

/// S5: a lease from birth that is longer than the longest is refused.
pub async fn birth_with_too_long_a_lease_is_refused<H: StoreHarness>(harness: &H) {
    let too_long = birth(LONGEST_LEASE + Duration::from_secs(1));
    let mut tx = harness.store().begin().await.unwrap();
    let connection = H::Store::connection_mut(&mut tx);

    let refused = insert(harness, connection, &[order_placed("order-17")], Some(&too_long)).await;

    assert!(matches!(refused, Err(InsertError::Store(StoreError::Refused { .. }))), "{refused:?}");
    H::Store::rollback(tx).await.unwrap();
}

/// V8: a delayed event is not taken before its time, which counts from the write.
pub async fn delayed_event_is_not_taken_before_its_time(harness: &impl StoreHarness) {
    let event = reminder().deliver_after(LONG).build().unwrap();
    write(harness, std::slice::from_ref(&event)).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    let wait = batch.next_due_in.expect("it becomes due");
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
    let row = stored(harness, event.id()).await;
    within(row.due_at, row.created_at, LONG);
    assert_eq!(row.available_at, row.due_at);
}

/// V8: a delay of a century is a delay like any other.
pub async fn delay_may_be_very_long(harness: &impl StoreHarness) {
    let century = Duration::from_secs(100 * 365 * 86_400);
    let event = reminder().deliver_after(century).build().unwrap();

    write(harness, std::slice::from_ref(&event)).await;

    let row = stored(harness, event.id()).await;
    within(row.due_at, row.created_at, century);
    assert!(claim(harness, 10).await.events.is_empty());
}

/// V8: a delay that no database can count is a very long one.
pub async fn endless_delay_is_very_long(harness: &impl StoreHarness) {
    let event = reminder().deliver_after(Duration::MAX).build().unwrap();

    write(harness, std::slice::from_ref(&event)).await;

    assert!(claim(harness, 10).await.events.is_empty());
    let row = stored(harness, event.id()).await;
    assert!(row.due_at.saturating_since(row.created_at) > Duration::from_secs(100 * 365 * 86_400));
}

/// V8: a point in time is stored as it was given, and nothing is taken before it.
pub async fn event_is_not_taken_before_its_point_in_time(harness: &impl StoreHarness) {
    let event = order_placed_available_at("order-17", FAR_AHEAD + 1);
    write(harness, std::slice::from_ref(&event)).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    assert!(batch.next_due_in.expect("it becomes due") > LONG);
    let row = stored(harness, event.id()).await;
    assert_eq!(row.due_at, Timestamp::from_micros(FAR_AHEAD + 1));
    assert_eq!(row.available_at, row.due_at);
}

/// V8: a point in time that has passed, and a delay of nothing, mean now.
pub async fn delay_that_has_passed_is_none(harness: &impl StoreHarness) {
    let past = order_placed_available_at("order-17", 1_000_001);
    let nothing = reminder().deliver_after(Duration::ZERO).build().unwrap();
    write(harness, &[nothing.clone(), past.clone()]).await;

    let taken = claim(harness, 10).await.events;

    assert_eq!(ids(&taken), [past.id(), nothing.id()]);
    assert_eq!(stored(harness, past.id()).await.due_at, Timestamp::from_micros(1_000_001));
    assert!(taken[0].due_for > Duration::from_secs(50 * 365 * 86_400));
    assert!(taken[1].due_for < LONG);
}

/// V8: the schedule is for the store only: what comes back is an event that can be delivered.
pub async fn taken_event_has_no_schedule(harness: &impl StoreHarness) {
    write(harness, &[order_placed_available_at("order-17", 1)]).await;

    let event = claim_one(harness).await.event.unwrap();

    assert_eq!(event.schedule(), Schedule::Now);
}

fn reminder() -> EventBuilder {
    Event::builder("PaymentReminder").aggregate("Order", "order-17").json_text("{}")
}
