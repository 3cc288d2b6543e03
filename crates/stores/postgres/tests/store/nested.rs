//! Transactions inside of transactions, and what becomes of the outer one when one inside goes wrong.

use std::mem::forget;

use pillarbox::store::{CommitError, InsertError, TxStore};
use pillarbox::{Event, Outbox, WriteError};
use pillarbox_postgres::{PostgresStore, PostgresTx};
use pillarbox_testkit::cancellations::{Interrupted, cut_after, cut_everywhere};
use pillarbox_testkit::conformance::order_placed;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};

use crate::stage::PostgresStage;

const ORDERS: &str = "CREATE TABLE orders (id TEXT PRIMARY KEY)";

async fn place_order(stage: &PostgresStage, connection: &mut PgConnection, order: &str) {
    let sql = format!("INSERT INTO {}.orders VALUES ('{order}')", stage.schema);
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
}

/// Whether there are an order and an event of this name.
async fn stored(stage: &PostgresStage, name: &str) -> (bool, bool) {
    let sql = "SELECT EXISTS (SELECT FROM orders WHERE id = $1), EXISTS (SELECT FROM outbox_event WHERE event_id = $1)";
    let row = sqlx::query(sql).bind(name).fetch_one(&mut stage.connection().await).await.unwrap();
    (row.get(0), row.get(1))
}

fn placed(order: &str) -> Event {
    Event::builder("OrderPlaced").id(order).json_text("{}").build().unwrap()
}

fn assert_ended(written: Result<impl std::fmt::Debug, WriteError>) {
    let error = match written.unwrap_err() {
        WriteError::Store(error) => error,
        other => panic!("{other:?}"),
    };
    assert!(!error.is_transient() && error.to_string().contains("had ended before"), "{error:?}");
}

/// W1, W13: wherever the beginning of a transaction inside is cut off, an order and its event are committed both or
/// neither, and the commit says which.
pub(crate) async fn a_dropped_begin_inside_makes_no_ghost(stage: &PostgresStage) {
    stage.execute(ORDERS).await;
    let outbox = Outbox::builder(stage.single().await).writer_only().start().unwrap();

    cut_everywhere(async |polls| {
        let order = format!("order-{polls}");
        let mut tx = outbox.begin().await.unwrap();
        place_order(stage, &mut tx, &order).await;
        let is_complete = cut_after(polls, tx.begin()).await.is_some();
        let written = outbox.write(&mut tx, placed(&order)).await;
        let committed = tx.commit().await;

        assert_eq!(written.is_ok(), committed.is_ok(), "after {polls} polls: {committed:?}");
        let is_there = committed.is_ok();
        assert_eq!(stored(stage, &order).await, (is_there, is_there), "after {polls} polls");
        is_complete
    })
    .await;
    outbox.close().await;
}

/// W1, W13: a transaction inside that fails to begin, because a statement before it has failed, ends the outer one: no
/// event is written any more, and the commit claims nothing.
pub(crate) async fn failed_begin_inside_makes_no_ghost(stage: &PostgresStage) {
    stage.execute(ORDERS).await;
    let outbox = Outbox::builder(stage.single().await).writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    place_order(stage, &mut tx, "order-17").await;
    tx.execute("INSERT INTO no_such_table VALUES (1)").await.unwrap_err();

    tx.begin().await.map(drop).unwrap_err();
    let written = outbox.write(&mut tx, placed("order-17")).await;
    let committed = tx.commit().await;

    assert_ended(written);
    assert!(matches!(committed, Err(CommitError::Unknown { .. })), "{committed:?}");
    assert_eq!(stored(stage, "order-17").await, (false, false));
    let mut next = outbox.begin().await.unwrap();
    outbox.write(&mut next, placed("order-18")).await.unwrap();
    next.commit().await.unwrap();
    outbox.close().await;
}

/// W1: a transaction of the user's own takes no event either after one inside of it has failed to begin.
pub(crate) async fn failed_begin_inside_a_foreign_transaction_makes_no_ghost(stage: &PostgresStage) {
    stage.execute(ORDERS).await;
    let outbox = Outbox::builder(stage.single().await).writer_only().start().unwrap();
    let mut tx = outbox.store().pool().begin().await.unwrap();
    tx.execute("INSERT INTO no_such_table VALUES (1)").await.unwrap_err();

    tx.begin().await.map(drop).unwrap_err();
    let written = outbox.write_in(&mut tx, [placed("order-17")]).await;
    tx.commit().await.unwrap();

    assert_ended(written);
    assert_eq!(stored(stage, "order-17").await, (false, false));
    outbox.close().await;
}

/// Who rolls a transaction back that has ended before gets what he asked for.
pub(crate) async fn rollback_after_a_failed_begin_inside_is_one(stage: &PostgresStage) {
    let store = stage.single().await;
    let mut tx = store.begin().await.unwrap();
    tx.execute("INSERT INTO no_such_table VALUES (1)").await.unwrap_err();
    tx.begin().await.map(drop).unwrap_err();

    PostgresStore::rollback(tx).await.unwrap();

    assert_nothing_is_open(stage, &store).await;
}

/// A transaction with an event, and one inside of it that nobody will ever end.
async fn with_one_forgotten_inside(store: &PostgresStore) -> PostgresTx {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    forget(tx.begin().await.unwrap());
    tx
}

/// The store's only connection for transactions is in none: what is done on it is committed by itself.
async fn assert_nothing_is_open(stage: &PostgresStage, store: &PostgresStore) {
    let event =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('alone', 'OrderPlaced', '{}')";
    let event = event.replace("outbox", &format!("{}.outbox", stage.schema));

    store.pool().execute(AssertSqlSafe(event)).await.unwrap();

    let events = sqlx::query_scalar("SELECT event_id FROM outbox_event");
    let events: Vec<String> = events.fetch_all(&mut stage.connection().await).await.unwrap();
    assert_eq!(events, ["alone"]);
    stage.execute("DELETE FROM outbox_event").await;
}

/// W1, S5: with a transaction inside that its user forgot nothing is committed, which the commit says, and nothing of
/// it is passed on with the connection, whether the outer one is committed, rolled back or dropped.
pub(crate) async fn forgotten_transaction_inside_is_not_passed_on(stage: &PostgresStage) {
    let store = stage.single().await;

    let committed = PostgresStore::commit(with_one_forgotten_inside(&store).await).await;
    assert_nothing_is_open(stage, &store).await;
    PostgresStore::rollback(with_one_forgotten_inside(&store).await).await.unwrap();
    assert_nothing_is_open(stage, &store).await;
    drop(with_one_forgotten_inside(&store).await);
    assert_nothing_is_open(stage, &store).await;

    let CommitError::RolledBack { reason, .. } = committed.unwrap_err() else { panic!("it is certain") };
    assert!(reason.contains("end it first"), "{reason}");
    store.close().await;
}

/// W1: without any transaction nothing is written.
pub(crate) async fn write_without_a_transaction_is_refused(stage: &PostgresStage) {
    let mut connection = stage.store.pool().acquire().await.unwrap();

    let written = stage.store.insert(&mut connection, &[order_placed("order-17")], None).await;

    assert!(matches!(written, Err(InsertError::Store(_))), "{written:?}");
}
