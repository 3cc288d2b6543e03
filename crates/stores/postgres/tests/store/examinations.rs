//! What an operator is told about a database, each thing seen to be told.

use std::time::Duration;

use pillarbox::store::{Check, Health, Mode};
use pillarbox_postgres::{PostgresOptions, PostgresStore};
use pillarbox_testkit::servers::unique_name;
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::stage::PostgresStage;

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn examine(options: PostgresOptions) -> Vec<Check> {
    options.examine().await.unwrap().checks
}

/// The check of this name.
#[track_caller]
fn of<'c>(checks: &'c [Check], name: &str) -> &'c Check {
    checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{name}: {checks:#?}"))
}

#[track_caller]
fn assert_told(checks: &[Check], name: &str, health: Health, text: &str) {
    let check = of(checks, name);
    assert_eq!(check.health, health, "{check}");
    assert!(check.to_string().contains(text), "{text}: {check}");
}

/// Examines again and again until a check warns of this.
async fn until_told(stage: &PostgresStage, name: &str, text: &str) -> Check {
    let begun = std::time::Instant::now();
    loop {
        let checks = examine(stage.options()).await;
        let check = of(&checks, name);
        if check.health == Health::Warning && check.found.contains(text) {
            return check.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "{check}");
    }
}

/// M5: a database that is in order gives no cause for complaint, in both modes.
pub(crate) async fn good_database_has_no_finding(stage: &PostgresStage) {
    let own = stage.beside().await;
    for (mode, index) in [(Mode::Claims, "outbox_event_pending"), (Mode::Ownership, "outbox_event_numbers")] {
        own.store.migrate_to(mode).await.unwrap();

        let checks = examine(own.options()).await;

        // Settings of roles and slots belong to the whole server, where other tests play.
        let of_server = ["durability", "slots"];
        let bad =
            checks.iter().filter(|check| check.health != Health::Ok && !of_server.contains(&check.name));
        assert_eq!(bad.collect::<Vec<_>>(), Vec::<&Check>::new());
        assert_told(&checks, "plan", Health::Ok, &format!("goes by `{index}`"));
        assert_told(&checks, "mode", Health::Ok, &format!("`{mode}`"));
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        for name in
            ["database", "schema", "clock", "durability", "vacuum", "numbers", "bloat", "prepared", "slots"]
        {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }
    own.drop_from(stage).await;
}

/// S7: what cannot be reached, and versions that do not fit, are problems; no password is told.
pub(crate) async fn missing_outbox_and_other_versions_are_problems(stage: &PostgresStage) {
    let (scheme, rest) = stage.url.split_once("://").unwrap();
    let (user, place) = rest.split_once('@').unwrap();
    let (_, database) = place.split_once('/').unwrap();
    let password = user.split_once(':').unwrap().1;
    let away = PostgresStore::options(format!("{scheme}://{user}@127.0.0.1:1/{database}"));
    let diagnosis = away.examine().await.unwrap();
    assert_told(&diagnosis.checks, "database", Health::Problem, "`127.0.0.1:1` cannot be reached");
    assert_eq!(diagnosis.checks.len(), 1);
    assert!(!format!("{diagnosis:?}").contains(password));

    let empty = PostgresStore::options(&stage.url).schema(unique_name());
    assert_told(&examine(empty).await, "schema", Health::Problem, "there is no outbox in this database");
    for (version, text) in [("1", "version 1, and this program needs 2"), ("99", "use a newer build")] {
        stage
            .execute(format!("UPDATE outbox_meta SET value = '{version}' WHERE name = 'schema_version'"))
            .await;
        assert_told(&examine(stage.options()).await, "schema", Health::Problem, text);
    }
}

/// Guarantee 1: a clock that is off is told, with how far; here by a function that stands before the server's own.
pub(crate) async fn clock_that_is_off_is_told(stage: &PostgresStage) {
    let schema = &stage.schema;
    stage
        .execute(format!(
            "CREATE FUNCTION {schema}.clock_timestamp() RETURNS timestamptz LANGUAGE sql
             AS 'SELECT pg_catalog.clock_timestamp() + interval ''90 minutes 30 seconds'''"
        ))
        .await;
    let mark = if stage.url.contains('?') { "&" } else { "?" };
    let url = format!("{}{mark}options=-c%20search_path={schema},pg_catalog", stage.url);

    let checks = examine(PostgresStore::options(url).schema(schema)).await;

    assert_told(&checks, "clock", Health::Warning, "1 h 30 min ahead of this machine's, give or take");
    assert_told(&checks, "clock", Health::Warning, "`occurred_at`");
}

/// S9: an index that is missing or invalid is named, with the statement that mends it; the plan shows it too.
pub(crate) async fn missing_and_invalid_indexes_are_problems(stage: &PostgresStage) {
    let schema = &stage.schema;
    stage.execute("DROP INDEX outbox_event_pending").await;
    let checks = examine(stage.options()).await;
    assert_told(&checks, "indexes", Health::Problem, "`outbox_event_pending` is missing");
    assert_told(&checks, "plan", Health::Problem, "the take does not go by `outbox_event_pending`");

    let remedy = of(&checks, "indexes").remedy.clone().unwrap();
    let statement = remedy.strip_prefix("run `").unwrap().trim_end_matches('`');
    assert!(statement.starts_with("CREATE INDEX CONCURRENTLY"), "{remedy}");
    stage.execute(statement).await;
    let checks = examine(stage.options()).await;
    assert_told(&checks, "indexes", Health::Ok, "all 5");
    assert_told(&checks, "plan", Health::Ok, "goes by `outbox_event_pending`");

    stage
        .execute(format!(
            "UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = '{schema}.outbox_event_pending'::regclass"
        ))
        .await;
    let checks = examine(stage.options()).await;
    assert_told(&checks, "indexes", Health::Problem, "`outbox_event_pending` is invalid");
    let remedy = format!("REINDEX INDEX CONCURRENTLY {schema}.outbox_event_pending");
    assert_told(&checks, "indexes", Health::Problem, &remedy);
}

/// O3: the fetch of owners is looked at, and numbers that are not given one by one are a problem to them.
pub(crate) async fn owners_need_their_index_and_their_numbers(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    stage.execute("DROP INDEX outbox_event_numbers; ALTER SEQUENCE outbox_event_seq_seq CACHE 50").await;

    let checks = examine(stage.options()).await;

    assert_told(&checks, "indexes", Health::Problem, "`outbox_event_numbers` is missing");
    assert_told(&checks, "plan", Health::Problem, "the fetch does not go by `outbox_event_numbers`");
    assert_told(&checks, "numbers", Health::Problem, "the cache 50");
}

/// DESIGN: an open writer holds the floor, not the delivery; the doctor names its pid.
pub(crate) async fn open_writer_is_named_by_its_pid(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let mut writer = stage.connection().await;
    let (pid,): (i32,) = sqlx::query_as("SELECT pg_backend_pid()").fetch_one(&mut writer).await.unwrap();
    writer.execute("BEGIN").await.unwrap();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'OrderPlaced', '{}')";
    writer.execute(insert).await.unwrap();

    let check = until_told(stage, "transactions", &format!("pid {pid} (")).await;
    writer.execute("ROLLBACK").await.unwrap();

    assert!(check.found.starts_with(&format!("pid {pid} (")), "{check}");
    assert!(
        check.found.contains("(idle in transaction): it has written to the outbox and holds the floor"),
        "{check}"
    );
    let after = examine(stage.options()).await;
    assert!(!of(&after, "transactions").found.contains(&format!("pid {pid} ")), "{after:?}");
}

