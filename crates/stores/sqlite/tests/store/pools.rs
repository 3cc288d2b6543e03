//! A store on a pool of the user's own.

use std::time::Duration;

use crate::orders::{Orders, claim, order_placed, write};
use pillarbox::store::{Administration, CommitError, StoreError, TxStore, WakeUp};
use pillarbox_sqlite::{SqliteOptions, SqliteStore, Synchronous};
use sqlx::Executor;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

/// A pool of one connection, with a table in which 17 is taken.
async fn pool(orders: &Orders) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(orders.path()).create_if_missing(true);
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    pool.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY); INSERT INTO orders VALUES (17)")
        .await
        .unwrap();
    pool
}

async fn store(pool: &SqlitePool) -> SqliteStore {
    let store = SqliteStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// S4, S6: an outbox on the user's pool has a prefix, and other options, like one on a URL.
#[tokio::test]
async fn a_store_on_a_pool_takes_options() {
    let orders = Orders::new();
    let pool = pool(&orders).await;
    let options = SqliteOptions::of_pool(pool.clone()).prefix("billing_").watch(false);
    let billing = options.busy_timeout(Duration::from_secs(1)).connect().await.unwrap();
    billing.migrate().await.unwrap();

    write(&billing, &[order_placed("order-17")]).await;

    assert_eq!(claim(&billing, 10).await.len(), 1);
    sqlx::query("SELECT * FROM billing_outbox_event").fetch_one(&pool).await.unwrap();
    let plain = SqliteStore::from_pool(pool).await.unwrap();
    assert!(matches!(plain.stats().await, Err(StoreError::NotMigrated)));
    let is_woken = tokio::time::timeout(Duration::ZERO, billing.changed()).await.is_ok();
    assert!(!is_woken);
}

/// S4: what the pool decides is refused, for it would do nothing.
#[tokio::test]
async fn options_that_a_pool_decides_are_refused() {
    let orders = Orders::new();
    let pool = pool(&orders).await;
    let of_pool = || SqliteOptions::of_pool(pool.clone());

    for (option, options) in [
        ("create_if_missing", of_pool().create_if_missing(true)),
        ("synchronous", of_pool().synchronous(Synchronous::Normal)),
        ("max_connections", of_pool().max_connections(3)),
    ] {
        let refused = options.connect().await;
        assert!(matches!(&refused, Err(StoreError::Config(text)) if text.contains(option)), "{refused:?}");
    }
}

/// W5: a transaction that SQLite rolled back by itself costs the pool its connection, and nobody else anything.
#[tokio::test]
async fn a_transaction_begins_after_one_that_sqlite_ended() {
    let orders = Orders::new();
    let pool = pool(&orders).await;
    let store = store(&pool).await;
    let mut tx = store.begin().await.unwrap();
    assert!(tx.execute("INSERT OR ROLLBACK INTO orders VALUES (17)").await.is_err());
    let ended = SqliteStore::commit(tx).await;

    write(&store, &[order_placed("order-18")]).await;

    assert!(matches!(ended, Err(CommitError::RolledBack { .. })), "{ended:?}");
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// W5: the same, if the transaction was the user's own.
#[tokio::test]
async fn a_transaction_begins_after_one_of_the_users_that_sqlite_ended() {
    let orders = Orders::new();
    let pool = pool(&orders).await;
    let store = store(&pool).await;
    let mut tx = pool.begin().await.unwrap();
    assert!(tx.execute("INSERT OR ROLLBACK INTO orders VALUES (17)").await.is_err());
    drop(tx);

    write(&store, &[order_placed("order-18")]).await;

    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// W5: a transaction that was begun by plain SQL and left open is rolled back, and stands in nobody's way.
#[tokio::test]
async fn a_transaction_begins_after_one_that_was_left_open() {
    let orders = Orders::new();
    let pool = pool(&orders).await;
    let store = store(&pool).await;
    pool.execute("BEGIN; INSERT INTO orders VALUES (18)").await.unwrap();

    write(&store, &[order_placed("order-19")]).await;

    assert_eq!(store.stats().await.unwrap().pending(), 1);
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.unwrap();
    assert_eq!(orders, 1);
}
