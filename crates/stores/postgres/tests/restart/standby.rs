//! Servers that let nobody write, or nobody in without TLS.

use std::time::Duration;

use pillarbox::store::{Administration, DoneRows, EventStore, Outcome, Settlement, StoreError, TxStore};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{order_placed, take};
use pillarbox_testkit::servers::PrivateServer;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// How long a server may take to change its mind.
const PATIENCE: Duration = Duration::from_secs(60);

/// An outbox with one event, which is taken and not yet recorded.
async fn taken(server: &PrivateServer) -> (PostgresStore, [Settlement; 1]) {
    let store = PostgresStore::connect(server.url()).await.unwrap();
    store.migrate().await.unwrap();
    write(&store, "order-17").await.unwrap();
    let done = Settlement::of(&store.take(take(1)).await.unwrap().events[0], Outcome::Done);
    (store, [done])
}

async fn write(store: &PostgresStore, order: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut tx = store.begin().await?;
    store.insert(&mut tx, &[order_placed(order)], None).await?;
    PostgresStore::commit(tx).await?;
    Ok(())
}

/// Calls again until it works, as the engine does; what goes wrong meanwhile may pass.
async fn insistently<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let calling = async {
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, calling).await.expect("it works in the end")
}

/// Everything that the store of a read-only server answers may pass, and says what is wrong.
async fn assert_nobody_can_write(store: &PostgresStore, settlements: &[Settlement]) {
    // The first calls may find out that their connections are gone.
    insistently(async || store.stats().await).await;
    for _ in 0..2 {
        let _ = store.take(take(1)).await;
        let _ = store.settle(settlements, DoneRows::Keep).await;
    }

    let take = store.take(take(1)).await.map(drop).unwrap_err();
    let settle = store.settle(settlements, DoneRows::Keep).await.map(drop).unwrap_err();

    for error in [take, settle] {
        assert!(error.is_transient() && error.to_string().contains("is read-only; it became"), "{error:?}");
    }
    assert!(write(store, "order-18").await.is_err());
}

async fn execute(server: &PrivateServer, sql: &str) {
    let mut connection = PgConnection::connect(server.url()).await.unwrap();
    for statement in sql.split(';') {
        connection.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }
}

/// Changes a setting of the whole server, and waits until new sessions have it.
async fn set(server: &PrivateServer, name: &str, value: &str) {
    execute(server, &format!("ALTER SYSTEM SET {name} = {value}; SELECT pg_reload_conf()")).await;
    let has_it = async {
        loop {
            let mut connection = PgConnection::connect(server.url()).await.unwrap();
            let asked = sqlx::query_scalar("SELECT current_setting($1)").bind(name);
            let now: String = asked.fetch_one(&mut connection).await.unwrap();
            if now == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, has_it).await.expect("the server reads its settings");
}

/// S3: a standby is refused by name. A store whose server becomes one waits, and goes on when it is promoted:
/// nothing that was delivered is forgotten.
pub(crate) async fn standby_is_refused_until_it_is_promoted(server: &PrivateServer) {
    let (store, done) = taken(server).await;
    let signal = "COPY (SELECT WHERE FALSE) TO '%/standby.signal'";
    let mut connection = PgConnection::connect(server.url()).await.unwrap();
    let directory: String =
        sqlx::query_scalar("SHOW data_directory").fetch_one(&mut connection).await.unwrap();
    execute(server, &signal.replace('%', &directory)).await;
    server.kill().await;
    server.up().await;

    let refused = PostgresStore::connect(server.url()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Config(_)), "{refused:?}");
    assert!(
        refused
            .to_string()
            .ends_with("is a standby, which cannot be written to; give the URL of the primary")
    );
    assert_nobody_can_write(&store, &done).await;

    execute(server, "SELECT pg_promote()").await;
    insistently(async || store.settle(&done, DoneRows::Keep).await.map(drop)).await;
    assert_eq!(store.stats().await.unwrap().pending(), 0);
    PostgresStore::connect(server.url()).await.unwrap().close().await;
    store.close().await;
}

/// S3: a server whose operator lets nobody write is refused by name, and so is the setting; a store that runs waits
/// until it is changed back.
pub(crate) async fn read_only_server_is_refused(server: &PrivateServer) {
    let (store, done) = taken(server).await;
    set(server, "default_transaction_read_only", "on").await;

    let refused = PostgresStore::connect(server.url()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Config(_)), "{refused:?}");
    assert!(
        refused.to_string().contains("is read-only")
            && refused.to_string().contains("`default_transaction_read_only`")
    );
    assert_nobody_can_write(&store, &done).await;

    set(server, "default_transaction_read_only", "off").await;
    insistently(async || store.settle(&done, DoneRows::Keep).await.map(drop)).await;
    assert_eq!(store.stats().await.unwrap().pending(), 0);
    store.close().await;
}

/// A server without TLS is refused where TLS is asked for, and let be where it is not.
pub(crate) async fn server_without_tls_is_named(server: &PrivateServer) {
    set(server, "ssl", "off").await;

    let refused = PostgresStore::connect(format!("{}?sslmode=require", server.url())).await.unwrap_err();
    let plain = PostgresStore::connect(format!("{}?sslmode=prefer", server.url())).await;

    assert!(refused.to_string().contains("no encrypted connection to `"), "{refused}");
    assert!(refused.to_string().contains("`sslmode`") && !refused.is_transient(), "{refused:?}");
    plain.unwrap().close().await;
}
