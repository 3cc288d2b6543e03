//! Databases with an outbox in them, and many events in the outbox.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use pillarbox::Event;
use pillarbox_sqlite::SqliteStore;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

/// The aggregate type and the event type of every event that is measured.
pub(crate) const AGGREGATE: &str = "Order";
pub(crate) const EVENT: &str = "OrderPlaced";

/// How many rows one transaction fills in.
const PORTION: i64 = 250_000;

/// What filled-in events are.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    Pending,
    Done,
}

/// The store on `path`, with its table, and with the settings that a user gets.
pub(crate) async fn store(path: &Path) -> Result<SqliteStore> {
    let store = SqliteStore::connect(path.to_string_lossy()).await?;
    store.migrate().await?;
    Ok(store)
}

/// A pool with the settings of the store, for hand-written SQL.
pub(crate) async fn raw_pool(path: &Path) -> Result<SqlitePool> {
    pool(path, SqliteSynchronous::Full).await
}

async fn pool(path: &Path, synchronous: SqliteSynchronous) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .busy_timeout(Duration::from_secs(30))
        .row_buffer_size(1_000);
    let pool = SqlitePoolOptions::new().max_connections(2).test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}

/// Makes an empty outbox in a new database.
pub(crate) async fn create(path: &Path) -> Result<()> {
    store(path).await?.close().await;
    Ok(())
}

/// Adds `count` events to the outbox in `path`, and leaves nothing in the log.
pub(crate) async fn fill(path: &Path, count: usize, kind: Fill) -> Result<()> {
    let pool = pool(path, SqliteSynchronous::Off).await?;
    let first: i64 =
        sqlx::query_scalar("SELECT coalesce(max(seq), 0) + 1 FROM outbox_event").fetch_one(&pool).await?;
    let end = first + i64::try_from(count)?;
    let mut from = first;
    while from < end {
        let to = end.min(from + PORTION);
        sqlx::query(include_str!("sql/fill.sql"))
            .bind(from)
            .bind(to)
            .bind(matches!(kind, Fill::Done))
            .execute(&pool)
            .await?;
        from = to;
    }
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&pool).await?;
    pool.close().await;
    Ok(())
}

/// The JSON payload of order `number`.
pub(crate) fn payload(number: usize) -> String {
    format!(
        r#"{{"order":"order-{number}","customer":"customer-4711","total":129900,"currency":"EUR","items":[{{"sku":"A-17","count":2}},{{"sku":"B-4","count":1}}]}}"#
    )
}

/// The event of order `number`.
pub(crate) fn order_placed(number: usize) -> Result<Event> {
    let order = format!("order-{number}");
    Ok(Event::builder(EVENT).aggregate(AGGREGATE, order).json_text(payload(number)).build()?)
}
