//! Files that this process may read and not write, by their permissions.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::orders::{Orders, order_placed, take, write};
use pillarbox::store::{EventStore, StoreError};
use pillarbox_sqlite::SqliteStore;
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
