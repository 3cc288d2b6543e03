//! SQLite files, by paths and URLs.

use std::time::{Duration, Instant};

use pillarbox::store::{Administration, TxStore};
use pillarbox::{Event, Outbox};
use pillarbox_any::{AnyStore, AnyTx, Kind};

use crate::stage::{AnyStage, execute};

/// S4: a path and a URL open the same file, and the store says which.
#[tokio::test]
async fn a_path_and_a_url_open_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db").display().to_string();
    let by_path = AnyStore::connect(&path).await.unwrap();
    by_path.migrate().await.unwrap();

    let by_url = AnyStore::connect(format!("SQLite:{path}")).await.unwrap();

    assert_eq!(by_url.check().await.unwrap(), by_path.check().await.unwrap());
    assert_eq!((by_url.name(), by_url.kind()), (path.clone(), Kind::Sqlite));
    assert_eq!(by_path.name(), path);
}

/// S6: the prefix reaches the tables.
#[tokio::test]
async fn two_outboxes_share_a_file() {
    let stage = AnyStage::in_a_file().await;
    let billing = stage.options().prefix("billing_").wake_up(false).max_connections(1).connect();
    let billing = billing.await.unwrap();
    billing.migrate().await.unwrap();

    let mut tx = billing.begin().await.unwrap();
    billing.insert(&mut tx, &[Event::of_json("OrderPlaced", "{}").unwrap()], None).await.unwrap();
    AnyStore::commit(tx).await.unwrap();

    assert_eq!(billing.stats().await.unwrap().pending(), 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// S6: the time that a store waits for a lock is as it was set.
#[tokio::test]
async fn the_lock_timeout_reaches_the_file() {
    let stage = AnyStage::in_a_file().await;
    let hasty = stage.options().lock_timeout(Duration::from_millis(10)).connect().await.unwrap();
    let holding = stage.store.begin().await.unwrap();

    let began = Instant::now();
    let refused = hasty.begin().await;

    assert!(refused.is_err());
    assert!(began.elapsed() < Duration::from_secs(5), "that is what it waits for by default");
    AnyStore::rollback(holding).await.unwrap();
}

#[tokio::test]
async fn a_file_is_created_only_if_it_may_be() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db").display().to_string();

    let refused = AnyStore::options(&path).create_if_missing(false).connect().await;

    assert!(refused.is_err());
    assert!(!directory.path().join("orders.db").exists());
    AnyStore::options(&path).create_if_missing(true).connect().await.unwrap();
    assert!(directory.path().join("orders.db").exists());
}

/// W1: the order and its event are committed together, and rolled back together.
#[tokio::test]
async fn statements_of_yours_run_in_the_transaction_of_the_event() {
    let stage = AnyStage::in_a_file().await;
    let mut tx = stage.store.begin().await.unwrap();
    execute(&mut tx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    AnyStore::commit(tx).await.unwrap();
    let outbox = Outbox::builder(AnyStore::clone(&stage.store)).writer_only().start().unwrap();

    for (order, is_wanted) in [(17, true), (18, false)] {
        let mut tx = outbox.begin().await.unwrap();
        execute(&mut tx, format!("INSERT INTO orders (id) VALUES ({order})")).await;
        outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
        if is_wanted { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }

    outbox.close().await;
    let mut tx = stage.store.begin().await.unwrap();
    assert_eq!(execute(&mut tx, "DELETE FROM orders").await, 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 1);
}

/// W1: what is in a transaction can be seen, to run statements of yours on it.
#[tokio::test]
async fn a_transaction_shows_which_database_it_is_on() {
    let stage = AnyStage::in_a_file().await;

    let tx = stage.store.begin().await.unwrap();

    assert!(matches!(tx, AnyTx::Sqlite(_)), "{tx:?}");
    AnyStore::rollback(tx).await.unwrap();
}
