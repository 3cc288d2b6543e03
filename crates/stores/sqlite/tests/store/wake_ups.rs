//! Other processes' events wake, and nothing else does.

use std::time::Duration;

use crate::orders::{Orders, claim, order_placed, settle, write};
use pillarbox::PartitionSet;
use pillarbox::store::{Outcome, TxStore, WakeUp};
use pillarbox_sqlite::SqliteStore;
use tokio::time::timeout;

/// Far more than a wake-up takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until `witness` is woken by a change of the file, and then finds `store` asleep.
async fn wakes_only(witness: &SqliteStore, store: &SqliteStore) {
    timeout(PATIENCE, witness.changed()).await.expect("the witness is woken");
    assert!(timeout(Duration::from_millis(100), store.changed()).await.is_err(), "it slept");
}

/// P5: every event of another process wakes, also one that comes while nobody waits.
#[tokio::test]
async fn events_of_others_wake_each_time() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);

    for order in ["order-1", "order-2", "order-3"] {
        write(&other, &[order_placed(order)]).await;
        timeout(PATIENCE, store.changed()).await.expect("it is woken");
    }
}

/// P5: each clone of a store hears of every event of another process, and one that asks late does too.
#[tokio::test]
async fn events_of_others_wake_every_clone() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);
    let clone = store.clone();

    for order in ["order-1", "order-2", "order-3"] {
        write(&other, &[order_placed(order)]).await;
        for each in [&store, &clone] {
            let named = timeout(PATIENCE, each.changed()).await.expect("it is woken");
            assert_eq!(named, PartitionSet::ALL, "the file does not say where");
        }
    }

    timeout(PATIENCE, store.clone().changed()).await.expect("it may have missed something");
}

/// P5: what one clone of a store announces wakes the others, by name, and not itself.
#[tokio::test]
async fn clones_wake_each_other_and_not_themselves() {
    let orders = Orders::new();
    let first = orders.store().await;
    let second = first.clone();
    assert!(timeout(Duration::from_millis(20), second.changed()).await.is_err());
    let named = PartitionSet::from_iter([3, 200]);

    for _ in 0..3 {
        write(&first, &[order_placed("order-17")]).await;
        first.announce(named).await;
        assert_eq!(timeout(PATIENCE, second.changed()).await.expect("it is woken"), named);
    }

    assert!(timeout(Duration::from_millis(100), first.changed()).await.is_err(), "it slept");
}

/// P5: our own commits, and our own takes and settles, wake others and not ourselves.
#[tokio::test]
async fn our_own_events_wake_others_only() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);

    write(&store, &[order_placed("order-1"), order_placed("order-2")]).await;
    wakes_only(&other, &store).await;

    write(&store, &[order_placed("order-3")]).await;
    let taken = claim(&store, 10).await;
    settle(&store, &taken, Outcome::Done).await;
    wakes_only(&other, &store).await;
}

/// P5: an event of another process wakes even among our own.
#[tokio::test]
async fn events_of_others_wake_among_our_own() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);

    write(&store, &[order_placed("order-1")]).await;
    write(&other, &[order_placed("order-2")]).await;
    write(&store, &[order_placed("order-3")]).await;

    timeout(PATIENCE, store.changed()).await.expect("it is woken");
}

/// P5: a number that we gave and took back wakes us when another process gets it.
#[tokio::test]
async fn a_number_that_was_rolled_back_is_not_ours() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-1")], None).await.unwrap();
    SqliteStore::rollback(tx).await.unwrap();

    write(&other, &[order_placed("order-2")]).await;

    timeout(PATIENCE, store.changed()).await.expect("it is woken");
}

/// P5: a transaction of the user's own driver wakes, as nobody else tells of it.
#[tokio::test]
async fn a_transaction_of_the_users_own_wakes() {
    let orders = Orders::new();
    let store = orders.store().await;
    let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    tx.commit().await.unwrap();

    timeout(PATIENCE, store.changed()).await.expect("it is woken");
}

/// P5: what was written before the store was opened wakes nobody, nor do changes of other tables.
#[tokio::test]
async fn old_events_and_other_tables_do_not_wake() {
    let orders = Orders::new();
    let witness = orders.store().await;
    write(&orders.connect().await, &[order_placed("order-17")]).await;
    let store = orders.connect().await;
    orders.execute("CREATE TABLE orders (id TEXT); INSERT INTO orders VALUES ('order-17')").await;

    wakes_only(&witness, &store).await;
}

/// P5: with the watch switched off nothing wakes.
#[tokio::test]
async fn a_store_that_does_not_watch_is_never_woken() {
    let orders = Orders::new();
    let witness = orders.store().await;
    let store = orders.options().watch(false).connect().await.unwrap();
    write(&orders.connect().await, &[order_placed("order-17")]).await;

    wakes_only(&witness, &store).await;
}

/// P5: an outbox that is migrated by another process after we opened it wakes us too.
#[tokio::test]
async fn an_outbox_that_is_migrated_later_wakes() {
    let orders = Orders::new();
    let store = orders.connect().await;
    assert!(timeout(Duration::from_millis(20), store.changed()).await.is_err());

    write(&orders.store().await, &[order_placed("order-17")]).await;

    timeout(PATIENCE, store.changed()).await.expect("it is woken");
}

/// P5: watching holds no snapshot, so the log can be written back to the file and cut.
#[tokio::test]
async fn watching_lets_the_log_be_cut() {
    let orders = Orders::new();
    let (store, other) = (orders.store().await, orders.connect().await);
    write(&other, &[order_placed("order-17")]).await;
    timeout(PATIENCE, store.changed()).await.expect("it is woken");
    assert!(timeout(Duration::from_millis(20), store.changed()).await.is_err());

    let cut: (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(other.pool()).await.unwrap();

    assert_eq!(cut, (0, 0, 0));
}
