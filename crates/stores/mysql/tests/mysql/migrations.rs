//! Migrations: by name, at once, cut off, printed, and without the privilege for triggers.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{Administration, StoreError, TxStore};
use pillarbox_mysql::{MySqlStore, migrations_sql};
use pillarbox_sql::Names;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::stage::MySqlStage;

const FIRST: &str = include_str!("../../migrations/0001_outbox.sql");
const SECOND: &str = include_str!("../../migrations/0002_ownership.sql");
const TRIGGER: &str = include_str!("../../migrations/0001_trigger.sql");

/// The outbox as the first version had it.
async fn first_version(stage: &MySqlStage) {
    stage.empty().await;
    stage.run(FIRST).await;
    stage.run(TRIGGER).await;
    stage.run("INSERT INTO outbox_meta (name, value) VALUES ('schema_version', '1')").await;
}

/// Every definition in a database, by name.
async fn definitions(stage: &MySqlStage, database: &str) -> BTreeMap<String, String> {
    let mut connection = stage.connection().await;
    connection.execute(AssertSqlSafe(format!("USE {database}"))).await.unwrap();
    let mut definitions = BTreeMap::new();
    for (list, show, column) in
        [("SHOW TABLES", "SHOW CREATE TABLE", 1), ("SHOW TRIGGERS", "SHOW CREATE TRIGGER", 2)]
    {
        for row in connection.fetch_all(list).await.unwrap() {
            let name: String = row.try_get(0).unwrap();
            let shown = connection.fetch_one(AssertSqlSafe(format!("{show} {name}"))).await.unwrap();
            let mut text: String = shown.try_get(column).unwrap();
            if let Some(at) = text.find(" AUTO_INCREMENT=") {
                let end = at + 1 + text[at + 1..].find(' ').unwrap();
                text.replace_range(at..end, "");
            }
            let text = text.replace(&format!("`{database}`."), "").replace(&format!("{database}."), "");
            definitions.insert(name, text);
        }
    }
    definitions
}

/// Writes an event and counts it.
async fn assert_works(store: &MySqlStore) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[Event::of_json("OrderPlaced", "{}").unwrap()], None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// S6: a schema, a prefix, and both together lead to outboxes of their own; a missing database is created.
pub(crate) async fn names_lead_to_outboxes_of_their_own(stage: &MySqlStage) {
    let elsewhere = format!("{}_b", stage.database.replace("pb_", "p"));
    let elsewhere = &elsewhere[..elsewhere.len().min(32)];
    assert_works(&stage.store).await;

    for (schema, prefix) in [(None, "eu_"), (Some(elsewhere), ""), (Some(elsewhere), "eu_")] {
        let options = stage.options().prefix(prefix);
        let options = match schema {
            Some(schema) => options.schema(schema),
            None => options,
        };
        let store = options.connect().await.unwrap();
        assert!(matches!(store.check().await, Err(StoreError::NotMigrated)), "{schema:?} {prefix}");
        assert!(matches!(store.stats().await, Err(StoreError::NotMigrated)), "{schema:?} {prefix}");

        assert_eq!(store.migrate().await.unwrap(), 2);
        assert_eq!(store.migrate().await.unwrap(), 2);

        assert_works(&store).await;
        assert_eq!(store.highest().await.unwrap(), 1);
        store.close().await;
    }
    let tables = format!(
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema IN ('{}', '{elsewhere}')",
        stage.database
    );
    assert_eq!(stage.number(&tables).await, 20);
    let triggers = tables.replace("tables", "triggers").replace("table_schema", "trigger_schema");
    assert_eq!(stage.number(&triggers).await, 4);
    stage.run(&format!("DROP DATABASE {elsewhere}")).await;
}

/// S6: a word of SQL names a database like any other.
pub(crate) async fn reserved_word_is_a_database(stage: &MySqlStage) {
    stage.run("DROP DATABASE IF EXISTS `references`").await;
    let store = stage.options().schema("references").connect().await.unwrap();

    store.migrate().await.unwrap();

    assert_works(&store).await;
    store.close().await;
    stage.run("DROP DATABASE `references`").await;
}

/// S6: processes that migrate at once all succeed, and agree.
pub(crate) async fn migrations_at_once_agree(stage: &MySqlStage) {
    stage.empty().await;
    let mut stores = Vec::new();
    for _ in 0..8 {
        stores.push(stage.options().connect().await.unwrap());
    }

    let migrating = stores.iter().cloned().map(|store| tokio::spawn(async move { store.migrate().await }));
    for migrated in migrating.collect::<Vec<_>>() {
        assert_eq!(migrated.await.unwrap().unwrap(), 2);
    }

    assert_works(&stores[0]).await;
    for store in stores {
        store.close().await;
    }
}

/// S6, W8: an outbox is migrated while another on the same server is.
pub(crate) async fn migrations_of_two_outboxes_wait_for_each_other_not(stage: &MySqlStage) {
    let mut other = stage.connection().await;
    let lock = include_str!("../../src/migration/lock.sql");
    let locked = sqlx::query_scalar::<_, i64>(lock).bind(&stage.database).bind("eu_").bind(0);
    assert_eq!(locked.fetch_one(&mut other).await.unwrap(), 1);

    let migrated = timeout(Duration::from_secs(10), stage.store.migrate()).await;

    assert_eq!(migrated.expect("nobody migrates this one").unwrap(), 2);
}

