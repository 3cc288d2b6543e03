//! What an operator is told about a file, each thing seen to be told.

use std::time::Duration;

use pillarbox::store::{Check, Health, Mode};
use pillarbox_sqlite::{SqliteOptions, Synchronous};
use sqlx::{Connection, Executor};

use crate::orders::{Orders, order_placed, write};

async fn examine(options: SqliteOptions) -> Vec<Check> {
    options.examine().await.unwrap().checks
}

/// The check of this name.
#[track_caller]
fn of<'c>(checks: &'c [Check], name: &str) -> &'c Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}: {checks:#?}"))
}

#[track_caller]
fn assert_told(checks: &[Check], name: &str, health: Health, text: &str) {
    let check = of(checks, name);
    assert_eq!(check.health, health, "{check}");
    assert!(check.to_string().contains(text), "{text}: {check}");
}

/// M5: a file that is in order gives no cause for complaint, in both modes, and is not changed by looking.
#[tokio::test]
async fn good_file_has_no_finding() {
    for mode in [Mode::Claims, Mode::Ownership] {
        let orders = Orders::new();
        let store = orders.store().await;
        store.migrate_to(mode).await.unwrap();
        store.close().await;
        let before = std::fs::read(orders.path()).unwrap();

        let checks = examine(orders.options()).await;

        assert!(checks.iter().all(|check| check.health == Health::Ok), "{checks:#?}");
        let index = if mode == Mode::Claims { "outbox_event_pending" } else { "outbox_event_fresh" };
        assert_told(&checks, "plan", Health::Ok, &format!("goes by `{index}`"));
        assert_told(&checks, "mode", Health::Ok, &format!("`{mode}`"));
        assert_eq!(std::fs::read(orders.path()).unwrap(), before, "nothing was written");
    }
}

/// S7: a file that is not there is told of and not created; so are versions that do not fit.
#[tokio::test]
async fn missing_file_and_other_versions_are_problems() {
    let orders = Orders::new();
    assert_told(&examine(orders.options()).await, "database", Health::Problem, "there is no file `");
    assert!(!orders.path().exists());

    orders.execute("CREATE TABLE orders (id)").await;
    assert_told(&examine(orders.options()).await, "schema", Health::Problem, "there is no outbox");
    orders.first_version().await;
    assert_told(
        &examine(orders.options()).await,
        "schema",
        Health::Problem,
        "version 1, and this program needs 2",
    );
    orders.execute("UPDATE outbox_meta SET value = '99' WHERE name = 'schema_version'").await;
    assert_told(&examine(orders.options()).await, "schema", Health::Problem, "use a newer build");
}

#[tokio::test]
async fn file_that_is_no_database_is_a_problem() {
    let orders = Orders::new();
    std::fs::write(orders.path(), "no database, but long enough to be read as the head of one".repeat(20))
        .unwrap();

    let checks = examine(orders.options()).await;

    assert_told(&checks, "database", Health::Problem, "is no longer a SQLite database");
    assert_eq!(checks.len(), 1);
}

/// S9: an index that somebody dropped is named, and so is the statement that needs it.
#[tokio::test]
async fn missing_index_is_a_problem() {
    for (mode, index) in [(Mode::Claims, "outbox_event_pending"), (Mode::Ownership, "outbox_event_fresh")] {
        let orders = Orders::new();
        let store = orders.store().await;
        store.migrate_to(mode).await.unwrap();
        store.close().await;
        orders.execute(format!("DROP INDEX {index}")).await;

        let checks = examine(orders.options()).await;

        assert_told(&checks, "indexes", Health::Problem, &format!("`{index}` is missing"));
        assert_told(&checks, "plan", Health::Problem, &format!("run `pillarbox migrate --mode {mode}`"));
        assert_eq!(of(&checks, "backlog").health, Health::Unknown, "what cannot be counted is not well");
    }
}

