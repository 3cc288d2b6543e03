//! A future that is dropped at any await leaves no transaction open and no connection lost.

use std::time::Duration;

use pillarbox::store::{StoreError, TxStore, WakeUp};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::cancellations::{Interrupted, PATIENCE, assert_usable, cut_after, cut_everywhere};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::time::timeout;

use crate::orders::{Orders, order_placed, write};

pillarbox_testkit::cancellations!(Orders::new());

impl Interrupted for Orders {
    type Store = SqliteStore;

    async fn single(&self) -> SqliteStore {
        let store = self.options().busy_timeout(Duration::from_secs(5)).max_connections(1).connect();
        let store = store.await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    async fn check(store: &SqliteStore) -> Result<u32, StoreError> {
        store.check().await
    }

    async fn close(store: &SqliteStore) {
        store.close().await;
    }

    fn is_closed(store: &SqliteStore) -> bool {
        store.pool().is_closed()
    }
}

/// P5: news that nobody waited for any more is there for the next who does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_watch_loses_no_news() {
    let orders = Orders::new();
    let store = orders.single().await;
    let other = orders.connect().await;

    cut_everywhere(async |polls| {
        write(&other, &[order_placed("order-1")]).await;
        let is_complete = cut_after(polls, store.changed()).await.is_some();
        if !is_complete {
            timeout(PATIENCE, store.changed()).await.expect("it is woken");
        }
        is_complete
    })
    .await;
}

/// S6: opening and migrating a file can be dropped anywhere, and done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_connect_or_migration_leaves_the_file_usable() {
    cut_everywhere(async |polls| {
        let orders = Orders::new();
        let is_complete = cut_after(polls, orders.options().connect()).await.is_some();
        assert_usable(&orders.single().await).await;
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        let orders = Orders::new();
        let store = orders.connect().await;
        let is_complete = cut_after(polls, store.migrate()).await.is_some();
        drop(store.begin().await.unwrap());

        assert_eq!(store.check().await.is_ok(), polls > 0, "after {polls} polls");
        store.migrate().await.unwrap();
        assert_usable(&store).await;
        is_complete
    })
    .await;
}

/// S4: a pool of the user's that was to become a store stays as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_from_pool_leaves_the_pool_usable() {
    let orders = Orders::new();
    orders.store().await;
    let options = SqliteConnectOptions::new().filename(orders.path());
    let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, SqliteStore::from_pool(pool.clone())).await.is_some();
        sqlx::query("SELECT 1").execute(&pool).await.unwrap();
        is_complete
    })
    .await;

    assert_usable(&SqliteStore::from_pool(pool).await.unwrap()).await;
}
