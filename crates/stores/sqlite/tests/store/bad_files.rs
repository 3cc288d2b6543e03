//! Files that are missing, locked, full, read-only or something else: a clear error, and no panic.

use std::error::Error;
use std::time::Duration;

use crate::orders::{Orders, claim, order_placed, take, write};
use pillarbox::Event;
use pillarbox::store::{Administration, CommitError, EventStore, InsertError, StoreError, TxStore};
use pillarbox_sqlite::SqliteStore;
use sqlx::{Connection, Executor};

const SHORT: Duration = Duration::from_millis(50);

/// A file that is no database is named as such.
#[tokio::test]
async fn a_file_of_another_kind_is_refused() {
    let orders = Orders::new();
    std::fs::write(orders.path(), "This is a letter to my aunt. ".repeat(100)).unwrap();

    let error = orders.options().connect().await.unwrap_err();

    let path = orders.path();
    let text = format!("`{}` is not a SQLite database; give the path of another file", path.display());
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains(&text), "{error}");
    assert!(error.source().is_some());
}

/// A directory that does not exist is named, with what to do.
#[tokio::test]
async fn a_missing_directory_is_named() {
    let orders = Orders::new();
    let missing = orders.path().join("nowhere").join("orders.db");

    let error = SqliteStore::connect(missing.to_str().unwrap()).await.unwrap_err();

    assert!(matches!(error, StoreError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("nowhere`; create it, or correct the path"), "{error}");
}

/// A missing file is created only if that is wanted.
#[tokio::test]
async fn a_missing_file_is_created_unless_told_otherwise() {
    let orders = Orders::new();
    let url = format!("sqlite://{}?mode=rw", orders.path().display());

    let by_option = orders.options().create_if_missing(false).connect().await.unwrap_err();
    let by_url = SqliteStore::connect(url).await.unwrap_err();

    for error in [by_option, by_url] {
        assert!(error.to_string().contains("there is no database file"), "{error}");
    }
    assert!(!orders.path().exists());
    assert_eq!(orders.connect().await.path(), orders.path());
}

/// Paths and URLs of all forms open the same file.
#[tokio::test]
async fn paths_and_urls_open_the_same_file() {
    let orders = Orders::new();
    let store = orders.store().await;
    let path = orders.path();
    let path = path.to_str().unwrap();

    let odd = orders.path().with_file_name("or:d er[s]?#%.db");
    assert_eq!(SqliteStore::connect(odd.to_str().unwrap()).await.unwrap().path(), odd);
    for url in [format!("sqlite:{path}"), format!("sqlite://{path}"), format!("sqlite://{path}?mode=rwc")] {
        SqliteStore::connect(url).await.unwrap().check().await.unwrap();
    }
    assert_eq!(store.path().to_str(), Some(path));
}

/// A database that only one connection sees is refused, with a hint.
#[tokio::test]
async fn an_in_memory_database_is_refused() {
    for url in ["sqlite::memory:", ":memory:", "sqlite://?mode=memory", "sqlite:", ""] {
        let refused = SqliteStore::connect(url).await;
        assert!(
            matches!(&refused, Err(StoreError::Config(text)) if text.contains("MemoryStore")),
            "{url}: {refused:?}"
        );
    }
}

/// The URL of another database is refused.
#[tokio::test]
async fn a_url_of_another_database_is_refused() {
    let error = SqliteStore::connect("postgres://localhost/orders").await.unwrap_err();

    assert!(error.to_string().contains("`postgres://` is no SQLite database"), "{error}");
}

/// A database that is opened read-only cannot be an outbox, and the error says so.
#[tokio::test]
async fn a_read_only_database_is_refused() {
    let orders = Orders::new();
    orders.store().await.close().await;
    let url = format!("sqlite:{}?mode=ro", orders.path().display());

    let error = SqliteStore::connect(url).await.unwrap_err();

    assert!(matches!(error, StoreError::Config(_)), "{error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// A database that turned read-only refuses to take, with a remedy; reading goes on.
#[tokio::test]
async fn a_database_that_turned_read_only_is_named() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;
    let options =
        sqlx::sqlite::SqliteConnectOptions::new().filename(orders.path()).pragma("query_only", "ON");
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let frozen = SqliteStore::from_pool(pool).await.unwrap();

    let error = frozen.take(take(10)).await.unwrap_err();

    let text =
        format!("`{}` is read-only; make the file and its directory writable", orders.path().display());
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&text), "{error}");
    assert_eq!(frozen.stats().await.unwrap().pending(), 1);
}

