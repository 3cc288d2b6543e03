//! What can be wrong with a URL, a server or a setting is said clearly, and without the password.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{Administration, EventStore, InsertError, StoreError, TxStore};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{order_placed, take};
use sqlx::ConnectOptions;
use tokio::net::TcpListener;
use tracing_subscriber::fmt::MakeWriter;

use crate::stage::MySqlStage;

const PASSWORD: &str = "seventeen-and-4";

/// An error with all its causes, in every form that can be printed.
fn all_of(error: &StoreError) -> String {
    let mut text = format!("{error} {error:?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(" {error} {error:?}");
        cause = error.source();
    }
    text
}

async fn refusal(url: &str) -> StoreError {
    let error = MySqlStore::connect(url).await.expect_err("it is refused");
    let text = all_of(&error);
    assert!(!text.contains(PASSWORD), "the password is in {text}");
    error
}

/// S8: a wrong password is named as the reason, with the user and the server.
pub(crate) async fn wrong_password_is_named(stage: &MySqlStage) {
    let options = stage.options_as("nobody", PASSWORD);
    let url = options.to_url_lossy().to_string();

    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone());
    let guard = tracing::subscriber::set_default(subscriber.finish());
    let error = refusal(&url).await;
    drop(guard);

    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("does not let `nobody` in") && text.contains("password"), "{text}");
    assert!(!log.text().contains(PASSWORD), "{}", log.text());
}

/// S8: a store says nothing of its password in its debug output.
pub(crate) async fn debug_output_has_no_password(stage: &MySqlStage) {
    let user = stage.user("shy", PASSWORD, &[]).await;
    stage.run(&format!("GRANT ALL ON {}.* TO '{user}'@'%'", stage.database)).await;
    let options = MySqlStore::options(stage.options_as(&user, PASSWORD).to_url_lossy().to_string());

    let before = format!("{options:?}");
    let store = options.connect().await.unwrap();
    let after = format!("{store:?}");

    assert!(!before.contains(PASSWORD) && !after.contains(PASSWORD), "{before} {after}");
    assert!(after.contains(&stage.database), "{after}");
    store.close().await;
    stage.drop_user(&user).await;
}

/// S8: a database that does not exist is named.
pub(crate) async fn missing_database_is_named(stage: &MySqlStage) {
    let url = stage.administrator().database("no_such_shop").to_url_lossy();

    let error = refusal(url.as_str()).await.to_string();

    assert!(error.contains("there is no database `no_such_shop`"), "{error}");
}

/// S8: a URL without a database is refused, unless a schema says where the tables are.
pub(crate) async fn url_without_database_is_refused(stage: &MySqlStage) {
    let url = stage.url().replace(&format!("/{}", stage.database), "/");

    let error = refusal(&url).await.to_string();
    assert!(error.contains("names no database"), "{error}");

    let store = MySqlStore::options(url).schema(stage.database.clone()).connect().await.unwrap();
    assert_eq!(store.check().await.unwrap(), 2);
    store.close().await;
}

/// S8: a port where nobody listens is an error at once.
pub(crate) async fn refused_connection_is_named(_: &MySqlStage) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);

    let error = refusal(&format!("mysql://app:{PASSWORD}@{address}/shop")).await;

    assert!(error.is_transient(), "{error:?}");
    assert!(error.to_string().contains(&format!("`{address}` cannot be reached")), "{error}");
}

/// S8: a server that accepts and says nothing is given up in time.
pub(crate) async fn silent_server_is_given_up(_: &MySqlStage) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("mysql://app:{PASSWORD}@{}/shop", listener.local_addr().unwrap());

    let connect = MySqlStore::options(url).connect_timeout(Duration::from_millis(50)).connect();
    let error = connect.await.expect_err("nobody answers");

    assert!(error.is_transient(), "{error:?}");
    assert!(error.to_string().contains("did not answer within 50ms"), "{error}");
}

/// S8: TLS that is required and not to be had, and TLS that the server requires and that is off.
pub(crate) async fn disagreement_about_tls_is_named(stage: &MySqlStage) {
    let user = stage.user("sealed", PASSWORD, &[]).await;
    stage.run(&format!("ALTER USER '{user}'@'%' REQUIRE SSL")).await;
    let url = stage.options_as(&user, PASSWORD).to_url_lossy().to_string();

    let error = refusal(&url.replace("ssl-mode=PREFERRED", "ssl-mode=DISABLED")).await;
    assert!(error.to_string().contains("`ssl-mode=REQUIRED`"), "{error}");

    if !stage.has_tls().await {
        let error = refusal(&stage.url().replace("ssl-mode=PREFERRED", "ssl-mode=REQUIRED")).await;
        assert!(error.to_string().contains("change `ssl-mode` in the URL"), "{error}");
    }
    stage.drop_user(&user).await;
}

