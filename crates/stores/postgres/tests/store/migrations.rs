//! The outbox tables come, go forward, and never go back.

use std::process::{Command, Stdio};

use pillarbox::store::{Administration, StoreError, TxStore};
use pillarbox_postgres::{Names, PostgresStore, migrations_sql};
use pillarbox_testkit::conformance::{order_placed, write};
use pillarbox_testkit::partition_vectors::VECTORS;
use pillarbox_testkit::servers::unique_name;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use crate::stage::PostgresStage;

/// S7: a database without an outbox says so, until it is migrated.
pub(crate) async fn schema_without_an_outbox_is_not_migrated(stage: &PostgresStage) {
    let store = stage.options().prefix("other_").connect().await.unwrap();

    assert!(matches!(store.check().await, Err(StoreError::NotMigrated)));
    assert!(matches!(store.stats().await, Err(StoreError::NotMigrated)));
    let mut tx = store.begin().await.unwrap();
    let refused = store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(cause.contains("run `pillarbox migrate`"), "{cause}");
}

/// S7: migrating twice changes nothing, and keeps what was written.
pub(crate) async fn migrating_again_keeps_the_events(stage: &PostgresStage) {
    write(stage, &[order_placed("order-17")]).await;

    let version = stage.store.migrate().await.unwrap();

    assert_eq!(stage.store.check().await.unwrap(), version);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 1);
}

/// S7: processes that start at the same time all find a migrated database, in a schema that one of them made.
pub(crate) async fn migrations_at_the_same_time_agree(stage: &PostgresStage) {
    let schema = unique_name();
    let migrating: Vec<_> = (0..6)
        .map(|_| {
            let options = PostgresStore::options(&stage.url).schema(&schema);
            tokio::spawn(async move { options.connect().await.unwrap().migrate().await })
        })
        .collect();

    for migrated in migrating {
        assert_eq!(migrated.await.unwrap().unwrap(), 2);
    }
    stage.execute(format!("DROP SCHEMA {schema} CASCADE")).await;
}

/// S7: tables that are newer than the program are refused, when connected and while they are in use.
pub(crate) async fn newer_schema_is_refused(stage: &PostgresStage) {
    stage.execute("UPDATE outbox_meta SET value = '99' WHERE name = 'schema_version'").await;

    let connected = stage.options().connect().await;

    let text = "the outbox table is at version 99, this build knows versions up to 2; use a newer build";
    assert_eq!(connected.unwrap_err().to_string(), text);
    assert_eq!(stage.store.check().await.unwrap_err().to_string(), text);
    assert_eq!(stage.store.migrate().await.unwrap_err().to_string(), text);
}

/// S7: tables that are older than the program can be connected to, so that they can be migrated.
pub(crate) async fn older_schema_is_named(stage: &PostgresStage) {
    stage.execute("UPDATE outbox_meta SET value = '0' WHERE name = 'schema_version'").await;

    let again = stage.options().connect().await.unwrap();

    assert!(matches!(again.check().await, Err(StoreError::OlderSchema { found: 0, needed: 2 })));
}

/// S7: a table of the user's that has our name is left alone, and nothing is half migrated.
pub(crate) async fn table_of_the_same_name_is_left_alone(stage: &PostgresStage) {
    stage.execute("CREATE TABLE my_outbox_event (mine) AS VALUES ('kept')").await;
    let store = stage.options().prefix("my_").connect().await.unwrap();

    let refused = store.migrate().await;

    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert!(matches!(store.check().await, Err(StoreError::NotMigrated)));
    assert_eq!(stage.execute("SELECT FROM my_outbox_event WHERE mine = 'kept'").await, 1);
}

/// S6: schema and prefix, alone and together, keep outboxes apart.
pub(crate) async fn schemas_and_prefixes_keep_outboxes_apart(stage: &PostgresStage) {
    let other = unique_name();
    let url = &stage.url;
    let unqualified =
        format!("{url}{}options[search_path]={other}", if url.contains('?') { "&" } else { "?" });
    let outboxes = [
        stage.options().prefix("eu_"),
        PostgresStore::options(url).schema(&other),
        PostgresStore::options(url).schema(&other).prefix("Eu_"),
        // Without a schema: where the search path leads.
        PostgresStore::options(unqualified).prefix("us_"),
    ];

    for (count, options) in outboxes.into_iter().enumerate() {
        let store = options.connect().await.unwrap();
        store.migrate().await.unwrap();
        let mut tx = store.begin().await.unwrap();
        let events: Vec<_> = (0..=count).map(|n| order_placed(&format!("order-{n}"))).collect();
        store.insert(&mut tx, &events, None).await.unwrap();
        PostgresStore::commit(tx).await.unwrap();
        assert_eq!(store.stats().await.unwrap().pending(), count as u64 + 1);
        store.close().await;
    }
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
    assert_eq!(stage.execute(format!("SELECT FROM {other}.us_outbox_event")).await, 4);
    stage.execute(format!("DROP SCHEMA {other} CASCADE")).await;
}

/// S6: a schema that is missing and may not be created is named, and so is what to do.
pub(crate) async fn schema_that_may_not_be_created_is_named(stage: &PostgresStage) {
    let (role, schema) = (unique_name(), unique_name());
    let url = stage.login(&role, "").await;

    let store = PostgresStore::options(url).schema(&schema).connect().await.unwrap();
    let refused = store.migrate().await.unwrap_err().to_string();

    let expected = format!("there is no schema `{schema}`, and this role may not create it");
    assert!(refused.contains(&expected) && refused.contains("CREATE SCHEMA"), "{refused}");
    store.close().await;
    stage.drop_role(&role).await;
}

