//! What a URL and its options lead to.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{Administration, Ownership, TxStore};
use pillarbox_any::{AnyStore, Kind};

use crate::stage::AnyStage;

/// S4: the name is that of the URL without the password.
pub(crate) async fn the_name_of_a_store_has_no_password(stage: &AnyStage) {
    let (before, host) = stage.url.rsplit_once('@').unwrap();
    let (user, password) = before.rsplit_once(':').unwrap();

    let store = AnyStore::connect(&stage.url).await.unwrap();
    let name = store.name();
    store.close().await;

    assert_eq!(name, format!("{user}@{host}"));
    assert!(!format!("{:?} {:?}", stage.store, stage.options()).contains(password));
}

/// S6: schema and prefix lead to tables of their own.
pub(crate) async fn schema_and_prefix_reach_the_tables(stage: &AnyStage) {
    let billing = stage.options().prefix("billing_").wake_up(false).max_connections(1).connect();
    let billing = billing.await.unwrap();
    billing.migrate().await.unwrap();

    let mut tx = billing.begin().await.unwrap();
    billing.insert(&mut tx, &[Event::of_json("OrderPlaced", "{}").unwrap()], None).await.unwrap();
    AnyStore::commit(tx).await.unwrap();

    assert_eq!(billing.stats().await.unwrap().pending(), 1);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
    billing.close().await;
}

/// S4: each scheme of a database connects, in capitals too.
pub(crate) async fn other_spellings_of_the_scheme_connect(stage: &AnyStage) {
    let (_, rest) = stage.url.split_once("://").unwrap();
    let schemes = match stage.store.kind() {
        Kind::Sqlite => panic!("this is no server"),
        Kind::Postgres => ["postgresql", "Postgres"],
        Kind::MySql => ["mariadb", "MySQL"],
    };

    for scheme in schemes {
        let store = AnyStore::connect(format!("{scheme}://{rest}")).await.unwrap();

        assert_eq!(store.kind(), stage.store.kind());
        store.close().await;
    }
}

/// O1: how long transactions take reaches the database that does not show it, and one that does refuses to be told.
pub(crate) async fn the_longest_transaction_reaches_who_must_be_told(stage: &AnyStage) {
    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, &[Event::of_json("OrderPlaced", "{}").unwrap()], None).await.unwrap();
    AnyStore::commit(tx).await.unwrap();

    let hasty = stage.options().longest_transaction(Duration::ZERO).connect().await;

    if stage.store.kind() == Kind::MySql {
        let hasty = hasty.unwrap();
        assert_eq!(stage.store.numbers().await.unwrap().closed, 0, "ten seconds have not passed");
        assert!(hasty.numbers().await.unwrap().closed > 0);
        hasty.close().await;
    } else {
        assert!(hasty.unwrap_err().to_string().starts_with("`longest_transaction` is for MySQL and MariaDB"));
    }
}

/// An event never lands in another database than that of its outbox.
pub(crate) async fn transactions_of_other_databases_are_refused(stage: &AnyStage) {
    let file = AnyStage::in_a_file().await;
    let mut tx = file.store.begin().await.unwrap();
    let event = Event::of_json("OrderPlaced", "{}").unwrap();

    let refused = stage.store.insert(&mut tx, &[event], None).await.unwrap_err();

    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("the transaction is not one on "), "{source}");
    AnyStore::rollback(tx).await.unwrap();
}
