//! One case per promise of the page.

use std::time::Duration;

use pillarbox::store::{Administration, Page, StoredEvent};
use pillarbox::{Delivery, Event, ListenerError, Outbox, Store};
use sqlx::Row;
use tokio::sync::mpsc;

use crate::page::{statement, statements, trigger};
use crate::stage::{PlainSql, PostgresStage};

/// Long enough for any delivery, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// W12: there is no statement on the page that does not run, and each INSERT makes an event.
pub(crate) async fn every_statement_of_the_page_runs<S: PlainSql>(stage: &S) {
    let statements = statements(S::DATABASE);
    assert_eq!(statements.len(), S::STATEMENTS);

    for block in &statements {
        stage.run(block.code).await;
    }

    let inserts = statements.iter().filter(|block| block.code.starts_with("INSERT")).count();
    assert_eq!(stage.store().stats().await.unwrap().pending(), inserts as u64);
}

/// W12: every field that a writer may set arrives as it was set.
pub(crate) async fn fields_that_an_insert_may_set_are_read<S: PlainSql>(stage: &S) {
    stage.run(statement(S::DATABASE, "All that may be set")).await;

    let event = event(stage, "01K4B1Z0QX0V7J8M2C9D3E5F6H").await;
    assert_eq!(event.event_type(), "OrderPlaced");
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("order-17")));
    assert_eq!((event.key(), event.tenant_id()), (Some("order-17"), Some("acme")));
    assert_eq!(event.headers().get("source"), Some("till-3"));
    assert_eq!(event.context().get("user"), Some("ann"));
    assert_eq!(event.occurred_at().to_string(), "2026-03-01T12:00:00.000250Z");
    assert_eq!(event.payload().as_json(), Some(r#"{"id":17}"#));
}

/// W12, S11: bytes arrive as bytes.
pub(crate) async fn bytes_are_read_as_bytes<S: PlainSql>(stage: &S) {
    stage.run(statement(S::DATABASE, "JSON or bytes")).await;

    let payload = event(stage, "01K4B1Z0QX0V7J8M2C9D3E5F6L").await.payload().clone();
    assert_eq!((payload.as_json(), payload.as_bytes()), (None, &[0x08, 0x11, 0x0a, 0xff][..]));
}

/// V8, W12: a row may ask to be delivered later, in an hour and not in that of another time zone.
pub(crate) async fn delayed_row_is_not_yet_due<S: PlainSql>(stage: &S) {
    stage.run(statement(S::DATABASE, "Later")).await;

    let row = stored(stage, "01K4B1Z0QX0V7J8M2C9D3E5F6J").await;
    let delay = row.due_at.saturating_since(row.created_at);
    assert!(delay.abs_diff(Duration::from_secs(3_600)) < PATIENCE, "{delay:?}");
    assert_eq!(row.available_at, row.due_at);
    assert_eq!(stage.store().stats().await.unwrap().oldest_due_for, None);
}

/// W12: a trigger of a table's own writes an event for each of its rows, in the same transaction.
pub(crate) async fn trigger_writes_an_event_for_each_row<S: PlainSql>(stage: &S) {
    for sql in trigger(S::DATABASE) {
        stage.run(sql).await;
    }

    stage.run("BEGIN; INSERT INTO orders (id, total) VALUES ('order-16', 1); ROLLBACK").await;
    stage.run("INSERT INTO orders (id, total) VALUES ('order-17', 4200)").await;

    let page = Page { after: 0, limit: 10 };
    assert!(stage.store().find_by_aggregate("order-16", page).await.unwrap().is_empty());
    let rows = stage.store().find_by_aggregate("order-17", page).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let event = row.event.as_ref().unwrap();
    assert_eq!((event.aggregate_type(), event.key()), ("Order", Some("order-17")));
    let payload = event.payload().as_json().unwrap().replace(' ', "");
    assert_eq!(payload, r#"{"id":"order-17","total":4200}"#);
}

/// W12: what `psql` or `mariadb` writes, as a process of its own, a running outbox finds and delivers.
pub(crate) async fn row_of_a_shell_is_delivered<S: PlainSql>(stage: &S) {
    let (outbox, mut arrivals) = open(stage.store(), Duration::from_millis(50));

    let ran = stage.shell().output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let delivery = next(&mut arrivals).await;
    outbox.close().await;
    assert_eq!(delivery.payload().as_json(), Some(r#"{"id":17}"#));
    assert_eq!(delivery.id().len(), 36, "the database made a UUID");
    assert_eq!(stage.store().stats().await.unwrap().pending(), 0);
}

/// P5, W12: a NOTIFY after the commit wakes an outbox that would sleep for an hour.
pub(crate) async fn notify_of_the_page_delivers_at_once(stage: &PostgresStage) {
    let channel =
        statements(PostgresStage::DATABASE).pop().expect("the query for the channel is the last").code;
    let notify = statement(PostgresStage::DATABASE, "When it is delivered");
    let (outbox, mut arrivals) = open(stage.store(), Duration::from_secs(3_600));
    until_someone_listens(stage).await;

    let name: String = sqlx::query(channel).fetch_one(stage.store.pool()).await.unwrap().get(0);
    assert_eq!(notify, format!("NOTIFY \"{name}\";\n"));
    // The beginning of LISTEN makes the outbox look too, but not so often.
    for round in 0..5 {
        let insert = statement(PostgresStage::DATABASE, "The least")
            .replace("01K4B1Z0QX0V7J8M2C9D3E5F6G", &format!("event-{round}"));
        stage.run(&insert).await;
        stage.run(notify).await;
        assert_eq!(next(&mut arrivals).await.id(), format!("event-{round}"));
    }

    outbox.close().await;
}

/// Waits until a connection to this database has executed LISTEN.
async fn until_someone_listens(stage: &PostgresStage) {
    const LISTENING: &str = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'";
    let listening = async {
        while sqlx::query(LISTENING).fetch_one(stage.store.pool()).await.unwrap().get::<i64, _>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, listening).await.expect("the outbox listens");
}

/// An outbox on `store`, and what it delivers.
fn open<S: Store>(store: S, poll_every: Duration) -> (Outbox<S>, mpsc::Receiver<Delivery>) {
    let (arrived, arrivals) = mpsc::channel(10);
    let outbox =
        Outbox::builder(store).poll_every(poll_every).on("OrderPlaced", move |delivery: Delivery| {
            let arrived = arrived.clone();
            async move { arrived.send(delivery).await.map_err(ListenerError::from) }
        });
    (outbox.start().unwrap(), arrivals)
}

async fn next(arrivals: &mut mpsc::Receiver<Delivery>) -> Delivery {
    let arrival = tokio::time::timeout(PATIENCE, arrivals.recv()).await;
    arrival.expect("it arrives soon").expect("the outbox runs")
}

async fn event<S: PlainSql>(stage: &S, id: &str) -> Event {
    stored(stage, id).await.event.unwrap()
}

async fn stored<S: PlainSql>(stage: &S, id: &str) -> StoredEvent {
    stage.store().find(id).await.unwrap().unwrap()
}
