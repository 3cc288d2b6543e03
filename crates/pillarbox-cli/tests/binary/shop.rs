//! A shop with an outbox of its own in a temporary directory, and the program to look after it.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox::store::{Instance, Mode, Owner, Ownership, TxStore};
use pillarbox::{DeadHead, Delivery, Event, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tempfile::TempDir;

pub(crate) use crate::program::{Answer, pillarbox, run};

/// A directory with a database in it, or at least a place for one.
pub(crate) struct Shop {
    directory: TempDir,
}

impl Shop {
    /// A place without a database.
    pub(crate) fn empty() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// A shop whose outbox holds these events, with their status.
    pub(crate) fn with_events(events: &[(&str, i64)]) -> Self {
        let shop = Self::empty();
        assert_eq!(shop.run("migrate", &[]).code, Some(0));
        shop.write(events);
        shop
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("shop.db")
    }

    pub(crate) fn db(&self) -> String {
        self.file().to_str().unwrap().to_owned()
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Runs a command (one or two words) on this shop's database.
    pub(crate) fn run(&self, command: &str, arguments: &[&str]) -> Answer {
        let mut program = pillarbox();
        program.args(command.split(' ')).arg("--db").arg(self.file()).args(arguments);
        Answer::of(program.output().unwrap())
    }

    /// Executes statements of ours, as an application would.
    pub(crate) fn execute(&self, statement: impl Into<String>) {
        let statement = AssertSqlSafe(statement.into());
        self.with_store(async move |store| {
            sqlx::raw_sql(statement).execute(store.pool()).await.unwrap();
        });
    }

    /// Executes statements as a program does that knows nothing of the outbox.
    pub(crate) fn execute_plainly(&self, statement: &'static str) {
        let options = SqliteConnectOptions::new().filename(self.file()).create_if_missing(true);
        block_on(async {
            let mut connection = options.connect().await.unwrap();
            sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        });
    }

    /// The number that a statement of ours selects.
    pub(crate) fn number(&self, select: &'static str) -> i64 {
        self.with_store(async |store| sqlx::query_scalar(select).fetch_one(store.pool()).await.unwrap())
    }

    /// Delivers in order until these events have been tried, and returns their ids in that order. The event `poison` is
    /// dead at once, and its key parked.
    pub(crate) fn deliver(&self, poison: &'static str, expected: &[&str]) -> Vec<String> {
        self.with_store(async |store| {
            let (seen, mut sights) = tokio::sync::mpsc::unbounded_channel();
            let listener = move |delivery: Delivery| {
                seen.send(delivery.id().to_owned()).unwrap();
                let dead = delivery.id() == poison;
                std::future::ready(if dead {
                    Err(ListenerError::permanent("no such address"))
                } else {
                    Ok(())
                })
            };
            let outbox = Outbox::builder(store.clone()).ordered().on_dead_head(DeadHead::Park);
            let outbox = outbox.on_aggregate("Order", "OrderPlaced", listener).start().unwrap();
            let mut tried = Vec::new();
            while tried.len() < expected.len() {
                tried.push(sights.recv().await.unwrap());
            }
            while outbox.counts().done + outbox.counts().dead < expected.len() as u64 {
                tokio::task::yield_now().await;
            }
            outbox.close().await;
            tried
        })
    }

    /// Lets an instance join that lives for so long, and gives it these partitions. It never leaves.
    pub(crate) fn own(&self, name: &str, live_for: Duration, partitions: Range<u8>) {
        let owner = Owner::new(name, 1);
        let instance = Instance { owner, is_named: false, mode: Mode::Ownership, live_for };
        let partitions: Vec<u8> = partitions.collect();
        self.with_store(async |store| {
            store.join(&instance).await.unwrap();
            assert_eq!(store.acquire(&instance, &partitions).await.unwrap().len(), partitions.len());
        });
    }

    /// Lets an instance join that claims rows and lives for so long. It never leaves.
    pub(crate) fn claim(&self, name: &str, live_for: Duration) {
        let owner = Owner::new(name, 1);
        let instance = Instance { owner, is_named: false, mode: Mode::Claims, live_for };
        self.with_store(async |store| store.join(&instance).await.unwrap());
    }

    /// Adds events, with their status.
    pub(crate) fn write(&self, events: &[(&str, i64)]) {
        self.with_store(async |store| {
            let built: Vec<Event> = events.iter().map(|(id, _)| order_placed(id)).collect();
            let mut tx = store.begin().await.unwrap();
            store.insert(SqliteStore::connection_mut(&mut tx), &built, None).await.unwrap();
            SqliteStore::commit(tx).await.unwrap();
            for (id, status) in events {
                let update = "UPDATE outbox_event SET status = ?1, attempts = iif(?1 = 3, 4, 0), \
                              last_error = iif(?1 = 3, 'no such address', NULL), \
                              done_at = iif(?1 = 1, created_at, NULL) WHERE event_id = ?2";
                sqlx::query(update).bind(status).bind(id).execute(store.pool()).await.unwrap();
            }
        });
    }

    fn with_store<T>(&self, work: impl AsyncFnOnce(&SqliteStore) -> T) -> T {
        block_on(async {
            let store = SqliteStore::options(self.db()).watch(false).connect().await.unwrap();
            let result = work(&store).await;
            store.close().await;
            result
        })
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn order_placed(id: &str) -> Event {
    Event::builder("OrderPlaced")
        .id(id)
        .aggregate("Order", "order-17")
        .tenant("acme")
        .header("source", "web")
        .context("user", "anna")
        .json_text(r#"{"total":12345678901234567890123,"id":"order-17"}"#)
        .build()
        .unwrap()
}
