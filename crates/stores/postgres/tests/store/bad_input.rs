//! What a database says to wrong settings, and that no password gets into the words.

use pillarbox::store::{Administration, InsertError, StoreError, TxStore};
use pillarbox::{Event, Timestamp};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{NONE, claim, insert, order_placed, stored, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::stage::PostgresStage;

/// The whole of what is said: text, causes and debug output.
fn all_words(error: &StoreError) -> String {
    let mut words = format!("{error} {error:?}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}

/// A wrong password is said to be wrong, and is not shown.
pub(crate) async fn wrong_password_is_named(stage: &PostgresStage) {
    let role = unique_name();
    let url = stage.login(&role, "").await.replace(&format!("{role}:"), &format!("{role}:not-"));

    let refused = PostgresStore::connect(url).await.unwrap_err();

    let words = all_words(&refused);
    assert!(words.contains(&format!("the password of `{role}` at ")), "{words}");
    assert!(!words.contains("not-") && matches!(refused, StoreError::Refused { .. }), "{words}");
    stage.drop_role(&role).await;
}

/// A database that does not exist is named, with its server.
pub(crate) async fn missing_database_is_named(stage: &PostgresStage) {
    let (server, _) = stage.url.split('?').next().unwrap().rsplit_once('/').unwrap();

    let refused = PostgresStore::connect(format!("{server}/no_such_database")).await.unwrap_err();

    let words = all_words(&refused);
    assert!(refused.to_string().contains("there is no database `no_such_database` at `"), "{words}");
    assert!(matches!(refused, StoreError::Refused { .. }), "{words}");
}

/// S6: what could end a name and begin a statement is refused before anything is sent.
pub(crate) async fn names_that_inject_sql_are_refused(stage: &PostgresStage) {
    for name in ["x; DROP TABLE outbox_event; --", "a.b", "\"quoted\"", ""] {
        let refused = PostgresStore::options(&stage.url).schema(name).connect().await.unwrap_err();
        assert!(matches!(refused, StoreError::Config(_)), "{refused}");
    }
    let refused = stage.options().prefix("x' OR '1").connect().await.unwrap_err();
    assert!(refused.to_string().contains("the prefix `x' OR '1` is not a name"), "{refused}");
}

/// Settings that make no sense are refused by name.
pub(crate) async fn senseless_options_are_refused(stage: &PostgresStage) {
    let none = stage.options().max_connections(0).connect().await.unwrap_err().to_string();
    let pool = PgPoolOptions::new().connect(&stage.url).await.unwrap();
    let twice =
        PostgresStore::options_of_pool(pool).max_connections(3).connect().await.unwrap_err().to_string();

    assert!(none.contains("`max_connections` is 0"), "{none}");
    assert!(twice.contains("`max_connections` has no effect on a pool of yours"), "{twice}");
}

/// S4: a database whose encoding cannot hold every event is refused.
pub(crate) async fn encoding_other_than_utf8_is_refused(stage: &PostgresStage) {
    let name = unique_name();
    let create = format!("CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    PgConnection::connect(&stage.url).await.unwrap().execute(AssertSqlSafe(create)).await.unwrap();
    let (server, _) = stage.url.split('?').next().unwrap().rsplit_once('/').unwrap();

    let refused = PostgresStore::connect(format!("{server}/{name}")).await.unwrap_err();

    assert!(refused.to_string().contains("the encoding `LATIN1`"), "{refused}");
    let drop = format!("DROP DATABASE {name} WITH (FORCE)");
    PgConnection::connect(&stage.url).await.unwrap().execute(AssertSqlSafe(drop)).await.unwrap();
}

/// Neither options nor store nor transaction show a password.
pub(crate) async fn password_is_shown_nowhere(stage: &PostgresStage) {
    let role = unique_name();
    let url = stage.login(&role, &format!("GRANT USAGE ON SCHEMA {} TO {role}", stage.schema)).await;
    let password = url.split([':', '@']).nth(2).unwrap();
    stage.execute(format!("GRANT SELECT ON outbox_meta TO {role}")).await;

    let options = PostgresStore::options(&url).schema(&stage.schema);
    let shown = format!("{options:?}");
    let store = options.connect().await.unwrap();
    let tx = store.begin().await.unwrap();
    let shown = format!("{shown} {store:?} {tx:?}");

    assert!(password.len() > 8 && !shown.contains(password), "{shown}");
    PostgresStore::rollback(tx).await.unwrap();
    store.close().await;
    stage.drop_role(&role).await;
}

/// W13: after a statement that failed, a write says what to do; nothing of the transaction is committed.
pub(crate) async fn write_in_a_failed_transaction_is_refused(stage: &PostgresStage) {
    let mut tx = stage.store.begin().await.unwrap();
    tx.execute("SELECT no_such_column").await.unwrap_err();

    let refused = insert(stage, &mut tx, &[order_placed("order-17")], None).await;

    let Err(InsertError::Store(error)) = refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("roll it back and begin a new one"), "{error}");
    PostgresStore::rollback(tx).await.unwrap();
    assert!(claim(stage, 10).await.events.is_empty());
}

/// V6, S11: what PostgreSQL is known to stumble over is stored and comes back.
pub(crate) async fn awkward_values_come_back(stage: &PostgresStage) {
    let awkward = Event::builder("OrderPlaced")
        .id("=(order-17) already exists")
        .aggregate("Order", "{\"a\",NULL}")
        .header("array", "{1,2}")
        .occurred_at(Timestamp::from_micros(i64::MAX))
        .json_text(r#"{"nul":"\u0000","lone":"\ud800","key":1,"key":2}"#)
        .build()
        .unwrap();
    let plain = order_placed("NULL");

    write(stage, &[awkward.clone(), plain.clone()]).await;
    write(stage, std::slice::from_ref(&order_placed("order-18"))).await;

    for event in [awkward, plain] {
        assert!(stored(stage, event.id()).await.event.unwrap().parts() == event.parts());
    }
}

/// W11: what happened before the calendar of PostgreSQL is refused, alone and among others, and leaves the transaction
/// as it was.
pub(crate) async fn times_before_the_calendar_are_refused(stage: &PostgresStage) {
    let occurred = |id: &str, micros| {
        let event = Event::builder("OrderPlaced").id(id).occurred_at(Timestamp::from_micros(micros));
        event.json_text("{}").build().unwrap()
    };
    let (first, before) = (occurred("first", -210_866_803_200_000_000), occurred("before", i64::MIN));
    let mut tx = stage.store.begin().await.unwrap();

    for events in [vec![before.clone()], vec![order_placed("order-17"), before]] {
        let refused = insert(stage, &mut tx, &events, None).await.unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("`occurred_at` of `before` lies before the year 4713 BC"), "{text}");
    }
    insert(stage, &mut tx, std::slice::from_ref(&first), None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();

    assert_eq!(stored(stage, "first").await.event.unwrap().occurred_at(), first.occurred_at());
}

/// V6: the repeated id is told, even among ids that contain each other.
pub(crate) async fn repeated_id_among_similar_ones_is_told(stage: &PostgresStage) {
    let placed = |id: &str| Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap();
    write(stage, &[placed("a)=(b")]).await;

    let mut tx = stage.store.begin().await.unwrap();
    let refused = insert(stage, &mut tx, &[placed("a"), placed("b"), placed("a)=(b")], None).await;

    assert!(matches!(&refused, Err(InsertError::DuplicateId { id }) if id == "a)=(b"), "{refused:?}");
    PostgresStore::rollback(tx).await.unwrap();
    assert_eq!(
        stage.store.dead(pillarbox::store::Page { after: 0, limit: 1 }).await.unwrap().len(),
        NONE.len()
    );
}

/// A server that wants TLS is named where the URL forbids it; with TLS the same role gets in.
pub(crate) async fn forbidden_tls_is_named(stage: &PostgresStage) {
    let (role_and_password, place) = stage.url.split_once('@').unwrap();
    let url = format!("{}@{place}", role_and_password.replace("//pillarbox:", "//pillarbox_tls:"));

    let refused = PostgresStore::connect(format!("{url}?sslmode=disable")).await.unwrap_err();
    let welcome = PostgresStore::connect(format!("{url}?sslmode=require")).await;

    assert!(refused.to_string().contains("whether it wants `sslmode=require`"), "{refused}");
    assert!(!refused.is_transient(), "{refused:?}");
    welcome.unwrap().close().await;
}

/// A certificate that nobody vouches for is refused where that is asked for.
pub(crate) async fn unknown_certificate_is_named(stage: &PostgresStage) {
    let refused = PostgresStore::connect(format!("{}?sslmode=verify-full", stage.url)).await.unwrap_err();

    assert!(refused.to_string().contains("no encrypted connection to `"), "{refused}");
}
