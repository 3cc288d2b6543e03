//! Names that PostgreSQL would read differently: words of its own, and capital letters.

use pillarbox::store::{
    Administration, DoneRows, EventStore, InsertError, Outcome, Settlement, StoreError, TxStore, WakeUp,
};
use pillarbox_postgres::{Names, PostgresStore, migrations_sql};
use pillarbox_testkit::conformance::{order_placed, take};
use pillarbox_testkit::servers::unique_name;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::timeout;

use crate::migrations::run_by_psql;
use crate::stage::PostgresStage;
use crate::wake_ups::PATIENCE;

/// Schemas and prefixes, each of which would be something else without quotes.
const NAMES: [(&str, &str); 4] = [("order", ""), ("Orders", ""), ("user", "select_"), ("Shop", "Eu_")];

/// A database of its own, as such schemas may be there already; and its URL.
async fn database(stage: &PostgresStage) -> (String, String) {
    let name = unique_name();
    stage.execute(format!("CREATE DATABASE {name}")).await;
    let (server, _) = stage.url.split('?').next().unwrap().rsplit_once('/').unwrap();
    (format!("{server}/{name}"), name)
}

/// Writes an event, delivers it and purges it.
async fn assert_works(store: &PostgresStore) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-1"), order_placed("order-2")], None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();
    let taken = store.take(take(1)).await.unwrap().events;
    let settlement = Settlement::of(&taken[0], Outcome::Done);
    store.settle(&[settlement], DoneRows::Delete).await.unwrap();
    timeout(PATIENCE, store.changed()).await.expect("LISTEN is set up");
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// Whether there is a table of exactly this name.
async fn has_table(url: &str, schema: &str, table: &str) -> bool {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let tables = "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = $2)";
    sqlx::query_scalar(tables).bind(schema).bind(table).fetch_one(&mut connection).await.unwrap()
}

/// S6: a schema and a prefix are taken as they are written, whatever they mean to PostgreSQL.
pub(crate) async fn names_are_taken_as_they_are_written(stage: &PostgresStage) {
    let (url, name) = database(stage).await;

    for (schema, prefix) in NAMES {
        let store = PostgresStore::options(&url).schema(schema).prefix(prefix).connect().await.unwrap();
        store.migrate().await.unwrap();
        store.migrate().await.unwrap();

        assert_works(&store).await;
        assert!(has_table(&url, schema, &format!("{prefix}outbox_event")).await, "{schema} {prefix}");
        store.close().await;
    }
    stage.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

/// S6, S7: printed migrations have such names in quotes.
pub(crate) async fn printed_migrations_have_names_as_they_are_written(stage: &PostgresStage) {
    let (url, name) = database(stage).await;

    for (schema, prefix) in NAMES {
        run_by_psql(&url, &migrations_sql(&Names::new(Some(schema), prefix).unwrap()));

        let store = PostgresStore::options(&url).schema(schema).prefix(prefix).connect().await.unwrap();
        assert_eq!(store.check().await.unwrap(), 2);
        assert_works(&store).await;
        store.close().await;
    }
    stage.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await;
}

/// A role that lacks a privilege on such names learns which grant it needs, ready to be run.
pub(crate) async fn advice_has_names_as_they_are_written(stage: &PostgresStage) {
    let (url, name) = database(stage).await;
    let (role, table) = (unique_name(), "\"Shop\".\"Eu_outbox_event\"");
    let (_, place) = url.split_once('@').unwrap();
    let role_url = stage.login(&role, "").await.split_once('@').unwrap().0.to_owned() + "@" + place;
    let owner = PostgresStore::options(&url).schema("Shop").prefix("Eu_").connect().await.unwrap();
    owner.migrate().await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let grants = "GRANT USAGE ON SCHEMA \"Shop\" TO {}; GRANT SELECT ON \"Shop\".\"Eu_outbox_meta\" TO {}";
    connection.execute(AssertSqlSafe(grants.replace("{}", &role))).await.unwrap();
    let store = PostgresStore::options(&role_url).schema("Shop").prefix("Eu_").connect().await.unwrap();

    let mut tx = store.begin().await.unwrap();
    let refused = store.insert(&mut tx, &[order_placed("order-1")], None).await.unwrap_err();
    PostgresStore::rollback(tx).await.unwrap();
    let InsertError::Store(StoreError::Refused { reason, .. }) = refused else { panic!("{refused:?}") };
    let grant = format!("GRANT INSERT ON {table} TO {role}");
    assert!(reason.contains(&format!("`{grant}`")), "{reason}");
    connection.execute(AssertSqlSafe(grant)).await.unwrap();

    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-1")], None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();
    store.close().await;
    owner.close().await;
    connection.execute(AssertSqlSafe(format!("DROP OWNED BY {role}"))).await.unwrap();
    connection.close().await.unwrap();
    stage.execute(format!("DROP DATABASE {name} WITH (FORCE)")).await;
    stage.drop_role(&role).await;
}
