//! Where the tests play: a database file of its own for each.

use pillarbox::store::{Administration, Status};
use pillarbox::{Event, Outbox, OutboxBuilder, Runtime};
use pillarbox_sqlite::{SqliteOptions, SqliteStore};
use pillarbox_testkit::acceptance::Stage;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use tempfile::TempDir;

/// A migrated store in a directory that is deleted with it.
pub(crate) struct SqliteStage {
    pub(crate) store: SqliteStore,
    _directory: TempDir,
}

impl SqliteStage {
    pub(crate) async fn fresh() -> Self {
        Self::with(|options| options).await
    }

    /// A stage whose store is opened as `change` says.
    pub(crate) async fn with(change: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.db");
        let store = change(SqliteStore::options(path.to_str().unwrap())).connect().await.unwrap();
        store.migrate().await.unwrap();
        Self { store, _directory: directory }
    }

    pub(crate) fn builder(&self) -> OutboxBuilder<SqliteStore> {
        Outbox::builder(self.store.clone())
    }

    /// Sets columns of a row to what no CHECK would let in.
    pub(crate) async fn damage(&self, event_id: &str, columns: &str) {
        let options = SqliteConnectOptions::new().filename(self.store.path());
        let mut connection = options.pragma("ignore_check_constraints", "ON").connect().await.unwrap();
        let update = format!("UPDATE outbox_event SET {columns} WHERE event_id = '{event_id}'");
        sqlx::query(AssertSqlSafe(update)).execute(&mut connection).await.unwrap();
    }

    /// The status of an event; `None` if there is no row.
    pub(crate) async fn status(&self, event_id: &str) -> Option<Status> {
        let row = self.store.find(event_id).await.unwrap();
        row.map(|row| row.status.unwrap())
    }
}

impl Stage for SqliteStage {
    type Store = SqliteStore;

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }

    fn runtime(&self) -> Runtime {
        Runtime::tokio()
    }
}

/// `OrderPlaced`, with the order as event id and key.
pub(crate) fn placed(order: &str) -> Event {
    Event::builder("OrderPlaced").id(order).key(order).json_text("{}").build().unwrap()
}
