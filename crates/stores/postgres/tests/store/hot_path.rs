//! Nothing goes out from memory whose row does not exist.

use pillarbox::store::{Administration, CommitError, Status};
use pillarbox::{Event, Outbox, WriteError};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use sqlx::Executor;

use crate::stage::PostgresStage;

fn outbox(stage: &PostgresStage) -> (Outbox<PostgresStore>, Desk) {
    let (listener, desk) = Desk::open();
    let builder = Outbox::builder(PostgresStore::clone(&stage.store)).on("OrderPlaced", listener);
    (builder.start().unwrap(), desk)
}

fn placed(order: &str) -> Event {
    Event::builder("OrderPlaced").id(order).key(order).json_text("{}").build().unwrap()
}

async fn status(stage: &PostgresStage, event_id: &str) -> Option<Status> {
    let row = stage.store.find(event_id).await.unwrap();
    row.map(|row| row.status.unwrap())
}

/// Writes an event in a transaction of its own and waits until it is delivered: whatever was committed before it
/// would have been delivered by then.
async fn assert_next_is(outbox: &Outbox<PostgresStore>, desk: &mut Desk, order: &str) {
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed(order)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(desk.accept().await.id(), order);
}

/// W13: after a failed statement that the user swallowed, PostgreSQL answers COMMIT by a rollback and the driver by
/// `Ok`; nothing is delivered.
pub(crate) async fn swallowed_error_makes_no_ghost(stage: &PostgresStage) {
    let (outbox, mut desk) = outbox(stage);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    tx.execute("INSERT INTO no_such_table VALUES (1)").await.unwrap_err();
    tx.commit().await.unwrap();
    assert_next_is(&outbox, &mut desk, "order-2").await;
    outbox.close().await;

    assert_eq!((status(stage, "order-1").await, outbox.counts().hot_missing), (None, 1));
    assert!(desk.waiting().is_none());
}

/// W13: a swallowed error of our own write is no different.
pub(crate) async fn swallowed_error_of_a_write_makes_no_ghost(stage: &PostgresStage) {
    let (outbox, mut desk) = outbox(stage);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    let swallowed = outbox.write(&mut tx, placed("order-1")).await;
    let further = outbox.write(&mut tx, placed("order-2")).await;
    tx.commit().await.unwrap();
    assert_next_is(&outbox, &mut desk, "order-3").await;
    outbox.close().await;

    assert!(matches!(swallowed, Err(WriteError::DuplicateId { id }) if id == "order-1"));
    assert!(matches!(further, Err(WriteError::Store(_))), "{further:?}");
    assert_eq!((status(stage, "order-1").await, status(stage, "order-2").await), (None, None));
    assert!(desk.waiting().is_none());
}

/// W13: a transaction that the user ended behind our back delivers nothing, whatever its commit says.
pub(crate) async fn rollback_behind_our_back_makes_no_ghost(stage: &PostgresStage) {
    let (outbox, mut desk) = outbox(stage);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    tx.execute("ROLLBACK").await.unwrap();
    let _ = tx.commit().await;
    assert_next_is(&outbox, &mut desk, "order-2").await;
    outbox.close().await;

    assert_eq!((status(stage, "order-1").await, outbox.counts().hot_missing), (None, 1));
    assert!(desk.waiting().is_none());
}

/// W1, W13: what was written after a savepoint that the user goes back to is not delivered; the rest is.
pub(crate) async fn rollback_to_behind_our_back_makes_no_ghost(stage: &PostgresStage) {
    let (outbox, mut desk) = outbox(stage);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();

    tx.execute("SAVEPOINT here").await.unwrap();
    outbox.write(&mut tx, placed("order-2")).await.unwrap();
    tx.execute("INSERT INTO no_such_table VALUES (1)").await.unwrap_err();
    tx.execute("ROLLBACK TO here").await.unwrap();
    outbox.write(&mut tx, placed("order-3")).await.unwrap();
    tx.commit().await.unwrap();
    let mut delivered = [desk.accept().await.id().to_owned(), desk.accept().await.id().to_owned()];
    outbox.close().await;

    delivered.sort();
    assert_eq!(delivered, ["order-1", "order-3"]);
    assert_eq!((outbox.counts().hot_missing, status(stage, "order-2").await), (1, None));
    assert!(desk.waiting().is_none());
}

/// W5, W13: a constraint that is checked at the commit refuses it for certain, and nothing is delivered.
pub(crate) async fn deferred_constraint_refuses_the_commit(stage: &PostgresStage) {
    stage
        .execute(
            "CREATE TABLE orders (id TEXT PRIMARY KEY);
            CREATE TABLE lines (order_id TEXT REFERENCES orders DEFERRABLE INITIALLY DEFERRED)",
        )
        .await;
    let (outbox, mut desk) = outbox(stage);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let orphan = format!("INSERT INTO {}.lines VALUES ('no such order')", stage.schema);
    tx.execute(sqlx::AssertSqlSafe(orphan)).await.unwrap();

    let committed = tx.commit().await;
    assert_next_is(&outbox, &mut desk, "order-2").await;
    outbox.close().await;

    assert!(matches!(committed, Err(CommitError::RolledBack { .. })), "{committed:?}");
    assert_eq!(status(stage, "order-1").await, None);
    assert!(desk.waiting().is_none());
}

/// W13, P5: one read and no poll lie between a commit and its listener.
pub(crate) async fn commit_reaches_its_listener_by_one_read_and_no_poll(stage: &PostgresStage) {
    let (outbox, mut desk) = outbox(stage);
    // LISTEN is set up, which is followed by a look.
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while outbox.counts().takes < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the poller looks when LISTEN is set up");
    let before = outbox.counts();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, ["order-1", "order-2"].map(placed)).await.unwrap();
    tx.commit().await.unwrap();
    let call = desk.next().await;

    let after = outbox.counts();
    assert_eq!((after.read_backs - before.read_backs, after.takes - before.takes), (1, 0));
    call.succeed();
    desk.accept().await;
    outbox.close().await;
}
