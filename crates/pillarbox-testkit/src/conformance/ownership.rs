//! What the cases about owned partitions are told in.

use std::time::Duration;

use pillarbox::store::{
    Blocked, Epoch, Fetched, Floor, Holding, Instance, Mode, Outcome, Owner, Ownership, Pulse, StoreError,
    Token, Visit,
};
use pillarbox::{Event, partition_of};

use super::settlements::{dead, outcomes};
use super::{Foreign, LONG, StoreHarness, order_placed, write};

/// A store with owners under test, and what the cases about them need beyond its contracts.
///
/// # Contract
/// As with [`StoreHarness`]; nobody has joined, and the mode is the one of a new table.
pub trait OwnershipHarness: StoreHarness<Store: Ownership> {
    /// Makes all that was written, and the leases of all partitions and instances, lie hours ahead, as if the
    /// database's clock had gone back.
    fn put_clock_back(&self) -> impl Future<Output = ()> + Send;

    /// Makes the list of members two hours older: whoever joined or was heard of, was so two hours before.
    fn let_members_age(&self) -> impl Future<Output = ()> + Send;

    /// Opens a transaction beside one that has written; `None` if the database has one writer at a time.
    fn open_beside(&self) -> impl Future<Output = Option<Foreign<Self>>> + Send;

    /// Writes an event as somebody would who knows nothing of partitions.
    fn write_without_partition(&self, event: &Event) -> impl Future<Output = ()> + Send;

    /// Puts the row of `event_id` into another partition, as a writer could that computes it wrongly.
    fn misplace(&self, event_id: &str, partition: u8) -> impl Future<Output = ()> + Send;

    /// The closed number when all that is open has had its time; the one of the store, unless that goes by a clock.
    fn closed_in_time(&self) -> impl Future<Output = i64> + Send {
        async { self.store().numbers().await.expect("the store tells its numbers").closed }
    }
}

/// An instance whose name nobody set, in the mode `ownership`.
pub fn unnamed(name: &str) -> Instance {
    let owner = Owner::new(name, 1);
    Instance { owner, is_named: false, mode: Mode::Ownership, live_for: LONG }
}

/// An incarnation of an instance whose name an operator set, in the mode `ownership`.
pub fn named(name: &str, incarnation: u64) -> Instance {
    Instance { owner: Owner::new(name, incarnation), is_named: true, ..unnamed(name) }
}

/// The same instance, counting as dead when the call returns.
pub fn dying(instance: &Instance) -> Instance {
    Instance { live_for: Duration::ZERO, ..instance.clone() }
}

/// An instance that has joined.
pub async fn joined(harness: &impl OwnershipHarness, name: &str) -> Instance {
    let instance = unnamed(name);
    join(harness, &instance).await;
    instance
}

/// Lets an instance join.
pub async fn join(harness: &impl OwnershipHarness, instance: &Instance) -> Vec<Holding> {
    harness.store().join(instance).await.expect("the instance joins")
}

/// A heartbeat that tells these floors.
pub async fn beat(harness: &impl OwnershipHarness, instance: &Instance, floors: &[Floor]) -> Pulse {
    harness.store().beat(instance, floors).await.expect("the store hears the heartbeat")
}

/// Acquires what is free of these partitions.
pub async fn acquire(harness: &impl OwnershipHarness, instance: &Instance, wanted: &[u8]) -> Vec<Holding> {
    harness.store().acquire(instance, wanted).await.expect("the store gives what is free")
}

/// Acquires a partition that is free.
pub async fn own(harness: &impl OwnershipHarness, instance: &Instance, partition: u8) -> Holding {
    let given = acquire(harness, instance, &[partition]).await;
    assert_eq!(given.len(), 1, "{partition} is free");
    given[0]
}

/// Gives a partition back.
pub async fn release(harness: &impl OwnershipHarness, instance: &Instance, floor: Floor) {
    harness.store().release(&instance.owner, &[floor]).await.expect("the store takes it back");
}

/// How far an owner has come.
pub fn floor(holding: &Holding, floor: i64) -> Floor {
    Floor { partition: holding.partition, epoch: holding.epoch, floor }
}

/// An instance that owns the partition of `key`.
pub async fn owner_of(harness: &impl OwnershipHarness, key: &str) -> (Instance, Holding) {
    let instance = joined(harness, "relay").await;
    let holding = own(harness, &instance, partition_of(key)).await;
    (instance, holding)
}

