//! Every statement finds its rows by an index, whatever the planner's statistics say.

use pillarbox::store::Mode;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::stage::PostgresStage;

/// What the sessions of the store are like.
const SESSION: &str = include_str!("../../src/lane/session.sql");

const NUMBER: &str = "Index Scan using outbox_event_pkey on outbox_event";
const ID: &str = "Index Scan using outbox_event_event_id_key on outbox_event";
const PENDING: &str = "Index Scan using outbox_event_pending on outbox_event";
const DEAD: &str = "Index Scan using outbox_event_dead on outbox_event";
const AGGREGATE: &str = "Index Scan using outbox_event_aggregate on outbox_event";
const NUMBERS: &str = "Index Scan using outbox_event_numbers on outbox_event";
const ASIDE: &str = "Index Scan using outbox_event_aside on outbox_event";
const HELD: &str = "Index Scan using outbox_event_held on outbox_event";
const SEQUENCE: &str = "Seq Scan on outbox_event_seq_seq";
const UNPLACED: &str = "Index Scan using outbox_event_unplaced on outbox_event";

/// A statement, by its file, and how it gets at the rows of the table, in the order of the plan. An index only scan
/// counts as an index scan.
type Statement = (&'static str, &'static str, &'static [&'static str]);

macro_rules! statements {
    ($($file:literal: [$($plan:expr),*],)*) => {
        &[$(($file, include_str!(concat!("../../src/", $file, ".sql")), &[$($plan),*]),)*]
    };
}

/// What is used in the mode `claims`.
const CLAIMS: &[Statement] = statements! {
    "take/claim": [PENDING, NUMBER, PENDING, PENDING],
    "take/sweep": [PENDING, NUMBER],
    "take/read_back": [ID],
    "settle/done": [NUMBER],
    "settle/fell_back": [NUMBER],
    "settle/delete": [NUMBER],
    "settle/settle": [NUMBER],
    "settle/renew": [NUMBER],
    "settle/locked": [NUMBER, NUMBER],
    "settle/resume": [PENDING, NUMBER],
    "admin/stats": [DEAD, NUMBER, NUMBER, PENDING, PENDING],
    "admin/handlers/progress": [PENDING, DEAD],
};

/// What is used in the mode `ownership`.
const OWNERSHIP: &[Statement] = statements! {
    "owned/fresh": [UNPLACED, NUMBERS],
    "owned/due": [ASIDE, ASIDE, NUMBER],
    "owned/aside_of": [HELD],
    "owned/blocked": [HELD, HELD],
    "owned/unplaced": [UNPLACED],
    "owned/place": [NUMBER],
    "owned/start": [NUMBER],
    "membership/beat": [ASIDE],
    "settle/owned_done": [NUMBER],
    "settle/owned_fell_back": [NUMBER],
    "settle/owned_delete": [NUMBER],
    "settle/owned_settle": [NUMBER],
    "admin/stats_owned": [DEAD, NUMBER, NUMBER, NUMBERS, UNPLACED, ASIDE],
    "admin/handlers/progress_owned": [NUMBERS, ASIDE, DEAD],
    "admin/census/pending": [NUMBERS, UNPLACED, ASIDE],
    "admin/census/keys": [HELD, HELD],
};

/// What is used in both.
const BOTH: &[Statement] = statements! {
    "admin/census/instances": [],
    "admin/census/leases": [],
    "admin/find": [ID],
    "admin/find_by_aggregate": [AGGREGATE],
    "admin/dead": [DEAD],
    "admin/replay_ids": [ID, NUMBER],
    "admin/replay_numbers": [DEAD, NUMBER],
    "admin/discard_ids": [ID],
    "admin/discard_numbers": [DEAD],
    "admin/handlers/revise": [NUMBER, NUMBER],
    "admin/purge": [NUMBER, NUMBER],
};

/// What is right nevertheless: the events that are due are merged from the first ones of each partition, all partitions
/// are counted, the members are few, and the sequence is one row.
const EXCEPTIONS: [(&str, &str); 7] = [
    ("owned/fresh", SEQUENCE),
    ("admin/stats_owned", "Seq Scan on outbox_partition"),
    ("admin/handlers/progress_owned", "Seq Scan on outbox_partition"),
    ("admin/census/pending", "Seq Scan on outbox_partition"),
    ("owned/due", "Sort"),
    ("membership/beat", "Seq Scan on outbox_instance"),
    ("admin/census/instances", "Seq Scan on outbox_instance"),
];

