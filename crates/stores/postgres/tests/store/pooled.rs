//! The same stage behind a pooler in transaction mode.

use std::sync::Arc;

use pillarbox::{Event, Runtime};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::conformance::{OwnershipHarness, StoreHarness};
use pillarbox_testkit::servers::{self, Fresh, unique_name};
use sqlx::postgres::{PgConnection, Postgres};
use sqlx::{AssertSqlSafe, Connection, Executor, Transaction};

use crate::stage::{INTO_FUTURE, OLDER_MEMBERS, write_plainly};

/// A migrated outbox whose store sees the server only through the pooler.
pub(crate) struct PooledStage {
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) direct_url: String,
    store: Arc<PostgresStore>,
}

impl PooledStage {
    /// Executes a statement past the pooler.
    pub(crate) async fn execute(&self, sql: String) -> u64 {
        let mut connection = PgConnection::connect(&self.direct_url).await.unwrap();
        connection.execute(AssertSqlSafe(sql)).await.unwrap().rows_affected()
    }

    /// A connection past the pooler, which finds the tables without a schema.
    async fn connection(&self) -> PgConnection {
        let mut connection = PgConnection::connect(&self.direct_url).await.unwrap();
        let schema = &self.schema;
        connection.execute(AssertSqlSafe(format!("SET search_path = {schema}"))).await.unwrap();
        connection
    }

    async fn update(&self, change: &str, event_id: &str) {
        let schema = &self.schema;
        let sql = format!("UPDATE {schema}.outbox_event SET {change} WHERE event_id = '{event_id}'");
        assert_eq!(self.execute(sql).await, 1);
    }
}

impl Fresh for PooledStage {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        let store = PostgresStore::options(url).schema(&schema).pooled(true).connect().await.unwrap();
        store.migrate().await.unwrap();
        let direct_url = servers::POSTGRES.url().expect("PostgreSQL stands behind PgBouncer");
        Self { url: url.to_owned(), schema, direct_url, store: Arc::new(store) }
    }

    async fn clean(self) {
        self.store.close().await;
        self.execute(format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }
}

impl StoreHarness for PooledStage {
    type Store = PostgresStore;
    type Savepoint = ();

    fn store(&self) -> &Arc<PostgresStore> {
        &self.store
    }

    /// None: nobody is woken through a pooler.
    async fn elsewhere(&self) -> Option<Arc<PostgresStore>> {
        None
    }

    async fn open(&self) -> Transaction<'static, Postgres> {
        self.store.pool().begin().await.unwrap()
    }

    async fn commit(&self, tx: Transaction<'static, Postgres>) {
        tx.commit().await.unwrap();
    }

    async fn rollback(&self, tx: Transaction<'static, Postgres>) {
        tx.rollback().await.unwrap();
    }

    async fn savepoint(&self, connection: &mut PgConnection) {
        connection.execute("SAVEPOINT here").await.unwrap();
    }

    async fn rollback_to(&self, connection: &mut PgConnection, (): ()) {
        connection.execute("ROLLBACK TO here").await.unwrap();
    }

    async fn corrupt(&self, event_id: &str) {
        self.update("headers = '[]'", event_id).await;
    }

    async fn push_lease_into_future(&self, event_id: &str) {
        self.update("available_at = available_at + interval '2 hours'", event_id).await;
    }
}

impl OwnershipHarness for PooledStage {
    async fn put_clock_back(&self) {
        self.connection().await.execute(INTO_FUTURE).await.unwrap();
    }

    async fn let_members_age(&self) {
        self.connection().await.execute(OLDER_MEMBERS).await.unwrap();
    }

    async fn open_beside(&self) -> Option<Transaction<'static, Postgres>> {
        Some(self.open().await)
    }

    async fn write_without_partition(&self, event: &Event) {
        write_plainly(&mut self.connection().await, event).await;
    }

    async fn misplace(&self, event_id: &str, partition: u8) {
        self.update(&format!("event_partition = {partition}"), event_id).await;
    }
}

impl Stage for PooledStage {
    type Store = PostgresStore;

    fn store(&self) -> PostgresStore {
        PostgresStore::clone(&self.store)
    }

    fn runtime(&self) -> Runtime {
        Runtime::tokio()
    }
}
