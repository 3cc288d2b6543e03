//! The adapter on SQLite, which needs no server.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

#[path = "servers/stage.rs"]
mod stage;

use pillarbox::store::StoreError;
use pillarbox::{Event, Outbox, Receipt, WriteError};
use pillarbox_sea_orm::{Names, write_in};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::adapters::{AdapterStage, End};

use stage::Stage;

/// The stage on a file, which is deleted with the directory.
struct SqliteStage {
    stage: Stage<SqliteStore>,
    #[expect(dead_code, reason = "deletes the file when it is dropped")]
    directory: tempfile::TempDir,
}

impl SqliteStage {
    async fn fresh() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("orders.db");
        // Without the watch: only the receipt may wake the poller.
        let options = SqliteStore::options(path.to_string_lossy()).prefix("shop_").watch(false);
        let store = options.connect().await.unwrap();
        store.migrate().await.unwrap();
        let stage = Stage::open(store, &format!("sqlite:{}", path.display()), String::new()).await;
        Self { stage, directory }
    }
}

impl AdapterStage for SqliteStage {
    type Store = SqliteStore;

    fn store(&self) -> SqliteStore {
        self.stage.store()
    }

    async fn write(&self, events: Vec<Event>, end: End) -> Result<Receipt, WriteError> {
        self.stage.write(events, end).await
    }

    async fn write_through(
        &self,
        outbox: &Outbox<SqliteStore>,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        self.stage.write_through(outbox, events).await
    }

    fn statements(&self) -> usize {
        self.stage.statements()
    }

    async fn partition(&self, event_id: &str) -> Option<u8> {
        self.stage.partition(event_id).await
    }
}

pillarbox_testkit::adapter_tests!(SqliteStage::fresh().await);

/// S7: an outbox that was never migrated is called so.
#[tokio::test]
async fn missing_table_is_told() {
    let stage = SqliteStage::fresh().await;
    let tx = stage.stage.begin().await;
    let elsewhere = Names::new(None, "other_").unwrap();

    let error = write_in(&elsewhere, &tx, [Event::of_json("OrderPlaced", "{}").unwrap()]).await.unwrap_err();

    assert!(matches!(error, WriteError::Store(StoreError::NotMigrated)));
}