/// Guarantee 1: commits that do not wait for the disk are told, of our role and of others.
pub(crate) async fn asynchronous_commits_are_told(stage: &PostgresStage) {
    let own = stage.beside().await;
    let (_, database) = own.url.rsplit_once('/').unwrap();
    let role = unique_name();
    stage
        .execute(format!(
            "CREATE ROLE {role}; ALTER ROLE {role} IN DATABASE {database} SET synchronous_commit = off"
        ))
        .await;
    assert_told(&examine(own.options()).await, "durability", Health::Warning, &role);

    stage.execute(format!("ALTER DATABASE {database} SET synchronous_commit = off")).await;
    let text = "`synchronous_commit` is off for this role";
    assert_told(&examine(own.options()).await, "durability", Health::Warning, text);
    own.drop_from(stage).await;
    stage.execute(format!("DROP ROLE {role}")).await;
}

/// Dead versions that nobody clears away are counted, and who keeps them from being so.
pub(crate) async fn bloat_is_told(stage: &PostgresStage) {
    stage.execute("ALTER TABLE outbox_event SET (autovacuum_enabled = off)").await;
    assert_told(&examine(stage.options()).await, "bloat", Health::Warning, "RESET (autovacuum_enabled)");

    // So rarely that nobody comes meanwhile.
    stage
        .execute(
            "ALTER TABLE outbox_event RESET (autovacuum_enabled);
             ALTER TABLE outbox_event SET
                (autovacuum_vacuum_threshold = 2000000000, autovacuum_vacuum_insert_threshold = -1);
             INSERT INTO outbox_event (event_id, event_type, payload)
             SELECT 'event-' || n, 'OrderPlaced', '{}' FROM generate_series(1, 60000) AS n;
             DELETE FROM outbox_event",
        )
        .await;
    let check = until_told(stage, "bloat", "60000 dead").await;

    assert!(check.to_string().contains("60000 dead versions of rows to 0 live ones"), "{check}");
    assert!(check.to_string().contains(&format!("run `VACUUM {}.outbox_event`", stage.schema)), "{check}");
}

