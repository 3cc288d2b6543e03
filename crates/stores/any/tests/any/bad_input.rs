//! What makes no sense is refused before anything is connected to, and no password is shown.

use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox_any::{AnyOptions, AnyStore, Kind};

const POSTGRES: &str = "postgres://shop:secret@localhost/shop";
const MINUTE: Duration = Duration::from_secs(60);
const MYSQL: &str = "mysql://shop:secret@localhost/shop";

async fn refused(options: AnyOptions) -> String {
    match options.connect().await {
        Err(error @ StoreError::Config(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// S4: an unknown scheme is answered with the list of known ones.
#[tokio::test]
async fn an_unknown_scheme_is_answered_with_the_known_ones() {
    let answer = refused(AnyStore::options("mariadbb://shop:secret@localhost/shop")).await;

    assert_eq!(
        answer,
        "unknown scheme `mariadbb`; known are `sqlite:PATH`, `postgres://…`, `postgresql://…`, `mysql://…`, \
         `mariadb://…` and a plain path; did you mean `mariadb`?"
    );
}

/// No option is silently without effect.
#[tokio::test]
async fn options_that_a_database_does_not_have_are_refused() {
    for (options, reason) in [
        (AnyStore::options("orders.db").schema("shop"), "SQLite has no schemas"),
        (AnyStore::options(POSTGRES).create_if_missing(true), "`create_if_missing` is for SQLite files"),
        (AnyStore::options(MYSQL).create_if_missing(true), "`create_if_missing` is for SQLite files"),
        (AnyStore::options(MYSQL).wake_up(true), "`wake_up` cannot be had from MySQL"),
        (
            AnyStore::options(POSTGRES).longest_transaction(MINUTE),
            "`longest_transaction` is for MySQL and MariaDB",
        ),
        (
            AnyStore::options("orders.db").longest_transaction(MINUTE),
            "`longest_transaction` is for MySQL and MariaDB",
        ),
    ] {
        let answer = refused(options).await;

        assert!(answer.starts_with(reason), "{answer}");
    }
    assert!(!std::path::Path::new("orders.db").exists());
}

/// S6: a name that tries to be a statement is refused, for each database.
#[tokio::test]
async fn names_that_inject_sql_are_refused() {
    let wrong = "shop; DROP TABLE orders";

    for url in ["orders.db", POSTGRES, MYSQL] {
        let answer = refused(AnyStore::options(url).prefix(wrong)).await;
        assert!(answer.starts_with("the prefix `shop; DROP TABLE orders` is not a name"), "{answer}");
    }
    for url in [POSTGRES, MYSQL] {
        let answer = refused(AnyStore::options(url).schema(wrong)).await;
        assert!(answer.starts_with("the schema `shop; DROP TABLE orders` is not a name"), "{answer}");
    }
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::MySql] {
        assert!(kind.migrations_sql(None, wrong).is_err());
    }
}

/// A misspelt option of a URL is answered with the right one, and the password stays where it is.
#[tokio::test]
async fn a_misspelt_option_of_a_url_is_named() {
    for (url, misspelt, meant) in [
        ("postgres://shop:secret@localhost/shop?sslmod=require", "sslmod", "sslmode"),
        ("MariaDB://shop:secret@localhost/shop?ssl-mod=REQUIRED", "ssl-mod", "ssl-mode"),
    ] {
        let options = AnyStore::options(url);
        let debug = format!("{options:?}");
        let answer = refused(options).await;

        assert!(answer.contains(&format!("`{misspelt}`")), "{answer}");
        assert!(answer.contains(&format!("did you mean `{meant}`?")), "{answer}");
        assert!(!answer.contains("secret") && !debug.contains("secret"), "{answer} {debug}");
    }
}

/// S7: migrations are printed for each kind, with the names that were asked for, without a server.
#[test]
fn migrations_are_printed_for_each_kind() {
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::MySql] {
        let sql = kind.migrations_sql(None, "billing_").unwrap();
        assert!(sql.contains(" billing_outbox_event ("), "{sql}");
    }
    for kind in [Kind::Postgres, Kind::MySql] {
        let sql = kind.migrations_sql(Some("shop"), "billing_").unwrap();
        assert!(sql.contains(" shop.billing_outbox_event ("), "{sql}");
    }
    assert!(Kind::Sqlite.migrations_sql(Some("shop"), "").is_err());
}
