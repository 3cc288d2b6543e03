//! The statements of the guide for writers in other languages are taken from its page and executed.

use std::time::Duration;

use pillarbox::store::Administration;
use pillarbox::{Delivery, GLOBAL, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::mpsc;

const PAGE: &str = include_str!("../../../docs/guide/plain-sql.md");

/// The SQL block that follows the heading `heading`.
fn statement(heading: &str) -> &'static str {
    let section = PAGE.split_once(&format!("## {heading}\n")).expect("the page has this heading").1;
    let code = section.split_once("```sql\n").expect("a block of SQL follows").1;
    code.split_once("```").expect("the block ends").0
}

async fn store_in(directory: &tempfile::TempDir) -> SqliteStore {
    let path = directory.path().join("orders.db");
    let store = SqliteStore::connect(path.to_string_lossy()).await.expect("the database opens");
    store.migrate().await.expect("the tables are created");
    store
}

/// W12: event id, event type and payload are enough, and a poller delivers the row.
#[tokio::test]
async fn least_that_an_insert_needs_is_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    let (arrived, mut arrivals) = mpsc::channel(1);
    sqlx::query(statement("The least")).execute(store.pool()).await.unwrap();

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

    sqlx::query(statement("All that may be set")).execute(store.pool()).await.unwrap();

    let stored = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6H").await.unwrap().unwrap();
    let event = stored.event.unwrap();
    assert_eq!(event.event_type(), "OrderPlaced");
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("order-17")));
    assert_eq!((event.key(), event.tenant_id()), (Some("order-17"), Some("acme")));
    assert_eq!(event.headers().get("source"), Some("till-3"));
    assert_eq!(event.context().get("user"), Some("ann"));
    assert_eq!(event.occurred_at().to_string(), "2026-03-01T12:00:00.000000Z");
    assert_eq!(event.payload().as_json(), Some(r#"{"id":17}"#));
}

/// V8, W12: a row may ask to be delivered later.
#[tokio::test]
async fn delayed_row_is_not_yet_due() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;

    sqlx::query(statement("Later")).execute(store.pool()).await.unwrap();

    let stats = store.stats().await.unwrap();
    assert_eq!((stats.pending(), stats.oldest_due_for), (1, None));
}

/// W12: a writer whose SQLite is too old for the defaults gives the times itself, and they agree with ours.
#[tokio::test]
async fn row_with_times_of_its_own_is_due() {
    let directory = tempfile::tempdir().unwrap();
    let store = store_in(&directory).await;
    sqlx::query(statement("The least")).execute(store.pool()).await.unwrap();

    sqlx::query(statement("With an older SQLite")).execute(store.pool()).await.unwrap();

    let by_default = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6G").await.unwrap().unwrap();
    let by_hand = store.find("01K4B1Z0QX0V7J8M2C9D3E5F6K").await.unwrap().unwrap();
    let apart = by_hand.created_at.as_micros().abs_diff(by_default.created_at.as_micros());
    assert!(apart < 60_000_000, "{apart} microseconds");
    assert_eq!(by_hand.available_at, by_hand.created_at);
}