/// Done and pending rows; the planner is told nothing of them until it is asked to look.
const MANY_ROWS: &str = "
    ALTER TABLE outbox_event SET (autovacuum_enabled = off);
    INSERT INTO outbox_event (event_id, event_type, aggregate_id, event_key, payload, status, event_partition)
    SELECT
        'event-' || n,
        'OrderPlaced',
        'order-' || n,
        'order-' || n,
        '{}',
        CASE WHEN n % 2 = 0 THEN 1 WHEN n % 3 = 0 THEN 2 ELSE 0 END,
        n % 256
    FROM generate_series(1, 200000) AS n";

/// S5, S8, S9, O3: in neither mode a statement scans the table or sorts, without statistics, with statistics of an
/// empty queue and of a full one.
pub(crate) async fn statements_use_their_indexes(stage: &PostgresStage) {
    let mut connection = stage.connection().await;
    connection.execute(SESSION).await.unwrap();

    for (mode, of_mode) in [(Mode::Claims, CLAIMS), (Mode::Ownership, OWNERSHIP)] {
        stage.execute("TRUNCATE outbox_event").await;
        stage.store.migrate_to(mode).await.unwrap();
        let statements = [of_mode, BOTH].concat();
        assert_plans(&mut connection, &statements, "an empty table").await;
        connection.execute("ANALYZE outbox_event").await.unwrap();
        stage.execute(MANY_ROWS).await;
        assert_plans(&mut connection, &statements, "a full table that was empty when it was analysed").await;
        connection.execute("ANALYZE outbox_event").await.unwrap();
        assert_plans(&mut connection, &statements, "a full queue").await;
        connection
            .execute("UPDATE outbox_event SET event_partition = 7; ANALYZE outbox_event")
            .await
            .unwrap();
        assert_plans(&mut connection, &statements, "a full queue of one partition").await;
        connection.execute("UPDATE outbox_event SET status = 1; ANALYZE outbox_event").await.unwrap();
        assert_plans(&mut connection, &statements, "an empty queue beside done rows").await;
    }
}

async fn assert_plans(connection: &mut PgConnection, statements: &[Statement], state: &str) {
    for (file, sql, expected) in statements {
        let plan = explain(connection, sql).await;

        let accesses: Vec<String> = plan.iter().filter_map(|line| access(line)).collect();
        assert_eq!(accesses, *expected, "{file} on {state}: {plan:#?}");
        let is_bulk =
            |line: &&String| ["Sort", "Hash", "Bitmap", "Seq Scan"].iter().any(|bulk| line.contains(bulk));
        let is_right = |line: &String| EXCEPTIONS.iter().any(|(of, what)| of == file && line.contains(what));
        let bulk = plan.iter().filter(is_bulk).find(|line| !is_right(line));
        assert_eq!(bulk, None, "{file} on {state}: {plan:#?}");
    }
}

/// How the plan's line reads the table, if it does.
fn access(line: &str) -> Option<String> {
    let step = line.trim().trim_start_matches("->").trim().replace("Index Only Scan", "Index Scan");
    if step == SEQUENCE {
        return None;
    }
    let step = step.replace("Scan Backward", "Scan");
    let (scan, rest) = step.split_once(" on outbox_event")?;
    let is_scan = scan.contains("Scan") && (rest.is_empty() || rest.starts_with([' ', '_']));
    is_scan.then(|| format!("{scan} on outbox_event"))
}

/// The plan that every execution of the prepared statement gets.
async fn explain(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    let parameters = (1..).take_while(|n| sql.contains(&format!("${n}"))).map(|_| "NULL").collect::<Vec<_>>();
    let arguments =
        if parameters.is_empty() { String::new() } else { format!("({})", parameters.join(", ")) };
    connection.execute(AssertSqlSafe(format!("PREPARE asked AS {sql}"))).await.unwrap();
    let explain = format!("EXPLAIN (COSTS OFF) EXECUTE asked{arguments}");
    let plan = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await.unwrap();
    connection.execute("DEALLOCATE asked").await.unwrap();
    plan.iter().map(|row| row.get(0)).collect()
}
