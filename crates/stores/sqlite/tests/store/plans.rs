//! Every statement finds its rows by an index, whatever the planner's statistics say.

use crate::orders::Orders;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

/// What statements do to the outbox table, in the words of the planner.
const BY_NUMBER: &str = "SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid=?)";
const BY_ID: &str = "SEARCH outbox_event USING INDEX sqlite_autoindex_outbox_event_1 (event_id=?)";
const BY_ID_ALONE: &str =
    "SEARCH outbox_event USING COVERING INDEX sqlite_autoindex_outbox_event_1 (event_id=?)";
const PENDING: &str = "SEARCH outbox_event USING INDEX outbox_event_pending (available_at<?)";
const PENDING_LATE: &str = "SEARCH outbox_event USING INDEX outbox_event_pending (available_at>?)";
const ALL_PENDING: &str = "SCAN outbox_event USING INDEX outbox_event_pending";

macro_rules! statements {
    ($($file:literal: [$($plan:expr),*],)*) => {
        &[$(($file, include_str!(concat!("../../src/", $file, ".sql")), &[$($plan),*]),)*]
    };
}

const STATEMENTS: &[(&str, &str, &[&str])] = statements! {
    "take/select": [PENDING],
    "take/select_swept": [BY_NUMBER],
    "take/sweep": [PENDING_LATE],
    "take/claim": [BY_NUMBER],
    "take/next_due": [PENDING, PENDING_LATE],
    "take/read_back": [BY_ID],
    "settle/done": [BY_NUMBER],
    "settle/delete": [BY_NUMBER],
    "settle/retry": [BY_NUMBER],
    "settle/aside": [BY_NUMBER],
    "settle/dead": [BY_NUMBER],
    "settle/release": [BY_NUMBER],
    "settle/renew": [BY_NUMBER],
    "settle/held_before": [ALL_PENDING],
    "settle/resume": [BY_NUMBER],
    "tx/find_repeated": [BY_ID_ALONE],
    "tx/undo": ["SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    "admin/stats": [
        ALL_PENDING,
        "SCAN outbox_event USING COVERING INDEX outbox_event_dead",
        "SEARCH outbox_event",
        "SEARCH outbox_event"
    ],
    "admin/find": [BY_ID],
    "admin/find_by_aggregate":
        ["SEARCH outbox_event USING INDEX outbox_event_aggregate (aggregate_id=? AND rowid>?)"],
    "admin/dead": ["SEARCH outbox_event USING INDEX outbox_event_dead (seq>?)"],
    "admin/replay_ids": [BY_NUMBER, BY_ID_ALONE],
    "admin/replay_numbers": ["SEARCH outbox_event USING INDEX outbox_event_dead (seq>? AND seq<?)"],
    "admin/discard_ids": [BY_NUMBER, BY_ID_ALONE],
    "admin/discard_numbers": ["SEARCH outbox_event USING COVERING INDEX outbox_event_dead (seq>? AND seq<?)"],
    "admin/purge_window": ["SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid>?)"],
    "admin/purge": ["SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
};

/// S5, S8, S9: no statement scans done rows or sorts, with and without statistics, taken when the table was
/// nearly empty of pending rows and when it was full of them.
#[tokio::test]
async fn every_statement_uses_its_index() {
    let orders = Orders::new();
    orders.store().await;
    let mut connection = orders.connection().await;

    assert_plans(&mut connection, "an empty table").await;
    for (what, status) in [("done rows", "1"), ("pending rows", "0"), ("all kinds", "seq % 4")] {
        fill(&mut connection, status).await;
        assert_plans(&mut connection, what).await;
        connection.execute("ANALYZE").await.unwrap();
        assert_plans(&mut connection, &format!("{what}, analysed")).await;
    }
}

async fn fill(connection: &mut SqliteConnection, status: &'static str) {
    let rows = "WITH RECURSIVE n (seq) AS (VALUES (1) UNION ALL SELECT seq + 1 FROM n WHERE seq < 20000)
        INSERT INTO outbox_event (event_id, event_type, aggregate_id, payload, status)
        SELECT 'event-' || seq, 'OrderPlaced', 'order-' || (seq % 100), '{}', ";
    connection.execute("DELETE FROM outbox_event").await.unwrap();
    connection.execute(AssertSqlSafe(format!("{rows} {status} FROM n"))).await.unwrap();
}

async fn assert_plans(connection: &mut SqliteConnection, table: &str) {
    for (file, sql, expected) in STATEMENTS {
        let steps = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let steps: Vec<String> = steps
            .fetch_all(&mut *connection)
            .await
            .unwrap_or_else(|error| panic!("{file}: {error}"))
            .iter()
            .map(|step| step.get("detail"))
            .collect();
        let on_outbox: Vec<&str> =
            steps.iter().map(String::as_str).filter(|step| step.contains("outbox_event")).collect();
        assert_eq!(&on_outbox, expected, "{file} on a table of {table}");
        // Rows that the caller named are few; those of an index must come sorted.
        let sorts = !sql.contains("json_each") && steps.iter().any(|step| step.contains("ORDER BY"));
        assert!(!sorts, "{file} sorts: {steps:?}");
    }
}
