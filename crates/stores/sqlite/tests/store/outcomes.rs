//! What an owner's outcomes leave in the rows.

use pillarbox::partition_of;
use pillarbox::store::{
    Administration, DoneRows, EventStore, Lease, Outcome, Ownership, Selection, Settlement, Status, Taken,
};
use pillarbox_sqlite::SqliteStore;

use crate::orders::{LONG, Orders, order_placed, write};
use crate::relays::owner_of;

async fn settle(store: &SqliteStore, taken: &Taken, outcome: Outcome, done: DoneRows) -> Vec<i64> {
    store.settle(&[Settlement::of(taken, outcome)], done).await.unwrap()
}

fn later() -> Outcome {
    Outcome::Retry { after: LONG, error: "no".into(), spent: false }
}

fn parked() -> Outcome {
    Outcome::Parked { error: "never".into(), spent: true }
}

/// O2: events are read by their own key, and not by another one of their partition.
#[tokio::test]
async fn keys_of_one_partition_stay_apart() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    let other = (0..).map(|n| format!("other-{n}")).find(|key| partition_of(key) == visit.partition).unwrap();
    let events = [order_placed("order-17"), order_placed(&other)];
    write(&store, &events).await;
    for fetched in store.fetch(std::slice::from_ref(&visit), 10).await.unwrap() {
        settle(&store, &fetched.taken, later(), DoneRows::Keep).await;
    }

    let of_key = store.aside_of(&visit, "order-17", 10).await.unwrap();

    assert_eq!((of_key.len(), of_key[0].taken.event_id.as_str()), (1, events[0].id()));
    assert_eq!(store.blocked(&[visit.partition]).await.unwrap().len(), 2);
}

/// D3: a start is counted only from the number that the event was read with.
#[tokio::test]
async fn starts_are_absolute() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    write(&store, &[order_placed("order-17")]).await;
    let taken = store.fetch(&[visit], 10).await.unwrap().remove(0).taken;
    let miscounted = Taken { lease: Lease { starts: 4, ..taken.lease }, ..taken.clone() };

    assert!(!store.start(&miscounted).await.unwrap());
    assert!(store.start(&taken).await.unwrap());
}

/// S2: what was set aside and is done has no reason any more.
#[tokio::test]
async fn done_event_has_no_reason() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    let event = order_placed("order-17");
    write(&store, std::slice::from_ref(&event)).await;
    let taken = store.fetch(&[visit], 10).await.unwrap().remove(0).taken;
    let aside = Outcome::Aside { until: None, reason: "its key waits".into() };
    settle(&store, &taken, aside, DoneRows::Keep).await;

    settle(&store, &taken, Outcome::Done, DoneRows::Keep).await;

    let row = store.find(event.id()).await.unwrap().unwrap();
    assert_eq!((row.status, row.reason), (Ok(Status::Done), None));
}

/// S10: a late DONE does not delete what is dead by now.
#[tokio::test]
async fn late_mark_does_not_delete_the_dead() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    let event = order_placed("order-17");
    write(&store, std::slice::from_ref(&event)).await;
    let taken = store.fetch(&[visit], 10).await.unwrap().remove(0).taken;
    settle(&store, &taken, parked(), DoneRows::Delete).await;

    assert_eq!(settle(&store, &taken, Outcome::Done, DoneRows::Delete).await, [taken.lease.seq]);

    assert_eq!(store.find(event.id()).await.unwrap().unwrap().status, Ok(Status::Dead));
}

/// O6: replaying and discarding by numbers frees the keys of those that were selected, and no others.
#[tokio::test]
async fn keys_are_freed_by_numbers() {
    let orders = Orders::new();
    let store = orders.store().await;
    let (_, visit) = owner_of(&store, "order-17").await;
    let keys = (0..).map(|n| format!("order-{n}")).filter(|key| partition_of(key) == visit.partition);
    let events: Vec<_> = keys.take(3).map(|key| order_placed(&key)).collect();
    write(&store, &events).await;
    for fetched in store.fetch(std::slice::from_ref(&visit), 10).await.unwrap() {
        settle(&store, &fetched.taken, parked(), DoneRows::Keep).await;
    }
    let parked_for = async || {
        let blocked = store.blocked(&[visit.partition]).await.unwrap();
        blocked.into_iter().filter_map(|blocked| blocked.parked_for).collect::<Vec<_>>()
    };
    assert_eq!(parked_for().await.len(), 3);

    store.replay(&Selection::Numbers { from: 1, to: 1 }).await.unwrap();
    assert_eq!(store.find(events[0].id()).await.unwrap().unwrap().reason, None);
    assert_eq!(parked_for().await.len(), 2);
    store.discard(&Selection::Numbers { from: 1, to: 2 }).await.unwrap();

    assert_eq!(parked_for().await, [events[2].id()]);
}
