//! The SQLite store keeps the promises that every store keeps.

use std::sync::Arc;

use pillarbox::Event;
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::conformance::{OwnershipHarness, StoreHarness};
use sqlx::sqlite::{Sqlite, SqliteConnection};
use sqlx::{Executor, Transaction};
use tempfile::TempDir;

pillarbox_testkit::conformance!(SqliteHarness::fresh().await);
pillarbox_testkit::ownership_conformance!(SqliteHarness::fresh().await);

struct SqliteHarness {
    store: Arc<SqliteStore>,
    directory: TempDir,
}

impl SqliteHarness {
    async fn fresh() -> Self {
        let directory = tempfile::tempdir().expect("there is room for a directory");
        let store = Arc::new(connect(&directory).await);
        store.migrate().await.expect("the tables are created");
        Self { store, directory }
    }

    async fn update(&self, sql: &'static str, event_id: &str) {
        let updated = sqlx::query(sql).bind(event_id).execute(self.store.pool()).await;
        assert_eq!(updated.expect("the row is updated").rows_affected(), 1);
    }
}

async fn connect(directory: &TempDir) -> SqliteStore {
    let path = directory.path().join("orders.db");
    SqliteStore::connect(path.to_string_lossy()).await.expect("the database opens")
}

impl StoreHarness for SqliteHarness {
    type Store = SqliteStore;
    type Savepoint = ();

    fn store(&self) -> &Arc<SqliteStore> {
        &self.store
    }

    async fn elsewhere(&self) -> Option<Arc<SqliteStore>> {
        Some(Arc::new(connect(&self.directory).await))
    }

    async fn open(&self) -> Transaction<'static, Sqlite> {
        self.store.pool().begin_with("BEGIN IMMEDIATE").await.expect("a transaction begins")
    }

    async fn commit(&self, tx: Transaction<'static, Sqlite>) {
        tx.commit().await.expect("the transaction commits");
    }

    async fn rollback(&self, tx: Transaction<'static, Sqlite>) {
        tx.rollback().await.expect("the transaction is rolled back");
    }

    async fn savepoint(&self, connection: &mut SqliteConnection) {
        connection.execute("SAVEPOINT here").await.expect("the point is marked");
    }

    async fn rollback_to(&self, connection: &mut SqliteConnection, (): ()) {
        connection.execute("ROLLBACK TO here").await.expect("the transaction goes back");
    }

    async fn corrupt(&self, event_id: &str) {
        self.update("UPDATE outbox_event SET headers = '{' WHERE event_id = ?", event_id).await;
    }

    async fn push_lease_into_future(&self, event_id: &str) {
        let two_hours_on =
            "UPDATE outbox_event SET available_at = available_at + 7200000000 WHERE event_id = ?";
        self.update(two_hours_on, event_id).await;
    }
}

impl OwnershipHarness for SqliteHarness {
    async fn put_clock_back(&self) {
        let two_hours_on = "UPDATE outbox_partition SET until = until + 7200000000;
            UPDATE outbox_instance SET until = until + 7200000000;
            UPDATE outbox_event SET created_at = created_at + 7200000000, due_at = due_at + 7200000000";
        sqlx::raw_sql(two_hours_on).execute(self.store.pool()).await.expect("all times are moved");
    }

    async fn let_members_age(&self) {
        let older = "UPDATE outbox_instance
            SET joined_at = joined_at - 7200000000, seen_at = seen_at - 7200000000";
        sqlx::raw_sql(older).execute(self.store.pool()).await.expect("all times are moved");
    }

    /// A file has one writer at a time.
    async fn open_beside(&self) -> Option<Transaction<'static, Sqlite>> {
        None
    }

    async fn write_without_partition(&self, event: &Event) {
        let insert =
            "INSERT INTO outbox_event (event_id, event_type, event_key, payload) VALUES (?, ?, ?, '{}')";
        let insert = sqlx::query(insert).bind(event.id()).bind(event.event_type()).bind(event.key());
        insert.execute(self.store.pool()).await.expect("the row is written");
    }

    async fn misplace(&self, event_id: &str, partition: u8) {
        let misplace = "UPDATE outbox_event SET event_partition = ? WHERE event_id = ?";
        let misplace = sqlx::query(misplace).bind(partition).bind(event_id);
        assert_eq!(misplace.execute(self.store.pool()).await.expect("the row is moved").rows_affected(), 1);
    }
}
