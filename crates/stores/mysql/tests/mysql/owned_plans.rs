//! Owners read by index ranges, and no more than they asked for.

use pillarbox::store::{DoneRows, EventStore, Mode, Outcome, Ownership, Settlement, Visit};
use pillarbox_testkit::conformance::ownership::{unnamed, visit};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::stage::MySqlStage;
use crate::statements::Counted;

/// Rows of a full table: done, then fresh, set aside and dead, in all partitions.
const FILL: &str = "
INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition, status, available_at)
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 500)
SELECT
    CONCAT('event-', high.n, '-', low.n),
    'OrderPlaced',
    '{}',
    CONCAT('order-', low.n),
    low.n & 255,
    CASE WHEN high.n <= 100 THEN 1 WHEN low.n % 100 = 0 THEN 3 WHEN low.n % 10 = 0 THEN 2 ELSE 0 END,
    UTC_TIMESTAMP(6) - INTERVAL (high.n * 500 + low.n) SECOND
FROM number AS high
JOIN number AS low
WHERE high.n <= 300
ORDER BY high.n, low.n";

const FRESH: &str = "outbox_event_fresh";
const ASIDE: &str = "outbox_event_aside";
const BY_KEY: &str = "outbox_event_key";
const BY_NUMBER: &str = "PRIMARY";

macro_rules! statements {
    ($($file:literal: [$($key:expr),*],)*) => {
        &[$(($file, include_str!(concat!("../../src/", $file, ".sql")), &[$($key),*]),)*]
    };
}

/// A statement and how it finds its rows.
const STATEMENTS: &[(&str, &str, &[&str])] = statements! {
    "owned/fetch": [FRESH, BY_NUMBER],
    "owned/below": [FRESH, BY_NUMBER],
    "owned/due": [ASIDE, BY_NUMBER],
    "owned/aside_of": [BY_KEY, BY_NUMBER],
    "owned/blocked": [BY_KEY, BY_NUMBER, "outbox_parked_partition"],
    "owned/adopt": [BY_NUMBER],
    "membership/clear": [ASIDE],
    "membership/lock": [BY_NUMBER],
    "membership/give": [BY_NUMBER],
    "membership/give_back": [BY_NUMBER],
    "mode/bound_by_partition": [FRESH],
    "settle/owned/leases": [BY_NUMBER],
    "settle/owned/done": [BY_NUMBER],
    "settle/owned/delete": [BY_NUMBER],
    "settle/owned/retry": [BY_NUMBER],
    "settle/owned/aside": [BY_NUMBER],
    "settle/owned/dead": [BY_NUMBER],
    "settle/owned/release": [BY_NUMBER],
    "settle/owned/start": [BY_NUMBER],
    "settle/owned/park": [BY_NUMBER],
    "admin/census/leases": [BY_NUMBER],
    "admin/census/pending": [FRESH],
    "admin/census/keys": [BY_KEY, "outbox_parked_partition"],
    "admin/stats_by_partition": [FRESH, "outbox_event_dead"],
    "admin/handlers/pending_by_partition": [FRESH],
};

/// Statements whose ranges InnoDB knows, so that it does not look for the next row behind their ends.
const BOUNDED: [&str; 2] = ["owned/fetch", "owned/below"];

/// A statement with values in it, so that it can be explained as it is.
fn with_values(sql: &str) -> String {
    let sql =
        sql.replace("JSON_TABLE(?", "JSON_TABLE('[[1, 7, 1, 0, 0, 5, \"no\"], [2, 7, 1, 0, 0, 5, \"no\"]]'");
    let sql = sql.replace("IN (?)", "IN (7, 8, 9)").replace("LIMIT ?", "LIMIT 100");
    sql.replace("aside_key = ?", "aside_key = 'order-7'").replace('?', "7")
}

/// O5, S8: with 100,000 fresh and as many done rows every statement of owners uses its index, and sorts nothing but what
/// it has found.
pub(crate) async fn owners_statements_use_their_indexes(stage: &MySqlStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let mut connection = stage.connection().await;
    connection.execute("/*!80032 SET SESSION explain_format = 'TRADITIONAL' */").await.unwrap();
    connection.execute(FILL).await.unwrap();
    assert_plans(&mut connection, "with statistics of an empty table").await;

    connection.execute("ANALYZE TABLE outbox_event").await.unwrap();

    assert_plans(&mut connection, "with statistics of a full table").await;
}

