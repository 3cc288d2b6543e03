//! An outbox in a schema of its own, and a client of tokio-postgres.

use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox::{Event, Outbox, Receipt, WriteError};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::adapters::{AdapterStage, End};
use pillarbox_testkit::servers::{Fresh, unique_name};
use pillarbox_tokio_postgres::{Names, Tables, write_in};
use tokio_postgres::{Client, NoTls};

const PREFIX: &str = "shop_";

pub(crate) struct PostgresStage {
    url: String,
    pub(crate) schema: String,
    store: PostgresStore,
    statements: AtomicUsize,
}

impl Fresh for PostgresStage {
    async fn fresh(url: &str) -> Self {
        let schema = unique_name();
        // Without NOTIFY: only the receipt may wake the poller.
        let options = PostgresStore::options(url).schema(&schema).prefix(PREFIX).wake_up(false);
        let store = options.connect().await.unwrap();
        store.migrate().await.unwrap();
        Self { url: url.to_owned(), schema, store, statements: AtomicUsize::new(0) }
    }

    async fn clean(self) {
        self.store.close().await;
        self.client().await.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await.unwrap();
    }
}

impl PostgresStage {
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub(crate) fn names(&self) -> Names {
        Names::new(Some(&self.schema), PREFIX).unwrap()
    }

    pub(crate) fn table(&self) -> String {
        self.names().table("outbox_event")
    }

    async fn write_to(
        &self,
        tables: &impl Tables,
        events: Vec<Event>,
        end: End,
    ) -> Result<Receipt, WriteError> {
        let mut client = self.client().await;
        let tx = client.transaction().await.unwrap();
        let answer = write_in(tables, &tx, events).await;
        if answer.is_ok() {
            // Every statement of a transaction has a number, and its rows have it too.
            let commands = format!(
                "SELECT count(DISTINCT cmin::text) FROM {} WHERE xmin = pg_current_xact_id_if_assigned()::xid",
                self.table()
            );
            let count: i64 = tx.query_one(&commands, &[]).await.unwrap().get(0);
            self.statements.store(usize::try_from(count).unwrap(), Ordering::Relaxed);
        }
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
        }
        answer
    }
}

impl AdapterStage for PostgresStage {
    type Store = PostgresStore;

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    async fn write(&self, events: Vec<Event>, end: End) -> Result<Receipt, WriteError> {
        self.write_to(&self.store, events, end).await
    }

    async fn write_through(
        &self,
        outbox: &Outbox<PostgresStore>,
        events: Vec<Event>,
    ) -> Result<Receipt, WriteError> {
        self.write_to(outbox, events, End::Commit).await
    }

    fn statements(&self) -> usize {
        self.statements.load(Ordering::Relaxed)
    }

    async fn partition(&self, event_id: &str) -> Option<u8> {
        let sql = format!("SELECT event_partition FROM {} WHERE event_id = $1", self.table());
        let row = self.client().await.query_one(&sql, &[&event_id]).await.unwrap();
        row.get::<_, Option<i16>>(0).map(|partition| u8::try_from(partition).unwrap())
    }
}
