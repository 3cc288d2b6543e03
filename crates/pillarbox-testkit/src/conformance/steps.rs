//! The steps that the cases are told in.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pillarbox::store::{
    Administration, Batch, Birth, DoneRows, EventStore, Fetched, InsertError, Outcome, Owner, Settlement,
    StoreError, StoredEvent, Take, Taken, Token, TxStore,
};
use pillarbox::{Event, Timestamp};

use super::{Connection, StoreHarness};

/// A lease or a delay that does not end while a case runs.
pub const LONG: Duration = Duration::from_secs(600);

/// No numbers: nobody lost a lease.
pub const NONE: [i64; 0] = [];

/// The event that an order was placed.
pub fn order_placed(order: &str) -> Event {
    Event::builder("OrderPlaced")
        .aggregate("Order", order)
        .json_text(r#"{"total":4200}"#)
        .build()
        .expect("the event is within all limits")
}

/// The event that an order was placed, to be delivered from `micros` after 1970 on.
pub fn order_placed_available_at(order: &str, micros: i64) -> Event {
    Event::builder("OrderPlaced")
        .aggregate("Order", order)
        .json_text("{}")
        .available_at(Timestamp::from_micros(micros))
        .build()
        .expect("the event is within all limits")
}

/// The first incarnation of the instance `name`.
pub fn owner(name: &str) -> Owner {
    Owner::new(name, 1)
}

/// A token that no other take of this process has.
pub fn unused_token() -> Token {
    static LAST: AtomicI64 = AtomicI64::new(0);
    Token(LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

/// A lease for rows to be born with.
pub fn birth(lease_for: Duration) -> Birth {
    Birth { owner: owner("writer"), token: unused_token(), lease_for }
}

/// A take of up to `limit` events for the instance `relay`, with a long lease.
pub fn take(limit: usize) -> Take {
    Take {
        owner: owner("relay"),
        token: unused_token(),
        limit,
        lease_for: LONG,
        skip_recent: Duration::ZERO,
        sweep: false,
    }
}

/// Inserts events on a connection.
pub async fn insert<H: StoreHarness>(
    harness: &H,
    connection: &mut Connection<H>,
    events: &[Event],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    harness.store().insert(connection, events, birth).await
}

/// Writes events in a transaction of their own and commits it.
pub async fn write<H: StoreHarness>(harness: &H, events: &[Event]) {
    write_with(harness, events, None).await;
}

/// Writes events that are leased from birth, in a transaction of their own, and commits it.
pub async fn write_born<H: StoreHarness>(harness: &H, events: &[Event], birth: &Birth) {
    write_with(harness, events, Some(birth)).await;
}

async fn write_with<H: StoreHarness>(harness: &H, events: &[Event], birth: Option<&Birth>) {
    let mut tx = harness.store().begin().await.expect("a transaction begins");
    let connection = H::Store::connection_mut(&mut tx);
    insert(harness, connection, events, birth).await.expect("the events are inserted");
    H::Store::commit(tx).await.expect("the transaction commits");
}

/// Takes up to `limit` events with a long lease.
pub async fn claim(harness: &impl StoreHarness, limit: usize) -> Batch {
    harness.store().take(take(limit)).await.expect("the store hands out events")
}

/// Takes the one event that there is, with a long lease.
pub async fn claim_one(harness: &impl StoreHarness) -> Taken {
    claim_one_for(harness, LONG).await
}

/// Takes the one event that there is. A lease of zero length has ended when this returns.
pub async fn claim_one_for(harness: &impl StoreHarness, lease_for: Duration) -> Taken {
    let batch =
        harness.store().take(Take { lease_for, ..take(1) }).await.expect("the store hands out events");
    batch.events.into_iter().next().expect("an event can be taken")
}

/// Settles one event and returns the numbers of those whose lease was lost.
pub async fn settle(harness: &impl StoreHarness, taken: &Taken, outcome: Outcome) -> Vec<i64> {
    settle_all(harness, &[(taken, outcome)]).await
}

/// Settles events in one call and returns the numbers of those whose lease was lost, in ascending order.
pub async fn settle_all(harness: &impl StoreHarness, outcomes: &[(&Taken, Outcome)]) -> Vec<i64> {
    let mut lost = try_settle(harness, outcomes).await.expect("the store settles");
    lost.sort_unstable();
    lost
}

/// Settles events in one call that the store may refuse.
pub async fn try_settle(
    harness: &impl StoreHarness,
    outcomes: &[(&Taken, Outcome)],
) -> Result<Vec<i64>, StoreError> {
    let settlements: Vec<Settlement> =
        outcomes.iter().map(|(taken, outcome)| Settlement::of(taken, outcome.clone())).collect();
    harness.store().settle(&settlements, DoneRows::Keep).await
}

/// Writes an event, takes it and settles it as dead.
pub async fn bury(harness: &impl StoreHarness, event: Event) -> Taken {
    write(harness, std::slice::from_ref(&event)).await;
    let taken = claim_one(harness).await;
    assert_eq!(taken.event_id, event.id(), "no other event can be taken");
    let lost = settle(harness, &taken, Outcome::Dead { error: "address unknown".into(), spent: true }).await;
    assert_eq!(lost, NONE);
    taken
}

/// The row of an event that exists.
pub async fn stored(harness: &impl StoreHarness, event_id: &str) -> StoredEvent {
    harness.store().find(event_id).await.expect("the store finds").expect("the row exists")
}

/// Asserts that `later` lies `by` after `earlier`, give or take the time that a case takes.
#[track_caller]
pub fn within(later: Timestamp, earlier: Timestamp, by: Duration) {
    let slack = Duration::from_secs(60);
    let since = later.saturating_since(earlier);
    let is_close = |a: Duration, b: Duration| a.abs_diff(b) <= slack;
    assert!(is_close(since, by), "{later} lies {since:?} after {earlier}, not {by:?}");
}

/// The ids of taken or stored events, in their order.
pub(super) fn ids<'a, T: HasId + 'a>(rows: impl IntoIterator<Item = &'a T>) -> Vec<&'a str> {
    rows.into_iter().map(HasId::id).collect()
}

/// Something with an event id.
pub(super) trait HasId: Debug {
    /// The event id.
    fn id(&self) -> &str;
}

impl HasId for Taken {
    fn id(&self) -> &str {
        &self.event_id
    }
}

impl HasId for Fetched {
    fn id(&self) -> &str {
        &self.taken.event_id
    }
}

impl HasId for StoredEvent {
    fn id(&self) -> &str {
        &self.event_id
    }
}

impl HasId for Event {
    fn id(&self) -> &str {
        self.id()
    }
}
