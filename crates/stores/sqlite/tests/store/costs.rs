//! What a statement of an owner costs does not depend on how much waits, counted in steps of SQLite's machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pillarbox::store::Mode;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Executor};

use crate::orders::Orders;

/// An outbox in which this many rows of the partition 7 have what `columns` say, and as many others are done.
async fn crowded(rows: usize, columns: &str) -> (Orders, SqliteConnection) {
    let orders = Orders::new();
    orders.store().await.migrate_to(Mode::Ownership).await.unwrap();
    let mut connection = orders.connection().await;
    for (from, columns) in [(0, "1, NULL, 0"), (rows, columns)] {
        let insert = format!(
            "WITH RECURSIVE n (seq) AS (VALUES ({from} + 1) UNION ALL SELECT seq + 1 FROM n WHERE seq < {from} + {rows})
            INSERT INTO outbox_event
                (event_id, event_type, payload, event_partition, status, event_key, available_at)
            SELECT 'event-' || seq, 'OrderPlaced', '{{}}', 7, {columns} FROM n"
        );
        connection.execute(AssertSqlSafe(insert)).await.unwrap();
    }
    (orders, connection)
}

/// How many steps a statement takes.
async fn steps(
    connection: &mut SqliteConnection,
    query: Query<'static, Sqlite, SqliteArguments>,
    found: usize,
) -> u64 {
    let steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&steps);
    let mut handle = connection.lock_handle().await.unwrap();
    handle.set_progress_handler(1, move || counted.fetch_add(1, Ordering::Relaxed) < u64::MAX);
    drop(handle);
    assert_eq!(query.fetch_all(&mut *connection).await.unwrap().len(), found);
    connection.lock_handle().await.unwrap().remove_progress_handler();
    steps.load(Ordering::Relaxed)
}

/// O2, P5: a fetch, and a look below the floor, cost what they bring, however much is fresh or done.
#[tokio::test]
async fn fetch_costs_what_it_brings() {
    let mut costs = Vec::new();
    for rows in [100, 50_000] {
        let (_orders, mut connection) = crowded(rows, "0, 'order-17', 0").await;
        let fetch = sqlx::query(include_str!("../../src/owned/fetch.sql"));
        let fetch = fetch.bind("[[7, 0], [8, 0]]").bind("[]").bind(10);
        let below = sqlx::query(include_str!("../../src/owned/below.sql"));
        let below = below.bind("[[7, 999999], [8, 999999]]").bind("[]").bind(10);

        costs.push((steps(&mut connection, fetch, 10).await, steps(&mut connection, below, 10).await));
    }

    assert_eq!(costs[0], costs[1]);
    assert!((1..2_000).contains(&costs[0].0), "{costs:?}");
}

/// O2, P5: what is set aside costs nothing but what is brought: by its time, by its key, or as a key that is blocked.
#[tokio::test]
async fn what_is_set_aside_costs_what_it_brings() {
    let mut costs = Vec::new();
    for rows in [100, 50_000] {
        let (_orders, mut connection) = crowded(rows, "2, 'order-17', 1000 + seq").await;
        let due = sqlx::query(include_str!("../../src/owned/due.sql"));
        let due = due.bind("[7, 8]").bind("[]").bind(10).bind(i64::MAX - 1);
        let aside_of = sqlx::query(include_str!("../../src/owned/aside_of.sql"));
        let aside_of = aside_of.bind(7).bind("order-17").bind("[]").bind(10);
        let blocked = sqlx::query(include_str!("../../src/owned/blocked.sql")).bind("[7, 8]");
        let next_due = sqlx::query(include_str!("../../src/owned/next_due.sql")).bind("[7, 8]");

        costs.push([
            steps(&mut connection, due, 10).await,
            steps(&mut connection, aside_of, 10).await,
            steps(&mut connection, blocked, 1).await,
            steps(&mut connection, next_due, 1).await,
        ]);
    }

    assert_eq!(costs[0], costs[1]);
    assert!(costs[0].iter().all(|steps| (1..2_000).contains(steps)), "{costs:?}");
}
