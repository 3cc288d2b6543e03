//! The outbox tables come, go forward, and never go back.

use crate::orders::{Orders, claim, order_placed, write};
use pillarbox::store::{Administration, StoreError, TxStore};
use pillarbox_sqlite::{Names, SqliteStore, migrations_sql};
use sqlx::{AssertSqlSafe, Row};

/// S7: a database without an outbox says so, until it is migrated.
#[tokio::test]
async fn a_database_without_an_outbox_is_not_migrated() {
    let orders = Orders::new();
    let store = orders.connect().await;

    assert!(matches!(store.check().await, Err(StoreError::NotMigrated)));
    assert!(matches!(store.stats().await, Err(StoreError::NotMigrated)));
    assert_eq!(store.highest().await.unwrap(), 0);
}

/// S7: migrating twice changes nothing, and keeps what was written.
#[tokio::test]
async fn migrating_again_keeps_the_events() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;

    let version = store.migrate().await.unwrap();

    assert_eq!(store.check().await.unwrap(), version);
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// S7: processes that start at the same time all find a migrated database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_at_the_same_time_agree() {
    let orders = Orders::new();
    let migrating = (0..6).map(|_| {
        let options = orders.options();
        tokio::spawn(async move { options.connect().await.unwrap().migrate().await })
    });

    let migrating: Vec<_> = migrating.collect();

    for migrated in migrating {
        assert_eq!(migrated.await.unwrap().unwrap(), 2);
    }
}

/// S7: tables that are newer than the program are refused, when opened and while they are open.
#[tokio::test]
async fn a_newer_schema_is_refused() {
    let orders = Orders::new();
    let store = orders.store().await;
    orders.execute("UPDATE outbox_meta SET value = '99' WHERE name = 'schema_version'").await;

    let opened = orders.options().connect().await;

    let text = "the outbox table is at version 99, this build knows versions up to 2; use a newer build";
    assert_eq!(opened.unwrap_err().to_string(), text);
    assert_eq!(store.check().await.unwrap_err().to_string(), text);
    assert_eq!(store.migrate().await.unwrap_err().to_string(), text);
}

/// S7: tables that are older than the program can be opened, so that they can be migrated.
#[tokio::test]
async fn an_older_schema_is_named() {
    let orders = Orders::new();
    let store = orders.store().await;
    orders.execute("UPDATE outbox_meta SET value = '0'").await;

    let again = orders.connect().await;

    assert!(matches!(again.check().await, Err(StoreError::OlderSchema { found: 0, needed: 2 })));
    drop(store);
}

/// S7: a table of the user's that has our name is left alone, and nothing is half migrated.
#[tokio::test]
async fn a_table_of_the_same_name_is_left_alone() {
    let orders = Orders::new();
    orders.execute("CREATE TABLE outbox_event (mine TEXT); INSERT INTO outbox_event VALUES ('kept')").await;
    let store = orders.connect().await;

    let refused = store.migrate().await;

    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert!(matches!(store.check().await, Err(StoreError::NotMigrated)));
    let kept = sqlx::query("SELECT mine FROM outbox_event").fetch_one(store.pool()).await.unwrap();
    assert_eq!(kept.get::<String, _>("mine"), "kept");
}

/// S6: two outboxes with their own prefixes share a file and nothing else.
#[tokio::test]
async fn prefixes_keep_outboxes_apart() {
    let orders = Orders::new();
    let billing = orders.options().prefix("billing_").connect().await.unwrap();
    let shipping = orders.options().prefix("shipping_").connect().await.unwrap();
    billing.migrate().await.unwrap();
    assert!(matches!(shipping.check().await, Err(StoreError::NotMigrated)));
    shipping.migrate().await.unwrap();

    write(&billing, &[order_placed("order-17")]).await;

    assert!(claim(&shipping, 10).await.is_empty());
    assert_eq!(claim(&billing, 10).await.len(), 1);
    assert_eq!((billing.highest().await.unwrap(), shipping.highest().await.unwrap()), (1, 0));
    let names =
        "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' AND name NOT LIKE '%ing_outbox_%'";
    assert_eq!(sqlx::query(names).fetch_all(billing.pool()).await.unwrap().len(), 0);
}