/// A database that another process holds is not available, and is again when that one is done.
#[tokio::test]
async fn a_locked_database_is_not_available_for_now() {
    let orders = Orders::new();
    orders.store().await;
    let store = orders.options().busy_timeout(SHORT).connect().await.unwrap();
    let mut other = orders.connection().await;
    let mut locked = other.begin_with("BEGIN IMMEDIATE").await.unwrap();
    locked.execute("DELETE FROM outbox_event").await.unwrap();

    let taken = store.take(take(10)).await;
    let begun = store.begin().await;

    for error in [taken.unwrap_err(), begun.unwrap_err()] {
        assert!(error.is_transient() && error.to_string().contains("`busy_timeout`"), "{error}");
    }
    locked.rollback().await.unwrap();
    write(&store, &[order_placed("order-17")]).await;
    assert_eq!(claim(&store, 10).await.len(), 1);
}

/// A database that another process holds exclusively cannot be opened, and the error says why.
#[tokio::test]
async fn a_database_that_is_locked_when_opened_is_not_available() {
    let orders = Orders::new();
    let mut other = orders.connection().await;
    other.execute("CREATE TABLE orders (id TEXT)").await.unwrap();
    let locked = other.begin_with("BEGIN EXCLUSIVE").await.unwrap();

    let error = orders.options().busy_timeout(SHORT).connect().await.unwrap_err();

    assert!(error.is_transient() && error.to_string().contains("is locked"), "{error}");
    drop(locked);
}

/// A transaction of ours that is held for long makes others of the process wait, and then say so.
#[tokio::test]
async fn a_transaction_that_is_held_for_long_is_blamed() {
    let orders = Orders::new();
    orders.store().await;
    let store = orders.options().busy_timeout(SHORT).connect().await.unwrap();
    let held = store.begin().await.unwrap();

    let error = store.take(take(10)).await.unwrap_err();

    assert!(
        error.is_transient() && error.to_string().contains("another transaction of this process"),
        "{error}"
    );
    drop(held);
    assert_eq!(claim(&store, 10).await.len(), 0);
}

/// A full disk stops writing with a remedy, and nothing but writing.
#[tokio::test]
async fn a_full_disk_is_named() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;
    let large: Vec<Event> =
        (0..20).map(|_| Event::of_bytes("OrderPlaced", vec![7; 100_000]).unwrap()).collect();
    let mut tx = store.begin().await.unwrap();
    tx.execute("PRAGMA max_page_count = 40").await.unwrap();

    let refused = store.insert(&mut tx, &large, None).await;

    let Err(InsertError::Store(error)) = refused else { panic!("{refused:?}") };
    assert!(error.is_transient() && error.to_string().contains("free some space"), "{error}");
    SqliteStore::rollback(tx).await.unwrap();
    assert_eq!(claim(&store, 10).await.len(), 1);
}

/// W13: a commit that SQLite refuses is known to be rolled back.
#[tokio::test]
async fn a_refused_commit_is_rolled_back() {
    let orders = Orders::new();
    let store = orders.store().await;
    let tables = "CREATE TABLE customers (id TEXT PRIMARY KEY);
        CREATE TABLE orders (customer TEXT REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED)";
    orders.execute(tables).await;
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    tx.execute("INSERT INTO orders VALUES ('nobody')").await.unwrap();

    let refused = SqliteStore::commit(tx).await;

    assert!(matches!(refused, Err(CommitError::RolledBack { .. })), "{refused:?}");
    write(&store, &[order_placed("order-18")]).await;
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// W13: a transaction that was ended behind our back does not count as committed, and the next one works.
#[tokio::test]
async fn a_transaction_that_was_ended_by_other_means_is_not_committed() {
    let orders = Orders::new();
    let store = orders.store().await;
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    tx.execute("ROLLBACK").await.unwrap();

    let ended = SqliteStore::commit(tx).await;

    assert!(matches!(ended, Err(CommitError::RolledBack { .. })), "{ended:?}");
    for order in ["order-18", "order-19", "order-20"] {
        write(&store, &[order_placed(order)]).await;
    }
    assert_eq!(store.stats().await.unwrap().pending(), 3);
}
