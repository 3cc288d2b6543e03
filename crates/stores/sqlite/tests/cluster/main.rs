//! Several processes on one SQLite file.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::process::{Command, ExitCode};

use pillarbox::Runtime;
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::chaos::{self, Shell};
use pillarbox_testkit::cluster::{self, Cluster};
use pillarbox_testkit::servers::{self, Fresh, Suite};
use pillarbox_testkit::{chaos_trials, trials};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};
use tempfile::TempDir;

// A process that is frozen with the write lock of a file in its hands stops everybody, for as long as it is
// frozen. So the case of the cluster that freezes one for as long as it takes is not for SQLite; those of the chaos are
// frozen for less than the others wait for the lock.
fn main() -> ExitCode {
    let member = cluster::member::<SqliteStage>();
    if let Some(code) = member.or_else(chaos::member::<SqliteStage>) {
        return code;
    }
    let mut suite = Suite::from_args();
    trials!(suite, servers::SQLITE, SqliteStage; cluster {
        eight_processes_share_the_work
        killed_process_is_taken_over
        commit_reaches_another_process
        older_namesake_stops_when_it_settles
        older_namesake_without_losses_stops_too
    });
    chaos_trials!(suite, servers::SQLITE, SqliteStage);
    suite.run()
}

/// A migrated outbox in a directory that is deleted with it.
struct SqliteStage {
    store: SqliteStore,
    _directory: TempDir,
}

impl Fresh for SqliteStage {
    async fn fresh(_url: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::connect(directory.path().join("orders.db").to_str().unwrap()).await.unwrap();
        store.migrate().await.unwrap();
        Self { store, _directory: directory }
    }

    async fn clean(self) {
        self.store.close().await;
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

impl Cluster for SqliteStage {
    fn address(&self) -> String {
        self.store.path().to_str().unwrap().to_owned()
    }

    async fn at(address: &str) -> SqliteStore {
        SqliteStore::connect(address).await.unwrap()
    }
}

impl Shell for SqliteStage {
    const NOW: &'static str = "CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000";
    const UNTIL: &'static str = "until";
    const OWNER: &'static str = "owner_incarnation";
    const WRITES_AT_ONCE: bool = false;
    const SECONDS: u64 = 15;

    /// By `sqlite3`, if there is one that is new enough for the defaults of the table; or else by the pool.
    async fn ask(&self, sql: String) -> Vec<Vec<String>> {
        if has_client() {
            let mut sqlite3 = Command::new("sqlite3");
            sqlite3.args(["-batch", "-bail", "-noheader", "-separator", " ", "-cmd", ".timeout 10000"]);
            sqlite3.arg(self.store.path());
            return chaos::by_client(sqlite3, sql).await;
        }
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(self.store.pool()).await.unwrap();
        rows.iter().map(|row| (0..row.len()).map(|column| text(row, column)).collect()).collect()
    }
}

/// A number or a text, as `sqlite3` prints it.
fn text(row: &SqliteRow, column: usize) -> String {
    row.try_get::<i64, _>(column).map_or_else(|_| row.get(column), |number| number.to_string())
}

/// Whether `sqlite3` is installed and knows fractions of a second, as it does since version 3.42.
fn has_client() -> bool {
    let asked = Command::new("sqlite3").args([":memory:", "SELECT unixepoch('subsec') IS NOT NULL"]).output();
    asked.is_ok_and(|answer| answer.stdout.starts_with(b"1"))
}
