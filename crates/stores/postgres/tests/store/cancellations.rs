//! A future that is dropped at any await leaves no transaction open and no connection lost.

use std::time::Duration;

use pillarbox::PartitionSet;
use pillarbox::store::{StoreError, TxStore, WakeUp};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::cancellations::{Interrupted, PATIENCE, assert_usable, cut_after, cut_everywhere};
use sqlx::postgres::PgPoolOptions;
use tokio::time::timeout;

use crate::stage::PostgresStage;

impl Interrupted for PostgresStage {
    type Store = PostgresStore;

    async fn single(&self) -> PostgresStore {
        let options = self.options().connect_timeout(Duration::from_secs(5)).max_connections(1);
        options.connect().await.unwrap()
    }

    async fn check(store: &PostgresStore) -> Result<u32, StoreError> {
        store.check().await
    }

    async fn close(store: &PostgresStore) {
        store.close().await;
    }

    fn is_closed(store: &PostgresStore) -> bool {
        store.pool().is_closed()
    }
}

/// P5: news that nobody waited for any more is there for the next who does.
pub(crate) async fn a_dropped_watch_loses_no_news(stage: &PostgresStage) {
    let store = stage.single().await;
    timeout(PATIENCE, store.changed()).await.expect("LISTEN is set up");

    cut_everywhere(async |polls| {
        stage.store.announce(PartitionSet::ALL).await;
        let is_complete = cut_after(polls, store.changed()).await.is_some();
        if !is_complete {
            timeout(PATIENCE, store.changed()).await.expect("it is woken");
        }
        is_complete
    })
    .await;
}

/// S6: connecting and migrating can be dropped anywhere, and done again.
pub(crate) async fn a_dropped_connect_or_migration_leaves_the_database_usable(stage: &PostgresStage) {
    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, stage.options().connect()).await.is_some();
        assert_usable(&stage.single().await).await;
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        let store = stage.options().prefix(format!("after_{polls}_polls_")).connect().await.unwrap();
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
pub(crate) async fn a_dropped_from_pool_leaves_the_pool_usable(stage: &PostgresStage) {
    let pool = PgPoolOptions::new().max_connections(1).connect(&stage.url).await.unwrap();
    let store = || PostgresStore::options_of_pool(pool.clone()).schema(&stage.schema).connect();

    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, store()).await.is_some();
        sqlx::query("SELECT 1").execute(&pool).await.unwrap();
        is_complete
    })
    .await;

    assert_usable(&store().await.unwrap()).await;
}
