//! Where the tests play: an outbox of its own for each, in whichever database the URL names.

use std::sync::Arc;

use pillarbox::Runtime;
use pillarbox::store::TxStore;
use pillarbox_any::{AnyOptions, AnyStore, AnyTx, Kind};
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::conformance::StoreHarness;
use pillarbox_testkit::servers::{Fresh, unique_name};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection};
use tempfile::TempDir;

/// A migrated outbox that is removed with the stage.
pub(crate) struct AnyStage {
    pub(crate) store: Arc<AnyStore>,
    pub(crate) url: String,
    pub(crate) schema: Option<String>,
    /// The directory of a SQLite file.
    _directory: Option<TempDir>,
}

impl AnyStage {
    /// A stage in a SQLite file.
    pub(crate) async fn in_a_file() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("orders.db").display());
        Self::new(url, None, Some(directory)).await
    }

    async fn new(url: String, schema: Option<String>, directory: Option<TempDir>) -> Self {
        let store = options(&url, schema.as_deref()).connect().await.unwrap();
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), url, schema, _directory: directory }
    }

    /// Options for another store on the same tables.
    pub(crate) fn options(&self) -> AnyOptions {
        options(&self.url, self.schema.as_deref())
    }

    async fn update(&self, change: &str, event_id: &str) {
        let schema = self.schema.as_ref().map(|schema| format!("{schema}.")).unwrap_or_default();
        let sql = format!("UPDATE {schema}outbox_event SET {change} WHERE event_id = '{event_id}'");
        let mut tx = self.store.begin().await.unwrap();
        assert_eq!(execute(&mut tx, sql).await, 1);
        AnyStore::commit(tx).await.unwrap();
    }
}

fn options(url: &str, schema: Option<&str>) -> AnyOptions {
    let options = AnyStore::options(url);
    match schema {
        Some(schema) => options.schema(schema),
        None => options,
    }
}

/// Executes a statement of the user's own in a transaction, and returns how many rows were affected.
pub(crate) async fn execute(tx: &mut AnyTx, sql: impl Into<String>) -> u64 {
    let sql = AssertSqlSafe(sql.into());
    match tx {
        AnyTx::Sqlite(tx) => tx.execute(sql).await.unwrap().rows_affected(),
        AnyTx::Postgres(tx) => tx.execute(sql).await.unwrap().rows_affected(),
        AnyTx::MySql(tx) => tx.execute(sql).await.unwrap().rows_affected(),
        _ => unreachable!("these are all"),
    }
}

impl Fresh for AnyStage {
    async fn fresh(url: &str) -> Self {
        Self::new(url.to_owned(), Some(unique_name()), None).await
    }

    async fn clean(self) {
        self.store.close().await;
        let Some(schema) = &self.schema else { return };
        match self.store.kind() {
            Kind::Sqlite => {}
            Kind::Postgres => {
                let mut connection = PgConnection::connect(&self.url).await.unwrap();
                let drop = format!("DROP SCHEMA {schema} CASCADE");
                connection.execute(AssertSqlSafe(drop)).await.unwrap();
            }
            Kind::MySql => {
                let mut connection = MySqlConnection::connect(&self.url).await.unwrap();
                let drop = format!("DROP DATABASE {schema}");
                connection.execute(AssertSqlSafe(drop)).await.unwrap();
            }
        }
    }
}

impl StoreHarness for AnyStage {
    type Store = AnyStore;
    type Savepoint = ();

    fn store(&self) -> &Arc<AnyStore> {
        &self.store
    }

    /// None in MySQL, where nobody is woken by another process.
    async fn elsewhere(&self) -> Option<Arc<AnyStore>> {
        match self.store.kind() {
            Kind::MySql => None,
            Kind::Sqlite | Kind::Postgres => Some(Arc::new(self.options().connect().await.unwrap())),
        }
    }

    async fn open(&self) -> AnyTx {
        match &*self.store {
            AnyStore::Sqlite(store) => store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap().into(),
            AnyStore::Postgres(store) => store.pool().begin().await.unwrap().into(),
            AnyStore::MySql(store) => store.pool().begin().await.unwrap().into(),
            _ => unreachable!("these are all"),
        }
    }

    async fn commit(&self, tx: AnyTx) {
        AnyStore::commit(tx).await.unwrap();
    }

    async fn rollback(&self, tx: AnyTx) {
        AnyStore::rollback(tx).await.unwrap();
    }

    async fn savepoint(&self, connection: &mut AnyTx) {
        execute(connection, "SAVEPOINT here").await;
    }

    async fn rollback_to(&self, connection: &mut AnyTx, (): ()) {
        execute(connection, "ROLLBACK TO here").await;
    }

    async fn corrupt(&self, event_id: &str) {
        self.update("headers = '[]'", event_id).await;
    }

    async fn push_lease_into_future(&self, event_id: &str) {
        let later = match self.store.kind() {
            Kind::Sqlite => "available_at + 7200000000",
            Kind::Postgres => "available_at + interval '2 hours'",
            Kind::MySql => "available_at + INTERVAL 2 HOUR",
        };
        self.update(&format!("available_at = {later}"), event_id).await;
    }
}

impl Stage for AnyStage {
    type Store = AnyStore;

    fn store(&self) -> AnyStore {
        AnyStore::clone(&self.store)
    }

    fn runtime(&self) -> Runtime {
        Runtime::tokio()
    }
}
