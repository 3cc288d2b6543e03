//! An order service's outbox, fresh for each test.

use std::path::PathBuf;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{DoneRows, EventStore, Outcome, Owner, Settlement, Take, Taken, Token, TxStore};
use pillarbox_sqlite::{SqliteOptions, SqliteStore};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;

/// Longer than any test runs.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A directory with a database file in it.
pub(crate) struct Orders {
    directory: TempDir,
}

impl Orders {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("orders.db")
    }

    pub(crate) fn options(&self) -> SqliteOptions {
        SqliteStore::options(self.path().to_str().unwrap())
    }

    /// A store that is not migrated.
    pub(crate) async fn connect(&self) -> SqliteStore {
        self.options().connect().await.unwrap()
    }

    /// A store that is ready.
    pub(crate) async fn store(&self) -> SqliteStore {
        let store = self.connect().await;
        store.migrate().await.unwrap();
        store
    }

    /// Makes the tables as the first version of them was.
    pub(crate) async fn first_version(&self) {
        self.execute(include_str!("../../migrations/0001_outbox.sql")).await;
        self.execute("INSERT INTO outbox_meta VALUES ('schema_version', '1')").await;
    }

    /// A connection of the user's own.
    pub(crate) async fn connection(&self) -> SqliteConnection {
        SqliteConnectOptions::new().filename(self.path()).create_if_missing(true).connect().await.unwrap()
    }

    /// Executes statements on a connection of the user's own.
    pub(crate) async fn execute(&self, sql: impl Into<String>) {
        self.connection().await.execute(AssertSqlSafe(sql.into())).await.unwrap();
    }
}

pub(crate) fn order_placed(order: &str) -> Event {
    let json = format!(r#"{{"id":"{order}"}}"#);
    Event::builder("OrderPlaced").aggregate("Order", order).json_text(json).build().unwrap()
}

pub(crate) async fn write(store: &SqliteStore, events: &[Event]) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, events, None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
}

pub(crate) fn take(limit: usize) -> Take {
    Take {
        owner: Owner::new("orders", 1),
        token: Token(17),
        limit,
        lease_for: LONG,
        skip_recent: Duration::ZERO,
        sweep: false,
    }
}

pub(crate) async fn claim(store: &SqliteStore, limit: usize) -> Vec<Taken> {
    store.take(take(limit)).await.unwrap().events
}

pub(crate) async fn settle(store: &SqliteStore, taken: &[Taken], outcome: Outcome) -> Vec<i64> {
    let settlement = |taken: &Taken| Settlement::of(taken, outcome.clone());
    let settlements: Vec<Settlement> = taken.iter().map(settlement).collect();
    store.settle(&settlements, DoneRows::Keep).await.unwrap()
}
