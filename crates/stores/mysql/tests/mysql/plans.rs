//! Every statement finds its rows by an index and sorts nothing, however many rows there are.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::stage::MySqlStage;

/// Rows of a full table: pending, done and dead, some of them with an aggregate.
const FILL: &str = "
INSERT INTO outbox_event (event_id, event_type, payload, aggregate_id, status, available_at, token, locked_by)
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 500)
SELECT
    CONCAT('event-', ?, '-', high.n, '-', low.n),
    'OrderPlaced',
    '{}',
    CONCAT('order-', low.n),
    CASE WHEN low.n % 500 = 0 THEN 3 WHEN low.n % 2 = 0 THEN 0 ELSE 1 END,
    UTC_TIMESTAMP(6) - INTERVAL (high.n * 500 + low.n) SECOND,
    IF(low.n % 100 = 0, 17, NULL),
    IF(low.n % 100 = 0, 'relay/0000000000000001', NULL)
FROM number AS high
JOIN number AS low
WHERE high.n <= 200";

/// A statement, how it finds its rows in the table (once for each time that it names it), and whether it may
/// sort: only what has no index of its own order and is bounded by a list or by a lock.
struct Expected {
    name: &'static str,
    sql: &'static str,
    keys: &'static [&'static str],
    may_sort: bool,
}

macro_rules! statements {
    ($($file:literal: [$($key:expr),*] $($may_sort:ident)?,)*) => {
        &[$(Expected {
            name: $file,
            sql: include_str!(concat!("../../src/", $file, ".sql")),
            keys: &[$($key),*],
            may_sort: false $(|| { let $may_sort = true; $may_sort })?,
        },)*]
    };
}

const PENDING: &str = "outbox_event_pending";
const DEAD: &str = "outbox_event_dead";
const BY_ID: &str = "outbox_event_id";
const BY_NUMBER: &str = "PRIMARY";

const STATEMENTS: &[Expected] = statements! {
    "take/select": [PENDING],
    "take/select_swept": [BY_NUMBER] sorts,
    "take/sweep": [PENDING],
    "take/claim": [BY_NUMBER],
    "take/next_due": [PENDING],
    "take/read_back": [BY_ID],
    "settle/done": [BY_NUMBER],
    "settle/delete": [BY_NUMBER],
    "settle/done_each": [BY_NUMBER],
    "settle/delete_each": [BY_NUMBER],
    "settle/fell_back": [BY_NUMBER],
    "settle/held": [BY_NUMBER],
    "settle/free": [BY_NUMBER],
    "settle/present": [BY_NUMBER],
    "settle/renew": [BY_NUMBER],
    "settle/retry": [BY_NUMBER],
    "settle/aside": [BY_NUMBER],
    "settle/dead": [BY_NUMBER],
    "settle/release": [BY_NUMBER],
    "settle/held_before": [PENDING],
    "settle/resume": [BY_NUMBER],
    "admin/stats": [PENDING, DEAD],
    "admin/find": [BY_ID],
    "admin/find_by_aggregate": ["outbox_event_aggregate"],
    "admin/dead": [DEAD],
    "admin/replay_ids": [BY_ID],
    "admin/replay_numbers": [DEAD],
    "admin/dead_ids": [BY_ID],
    "admin/dead_numbers": [DEAD],
    "admin/discard": [BY_NUMBER],
    "admin/handlers/pending": [PENDING],
    "admin/handlers/dead": [DEAD],
    "admin/handlers/open": [BY_NUMBER],
    "admin/handlers/revise": [BY_NUMBER],
    "admin/purge_window": [BY_NUMBER],
    "admin/purgeable": [BY_NUMBER],
    "admin/purge": [BY_NUMBER],
};

/// S5, S8, S9: with 100,000 pending and as many done rows every statement uses its index and nothing is sorted,
/// with statistics from before and from after.
pub(crate) async fn every_statement_uses_its_index(stage: &MySqlStage) {
    let mut connection = stage.connection().await;
    connection.execute("/*!80032 SET SESSION explain_format = 'TRADITIONAL' */").await.unwrap();

    assert_plans(&mut connection, "when the table is empty").await;
    for part in 0..2 {
        sqlx::query(FILL).bind(part).execute(&mut connection).await.unwrap();
    }
    assert_plans(&mut connection, "with statistics of an empty table").await;
    connection.execute("ANALYZE TABLE outbox_event").await.unwrap();
    assert_plans(&mut connection, "with statistics of a full table").await;
    assert_reads_only_what_it_takes(&mut connection).await;
}

