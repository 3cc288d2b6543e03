//! A future that is dropped at any await leaves no transaction open and no connection lost.

use pillarbox::store::{StoreError, TxStore};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::cancellations::{Interrupted, PATIENCE, assert_usable, cut_after, cut_everywhere};
use sqlx::Executor;
use tokio::time::timeout;

use crate::stage::MySqlStage;

impl Interrupted for MySqlStage {
    type Store = MySqlStore;

    async fn single(&self) -> MySqlStore {
        self.options().max_connections(1).connect().await.unwrap()
    }

    async fn check(store: &MySqlStore) -> Result<u32, StoreError> {
        store.check().await
    }

    async fn close(store: &MySqlStore) {
        store.close().await;
    }

    fn is_closed(store: &MySqlStore) -> bool {
        store.pool().is_closed()
    }
}

/// S4: a statement of the user's that was cut off anywhere does not spoil the pool: what was sent and not
/// answered is not taken for the answer to something else.
pub(crate) async fn a_dropped_statement_of_the_user_spoils_nothing(stage: &MySqlStage) {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20)) ENGINE = InnoDB").await;
    let store = stage.single().await;
    let mut id = 0;

    cut_everywhere(async |polls| {
        let mut tx = store.begin().await.unwrap();
        id += 1;
        let insert = sqlx::query("INSERT INTO orders (id, name) VALUES (?, ?)").persistent(false).bind(id);
        let is_complete = cut_after(polls, insert.bind("teapot").execute(&mut *tx)).await.is_some();
        drop(tx);
        assert_usable(&store).await;

        let count = format!("SELECT COUNT(*) FROM orders WHERE id = {id}");
        assert_eq!(stage.number(&count).await, 0, "after {polls} polls");
        is_complete
    })
    .await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO orders (id, name) VALUES (0, 'cup')").await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    store.close().await;
}

/// S6: connecting and migrating can be dropped anywhere, and done again.
pub(crate) async fn a_dropped_connect_or_migration_can_be_repeated(stage: &MySqlStage) {
    cut_everywhere(async |polls| {
        let is_complete = cut_after(polls, stage.options().connect()).await.is_some();
        let store = stage.single().await;
        assert_usable(&store).await;
        store.close().await;
        is_complete
    })
    .await;
    cut_everywhere(async |polls| {
        stage.empty().await;
        let is_complete = cut_after(polls, stage.store.migrate()).await.is_some();

        timeout(PATIENCE, stage.store.migrate()).await.expect("nobody holds the lock").unwrap();
        assert_usable(&*stage.store).await;
        is_complete
    })
    .await;
}
