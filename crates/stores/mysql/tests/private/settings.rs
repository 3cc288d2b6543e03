//! Settings of a server that an outbox cannot live with are named; others have no effect.

use pillarbox::Event;
use pillarbox::store::{
    DoneRows, EventStore, InsertError, Instance, Mode, Outcome, Ownership, Settlement, StoreError, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::ownership::unnamed;
use pillarbox_testkit::conformance::take;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Connection, Executor, MySqlConnection};

use crate::server::MariaDb;

/// Writes an event of so many bytes in a transaction of its own.
pub(crate) async fn write(store: &MySqlStore, bytes: usize) -> Result<(), StoreError> {
    let mut tx = store.begin().await?;
    let event = Event::of_bytes("OrderPlaced", vec![17; bytes]).unwrap();
    match store.insert(&mut tx, &[event], None).await {
        Ok(()) => MySqlStore::commit(tx).await.map_err(|error| panic!("{error}")),
        Err(InsertError::Store(error)) => Err(error),
        Err(error) => panic!("{error:?}"),
    }
}

/// Whether a new store was refused, and one that was there out of order, because the server is read-only.
pub(crate) fn assert_read_only(refused: &StoreError, out_of_order: &StoreError) {
    assert!(matches!(refused, StoreError::Config(_)), "{refused:?}");
    assert!(refused.to_string().contains("is read-only, as replicas are"), "{refused}");
    assert!(out_of_order.is_transient(), "{out_of_order:?}");
    assert!(out_of_order.to_string().contains("is read-only"), "{out_of_order}");
}

/// S2: a server that is read-only is refused, to those too who could write to it; one that becomes so is out of order
/// until it is not so any more.
pub(crate) async fn read_only_server_is_refused(server: &MariaDb) {
    let store = server.store().await;

    server.run("SET GLOBAL read_only = 1").await;
    let refused = MySqlStore::connect(server.url()).await.unwrap_err();
    let out_of_order = write(&store, 17).await.unwrap_err();
    server.run("SET GLOBAL read_only = 0").await;

    assert_read_only(&refused, &out_of_order);
    write(&store, 17).await.unwrap();
    store.close().await;
}

/// S2: a binary log that cannot hold what READ COMMITTED writes is named, and what to set instead.
pub(crate) async fn log_of_statements_is_named(server: &MariaDb) {
    server.store().await.close().await;
    server.run("SET GLOBAL binlog_format = 'STATEMENT'").await;
    let store = server.store().await;

    let refused = write(&store, 17).await.unwrap_err();

    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("`binlog_format` STATEMENT"), "{refused}");
    store.close().await;
}

/// O3: a server that gives numbers in steps is refused to owners, with the setting and what to do, and not to claims.
pub(crate) async fn numbers_in_steps_are_refused_to_owners(server: &MariaDb) {
    let store = server.store().await;
    let claiming = Instance { mode: Mode::Claims, ..unnamed("relay") };
    server.run("SET GLOBAL auto_increment_increment = 2").await;

    store.join(&claiming).await.unwrap();
    store.leave(&claiming.owner).await.unwrap();
    let refused =
        [store.join(&unnamed("relay")).await.map(drop), store.migrate_to(Mode::Ownership).await.map(drop)];

    for refused in refused {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, StoreError::Config(_)), "{refused:?}");
        assert!(refused.to_string().contains("`auto_increment_increment` 2"), "{refused}");
    }
    server.run("SET GLOBAL auto_increment_increment = 1").await;
    store.join(&unnamed("relay")).await.unwrap();
    server.run("SET GLOBAL auto_increment_increment = 2").await;
    assert!(store.join(&unnamed("relay-2")).await.is_err());
    store.close().await;
}

/// S2: a statement that the server does not take for its size is named with the setting that decides it.
pub(crate) async fn statement_that_is_too_large_is_named(server: &MariaDb) {
    server.run("SET GLOBAL max_allowed_packet = 1024 * 1024").await;
    let store = server.store().await;

    let refused = write(&store, 1024 * 1024).await.unwrap_err();

    assert!(refused.to_string().contains("`max_allowed_packet`"), "{refused:?}");
    write(&store, 17).await.unwrap();
    store.close().await;
}

/// How many events others see, and how many of them are done.
async fn events(server: &MariaDb) -> (i64, i64) {
    let mut connection = MySqlConnection::connect(server.url()).await.unwrap();
    let counts = "SELECT COUNT(*), COUNT(done_at) FROM outbox_event";
    sqlx::query_as(counts).fetch_one(&mut connection).await.unwrap()
}

/// S5: a server whose commits begin another transaction, or end the connection, does so to nobody of ours: what was
/// written, taken and settled is committed, and connections go on.
pub(crate) async fn completion_of_the_server_is_not_ours(server: &MariaDb) {
    let mut expected = 0;
    for completion in ["CHAIN", "RELEASE"] {
        server.run(&format!("SET GLOBAL completion_type = '{completion}'")).await;
        let pool = MySqlPoolOptions::new().max_connections(1).connect(server.url()).await.unwrap();
        for store in [server.store().await, MySqlStore::from_pool(pool.clone()).await.unwrap()] {
            for _ in 0..3 {
                write(&store, 17).await.unwrap();
                MySqlStore::rollback(store.begin().await.unwrap()).await.unwrap();
                let taken = store.take(take(1)).await.unwrap().events;
                let done = Settlement::of(&taken[0], Outcome::Done);
                assert_eq!(store.settle(&[done], DoneRows::Keep).await.unwrap(), [0; 0], "{completion}");
                expected += 1;
                assert_eq!(events(server).await, (expected, expected), "{completion}");
            }
            store.close().await;
        }
        pool.execute("UPDATE outbox_event SET done_at = NULL").await.unwrap();
        assert_eq!(
            events(server).await,
            (expected, 0),
            "{completion}: the session of the user is in no transaction"
        );
        server.run("UPDATE outbox_event SET done_at = UTC_TIMESTAMP(6)").await;
        pool.close().await;
    }
}
