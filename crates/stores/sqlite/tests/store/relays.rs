//! Instances that own partitions.

use pillarbox::partition_of;
use pillarbox::store::{Holding, Instance, Mode, Owner, Ownership, Visit};
use pillarbox_sqlite::SqliteStore;

use crate::orders::LONG;

/// An instance of this mode whose name nobody set.
pub(crate) fn instance(name: &str, mode: Mode) -> Instance {
    Instance { owner: Owner::new(name, 1), is_named: false, mode, live_for: LONG }
}

/// An instance that has joined, and its visit to the partition of `key`, which it owns.
pub(crate) async fn owner_of(store: &SqliteStore, key: &str) -> (Instance, Visit) {
    let (relay, mut visits) = owner_of_these(store, &[partition_of(key)]).await;
    (relay, visits.remove(0))
}

/// An instance that has joined, and its visits to all partitions, which it owns.
pub(crate) async fn owner_of_all(store: &SqliteStore) -> (Instance, Vec<Visit>) {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    owner_of_these(store, &all).await
}

async fn owner_of_these(store: &SqliteStore, partitions: &[u8]) -> (Instance, Vec<Visit>) {
    let relay = instance("relay", Mode::Ownership);
    store.join(&relay).await.unwrap();
    let held = store.acquire(&relay, partitions).await.unwrap();
    assert_eq!(held.len(), partitions.len());
    (relay, held.iter().map(visit).collect())
}

/// A visit from the floor that is stored.
pub(crate) fn visit(held: &Holding) -> Visit {
    Visit { partition: held.partition, epoch: held.epoch, floor: held.floor, in_flight: vec![] }
}