/// S6: a prefix that is not a name is refused before it comes near a statement.
#[tokio::test]
async fn a_prefix_is_a_name() {
    let orders = Orders::new();

    for prefix in ["a b", "x; DROP TABLE orders; --", "1st_", "ü", "\"", &"x".repeat(33)] {
        let refused = orders.options().prefix(prefix).connect().await;
        assert!(matches!(&refused, Err(StoreError::Config(text)) if text.contains(prefix)), "{refused:?}");
    }
    assert!(orders.options().prefix("x".repeat(32)).connect().await.is_ok());
    assert!(orders.options().prefix("_1").connect().await.is_ok());
}

/// W1: a store on the user's pool leaves the pool open when it is closed.
#[tokio::test]
async fn a_pool_of_the_user_stays_open() {
    let orders = Orders::new();
    let pool = orders.connect().await.pool().clone();
    let store = SqliteStore::from_pool(pool.clone()).await.unwrap();
    store.migrate().await.unwrap();
    write(&store, &[order_placed("order-17")]).await;

    store.close().await;

    assert!(!pool.is_closed());
    assert!(matches!(store.stats().await, Err(StoreError::Unavailable { .. })));
    sqlx::query("SELECT * FROM outbox_event").fetch_one(&pool).await.unwrap();
}

/// S7: tables of the first version are brought forward with all their rows, and stay in the mode `claims`.
#[tokio::test]
async fn the_first_version_is_migrated() {
    let orders = Orders::new();
    orders.first_version().await;
    orders
        .execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'OrderPlaced', '{}')")
        .await;
    let store = orders.connect().await;
    assert!(matches!(store.check().await, Err(StoreError::OlderSchema { found: 1, needed: 2 })));

    assert_eq!(store.migrate().await.unwrap(), 2);

    assert_eq!(claim(&store, 10).await[0].event_id, "a");
    let partitions = "SELECT count(*) FROM outbox_partition WHERE owner_name IS NULL AND epoch = 0";
    assert_eq!(sqlx::query_scalar::<_, i64>(partitions).fetch_one(store.pool()).await.unwrap(), 256);
}

/// S1: the table has all its columns from the first migration on.
#[tokio::test]
async fn the_table_has_all_columns() {
    let orders = Orders::new();
    let store = orders.store().await;
    let needed = [
        "seq",
        "event_id",
        "event_type",
        "aggregate_type",
        "aggregate_id",
        "tenant_id",
        "event_key",
        "event_partition",
        "occurred_at",
        "headers",
        "context",
        "payload",
        "payload_bytes",
        "status",
        "attempts",
        "starts",
        "created_at",
        "due_at",
        "available_at",
        "done_at",
        "token",
        "locked_by",
        "locked_at",
        "last_error",
        "reason",
        "handlers",
    ];

    let columns = "SELECT name FROM pragma_table_info('outbox_event')";
    let columns: Vec<String> = sqlx::query_scalar(columns).fetch_all(store.pool()).await.unwrap();

    let missing = needed.iter().filter(|name| !columns.iter().any(|column| column == *name));
    assert_eq!(missing.collect::<Vec<_>>(), [&""; 0]);
}

/// A commit is in the log and on the disk before it is answered.
#[tokio::test]
async fn commits_are_logged_and_synced() {
    let orders = Orders::new();
    let store = orders.store().await;
    let mut tx = store.begin().await.unwrap();

    let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *tx).await.unwrap();
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *tx).await.unwrap();

    assert_eq!((mode.as_str(), synchronous), ("wal", 2));
    drop(tx);
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(store.pool()).await.unwrap();
    assert_eq!(synchronous, 2);
}

/// S7: a migration tool that runs the printed SQL makes the outbox that `migrate` would have made.
#[tokio::test]
async fn printed_migrations_make_the_same_tables() {
    let (printed, migrated) = (Orders::new(), Orders::new());
    let names = Names::new(None, "billing_").unwrap();
    let store = printed.options().prefix("billing_").connect().await.unwrap();
    let mut tx = store.pool().begin().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(migrations_sql(&names))).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let by_us = migrated.options().prefix("billing_").connect().await.unwrap();

    let version = by_us.migrate().await.unwrap();

    assert_eq!(store.check().await.unwrap(), version);
    assert_eq!(store.migrate().await.unwrap(), version);
    assert_eq!(definitions(&store).await, definitions(&by_us).await);
    write(&store, &[order_placed("order-17")]).await;
    assert_eq!(claim(&store, 10).await.len(), 1);
}

async fn definitions(store: &SqliteStore) -> Vec<String> {
    let select = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
    sqlx::query_scalar(select).fetch_all(store.pool()).await.unwrap()
}