async fn assert_plans(connection: &mut MySqlConnection, when: &str) {
    for (name, sql, keys) in STATEMENTS {
        let explain = AssertSqlSafe(format!("EXPLAIN {}", with_values(sql)));
        let plan = connection.fetch_all(explain).await.unwrap();

        let found: Vec<String> = plan.iter().filter_map(|row| text(row, "key")).collect();
        for key in *keys {
            assert!(found.iter().any(|found| found == key), "{name} {when}: {found:?}");
        }
        for row in &plan {
            let (table, kind) =
                (text(row, "table").unwrap_or_default(), text(row, "type").unwrap_or_default());
            let extra = text(row, "Extra").unwrap_or_default();
            let is_ours = ["outbox_event", "outbox_partition", "outbox_parked", "pending", "held", "lease"];
            let is_ours = is_ours.contains(&table.as_str());
            let is_written = text(row, "select_type").as_deref() == Some("INSERT");
            assert!(!is_ours || is_written || kind != "ALL", "{name} {when} scans `{table}`");
            assert!(!is_ours || !extra.contains("filesort"), "{name} {when} sorts `{table}`");
            let has_end = BOUNDED.contains(name) && text(row, "key").as_deref() == Some(FRESH);
            assert!(!has_end || extra.contains("Using index condition"), "{name} {when}: {extra}");
        }
    }
}

/// A fetch of all partitions as the store sends it, ready to be sent again.
async fn sent_fetch(counted: &Counted, visits: &[Visit], limit: usize) -> String {
    counted.statements();
    counted.store.fetch(visits, limit).await.unwrap();
    let sent = counted.statements().pop().unwrap();
    let sent = &sent[sent.rfind("SELECT\n    pending.seq").expect("the driver logs the statement")..];
    let limit = limit.to_string();
    let fresh =
        |visit: &Visit| ["0".to_owned(), visit.partition.to_string(), visit.floor.to_string(), limit.clone()];
    let nowhere = ["0", "2"].map(|status| [status, "NULL", "-1", "1000"].map(str::to_owned));
    let mut values = visits.iter().map(fresh).chain(nowhere).flatten().chain(["'[]'".to_owned()]);
    let parts: Vec<&str> = sent.split('?').collect();
    let (last, parts) = parts.split_last().unwrap();
    let filled: String = parts.iter().map(|part| format!("{part}{}", values.next().unwrap())).collect();
    assert_eq!(values.next(), None, "256 visits leave no room");
    format!("{filled}{last}")
}

/// What fills the table of a store.
fn fill_of(counted: &Counted) -> String {
    FILL.replace("INTO outbox_event", &format!("INTO {}", counted.store.names().table("outbox_event")))
}

/// An owner of all partitions.
async fn owner(stage: &MySqlStage) -> (Counted, Vec<Visit>) {
    let counted = Counted::new(stage).await;
    let (relay, all) = (unnamed("relay"), (0..=u8::MAX).collect::<Vec<_>>());
    counted.store.join(&relay).await.unwrap();
    let held = counted.store.acquire(&relay, &all).await.unwrap();
    (counted, held.iter().map(visit).collect())
}

/// An owner of all partitions of an outbox with rows in it.
async fn full(stage: &MySqlStage) -> (Counted, Vec<Visit>) {
    let (counted, visits) = owner(stage).await;
    stage.run(&fill_of(&counted)).await;
    (counted, visits)
}

/// O5: a fetch reads the entries that it returns, and a few for each partition, whatever the backlog is.
pub(crate) async fn fetch_reads_what_it_returns(stage: &MySqlStage) {
    let (counted, visits) = full(stage).await;

    for (floor, limit) in [(0, 10), (140_000, 3), (i64::MAX, 10)] {
        let visits: Vec<_> = visits.iter().map(|visit| Visit { floor, ..visit.clone() }).collect();
        let fetch = sent_fetch(&counted, &visits, limit).await;
        let mut connection = stage.connection().await;
        connection.execute("FLUSH STATUS").await.unwrap();

        let found = connection.fetch_all(AssertSqlSafe(fetch)).await.unwrap().len();

        assert!(floor == i64::MAX || found >= 200 * limit, "{found}");
        let read = handler_reads(&mut connection).await;
        // Each is read from the index, kept, looked at again, and looked up.
        let bound = (4 * found + 4 * visits.len()) as i64;
        assert!(read <= bound, "{read} reads for {found} rows of {} partitions", visits.len());
    }
    counted.store.close().await;
}

