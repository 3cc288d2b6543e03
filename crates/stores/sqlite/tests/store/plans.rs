//! Every statement finds its rows by an index, whatever the planner's statistics say.

use crate::orders::Orders;
use pillarbox::store::Mode;
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
const UNPLACED: &str = "SCAN unplaced USING INDEX outbox_event_unplaced";
const DUE: &str =
    "SEARCH aside USING COVERING INDEX outbox_event_aside (event_partition=? AND available_at<?)";

/// Other names of the table that are looked up by number.
const ALIASES: [&str; 3] = ["owned", "due", "head"];

macro_rules! statements {
    ($($file:literal: [$($plan:expr),*],)*) => {
        &[$(($file, include_str!(concat!("../../src/", $file, ".sql")), &[$($plan),*]),)*]
    };
}

/// A statement by its file, its text, and what it does to the outbox table.
type Statement = (&'static str, &'static str, &'static [&'static str]);

/// In both modes.
const STATEMENTS: &[Statement] = statements! {
    "take/select_swept": [BY_NUMBER],
    "take/claim": [BY_NUMBER],
    "take/read_back": [BY_ID],
    "settle/done": [BY_NUMBER],
    "settle/delete": [BY_NUMBER],
    "settle/done_each": [BY_NUMBER],
    "settle/delete_each": [BY_NUMBER],
    "settle/fell_back": [BY_NUMBER],
    "settle/retry": [BY_NUMBER],
    "settle/aside": [BY_NUMBER],
    "settle/dead": [BY_NUMBER],
    "settle/release": [BY_NUMBER],
    "settle/renew": [BY_NUMBER],
    "settle/resume": [BY_NUMBER],
    "tx/find_repeated": [BY_ID_ALONE],
    "tx/undo": ["SEARCH outbox_event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
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
    "admin/handlers/revise": [BY_NUMBER],
    "admin/census/instances": [],
    "admin/census/leases": [],
    "admin/free_ids": [],
    "admin/free_numbers": [BY_ID_ALONE],
    "owned/place": [BY_NUMBER],
    "owned/start": [BY_NUMBER],
    "owned/done": [BY_NUMBER],
    "owned/delete": [BY_NUMBER, "SEARCH owned USING INTEGER PRIMARY KEY (rowid=?)"],
    "owned/park": [BY_NUMBER],
    "owned/skip": [],
};

const OF_CLAIMS: &[Statement] = statements! {
    "take/select": [PENDING],
    "take/sweep": [PENDING_LATE],
    "take/next_due": [PENDING, PENDING_LATE],
    "settle/held_before": [ALL_PENDING],
    "admin/stats": [
        ALL_PENDING,
        "SCAN outbox_event USING COVERING INDEX outbox_event_dead",
        "SEARCH outbox_event",
        "SEARCH outbox_event"
    ],
    "admin/handlers/progress": [ALL_PENDING, "SCAN outbox_event USING INDEX outbox_event_dead"],
};

const OF_OWNERSHIP: &[Statement] = statements! {
    "owned/unplaced": ["SCAN outbox_event USING INDEX outbox_event_unplaced"],
    "owned/fetch": [
        UNPLACED,
        BY_NUMBER,
        "SEARCH fresh USING INDEX outbox_event_fresh (event_partition=? AND rowid>?)",
        "SCAN unplaced EXISTS USING INDEX outbox_event_unplaced"
    ],
    "owned/below": [BY_NUMBER, "SEARCH fresh USING INDEX outbox_event_fresh (event_partition=? AND rowid<?)"],
    "owned/next_due": [
        DUE,
        "SEARCH aside USING COVERING INDEX outbox_event_aside (event_partition=? AND available_at>? AND available_at<?)"
    ],
    "owned/due": [BY_NUMBER, "SEARCH due USING INTEGER PRIMARY KEY (rowid=?)", DUE],
    "owned/aside_of":
        ["SEARCH outbox_event USING INDEX outbox_event_held (event_partition=? AND event_key=?)"],
    "owned/blocked": [
        "SEARCH first USING INDEX outbox_event_held (event_partition=? AND event_key>?)",
        "SEARCH next USING INDEX outbox_event_held (event_partition=? AND event_key>?)",
        "SEARCH head USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH lowest USING INDEX outbox_event_held (event_partition=? AND event_key=?)",
        "SEARCH follower USING INDEX outbox_event_held (event_partition=? AND event_key=?)"
    ],
    "membership/renew": ["SEARCH outbox_event USING COVERING INDEX outbox_event_aside (event_partition=?)"],
    "admin/census/pending": [
        "SCAN outbox_event USING INDEX outbox_event_fresh",
        "SCAN outbox_event USING INDEX outbox_event_aside"
    ],
    "admin/census/keys": [
        "SCAN outbox_event USING INDEX outbox_event_held",
        "SEARCH follower USING INDEX outbox_event_held (event_partition=? AND event_key=?)"
    ],
    "admin/stats_owned": [
        "SCAN outbox_event USING INDEX outbox_event_fresh",
        "SCAN outbox_event USING INDEX outbox_event_aside",
        "SCAN outbox_event USING COVERING INDEX outbox_event_dead",
        "SEARCH outbox_event",
        "SEARCH outbox_event"
    ],
    "admin/handlers/progress_owned": [
        "SCAN outbox_event USING INDEX outbox_event_fresh",
        "SCAN outbox_event USING INDEX outbox_event_aside",
        "SCAN outbox_event USING INDEX outbox_event_dead"
    ],
};

/// S5, S8, S9: no statement scans done rows or sorts, with and without statistics, taken when the table was
/// nearly empty of pending rows and when it was full of them.
#[tokio::test]
async fn every_statement_uses_its_index() {
    for (mode, statements) in [(Mode::Claims, OF_CLAIMS), (Mode::Ownership, OF_OWNERSHIP)] {
        let orders = Orders::new();
        orders.store().await.migrate_to(mode).await.unwrap();
        let mut connection = orders.connection().await;
        let statements = [STATEMENTS, statements].concat();

        assert_plans(&mut connection, &statements, "an empty table").await;
        for (what, status) in [("done rows", "1"), ("pending rows", "0"), ("all kinds", "seq % 4")] {
            fill(&mut connection, status).await;
            assert_plans(&mut connection, &statements, what).await;
            connection.execute("ANALYZE").await.unwrap();
            assert_plans(&mut connection, &statements, &format!("{what}, analysed")).await;
        }
    }
}

async fn fill(connection: &mut SqliteConnection, status: &'static str) {
    let rows = "WITH RECURSIVE n (seq) AS (VALUES (1) UNION ALL SELECT seq + 1 FROM n WHERE seq < 20000)
        INSERT INTO outbox_event (event_id, event_type, aggregate_id, event_key, event_partition, payload, status)
        SELECT 'event-' || seq, 'OrderPlaced', 'order-' || (seq % 100), 'order-' || (seq % 100), seq % 100, '{}', ";
    connection.execute("DELETE FROM outbox_event").await.unwrap();
    connection.execute(AssertSqlSafe(format!("{rows} {status} FROM n"))).await.unwrap();
}

async fn assert_plans(connection: &mut SqliteConnection, statements: &[Statement], table: &str) {
    for (file, sql, expected) in statements {
        let steps = sqlx::query(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")));
        let steps: Vec<String> = steps
            .fetch_all(&mut *connection)
            .await
            .unwrap_or_else(|error| panic!("{file}: {error}"))
            .iter()
            .map(|step| step.get("detail"))
            .collect();
        let is_on_outbox = |step: &&str| {
            let names_it = step.split(' ').nth(1).is_some_and(|name| ALIASES.contains(&name));
            names_it || step.contains("outbox_event")
        };
        let on_outbox: Vec<&str> = steps.iter().map(String::as_str).filter(is_on_outbox).collect();
        assert_eq!(&on_outbox, expected, "{file} on a table of {table}");
        // Rows that the caller named are few, and so are those that were read by a limit; of an index they must come sorted.
        let sorts = !sql.contains("json_each") && steps.iter().any(|step| step.contains("ORDER BY"));
        assert!(!sorts, "{file} sorts: {steps:?}");
    }
}