/// An instance that owns all partitions.
pub async fn owner_of_all(harness: &impl OwnershipHarness) -> (Instance, Vec<Holding>) {
    let instance = joined(harness, "relay").await;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let holdings = acquire(harness, &instance, &all).await;
    assert_eq!(holdings.len(), pillarbox::PARTITIONS);
    (instance, holdings)
}

/// A visit to a partition from its stored floor.
pub fn visit(holding: &Holding) -> Visit {
    Visit { partition: holding.partition, epoch: holding.epoch, floor: holding.floor, in_flight: Vec::new() }
}

/// A visit that leaves out what was read before of its partition.
pub fn visit_without(holding: &Holding, fetched: &[Fetched]) -> Visit {
    let token = Token::of_partition(holding.partition, holding.epoch);
    let leases = fetched.iter().map(|fetched| fetched.taken.lease);
    let in_flight = leases.filter(|lease| lease.token == token).map(|lease| lease.seq).collect();
    Visit { in_flight, ..visit(holding) }
}

/// Fetches fresh events of one partition.
pub async fn fetch(harness: &impl OwnershipHarness, holding: &Holding) -> Vec<Fetched> {
    harness.store().fetch(&[visit(holding)], 1_000).await.expect("the store reads")
}

/// Fetches the one fresh event that there is in a partition.
pub async fn fetch_one(harness: &impl OwnershipHarness, holding: &Holding) -> Fetched {
    let mut fetched = fetch(harness, holding).await;
    assert_eq!(fetched.len(), 1, "there is one fresh event");
    fetched.remove(0)
}

/// Writes the event that an order was placed, and fetches it: the partition has no other fresh one.
pub async fn place(harness: &impl OwnershipHarness, holding: &Holding, order: &str) -> Fetched {
    write(harness, &[order_placed(order)]).await;
    fetch_one(harness, holding).await
}

/// Writes the event that an order was placed into a partition, whichever is right, and fetches it.
pub async fn misplace(harness: &impl OwnershipHarness, holding: &Holding, order: &str) -> Fetched {
    let event = order_placed(order);
    write(harness, std::slice::from_ref(&event)).await;
    harness.misplace(event.id(), holding.partition).await;
    fetch_one(harness, holding).await
}

/// Events of the partition that were set aside and are due.
pub async fn due(harness: &impl OwnershipHarness, holding: &Holding) -> Vec<Fetched> {
    harness.store().due(&[visit(holding)], 1_000).await.expect("the store reads").events
}

/// Events of a key that were set aside and hold it or wait for it.
pub async fn aside_of(harness: &impl OwnershipHarness, holding: &Holding, key: &str) -> Vec<Fetched> {
    harness.store().aside_of(&visit(holding), key, 1_000).await.expect("the store reads")
}

/// The keys of a partition that must not go on.
pub async fn blocked(harness: &impl OwnershipHarness, holding: &Holding) -> Vec<Blocked> {
    harness.store().blocked(&[holding.partition]).await.expect("the store reads")
}

/// The number of a fetched event.
pub fn seq(fetched: &Fetched) -> i64 {
    fetched.taken.lease.seq
}

/// One of each outcome that the owner of a partition may settle with, on an event with a key.
pub fn owned_outcomes() -> Vec<Outcome> {
    let mut all = outcomes().to_vec();
    all.extend([behind_key(), parked()]);
    all
}

/// Set aside until its key goes on.
pub fn behind_key() -> Outcome {
    Outcome::Aside { until: None, reason: "an earlier event of its key waits".into() }
}

/// Dead, and its key waits.
pub fn parked() -> Outcome {
    let Outcome::Dead { error, spent } = dead("address unknown", true) else { unreachable!() };
    Outcome::Parked { error, spent }
}

/// An event without a key.
pub fn without_key() -> Event {
    Event::builder("OrderPlaced").json_text("{}").build().expect("the event is within all limits")
}

/// The epoch of the next owner.
pub fn next(holding: &Holding) -> Epoch {
    holding.epoch.next()
}

/// Asserts that a call was refused because of the mode, and returns the text.
#[track_caller]
pub fn refused_for_mode<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Config(text)) => text,
        other => panic!("not refused for the mode: {other:?}"),
    }
}

/// Asserts that a call was refused.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Refused { .. })), "{answer:?}");
}
