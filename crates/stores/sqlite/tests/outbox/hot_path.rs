//! Nothing goes out from memory whose row does not exist.

use pillarbox::WriteError;
use pillarbox::store::{CommitError, Status};
use pillarbox_testkit::acceptance::Desk;

use crate::stage::{SqliteStage, placed};

/// W13: a user who swallows an error and commits gets what is in the table delivered, and nothing else.
#[tokio::test]
async fn swallowed_error_makes_no_ghost() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    let swallowed = outbox.write_all(&mut tx, [placed("order-2"), placed("order-1")]).await;
    let broken = sqlx::query("INSERT INTO no_such_table VALUES (1)").execute(&mut *tx).await;
    tx.commit().await.unwrap();
    let delivered = desk.accept().await;
    outbox.close().await;

    assert!(matches!(swallowed, Err(WriteError::DuplicateId { id }) if id == "order-1"));
    assert!(broken.is_err());
    assert_eq!(delivered.id(), "order-1");
    assert_eq!((stage.status("order-1").await, stage.status("order-2").await), (Some(Status::Done), None));
    assert!(desk.waiting().is_none());
}

/// W13: a transaction that the user ended behind our back delivers nothing, whatever its commit says.
#[tokio::test]
async fn rollback_behind_our_back_makes_no_ghost() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    sqlx::query("ROLLBACK").execute(&mut *tx).await.unwrap();
    let committed = tx.commit().await;
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.commit().await.unwrap();
    let delivered = desk.accept().await;
    outbox.close().await;

    assert!(committed.is_err(), "{committed:?}");
    assert_eq!((delivered.id(), stage.status("order-1").await), ("order-2", None));
    assert!(desk.waiting().is_none());
}

/// W1, W13: after SQLite has rolled a transaction back by itself, a write on it would be committed alone; it
/// is refused, and the commit says that there was none.
#[tokio::test]
async fn write_after_a_swallowed_rollback_makes_no_ghost() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    let orders = "CREATE TABLE orders (id TEXT PRIMARY KEY)";
    sqlx::query(orders).execute(outbox.store().pool()).await.unwrap();

    let mut tx = outbox.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES ('order-1')").execute(&mut *tx).await.unwrap();
    let twice = "INSERT OR ROLLBACK INTO orders VALUES ('order-1')";
    sqlx::query(twice).execute(&mut *tx).await.unwrap_err();
    let written = outbox.write(&mut tx, placed("order-1")).await;
    let committed = tx.commit().await;
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.commit().await.unwrap();
    let delivered = desk.accept().await;
    outbox.close().await;

    assert!(matches!(written, Err(WriteError::Store(_))), "{written:?}");
    assert!(matches!(committed, Err(CommitError::RolledBack { .. })), "{committed:?}");
    assert_eq!((delivered.id(), stage.status("order-1").await), ("order-2", None));
    assert!(desk.waiting().is_none());
}

/// W1, W13: what was written after a savepoint that the user goes back to is not delivered.
#[tokio::test]
async fn rollback_to_behind_our_back_makes_no_ghost() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    sqlx::query("SAVEPOINT here").execute(&mut *tx).await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    sqlx::query("ROLLBACK TO here").execute(&mut *tx).await.unwrap();
    outbox.write(&mut tx, placed("order-3")).await.unwrap();
    tx.commit().await.unwrap();
    let mut delivered = [desk.accept().await.id().to_owned(), desk.accept().await.id().to_owned()];
    outbox.close().await;

    delivered.sort();
    assert_eq!(delivered, ["order-1", "order-3"]);
    assert_eq!((outbox.counts().hot_missing, stage.status("order-2").await), (1, None));
    assert!(desk.waiting().is_none());
}

/// W13, P5: one read and no poll lie between a commit and its listener.
#[tokio::test]
async fn commit_reaches_its_listener_by_one_read_and_no_poll() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.builder().on("OrderPlaced", listener).start().unwrap();
    outbox.poll().await.unwrap();
    // The poller looks once by itself when it starts.
    while outbox.counts().takes < 2 {
        tokio::task::yield_now().await;
    }
    let before = outbox.counts();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, [placed("order-1"), placed("order-2")]).await.unwrap();
    tx.commit().await.unwrap();
    let call = desk.next().await;

    let after = outbox.counts();
    assert_eq!((after.read_backs - before.read_backs, after.takes - before.takes), (1, 0));
    call.succeed();
    desk.accept().await;
    outbox.close().await;
}
