//! Files that this process may read and not write, by their permissions.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::orders::{Orders, order_placed, take, write};
use pillarbox::store::{Administration, EventStore, StoreError, TxStore};
use pillarbox_sqlite::SqliteStore;
use sqlx::AssertSqlSafe;
use tokio::process::Command;

/// Set in the process that may not write: the file that it shall open.
const FILE: &str = "PILLARBOX_TEST_READ_ONLY";

/// Runs `test` of this binary as a user to whom permissions apply: they do not apply to root.
async fn without_rights(test: &str, file: &Path) {
    let binary = std::env::current_exe().unwrap();
    let is_root = std::fs::File::options().write(true).open(file).is_ok();
    let mut child = if is_root { Command::new("setpriv") } else { Command::new(&binary) };
    if is_root {
        child.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary);
    }
    let output = child.args([test, "--exact", "--nocapture"]).env(FILE, file).output().await;
    let said = output.as_ref().map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into());
    if is_root && !said.contains("running 1 test") {
        eprintln!("SKIPPED {test}: `setpriv` cannot run it: {output:?}");
        return;
    }
    let output = output.unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

fn allow(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn assert_named(error: &StoreError, file: &str) {
    let text = error.to_string();
    assert!(text.contains(&format!("`{file}`")) && text.contains("its directory"), "{error:?}");
}

/// A file that may not be written is named when it is opened, with what to do.
#[tokio::test]
async fn a_read_only_file_cannot_be_opened() {
    if let Ok(file) = std::env::var(FILE) {
        let error = SqliteStore::connect(&file).await.unwrap_err();
        return assert_named(&error, &file);
    }
    for journal_mode in ["DELETE", "WAL"] {
        let orders = Orders::new();
        orders.store().await.close().await;
        orders.execute(format!("PRAGMA journal_mode = {journal_mode}")).await;
        allow(&orders.path(), 0o444);
        allow(orders.path().parent().unwrap(), 0o555);

        without_rights("read_only_files::a_read_only_file_cannot_be_opened", &orders.path()).await;
    }
}

/// A file that may not be written, but is open elsewhere, is named when something is taken, with what to do.
#[tokio::test]
async fn a_read_only_file_refuses_to_be_written() {
    if let Ok(file) = std::env::var(FILE) {
        let store = SqliteStore::connect(&file).await.expect("it can be read");
        let error = store.take(take(10)).await.unwrap_err();
        return assert_named(&error, &file);
    }
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;
    for name in ["orders.db", "orders.db-wal", "orders.db-shm"] {
        allow(&orders.path().with_file_name(name), 0o444);
    }
    allow(orders.path().parent().unwrap(), 0o555);

    without_rights("read_only_files::a_read_only_file_refuses_to_be_written", &orders.path()).await;
    assert_eq!(store.take(take(10)).await.unwrap().events.len(), 1);
}

/// A file that may not be written can be looked at, in either journal mode, as long as its log can be read.
#[tokio::test]
async fn a_read_only_file_can_be_looked_at() {
    if let Ok(file) = std::env::var(FILE) {
        let store = SqliteStore::options(&file).read_only(true).connect().await.unwrap();
        assert_eq!(store.stats().await.unwrap().pending(), 1);
        let error = store.take(take(10)).await.unwrap_err();
        return assert_named(&error, &file);
    }
    for (journal_mode, files) in
        [("DELETE", &["orders.db"][..]), ("WAL", &["orders.db", "orders.db-wal", "orders.db-shm"])]
    {
        let orders = Orders::new();
        let store = orders.store().await;
        write(&store, &[order_placed("order-17")]).await;
        store.close().await;
        let mut holder = orders.connection().await;
        sqlx::query(AssertSqlSafe(format!("PRAGMA journal_mode = {journal_mode}")))
            .execute(&mut holder)
            .await
            .unwrap();
        sqlx::query("SELECT 1 FROM outbox_event").execute(&mut holder).await.unwrap();
        files.iter().for_each(|name| allow(&orders.path().with_file_name(name), 0o444));
        allow(orders.path().parent().unwrap(), 0o555);

        without_rights("read_only_files::a_read_only_file_can_be_looked_at", &orders.path()).await;
    }
}

/// A file in WAL mode whose log can be neither read nor made says so.
#[tokio::test]
async fn a_log_that_cannot_be_made_is_named() {
    if let Ok(file) = std::env::var(FILE) {
        let error = SqliteStore::options(&file).read_only(true).connect().await.unwrap_err();
        assert!(error.to_string().contains("(`-wal`, `-shm`) can be neither read nor made"), "{error:?}");
        return assert_named(&error, &file);
    }
    let orders = Orders::new();
    orders.store().await.close().await;
    allow(&orders.path(), 0o444);
    allow(orders.path().parent().unwrap(), 0o555);

    without_rights("read_only_files::a_log_that_cannot_be_made_is_named", &orders.path()).await;
}

/// Looking leaves a file as it is, with an outbox in it or without, in either journal mode, and nothing beside it.
#[tokio::test]
async fn looking_changes_nothing() {
    for (journal_mode, has_outbox) in [("DELETE", true), ("DELETE", false), ("WAL", true), ("WAL", false)] {
        let orders = Orders::new();
        orders.execute("CREATE TABLE orders (id TEXT)").await;
        if has_outbox {
            orders.store().await.close().await;
        }
        orders.execute(format!("PRAGMA journal_mode = {journal_mode}")).await;
        let before = std::fs::read(orders.path()).unwrap();

        let store = orders.options().read_only(true).connect().await.unwrap();
        let checked = store.check().await;
        let begun = store.begin().await;
        store.close().await;

        assert_eq!(checked.is_ok(), has_outbox, "{checked:?}");
        assert!(begun.is_err(), "nothing is written");
        assert!(std::fs::read(orders.path()).unwrap() == before, "{journal_mode} {has_outbox}");
        assert_eq!(orders.path().parent().unwrap().read_dir().unwrap().count(), 1);
    }
}

/// Looking makes no file.
#[tokio::test]
async fn looking_needs_a_file() {
    let orders = Orders::new();

    let error = orders.options().read_only(true).connect().await.unwrap_err();

    assert!(error.to_string().contains("there is no database file"), "{error}");
    assert!(!orders.path().exists());
}
