//! Several processes on one SQLite file.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::process::ExitCode;

use pillarbox::Runtime;
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::acceptance::Stage;
use pillarbox_testkit::cluster::{self, Cluster};
use pillarbox_testkit::servers::{self, Fresh, Suite};
use pillarbox_testkit::trials;
use tempfile::TempDir;

// A process that is frozen with the write lock of a file in its hands stops everybody, for as long as it is
// frozen; so the case that freezes one is not for SQLite.
fn main() -> ExitCode {
    if let Some(code) = cluster::member::<SqliteStage>() {
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