/// O5: what was done is not read again, neither above the floor nor in the next partition, though an older transaction
/// keeps all of its versions.
pub(crate) async fn fetch_passes_by_what_was_done(stage: &MySqlStage) {
    let (counted, visits) = full(stage).await;
    let mut report = stage.connection().await;
    report.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
    // What only reads has no number by which it is older.
    report.execute("INSERT INTO outbox_meta (name, value) VALUES ('report', 'begun')").await.unwrap();
    let fetched = counted.store.fetch(&visits, 40).await.unwrap();
    let settlements = fetched.iter().map(|fetched| Settlement::of(&fetched.taken, Outcome::Done));
    for settlements in settlements.collect::<Vec<_>>().chunks(1_000) {
        assert!(counted.store.settle(settlements, DoneRows::Keep).await.unwrap().is_empty());
    }
    let reached = |visit: &Visit| {
        let of = fetched
            .iter()
            .filter(|fetched| fetched.taken.lease.token.partition().unwrap().0 == visit.partition);
        of.map(|fetched| fetched.taken.lease.seq).max().unwrap_or(0)
    };
    let visits: Vec<_> =
        visits.iter().map(|visit| Visit { floor: reached(visit), ..visit.clone() }).collect();

    for (limit, floor) in [(5, None), (5, Some(i64::MAX))] {
        let visits: Vec<_> = visits
            .iter()
            .map(|visit| Visit { floor: floor.unwrap_or(visit.floor), ..visit.clone() })
            .collect();
        let fetch = sent_fetch(&counted, &visits, limit).await;
        let found = counted.store.fetch(&visits, limit).await.unwrap().len() as u64;

        if stage.is_mariadb().await {
            // Rows are looked up by their number through three levels, once to be seen and once to be read, and the
            // server reads up to eight of a range ahead.
            let looked_up = if found > 0 { found + 8 * 256 } else { 0 };
            let most = 4 * 258 + 6 * looked_up;
            let pages = pages_of(stage, &fetch).await;
            assert!(pages <= most, "{pages} pages for 256 partitions and {found} rows");
        }
        assert!(floor.is_some() || found > 1_000, "{found}");
    }
    report.execute("ROLLBACK").await.unwrap();
    assert!(fetched.len() > 5_000, "{}", fetched.len());
    counted.store.close().await;
}

/// O5: what somebody is just writing to all partitions is looked at once by a fetch, and not once for each partition.
pub(crate) async fn fetch_looks_once_at_what_is_being_written(stage: &MySqlStage) {
    let (counted, visits) = owner(stage).await;
    let fetch = sent_fetch(&counted, &visits, 10).await;
    let mut writer = stage.connection().await;
    writer.execute("START TRANSACTION").await.unwrap();
    let fill = fill_of(&counted).replace("high.n <= 300", "high.n BETWEEN 101 AND 110");
    let written = writer.execute(AssertSqlSafe(fill)).await.unwrap().rows_affected();

    assert_eq!(counted.store.fetch(&visits, 10).await.unwrap().len(), 0);

    assert_eq!(written, 5_000);
    if stage.is_mariadb().await {
        let most = 4 * 258 + 4 * written;
        let pages = pages_of(stage, &fetch).await;
        assert!(pages <= most, "{pages} pages for 256 partitions and {written} rows");
    }
    writer.execute("ROLLBACK").await.unwrap();
    counted.store.close().await;
}

/// How many pages a statement looks at, as MariaDB tells.
async fn pages_of(stage: &MySqlStage, sql: &str) -> u64 {
    let mut connection = stage.connection().await;
    let analyzed = connection.fetch_one(AssertSqlSafe(format!("ANALYZE FORMAT = JSON {sql}"))).await.unwrap();
    let analyzed = text_at(&analyzed, 0);
    let pages = analyzed.split("\"pages_accessed\": ").skip(1);
    let pages: Vec<u64> = pages
        .map(|rest| {
            rest[..rest.find(|character: char| !character.is_ascii_digit()).unwrap()].parse().unwrap()
        })
        .collect();
    assert!(pages.len() > 200, "the server tells pages: {analyzed}");
    pages.iter().sum()
}

async fn handler_reads(connection: &mut MySqlConnection) -> i64 {
    let status = connection.fetch_all("SHOW SESSION STATUS LIKE 'Handler_read_%'").await.unwrap();
    status.iter().map(|row| text(row, "Value").unwrap().parse::<i64>().unwrap()).sum()
}

/// A column that is text, in whatever form the server gives it.
fn text(row: &MySqlRow, name: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = row.try_get(name).unwrap();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn text_at(row: &MySqlRow, index: usize) -> String {
    let bytes: Vec<u8> = row.try_get(index).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}
