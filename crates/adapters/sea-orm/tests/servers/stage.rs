//! An outbox with names of its own, and a connection of SeaORM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox::{Event, Outbox, Receipt, Store, WriteError};
use pillarbox_mysql::MySqlStore;
use pillarbox_postgres::PostgresStore;
use pillarbox_sea_orm::{Tables, write_in};
use pillarbox_testkit::adapters::{AdapterStage, End};
use pillarbox_testkit::servers::{Fresh, unique_name};
use sea_orm::{
    ConnectionTrait, Database, DatabaseBackend, DatabaseConnection, DatabaseTransaction,
    SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};

const PREFIX: &str = "shop_";

pub(crate) struct Stage<S> {
    pub(crate) store: S,
    database: DatabaseConnection,
    inserts: Arc<AtomicUsize>,
    /// What removes it.
    drop: String,
}

impl Fresh for Stage<PostgresStore> {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        // Without NOTIFY: only the receipt may wake the poller.
        let options = PostgresStore::options(url).schema(&schema).prefix(PREFIX).wake_up(false);
        let store = options.connect().await.unwrap();
        store.migrate().await.unwrap();
        Self::open(store, url, format!("DROP SCHEMA {schema} CASCADE")).await
    }

    async fn clean(self) {
        self.store.close().await;
        self.database.execute_unprepared(&self.drop).await.unwrap();
    }
}

impl Fresh for Stage<MySqlStore> {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        let store = MySqlStore::options(url).schema(&schema).prefix(PREFIX).connect().await.unwrap();
        store.migrate().await.unwrap();
        Self::open(store, url, format!("DROP DATABASE {schema}")).await
    }

    async fn clean(self) {
        self.store.close().await;
        self.database.execute_unprepared(&self.drop).await.unwrap();
    }
}

impl<S> Stage<S> {
    pub(crate) async fn open(store: S, url: &str, drop: String) -> Self {
        let inserts = Arc::new(AtomicUsize::new(0));
        let mut database = Database::connect(url).await.unwrap();
        let counted = inserts.clone();
        database.set_metric_callback(move |metric| {
            if metric.statement.sql.starts_with("INSERT") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { store, database, inserts, drop }
    }

    pub(crate) async fn begin(&self) -> DatabaseTransaction {
        let sqlite_transaction_mode = match self.database.get_database_backend() {
            DatabaseBackend::Sqlite => Some(SqliteTransactionMode::Immediate),
            _ => None,
        };
        let options = TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() };
        self.database.begin_with_options(options).await.unwrap()
    }
}

impl<S> Stage<S> {
    async fn write_to(
        &self,
        tables: &impl Tables,
        events: Vec<Event>,
        end: End,
    ) -> Result<Receipt, WriteError> {
        let tx = self.begin().await;
        self.inserts.store(0, Ordering::Relaxed);
        let answer = write_in(tables, &tx, events).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answer
    }
}

impl<S: Store + Tables + Clone> AdapterStage for Stage<S> {
    type Store = S;

    fn store(&self) -> S {
        self.store.clone()
    }

    async fn write(&self, events: Vec<Event>, end: End) -> Result<Receipt, WriteError> {
        self.write_to(&self.store, events, end).await
    }

    async fn write_through(&self, outbox: &Outbox<S>, events: Vec<Event>) -> Result<Receipt, WriteError> {
        self.write_to(outbox, events, End::Commit).await
    }

    fn statements(&self) -> usize {
        self.inserts.load(Ordering::Relaxed)
    }

    async fn partition(&self, event_id: &str) -> Option<u8> {
        let backend = self.database.get_database_backend();
        let text = if backend == DatabaseBackend::MySql { "CHAR" } else { "TEXT" };
        let sql = format!(
            "SELECT CAST(event_partition AS {text}) AS number FROM {} WHERE event_id = '{event_id}'",
            self.store.names().table("outbox_event")
        );
        let row = self.database.query_one_raw(Statement::from_string(backend, sql)).await.unwrap().unwrap();
        let number: Option<String> = row.try_get("", "number").unwrap();
        number.map(|number| number.parse().unwrap())
    }
}