/// D12, S9: where there are hardly more rows than numbers in a list, a statement that locks rows by their numbers looks
/// for them all the same, and does not go through the rows of others.
pub(crate) async fn small_table_is_not_scanned(stage: &MySqlStage) {
    let mut connection = stage.connection().await;
    connection.execute("/*!80032 SET SESSION explain_format = 'TRADITIONAL' */").await.unwrap();
    for n in 0..10 {
        let sql = "INSERT INTO outbox_event (event_id, event_type, payload, token) VALUES (?, 'OrderPlaced', '{}', 17)";
        sqlx::query(sql).bind(format!("order-{n}")).execute(&mut connection).await.unwrap();
    }
    connection.execute("ANALYZE TABLE outbox_event").await.unwrap();

    let locks = |sql: &str| !sql.starts_with("SELECT") || sql.contains("FOR UPDATE");
    let by_number = |sql: &str| sql.contains("seq IN (?)");
    for Expected { name, sql, .. } in
        STATEMENTS.iter().filter(|Expected { sql, .. }| by_number(sql) && locks(sql))
    {
        let sql = sql.replace("IN (?)", &format!("IN ({})", ["?"; 8].join(", ")));
        let places = 1..=sql.matches('?').count() as i64;
        let query = sqlx::query(AssertSqlSafe(format!("EXPLAIN {sql}")));
        let query = places.fold(query, |query, value| query.bind(value % 10 + 1));
        let plan = query.fetch_all(&mut connection).await.unwrap();

        let (kind, key) =
            (text(&plan[0], "type").unwrap_or_default(), text(&plan[0], "key").unwrap_or_default());
        assert!(kind == "range" && key == BY_NUMBER, "{name}: {kind} by {key}");
    }
}

async fn assert_plans(connection: &mut MySqlConnection, when: &str) {
    for Expected { name, sql, keys, may_sort } in STATEMENTS {
        let explain = AssertSqlSafe(format!("EXPLAIN {sql}"));
        let json = r#"[[1, 17, 0, 1, 0, 5, "no"], [2, 17, 0, 1, 0, 5, "no"], [3, 17, 0, 1, 0, 5, "no"]]"#;
        let by_text = ["event_id IN (?)", "event_id = ?", "aggregate_id = ?"];
        let is_text = |value| value == 0 && by_text.iter().any(|by_text| sql.contains(by_text));
        let values = 0..sql.matches('?').count();
        let query = values.fold(sqlx::query(explain), |query, value| match value {
            _ if sql.contains("JSON_TABLE") => query.bind(json),
            _ if is_text(value) => query.bind("event-0-17-17"),
            _ => query.bind(1_000_i64),
        });
        let plan = query.fetch_all(&mut *connection).await.unwrap();

        let found: Vec<String> = plan.iter().filter_map(|row| text(row, "key")).collect();
        let extra: Vec<String> = plan.iter().filter_map(|row| text(row, "Extra")).collect();
        let nothing = ["no matching row", "No matching", "Impossible WHERE"];
        let is_empty = extra.iter().any(|extra| nothing.iter().any(|nothing| extra.contains(nothing)));
        for key in *keys {
            assert!(is_empty || found.iter().any(|found| found == key), "{name} {when}: {found:?} {extra:?}");
        }
        let sorts = extra.iter().any(|extra| extra.contains("filesort"));
        assert!(*may_sort || !sorts, "{name} {when}: {extra:?}");
        let scans = plan.iter().any(|row| {
            text(row, "type").as_deref() == Some("ALL")
                && !["settled", "leased", "revised", "<derived2>", "<derived3>"]
                    .contains(&text(row, "table").unwrap_or_default().as_str())
        });
        assert!(!scans, "{name} {when} scans: {found:?} {extra:?}");
    }
}

/// A take reads as many entries of its index as it takes rows, and not the backlog.
async fn assert_reads_only_what_it_takes(connection: &mut MySqlConnection) {
    let select = include_str!("../../src/take/select.sql");
    connection.execute("START TRANSACTION").await.unwrap();
    connection.execute("FLUSH STATUS").await.unwrap();

    let query = sqlx::query(select).bind(0).bind(0).bind(100);
    let taken = query.fetch_all(&mut *connection).await.unwrap();

    assert_eq!(taken.len(), 100);
    let status = "SHOW SESSION STATUS LIKE 'Handler_read_%'";
    let read: i64 = connection
        .fetch_all(status)
        .await
        .unwrap()
        .iter()
        .map(|row| text(row, "Value").unwrap().parse::<i64>().unwrap())
        .sum();
    assert!(read <= 202, "{read} rows were read to take 100");
    connection.execute("ROLLBACK").await.unwrap();
}

/// A column that is text, in whatever form the server gives it.
fn text(row: &MySqlRow, name: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = row.try_get(name).unwrap();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