/// S7: the printed migrations make what `migrate` makes, run as a whole by `psql`; and as a tool runs them that opens
/// the transaction itself, they are undone with it.
pub(crate) async fn printed_migrations_equal_migrate(stage: &PostgresStage) {
    let printed = unique_name();
    let sql = migrations_sql(&Names::new(Some(&printed), "").unwrap());

    let mut tool = PgConnection::connect(&stage.url).await.unwrap();
    sqlx::raw_sql("BEGIN").execute(&mut tool).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(&mut tool).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut tool).await.unwrap();
    run_by_psql(&stage.url, &sql);

    let store = PostgresStore::options(&stage.url).schema(&printed).connect().await.unwrap();
    assert_eq!(store.check().await.unwrap(), 2);
    let (printed_shape, shape) = (shape(stage, &printed).await, shape(stage, &stage.schema).await);
    for (printed, migrated) in printed_shape.iter().zip(&shape) {
        assert_eq!(printed, migrated);
    }
    assert_eq!(printed_shape.len(), shape.len());
    store.close().await;
    stage.execute(format!("DROP SCHEMA {printed} CASCADE")).await;
}

/// Runs SQL as one transaction, as the guide says.
pub(crate) fn run_by_psql(url: &str, sql: &str) {
    let mut psql = Command::new("psql");
    psql.args([url, "--no-psqlrc", "--quiet", "--single-transaction", "--set", "ON_ERROR_STOP=1"])
        .stdin(Stdio::piped());
    let mut running = psql.spawn().expect("psql is installed");
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), sql.as_bytes()).unwrap();
    assert!(running.wait().unwrap().success());
}

/// All that a schema consists of, without its name.
async fn shape(stage: &PostgresStage, schema: &str) -> Vec<String> {
    let parts = "
        SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
        FROM information_schema.columns
        WHERE table_schema = $1
        UNION ALL
        SELECT indexdef FROM pg_indexes WHERE schemaname = $1
        UNION ALL
        SELECT format('%s %s', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = $1::regnamespace
        UNION ALL
        SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
        UNION ALL
        SELECT pg_get_triggerdef(pg_trigger.oid)
        FROM pg_trigger
        JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = $1::regnamespace
        UNION ALL
        SELECT format('%s %s', relname, reloptions) FROM pg_class WHERE relnamespace = $1::regnamespace";
    // A connection without a search path of its own: all names come with their schema.
    let mut connection = PgConnection::connect(&stage.url).await.unwrap();
    let rows = sqlx::query(parts).bind(schema).fetch_all(&mut connection).await.unwrap();
    let mut shape: Vec<String> = rows.iter().map(|row| row.get::<String, _>(0).replace(schema, "")).collect();
    shape.sort();
    shape
}

/// S1: the table has all its columns from the first migration on.
pub(crate) async fn table_has_all_columns(stage: &PostgresStage) {
    let needed = "seq event_id event_type aggregate_type aggregate_id tenant_id event_key event_partition \
        occurred_at headers context payload payload_bytes status attempts starts created_at due_at available_at \
        done_at token locked_by locked_at last_error reason handlers";

    let shape = shape(stage, &stage.schema).await;

    for name in needed.split_whitespace() {
        let begin = format!("outbox_event.{name} ");
        assert!(shape.iter().any(|line| line.starts_with(&begin)), "{name}");
    }
}

/// W12: the shortest INSERT writes an event that is due now; a row without any payload, or with two, is refused.
pub(crate) async fn shortest_insert_has_defaults(stage: &PostgresStage) {
    let insert =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('order-17', 'OrderPlaced', '{}')";
    stage.execute(insert).await;

    let taken = pillarbox_testkit::conformance::claim_one(stage).await;
    assert_eq!((taken.event_id.as_str(), taken.event.unwrap().key()), ("order-17", None));
    let mut connection = stage.connection().await;
    for wrong in ["NULL, NULL", "'{}', ''"] {
        let insert = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, payload_bytes) VALUES ('order-18', 'OrderPlaced', {wrong})"
        );
        let refused = sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut connection).await;
        assert!(refused.unwrap_err().as_database_error().unwrap().is_check_violation());
    }
}

/// O3, W12: a row that was written without a partition gets the one that its key hashes to, or one by its number; ours
/// have it already.
pub(crate) async fn missing_partition_is_filled_in(stage: &PostgresStage) {
    let mut connection = stage.connection().await;
    for (key, _, _) in VECTORS {
        let insert = "INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES (md5($1), 't', '{}', $1)";
        sqlx::query(insert).bind(key).execute(&mut connection).await.unwrap();
    }
    stage
        .execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('none', 't', '{}')")
        .await;
    stage.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, event_key, event_partition) VALUES ('set', 't', '{}', 'a', 7)",
    )
    .await;
    write(stage, &[order_placed("order-17")]).await;

    for (key, _, partition) in VECTORS {
        let row = sqlx::query("SELECT event_partition FROM outbox_event WHERE event_id = md5($1)").bind(key);
        let found: i16 = row.fetch_one(&mut connection).await.unwrap().get(0);
        assert_eq!(found, i16::from(*partition), "{key:?}");
    }
    let other = "SELECT event_partition FROM outbox_event WHERE event_id = 'none' OR event_id = 'set' OR aggregate_id = 'order-17' ORDER BY seq";
    let other: Vec<Option<i16>> =
        sqlx::query(other).fetch_all(&mut connection).await.unwrap().iter().map(|row| row.get(0)).collect();
    let by_number = (VECTORS.len() + 1) % 256;
    assert_eq!(other, [Some(by_number as i16), Some(7), Some(192)]);
}