/// A replication slot that nobody reads is named.
pub(crate) async fn slot_without_a_reader_is_named(stage: &PostgresStage) {
    let own = stage.beside().await;
    let slot = unique_name();
    own.execute(format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")).await;

    let checks = examine(own.options()).await;
    own.execute(format!("SELECT pg_drop_replication_slot('{slot}')")).await;

    let text = format!("nobody reads the replication slot `{slot}`: it keeps old versions of rows");
    assert_told(&checks, "slots", Health::Warning, &text);
    own.drop_from(stage).await;
}

/// M6: what a role may not see is unknown, with the grant that is missing, and never well.
pub(crate) async fn missing_privilege_is_unknown(stage: &PostgresStage) {
    let own = stage.beside().await;
    let (role, schema) = (unique_name(), own.schema.clone());
    let url = own.login(&role, &format!("GRANT USAGE ON SCHEMA {schema} TO {role}")).await;
    let options = || PostgresStore::options(&url).schema(&schema);

    let text = format!("`GRANT SELECT ON {schema}.outbox_meta TO {role}`");
    assert_told(&examine(options()).await, "schema", Health::Unknown, &text);

    own.execute(format!("GRANT SELECT ON {schema}.outbox_meta TO {role}")).await;
    let mut other = own.connection().await;
    other.execute("SELECT 1").await.unwrap();
    let checks = examine(options()).await;
    for name in ["instances", "backlog", "dead", "done", "plan"] {
        assert_told(&checks, name, Health::Unknown, "GRANT ");
    }
    let grant = format!("give `GRANT pg_read_all_stats TO {role}`");
    assert_told(&checks, "transactions", Health::Unknown, &grant);
    for seen in ["schema", "clock", "indexes", "bloat"] {
        assert_eq!(of(&checks, seen).health, Health::Ok, "{}", of(&checks, seen));
    }

    own.execute(format!("GRANT pg_read_all_stats TO {role}")).await;
    assert_told(&examine(options()).await, "transactions", Health::Ok, "");
    other.close().await.unwrap();
    own.execute(format!("DROP OWNED BY {role}")).await;
    own.drop_from(stage).await;
    stage.execute(format!("DROP ROLE {role}")).await;
}

/// Looking leaves nothing behind: no session, no prepared statement, no lock.
pub(crate) async fn examination_leaves_nothing_behind(stage: &PostgresStage) {
    let mark = unique_name();
    let joint = if stage.url.contains('?') { "&" } else { "?" };
    let url = format!("{}{joint}application_name={mark}", stage.url);
    let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{mark}'");

    examine(PostgresStore::options(url).schema(&stage.schema)).await;

    let begun = std::time::Instant::now();
    let mut connection = stage.connection().await;
    loop {
        let query = sqlx::query_scalar(AssertSqlSafe(sessions.clone()));
        let left: i64 = query.fetch_one(&mut connection).await.unwrap();
        if left == 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{left} sessions are left");
    }
}
