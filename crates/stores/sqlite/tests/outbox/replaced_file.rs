//! A file that is replaced under a running outbox, as a restore does it.

use std::path::PathBuf;
use std::time::Duration;

use pillarbox::store::Administration;
use pillarbox::{OutboxBuilder, Stopped, WriteError};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::acceptance::Desk;
use sqlx::{AssertSqlSafe, Executor};

use crate::stage::{SqliteStage, placed};

const PATIENCE: Duration = Duration::from_secs(60);

/// A backup of the file of `stage`, beside it.
async fn backup(stage: &SqliteStage) -> PathBuf {
    let backup = stage.store.path().with_file_name("backup.db");
    let copy = format!("VACUUM INTO '{}'", backup.display());
    stage.store.pool().execute(AssertSqlSafe(copy)).await.unwrap();
    backup
}

fn assert_says_replaced(stage: &SqliteStage, text: &str) {
    let path = stage.store.path().display();
    assert!(text.contains(&format!("`{path}` was replaced or deleted while it was open")), "{text}");
}

/// An outbox that has delivered, and whose file is then replaced by a backup or deleted, stops by itself.
async fn stops(change: fn(OutboxBuilder<SqliteStore>) -> OutboxBuilder<SqliteStore>, is_restored: bool) {
    let stage = SqliteStage::fresh().await;
    let backup = backup(&stage).await;
    let (listener, mut desk) = Desk::open();
    let builder = change(stage.builder()).heartbeat_every(Duration::from_millis(20));
    let outbox = builder.on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-17")).await.unwrap();
    tx.commit().await.unwrap();
    desk.accept().await;

    match is_restored {
        true => std::fs::rename(backup, stage.store.path()).unwrap(),
        false => std::fs::remove_file(stage.store.path()).unwrap(),
    }
    let run = tokio::time::timeout(PATIENCE, outbox.run(std::future::pending()));

    match run.await.expect("it stops") {
        Err(Stopped::Refused(reason)) => assert_says_replaced(&stage, &reason),
        other => panic!("{other:?}"),
    }
}

/// An outbox whose file is replaced under it does not go on with the old one in silence, in either mode.
#[tokio::test]
async fn an_outbox_whose_file_is_replaced_stops() {
    stops(|builder| builder, true).await;
    stops(OutboxBuilder::ordered, true).await;
}

#[tokio::test]
async fn an_outbox_whose_file_is_deleted_stops() {
    stops(|builder| builder, false).await;
}

/// What would be written into a file without a name fails, and the transaction with it, where nothing beats too.
#[tokio::test]
async fn nothing_is_written_to_a_file_that_was_replaced() {
    let stage = SqliteStage::fresh().await;
    let backup = backup(&stage).await;
    let outbox = stage.builder().writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();

    std::fs::rename(backup, stage.store.path()).unwrap();

    match outbox.write(&mut tx, placed("order-17")).await {
        Err(WriteError::Store(error)) => assert_says_replaced(&stage, &error.to_string()),
        other => panic!("{other:?}"),
    }
}

/// A store that is closed leaves nothing behind that would be taken for a part of the file that was restored.
#[tokio::test]
async fn a_restored_file_is_as_it_was_saved() {
    let stage = SqliteStage::fresh().await;
    let path = stage.store.path().to_str().unwrap().to_owned();
    let outbox = stage.builder().writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    tx.commit().await.unwrap();
    let backup = backup(&stage).await;
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.commit().await.unwrap();

    std::fs::rename(backup, &path).unwrap();
    outbox.close().await;
    stage.store.close().await;

    let restored = SqliteStore::connect(path).await.unwrap();
    assert!(restored.find("order-1").await.unwrap().is_some());
    assert!(restored.find("order-2").await.unwrap().is_none());
}
