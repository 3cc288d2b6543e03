//! SQLite files, by paths and URLs.

use std::time::{Duration, Instant};

use pillarbox::store::{Administration, TxStore};
use pillarbox::{Event, Outbox, Settings};
use pillarbox_any::{AnyStore, AnyTx, Kind};

use crate::stage::{AnyStage, execute};

/// S4: a path and a URL open the same file, and the store says which.
#[tokio::test]
async fn a_path_and_a_url_open_the_same_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db").display().to_string();
    let by_path = AnyStore::connect(&path).await.unwrap();
    by_path.migrate().await.unwrap();

    let by_url = AnyStore::connect(format!("SQLite:{path}")).await.unwrap();

    assert_eq!(by_url.check().await.unwrap(), by_path.check().await.unwrap());
    assert_eq!((by_url.name(), by_url.kind()), (path.clone(), Kind::Sqlite));
    assert_eq!(by_path.name(), path);
}

/// S6: the prefix reaches the tables.
#[tokio::test]
async fn two_outboxes_share_a_file() {
    let stage = AnyStage::in_a_file().await;
    let billing = stage.options().prefix("billing_").wake_up(false).max_connections(1).connect();
    let billing = billing.await.unwrap();
    billing.migrate().await.unwrap();

    let mut tx = billing.begin().await.unwrap();
    billing.insert(&mut tx, &[Event::of_json("OrderPlaced", "{}").unwrap()], None).await.unwrap();
    AnyStore::commit(tx).await.unwrap();

    assert_eq!(billing.stats().await.unwrap().pending(), 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// S6: the time that a store waits for a lock is as it was set.
#[tokio::test]
async fn the_lock_timeout_reaches_the_file() {
    let stage = AnyStage::in_a_file().await;
    let hasty = stage.options().lock_timeout(Duration::from_millis(10)).connect().await.unwrap();
    let holding = stage.store.begin().await.unwrap();

    let began = Instant::now();
    let refused = hasty.begin().await;

    assert!(refused.is_err());
    assert!(began.elapsed() < Duration::from_secs(5), "that is what it waits for by default");
    AnyStore::rollback(holding).await.unwrap();
}

#[tokio::test]
async fn a_file_is_created_only_if_it_may_be() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db").display().to_string();

    let refused = AnyStore::options(&path).create_if_missing(false).connect().await;

    assert!(refused.is_err());
    assert!(!directory.path().join("orders.db").exists());
    AnyStore::options(&path).create_if_missing(true).connect().await.unwrap();
    assert!(directory.path().join("orders.db").exists());
}

/// W1: the order and its event are committed together, and rolled back together.
#[tokio::test]
async fn statements_of_yours_run_in_the_transaction_of_the_event() {
    let stage = AnyStage::in_a_file().await;
    let mut tx = stage.store.begin().await.unwrap();
    execute(&mut tx, "CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    AnyStore::commit(tx).await.unwrap();
    let outbox = Outbox::builder(AnyStore::clone(&stage.store)).writer_only().start().unwrap();

    for (order, is_wanted) in [(17, true), (18, false)] {
        let mut tx = outbox.begin().await.unwrap();
        execute(&mut tx, format!("INSERT INTO orders (id) VALUES ({order})")).await;
        outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
        if is_wanted { tx.commit().await.unwrap() } else { tx.rollback().await.unwrap() }
    }

    outbox.close().await;
    let mut tx = stage.store.begin().await.unwrap();
    assert_eq!(execute(&mut tx, "DELETE FROM orders").await, 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 1);
}

/// W1: what is in a transaction can be seen, to run statements of yours on it.
#[tokio::test]
async fn a_transaction_shows_which_database_it_is_on() {
    let stage = AnyStage::in_a_file().await;

    let tx = stage.store.begin().await.unwrap();

    assert!(matches!(tx, AnyTx::Sqlite(_)), "{tx:?}");
    AnyStore::rollback(tx).await.unwrap();
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    let named = |(name, value): &(&str, &str)| (format!("PILLARBOX_STORE_{name}"), (*value).to_owned());
    Settings::from_vars("PILLARBOX_", variables.iter().map(named)).expect("these are options")
}

/// M4, S6: prefix and creation of the tables are configured (E's `table-prefix` and `schema-initialization.enabled`),
/// also together.
#[tokio::test]
async fn prefix_and_migration_are_configured() {
    let stage = AnyStage::in_a_file().await;
    let by_default = settings(&[("URL", &stage.url), ("PREFIX", "billing_")]);
    let billing = AnyStore::configured(&by_default).await.unwrap();
    assert!(billing.check().await.is_err(), "nothing is migrated unless it is asked for");

    let migrated = settings(&[("URL", &stage.url), ("PREFIX", "billing_"), ("MIGRATE", "true")]);
    let billing = AnyStore::configured(&migrated).await.unwrap();
    let outbox = Outbox::builder(billing).settings(migrated).writer_only().start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(outbox.store().stats().await.unwrap().pending(), 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

/// M4, S6: a schema is configured (E's `schema-name`), and reaches the store: SQLite has none, and says so.
#[tokio::test]
async fn schema_is_configured() {
    let stage = AnyStage::in_a_file().await;

    let error =
        AnyStore::configured(&settings(&[("URL", &stage.url), ("SCHEMA", "shop")])).await.unwrap_err();

    assert!(error.to_string().starts_with("SQLite has no schemas"), "{error}");
}

/// M4: what the program says about a store wins, before and after what is configured.
#[tokio::test]
async fn program_wins_over_configured_options() {
    let stage = AnyStage::in_a_file().await;
    let configured = settings(&[("SCHEMA", "shop"), ("PREFIX", "billing_"), ("LOCK_TIMEOUT", "7s")]).store();

    let before = stage.options().prefix("shop_").settings(&configured);
    let after = stage.options().settings(&configured).prefix("shop_");

    for options in [before, after] {
        let shown = format!("{options:?}");
        assert!(shown.contains("shop_") && !shown.contains("billing_") && shown.contains("7s"), "{shown}");
    }
}

/// M4: without a URL the answer says where to put it.
#[tokio::test]
async fn missing_url_is_answered() {
    let error = AnyStore::configured(&Settings::default()).await.unwrap_err();

    assert_eq!(error.to_string(), "no database is configured; set `store.url` (`PILLARBOX_STORE_URL`)");
}

/// M4: the URL comes from a file of its own, and no other place may give it too.
#[tokio::test]
async fn url_comes_from_a_file() {
    let stage = AnyStage::in_a_file().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("url").display().to_string();
    std::fs::write(&file, format!("{}\n", stage.store.name())).unwrap();
    let configured = settings(&[("URL_FILE", &file)]);

    let store = AnyStore::configured(&configured).await.unwrap();

    assert_eq!(store.name(), stage.store.name());
    let both = [("PILLARBOX_STORE_URL", "orders.db"), ("PILLARBOX_STORE_URL_FILE", file.as_str())];
    let both = Settings::from_vars("PILLARBOX_", both).unwrap_err().to_string();
    assert!(both.contains("`store.url` is set too, in the variable `PILLARBOX_STORE_URL`"), "{both}");
    let missing = AnyStore::configured(&settings(&[("URL_FILE", "/nowhere")])).await.unwrap_err();
    assert!(
        missing.to_string().starts_with("`store.url_file` is `/nowhere`, which cannot be read"),
        "{missing}"
    );
}