/// S6: a migration that was cut off after any statement is completed by the next.
pub(crate) async fn migration_that_was_cut_off_is_completed(stage: &MySqlStage) {
    let expected = definitions(stage, &stage.database).await;
    let second = SECOND.replace(":database", "DATABASE()").replace(":prefix", "");
    let statements: Vec<&str> = FIRST.split_inclusive(";\n").chain(second.split_inclusive(";\n")).collect();
    assert!(statements.len() > 10);

    for cut in 0..=statements.len() {
        stage.empty().await;
        // In one session: a statement that is prepared belongs to it.
        stage.run(&format!("DO 0;{}", statements[..cut].concat())).await;
        if cut == statements.len() {
            stage.run(TRIGGER).await;
        }
        assert!(matches!(stage.store.check().await, Err(StoreError::NotMigrated)), "after {cut} statements");

        assert_eq!(stage.store.migrate().await.unwrap(), 2, "after {cut} statements");

        assert_eq!(definitions(stage, &stage.database).await, expected, "after {cut} statements");
        assert_works(&stage.store).await;
    }
}

/// S6, O3: an outbox of the first version keeps its rows, of which none is written anew, and its mode is `claims`.
pub(crate) async fn first_version_keeps_its_rows(stage: &MySqlStage) {
    let migrated = definitions(stage, &stage.database).await;
    first_version(stage).await;
    for status in 0..4 {
        let event = format!("('event-{status}', 'OrderPlaced', '{{}}', 'order-{status}', {status})");
        let columns = "event_id, event_type, payload, event_key, status";
        stage.run(&format!("INSERT INTO outbox_event ({columns}) VALUES {event}")).await;
    }
    let table = async || {
        let list = if stage.is_mariadb().await { "innodb_sys_tables" } else { "innodb_tables" };
        let name = format!("{}/outbox_event", stage.database);
        let sql =
            format!("SELECT CAST(table_id AS SIGNED) FROM information_schema.{list} WHERE name = '{name}'");
        stage.number(&sql).await
    };
    let before = table().await;
    assert!(matches!(stage.store.check().await, Err(StoreError::OlderSchema { found: 1, needed: 2 })));

    assert_eq!(stage.store.migrate().await.unwrap(), 2);

    assert_eq!(table().await, before, "the table was not made anew");
    assert_eq!(definitions(stage, &stage.database).await, migrated);
    let stats = stage.store.stats().await.unwrap();
    assert_eq!((stats.new, stats.retry, stats.dead, stats.done_estimate), (1, 1, 1, 1));
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_partition WHERE epoch = 0").await, 256);
    assert_eq!(stage.number("SELECT value = 'claims' FROM outbox_meta WHERE name = 'mode'").await, 1);
}

/// S6: tables of a newer program are refused, and left as they are.
pub(crate) async fn newer_tables_are_refused(stage: &MySqlStage) {
    stage.run("UPDATE outbox_meta SET value = '3' WHERE name = 'schema_version'").await;

    for refused in [
        stage.store.check().await.unwrap_err(),
        stage.store.migrate().await.unwrap_err(),
        stage.options().connect().await.unwrap_err(),
    ] {
        assert!(matches!(refused, StoreError::NewerSchema { found: 3, known: 2 }), "{refused:?}");
    }
}

/// S6: what is printed does what migrating does, run by the client that people have.
pub(crate) async fn printed_sql_does_the_same(stage: &MySqlStage) {
    let migrated = definitions(stage, &stage.database).await;
    let prefixed = migrations_sql(&Names::new(Some(&stage.database), "eu_").unwrap());
    let plain = migrations_sql(&Names::default());
    stage.empty().await;

    run_by_client(stage, &plain).await;
    run_by_client(stage, &prefixed).await;
    run_by_client(stage, &prefixed).await;

    let printed = definitions(stage, &stage.database).await;
    for (name, definition) in &migrated {
        assert_eq!(&printed[name], definition);
        let renamed = definition.replace("outbox_", "eu_outbox_");
        assert_eq!(printed[&format!("eu_{name}")], renamed);
    }
    assert_eq!(printed.len(), 2 * migrated.len());
    assert_eq!(stage.store.check().await.unwrap(), 2);
    assert_works(&stage.store).await;
}

async fn run_by_client(stage: &MySqlStage, sql: &str) {
    let mut client = tokio::process::Command::from(stage.mariadb())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the `mariadb` client is installed");
    let mut input = client.stdin.take().unwrap();
    input.write_all(sql.as_bytes()).await.unwrap();
    drop(input);
    let ended = client.wait_with_output().await.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// S6: who may not create triggers gets the tables, and who may adds the trigger later.
pub(crate) async fn trigger_is_added_when_it_is_allowed(stage: &MySqlStage) {
    stage.empty().await;
    let grant = "GRANT CREATE, ALTER, SELECT, INSERT, UPDATE ON shop.* TO 'plain'@'%'";
    let user = stage.user("plain", "seventeen", &[grant]).await;
    let url = stage.options_as(&user, "seventeen").to_url_lossy();
    let plain = MySqlStore::connect(url.to_string()).await.unwrap();

    assert_eq!(plain.migrate().await.unwrap(), 2);
    assert_works(&plain).await;
    assert!(!definitions(stage, &stage.database).await.contains_key("outbox_event_partition"));

    assert_eq!(stage.store.migrate().await.unwrap(), 2);
    assert!(definitions(stage, &stage.database).await.contains_key("outbox_event_partition"));

    plain.close().await;
    stage.drop_user(&user).await;
}
