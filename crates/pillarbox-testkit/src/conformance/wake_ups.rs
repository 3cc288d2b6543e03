//! Wake-ups, and the database as another process sees it.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{EventStore, TxStore, WakeUp};
use pillarbox::{Event, PartitionSet};
use tokio::time::timeout;

use super::{StoreHarness, claim_one, order_placed};

/// Far more than a wake-up takes, and far less than a person waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// P5: an event that another process commits wakes the one that waits; in one process nothing does.
pub async fn write_elsewhere_wakes(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else {
        assert!(timeout(Duration::ZERO, harness.store().changed()).await.is_err());
        return;
    };
    let store = Arc::clone(harness.store());
    let waiting = tokio::spawn(async move { store.changed().await });

    write_on(&*elsewhere, order_placed("order-17")).await;

    timeout(PATIENCE, waiting).await.expect("it is woken").unwrap();
}

/// P5: each commit wakes all other processes that wait, and not only one of them.
pub async fn write_elsewhere_wakes_all_who_wait(harness: &impl StoreHarness) {
    let (Some(writer), Some(other)) = (harness.elsewhere().await, harness.elsewhere().await) else { return };

    for order in ["order-1", "order-2", "order-3"] {
        let waiting = [harness.store(), &other].map(|store| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.changed().await })
        });

        write_on(&*writer, order_placed(order)).await;

        for woken in waiting {
            timeout(PATIENCE, woken).await.expect("it is woken").unwrap();
        }
    }
}

/// P5: an event that another process committed while nobody waited wakes the next one that does.
pub async fn write_elsewhere_is_not_missed(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else { return };
    let _ = timeout(Duration::ZERO, harness.store().changed()).await;

    write_on(&*elsewhere, order_placed("order-17")).await;

    timeout(PATIENCE, harness.store().changed()).await.expect("it is woken");
}

/// P5: whoever is woken is told of the partitions that were written to, of several commits as well as of one.
pub async fn write_elsewhere_names_its_partitions(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else { return };
    let _ = timeout(Duration::ZERO, harness.store().changed()).await;
    let events = ["order-1", "order-2", "order-3"].map(order_placed);
    let mut missing = events.each_ref().map(Event::partition).to_vec();

    for event in events {
        write_on(&*elsewhere, event).await;
    }

    while !missing.is_empty() {
        let named = timeout(PATIENCE, harness.store().changed()).await.expect("it is woken");
        missing.retain(|partition| !named.contains(*partition));
    }
}

/// P5: who announces without knowing where wakes for all partitions.
pub async fn announcement_of_all_names_all(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else { return };
    let _ = timeout(Duration::ZERO, harness.store().changed()).await;

    write_and_announce(&*elsewhere, order_placed("order-17"), PartitionSet::ALL).await;

    let mut named = PartitionSet::default();
    while named != PartitionSet::ALL {
        named |= timeout(PATIENCE, harness.store().changed()).await.expect("it is woken");
    }
}

/// S3: what another process committed is taken here, and what it sees is what is seen here.
pub async fn write_elsewhere_is_taken_here(harness: &impl StoreHarness) {
    let Some(elsewhere) = harness.elsewhere().await else { return };
    let event = order_placed("order-17");

    write_on(&*elsewhere, event.clone()).await;

    assert_eq!(claim_one(harness).await.event, Ok(event));
    assert!(elsewhere.take(super::take(10)).await.unwrap().events.is_empty());
}

/// Commits an event, and tells where it is.
async fn write_on<S: TxStore + WakeUp>(store: &S, event: Event) {
    let partitions = [event.partition()].into_iter().collect();
    write_and_announce(store, event, partitions).await;
}

async fn write_and_announce<S: TxStore + WakeUp>(store: &S, event: Event, partitions: PartitionSet) {
    let mut tx = store.begin().await.unwrap();
    store.insert(S::connection_mut(&mut tx), &[event], None).await.unwrap();
    S::commit(tx).await.unwrap();
    store.announce(partitions).await;
}
