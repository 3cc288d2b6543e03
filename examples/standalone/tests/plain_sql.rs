//! The statements of the guide for writers in other languages are taken from its page and executed on SQLite.

#[path = "plain_sql/page.rs"]
mod page;

use std::time::Duration;

use page::{partitions, statement, statements, trigger};
use pillarbox::store::{Administration, Page};
use pillarbox::{Delivery, GLOBAL, ListenerError, Outbox, partition_of};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::partition_vectors::VECTORS;
use tokio::sync::mpsc;

const SQLITE: &str = "SQLite";

async fn store_in(directory: &tempfile::TempDir) -> SqliteStore {
    let path = directory.path().join("orders.db");
    let store = SqliteStore::connect(path.to_string_lossy()).await.expect("the database opens");
    store.migrate().await.expect("the tables are created");
    store
}

async fn run(store: &SqliteStore, sql: &'static str) {
    sqlx::raw_sql(sql).execute(store.pool()).await.unwrap_or_else(|error| panic!("{error}:\n{sql}"));
}

/// W12: there is no statement on the page that does not run.
#[tokio::test]
async fn every_statement_of_the_page_runs() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    let statements = statements(SQLITE);

    for block in &statements {
        run(&store, block.code).await;
    }

    let inserts = statements.iter().filter(|block| block.code.starts_with("INSERT")).count();
    assert_eq!((statements.len(), inserts), (7, 5));
    assert_eq!(store.stats().await.unwrap().pending(), 5);
}

/// W12: event id, event type and payload are enough, and a poller delivers the row.
#[tokio::test]
async fn least_that_an_insert_needs_is_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    let (arrived, mut arrivals) = mpsc::channel(1);
    run(&store, statement(SQLITE, "The least")).await;

    let outbox = Outbox::builder(store.clone())
        .on("OrderPlaced", move |delivery: Delivery| {
            let arrived = arrived.clone();
            async move { arrived.send(delivery).await.map_err(ListenerError::from) }
        })
        .start()
        .unwrap();
    let delivery = tokio::time::timeout(Duration::from_secs(10), arrivals.recv()).await.unwrap().unwrap();
    outbox.close().await;

    assert_eq!(delivery.payload().as_json(), Some(r#"{"id":17}"#));
    assert_eq!(delivery.aggregate_type(), GLOBAL);
    assert_eq!(store.stats().await.unwrap().pending(), 0);
}

/// W12: every field that a writer may set arrives as it was set.
#[tokio::test]
async fn fields_that_an_insert_may_set_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;

    run(&store, statement(SQLITE, "All that may be set")).await;

    let stored = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6H").await.unwrap().unwrap();
    let event = stored.event.unwrap();
    assert_eq!(event.event_type(), "OrderPlaced");
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("order-17")));
    assert_eq!((event.key(), event.tenant_id()), (Some("order-17"), Some("acme")));
    assert_eq!(event.headers().get("source"), Some("till-3"));
    assert_eq!(event.context().get("user"), Some("ann"));
    assert_eq!(event.occurred_at().to_string(), "2026-03-01T12:00:00.000250Z");
    assert_eq!(event.payload().as_json(), Some(r#"{"id":17}"#));
}

/// W12, S11: bytes arrive as bytes.
#[tokio::test]
async fn bytes_are_read_as_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;

    run(&store, statement(SQLITE, "JSON or bytes")).await;

    let stored = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6L").await.unwrap().unwrap();
    let payload = stored.event.unwrap().payload().clone();
    assert_eq!((payload.as_json(), payload.as_bytes()), (None, &[0x08, 0x11, 0x0a, 0xff][..]));
}

/// V8, W12: a row may ask to be delivered later.
#[tokio::test]
async fn delayed_row_is_not_yet_due() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;

    run(&store, statement(SQLITE, "Later")).await;

    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending(), stats.oldest_due_for), (1, None));
}

/// W12: a trigger of a table's own writes an event for each of its rows, in the same transaction.
#[tokio::test]
async fn trigger_writes_an_event_for_each_row() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    for sql in trigger(SQLITE) {
        run(&store, sql).await;
    }

    run(&store, "BEGIN; INSERT INTO orders (id, total) VALUES ('order-16', 1); ROLLBACK").await;
    run(&store, "INSERT INTO orders (id, total) VALUES ('order-17', 4200)").await;

    let page = Page { after: 0, limit: 10 };
    assert!(store.find_by_aggregate("order-16", page).await.unwrap().is_empty());
    let rows = store.find_by_aggregate("order-17", page).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let event = row.event.as_ref().unwrap();
    assert_eq!((event.aggregate_type(), event.key()), ("Order", Some("order-17")));
    assert_eq!(event.payload().as_json(), Some(r#"{"id":"order-17","total":4200}"#));
}

/// W12: a writer whose SQLite is too old for the defaults gives the times itself, and they agree with ours.
#[tokio::test]
async fn row_with_times_of_its_own_is_due() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    run(&store, statement(SQLITE, "The least")).await;

    run(&store, statement(SQLITE, "When it is delivered")).await;

    let by_default = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6G").await.unwrap().unwrap();
    let by_hand = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6K").await.unwrap().unwrap();
    let apart = by_hand.created_at.as_micros().abs_diff(by_default.created_at.as_micros());
    assert!(apart < 60_000_000, "{apart} microseconds");
    assert_eq!(by_hand.available_at, by_hand.created_at);
}

/// O3, W12: the hashes and partitions on the page are those of the test vectors, and ours.
#[test]
fn partitions_of_the_page_are_right() {
    let partitions = partitions();

    assert_eq!(partitions.len(), 10);
    for vector in partitions {
        assert!(VECTORS.contains(&vector), "{vector:x?}");
        assert_eq!(partition_of(vector.0), vector.2);
    }
}
