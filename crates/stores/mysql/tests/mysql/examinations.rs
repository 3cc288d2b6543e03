//! What an operator is told about a database, each thing seen to be told.

use std::time::Duration;

use pillarbox::store::{Check, Health, Mode};
use pillarbox_mysql::{MySqlOptions, MySqlStore};
use sqlx::{Connection, Executor};

use crate::stage::MySqlStage;

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn examine(options: MySqlOptions) -> Vec<Check> {
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

/// M5: a database that is in order gives no cause for complaint, in both modes.
pub(crate) async fn good_database_has_no_finding(stage: &MySqlStage) {
    for (mode, index) in [(Mode::Claims, "outbox_event_pending"), (Mode::Ownership, "outbox_event_fresh")] {
        stage.store.migrate_to(mode).await.unwrap();

        let checks = examine(stage.options()).await;

        // Transactions belong to the whole server, where other tests play.
        let bad = checks.iter().filter(|check| check.health != Health::Ok && check.name != "transactions");
        assert_eq!(bad.collect::<Vec<_>>(), Vec::<&Check>::new());
        assert_told(&checks, "plan", Health::Ok, &format!("goes by `{index}`"));
        assert_told(&checks, "mode", Health::Ok, &format!("`{mode}`"));
        let names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        for name in ["database", "schema", "clock", "durability", "packet", "numbers", "bloat", "history"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }
}

/// S7: what cannot be reached, and versions that do not fit, are problems; no password is told.
pub(crate) async fn missing_outbox_and_other_versions_are_problems(stage: &MySqlStage) {
    let away = MySqlStore::options("mysql://shop:seventeen@127.0.0.1:1/shop").examine().await.unwrap();
    assert_told(&away.checks, "database", Health::Problem, "`127.0.0.1:1` cannot be reached");
    assert_eq!(away.checks.len(), 1);
    assert!(!format!("{away:?}").contains("seventeen"));

    for (version, text) in [("1", "version 1, and this program needs 2"), ("99", "use a newer build")] {
        stage.run(&format!("UPDATE outbox_meta SET value = '{version}' WHERE name = 'schema_version'")).await;
        assert_told(&examine(stage.options()).await, "schema", Health::Problem, text);
    }
    stage.empty().await;
    assert_told(
        &examine(stage.options()).await,
        "schema",
        Health::Problem,
        "there is no outbox in this database",
    );
}

/// S9: an index that somebody dropped is named, and so is the statement that needs it.
pub(crate) async fn missing_index_is_a_problem(stage: &MySqlStage) {
    for (mode, index) in [(Mode::Claims, "outbox_event_pending"), (Mode::Ownership, "outbox_event_fresh")] {
        stage.store.migrate_to(mode).await.unwrap();
        stage.run(&format!("DROP INDEX {index} ON outbox_event")).await;

        let checks = examine(stage.options()).await;
        stage.store.migrate_to(mode).await.unwrap();

        assert_told(&checks, "indexes", Health::Problem, &format!("`{index}` is missing"));
        assert_told(&checks, "plan", Health::Problem, &format!("run `pillarbox migrate --mode {mode}`"));
        assert_told(&examine(stage.options()).await, "indexes", Health::Ok, "");
    }
}

/// O3: a change of the mode that was cut off is told, with what completes it.
pub(crate) async fn half_changed_mode_is_a_problem(stage: &MySqlStage) {
    stage.run("UPDATE outbox_meta SET value = 'to ownership' WHERE name = 'mode'").await;

    let checks = examine(stage.options()).await;

    assert_told(&checks, "indexes", Health::Problem, "`pillarbox migrate --mode ownership` to complete it");
}

/// A transaction that has written and does not end is named by its session.
pub(crate) async fn open_writer_is_named_by_its_session(stage: &MySqlStage) {
    let mut writer = stage.connection().await;
    let session: i64 =
        sqlx::query_scalar("SELECT CAST(CONNECTION_ID() AS SIGNED)").fetch_one(&mut writer).await.unwrap();
    writer.execute("START TRANSACTION").await.unwrap();
    let insert = "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'OrderPlaced', '{}')";
    writer.execute(insert).await.unwrap();

    let begun = std::time::Instant::now();
    let check = loop {
        let checks = examine(stage.options()).await;
        let check = of(&checks, "transactions").clone();
        if check.found.contains(&format!("session {session} (")) {
            break check;
        }
        assert!(begun.elapsed() < PATIENCE, "{check}");
    };
    writer.close().await.unwrap();

    assert_eq!(check.health, Health::Warning);
    assert!(check.found.contains("it has written and not ended"), "{check}");
}

/// M6: what a user may not see is unknown, with the grant that is missing, and never well.
pub(crate) async fn missing_privilege_is_unknown(stage: &MySqlStage) {
    let user = stage.user("nurse", "seventeen", &["GRANT SELECT ON shop.outbox_meta TO 'nurse'"]).await;
    let url = sqlx::ConnectOptions::to_url_lossy(&stage.options_as(&user, "seventeen")).to_string();

    let checks = examine(MySqlStore::options(url)).await;
    stage.drop_user(&user).await;

    assert_told(&checks, "schema", Health::Ok, "version 2");
    for name in ["instances", "backlog", "dead", "done", "plan"] {
        assert_told(&checks, name, Health::Unknown, "GRANT SELECT");
    }
    for name in ["indexes", "bloat"] {
        assert_told(
            &checks,
            name,
            Health::Unknown,
            "not shown to this user; give `GRANT SELECT ON outbox_event`",
        );
    }
    let grant = format!("give `GRANT PROCESS ON *.* TO '{user}'`");
    for name in ["transactions", "history"] {
        assert_told(&checks, name, Health::Unknown, &grant);
    }
    assert_eq!(of(&checks, "durability").health, Health::Ok);
}