#[tokio::test]
async fn weak_settings_are_named() {
    let orders = Orders::new();
    orders.store().await.close().await;

    let checks = examine(orders.options().synchronous(Synchronous::Normal)).await;
    assert_told(&checks, "durability", Health::Warning, "`synchronous` is NORMAL");

    orders.execute("PRAGMA journal_mode = DELETE").await;
    let checks = examine(orders.options()).await;
    assert_told(&checks, "journal", Health::Warning, "`journal_mode` is `delete`");
    let mode: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut orders.connection().await).await.unwrap();
    assert_eq!(mode, "delete", "looking switches nothing");
}

/// A transaction that holds the lock of writers is told of while it does.
#[tokio::test]
async fn writer_that_does_not_end_is_told() {
    let orders = Orders::new();
    orders.store().await.close().await;
    let mut writer = orders.connection().await;
    writer.execute("BEGIN IMMEDIATE").await.unwrap();

    let held = examine(orders.options()).await;
    writer.execute("ROLLBACK").await.unwrap();
    let free = examine(orders.options()).await;

    assert_told(&held, "transactions", Health::Warning, "held the lock of writers for 2.0 s or more");
    assert_told(&free, "transactions", Health::Ok, "nobody holds");
}

#[tokio::test]
async fn room_that_nobody_uses_is_told() {
    let orders = Orders::new();
    orders.store().await.close().await;
    let fill = "WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 40)
        INSERT INTO outbox_event (event_id, event_type, payload_bytes)
        SELECT 'scan-' || n, 'Scan', randomblob(1000000) FROM number";
    orders.execute(fill).await;
    orders.execute("DELETE FROM outbox_event").await;

    let checks = examine(orders.options()).await;

    assert_told(&checks, "bloat", Health::Warning, "MiB are free");
}

/// A reader that does not end keeps the log from being put back into the file.
#[tokio::test]
async fn log_that_only_grows_is_told() {
    let orders = Orders::new();
    orders.store().await.close().await;
    let mut reader = orders.connection().await;
    reader.execute("BEGIN; SELECT count(*) FROM outbox_event").await.unwrap();
    let mut writer = orders.connection().await;
    for n in 0..40 {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload_bytes) VALUES (?1, 'Scan', randomblob(1000000))";
        sqlx::query(insert).bind(format!("scan-{n}")).execute(&mut writer).await.unwrap();
    }

    let checks = examine(orders.options()).await;

    assert_told(&checks, "bloat", Health::Warning, "MiB of log");
    reader.close().await.unwrap();
}

/// M5: events that wait too long, were given up, or are kept for ever are counted, and that nobody delivers is told.
#[tokio::test]
async fn what_waits_for_somebody_is_told() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &["order-1", "order-2"].map(order_placed)).await;
    store.close().await;
    orders
        .execute(
            "UPDATE outbox_event SET due_at = due_at - 600000000, created_at = created_at - 600000000;
             UPDATE outbox_event SET status = 3 WHERE aggregate_id = 'order-2';
             INSERT INTO outbox_event (seq, event_id, event_type, payload, status) VALUES (2000000, 'x', 'y', '{}', 1)",
        )
        .await;

    let checks = examine(orders.options()).await;

    assert_told(&checks, "backlog", Health::Warning, "1 events wait, the oldest has been due for 10 min");
    assert_told(&checks, "dead", Health::Warning, "1 events were given up");
    assert_told(&checks, "instances", Health::Warning, "nobody delivers");
    assert_told(&checks, "done", Health::Warning, "about 1999998 done events are kept; set `keep_done_for`");
}

/// O3: the tables of a prefix are examined, and no others.
#[tokio::test]
async fn prefix_has_an_outbox_of_its_own() {
    let orders = Orders::new();
    orders.store().await.close().await;

    let checks = examine(orders.options().prefix("eu_")).await;
    assert_told(&checks, "schema", Health::Problem, "there is no outbox");

    let store = orders.options().prefix("eu_").connect().await.unwrap();
    store.migrate_to(Mode::Ownership).await.unwrap();
    store.close().await;
    let checks = examine(orders.options().prefix("eu_").busy_timeout(Duration::from_millis(100))).await;
    assert!(checks.iter().all(|check| check.health == Health::Ok), "{checks:#?}");
    assert_told(&checks, "plan", Health::Ok, "goes by `eu_outbox_event_fresh`");
}