/// S8: a misspelt option of the URL is answered with the right one.
pub(crate) async fn misspelt_option_is_named(stage: &MySqlStage) {
    let url = stage.url().replace("ssl-mode=", "ssl_mode=");

    let error = refusal(&url).await.to_string();

    assert!(error.contains("`ssl_mode`") && error.contains("did you mean `ssl-mode`?"), "{error}");
}

/// S6: a schema or a prefix that would become a statement is refused.
pub(crate) async fn name_that_injects_sql_is_refused(stage: &MySqlStage) {
    let wrong = "shop; DROP TABLE outbox_event; --";

    let as_schema = stage.options().schema(wrong).connect().await.unwrap_err().to_string();
    let as_prefix = stage.options().prefix(wrong).connect().await.unwrap_err().to_string();

    assert!(as_schema.contains(&format!("the schema `{wrong}`")), "{as_schema}");
    assert!(as_prefix.contains(&format!("the prefix `{wrong}`")), "{as_prefix}");
    assert_eq!(stage.store.check().await.unwrap(), 2);
}

/// S1: a table that another engine keeps is refused: it has no transactions.
pub(crate) async fn table_without_transactions_is_refused(stage: &MySqlStage) {
    stage.run("ALTER TABLE outbox_event ENGINE = MyISAM").await;

    let error = refusal(&stage.url()).await.to_string();

    assert!(error.contains("is kept by `MyISAM`") && error.contains("ENGINE = InnoDB"), "{error}");
}

/// S4: a limit of no connections is refused, and one on a pool of the user's too.
pub(crate) async fn senseless_limits_are_refused(stage: &MySqlStage) {
    let none = stage.options().max_connections(0).connect().await.unwrap_err().to_string();
    let pool = stage.store.pool().clone();
    let of_pool =
        MySqlStore::options_of_pool(pool).max_connections(5).connect().await.unwrap_err().to_string();

    assert!(none.contains("`max_connections` is 0"), "{none}");
    assert!(of_pool.contains("set it there"), "{of_pool}");
}

/// S8: a user without privileges is told what is missing, and where.
pub(crate) async fn missing_privilege_is_named(stage: &MySqlStage) {
    let user = stage.user("guest", PASSWORD, &["GRANT INSERT ON shop.outbox_event TO 'guest'@'%'"]).await;

    let error = refusal(stage.options_as(&user, PASSWORD).to_url_lossy().as_str()).await;

    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("give `GRANT SELECT ON outbox_meta` to it"), "{error}");
    stage.drop_user(&user).await;
}

/// S2: who may look at the version only is told what else it takes to ask for numbers, and not that there is no outbox.
pub(crate) async fn missing_privilege_on_the_table_is_named(stage: &MySqlStage) {
    let user = stage.user("guest", PASSWORD, &["GRANT SELECT ON shop.outbox_meta TO 'guest'@'%'"]).await;
    let store =
        MySqlStore::connect(stage.options_as(&user, PASSWORD).to_url_lossy().to_string()).await.unwrap();

    for error in [
        store.highest().await.unwrap_err(),
        store.stats().await.unwrap_err(),
        store.take(take(1)).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("give `GRANT SELECT ON outbox_event` to it"), "{error}");
    }
    store.close().await;
    stage.drop_user(&user).await;
}

/// S2: a trigger whose maker has lost the rights that it runs with, or is gone, is named with what helps.
pub(crate) async fn trigger_without_rights_is_named(stage: &MySqlStage) {
    let user = stage.user("maker", PASSWORD, &["GRANT ALL ON shop.* TO 'maker'@'%'"]).await;
    let trigger = include_str!("../../migrations/0001_trigger.sql");
    let definer = format!("CREATE DEFINER = '{user}'@'%' TRIGGER");
    stage.run("DROP TRIGGER outbox_event_partition").await;
    stage.run(&trigger.replace("CREATE TRIGGER", &definer)).await;
    let refusal = async || {
        let mut tx = stage.store.begin().await.unwrap();
        let refused = stage.store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap_err();
        let InsertError::Store(refused) = refused else { panic!("{refused:?}") };
        assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
        refused.to_string()
    };

    stage.run(&format!("REVOKE ALL ON {}.* FROM '{user}'@'%'", stage.database)).await;
    let without_rights = refusal().await;
    stage.drop_user(&user).await;
    let gone = refusal().await;

    assert!(without_rights.contains(&format!("runs with the rights of `{user}`")), "{without_rights}");
    assert!(gone.contains("runs with the rights of a user who is gone"), "{gone}");
}

/// V3: a row without a payload is refused by the table.
pub(crate) async fn row_without_payload_is_refused(stage: &MySqlStage) {
    let mut tx = stage.store.pool().begin().await.unwrap();
    let wrong = "INSERT INTO outbox_event (event_id, event_type) VALUES ('order-17', 'OrderPlaced')";

    let refused = sqlx::query(wrong).execute(&mut *tx).await.unwrap_err();

    assert!(refused.as_database_error().unwrap().is_check_violation(), "{refused:?}");
}

/// What a trial logs on its own thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
