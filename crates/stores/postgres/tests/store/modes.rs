//! Changing the mode: who may, when, and what becomes of the indexes.

use std::time::Duration;

use pillarbox::store::{Administration, Instance, Mode, Ownership, StoreError, TxStore};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::ownership::{join, unnamed};
use pillarbox_testkit::conformance::{StoreHarness, claim, order_placed, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::Row;

use crate::roles::role;
use crate::stage::PostgresStage;

/// The indexes of the table, by name.
async fn indexes(stage: &PostgresStage) -> Vec<String> {
    let names = "SELECT indexname FROM pg_indexes WHERE schemaname = $1 AND tablename = 'outbox_event' ORDER BY indexname";
    let rows = sqlx::query(names).bind(&stage.schema).fetch_all(&mut stage.connection().await).await.unwrap();
    rows.iter().map(|row| row.get::<String, _>(0).replace("outbox_event_", "")).collect()
}

fn in_claims(name: &str) -> Instance {
    Instance { mode: Mode::Claims, ..unnamed(name) }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> String {
    match answer {
        Err(StoreError::Config(text)) => text,
        other => panic!("not refused: {other:?}"),
    }
}

/// O3: every mode has its own indexes, and none of the other's.
pub(crate) async fn indexes_belong_to_the_mode(stage: &PostgresStage) {
    let both = ["aggregate", "dead", "event_id_key", "pkey"];
    let with = |others: &[&str]| {
        let mut all: Vec<String> = both.iter().chain(others).map(|&name| name.to_owned()).collect();
        all.sort();
        all
    };
    let (claims, ownership) = (with(&["pending"]), with(&["aside", "held", "numbers", "unplaced"]));

    assert_eq!(indexes(stage).await, claims);
    for _ in 0..2 {
        stage.store.migrate_to(Mode::Ownership).await.unwrap();
        assert_eq!(indexes(stage).await, ownership);
        stage.store.migrate_to(Mode::Claims).await.unwrap();
        assert_eq!(indexes(stage).await, claims);
    }
}

/// O3: an operator who repeats the mode gets indexes back that somebody dropped; if all are there, no open transaction
/// stands in the way.
pub(crate) async fn dropped_indexes_are_made_anew(stage: &PostgresStage) {
    for mode in [Mode::Claims, Mode::Ownership] {
        stage.store.migrate_to(mode).await.unwrap();
        let all = indexes(stage).await;
        let of_both = ["aggregate", "dead", "event_id_key", "pkey"];
        for name in all.iter().filter(|name| !of_both.contains(&name.as_str())) {
            stage.execute(format!("DROP INDEX outbox_event_{name}")).await;
            stage.store.migrate_to(mode).await.unwrap();
            assert_eq!(indexes(stage).await, all, "{name}");
        }

        let mut writer = stage.store.begin().await.unwrap();
        stage.store.insert(&mut writer, &[order_placed("order-17")], None).await.unwrap();
        stage.store.migrate_to(mode).await.unwrap();
        PostgresStore::rollback(writer).await.unwrap();
    }
}

/// O3: names with a schema and a prefix, capitals included, keep the indexes of several outboxes apart.
pub(crate) async fn modes_of_several_outboxes_are_apart(stage: &PostgresStage) {
    let other = stage.options().prefix("Eu_").connect().await.unwrap();
    other.migrate_to(Mode::Ownership).await.unwrap();

    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    stage.store.migrate_to(Mode::Claims).await.unwrap();

    let name =
        "SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname = 'Eu_outbox_event_numbers'";
    let row = sqlx::query(name).bind(&stage.schema).fetch_one(&mut stage.connection().await).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 1);
    other.join(&unnamed("relay")).await.unwrap();
    other.close().await;
}

/// O3: a role that does not own the table cannot change its mode, learns what to do, and joins when that was done.
pub(crate) async fn mode_is_changed_by_the_owner_of_the_table(stage: &PostgresStage) {
    let (role, relay) = role(stage, "relay").await;

    let text = refused(relay.join(&unnamed("relay")).await);
    assert!(text.contains("`claims`") && text.contains("`pillarbox migrate --mode ownership`"), "{text}");
    stage.store.migrate_to(Mode::Ownership).await.unwrap();

    assert_eq!(relay.join(&unnamed("relay")).await.unwrap(), []);
    relay.close().await;
    stage.drop_role(&role).await;
}

/// O3: an operator does not change the mode under those who are alive.
pub(crate) async fn operator_is_refused_while_instances_are_alive(stage: &PostgresStage) {
    join(stage, &in_claims("relay-1")).await;

    let text = refused(stage.store.migrate_to(Mode::Ownership).await);
    assert!(text.contains("`relay-1`"), "{text}");
    stage.store.migrate_to(Mode::Claims).await.unwrap();
    stage.store.leave(&unnamed("relay-1").owner).await.unwrap();

    stage.store.migrate_to(Mode::Ownership).await.unwrap();
}

/// O3: instances that start at once in a new mode all become members of it, and one of them changes it.
pub(crate) async fn instances_that_join_at_once_agree(stage: &PostgresStage) {
    let joining: Vec<_> = (0..6)
        .map(|number| {
            let options = stage.options();
            tokio::spawn(async move {
                let store = options.connect().await.unwrap();
                let joined = store.join(&unnamed(&format!("relay-{number}"))).await;
                store.close().await;
                joined
            })
        })
        .collect();
    for joined in joining {
        assert_eq!(joined.await.unwrap().unwrap(), []);
    }

    assert_eq!(stage.store.beat(&unnamed("relay-0"), &[]).await.unwrap().members.len(), 6);
}

/// O3: of two instances of different modes that start at once one is refused.
pub(crate) async fn one_of_two_modes_wins(stage: &PostgresStage) {
    for round in 0..5 {
        let (one, other) = (in_claims(&format!("claiming-{round}")), unnamed(&format!("owning-{round}")));
        let elsewhere = stage.elsewhere().await.unwrap();

        let (claiming, owning) = tokio::join!(stage.store.join(&one), elsewhere.join(&other));

        let won = [claiming.is_ok(), owning.is_ok()];
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "{claiming:?} {owning:?}");
        stage.store.leave(&one.owner).await.unwrap();
        stage.store.leave(&other.owner).await.unwrap();
        elsewhere.close().await;
    }
}

/// O1: where numbers are not given one by one partitions are not owned, and the remedy helps.
pub(crate) async fn numbers_are_given_one_by_one(stage: &PostgresStage) {
    for setting in ["CACHE 20", "INCREMENT 10"] {
        stage.execute(format!("ALTER SEQUENCE outbox_event_seq_seq {setting}")).await;

        let text = refused(stage.store.join(&unnamed("relay")).await);
        assert!(text.contains("outbox_event_seq_seq"), "{text}");
        refused(stage.store.migrate_to(Mode::Ownership).await);
        join(stage, &in_claims("claiming")).await;
        stage.store.leave(&unnamed("claiming").owner).await.unwrap();
        let remedy = text.rsplit('`').nth(1).unwrap();
        stage.execute(remedy).await;
    }

    join(stage, &unnamed("relay")).await;
    stage.execute("ALTER SEQUENCE outbox_event_seq_seq CACHE 20").await;
    refused(stage.store.join(&unnamed("relay-2")).await);
}

/// O3: a change that open transactions stand in the way of ends soon, changes nothing, and can be repeated.
pub(crate) async fn change_that_is_locked_out_changes_nothing(stage: &PostgresStage) {
    let store = stage.options().lock_timeout(Duration::from_millis(50)).connect().await.unwrap();
    write(stage, &[order_placed("order-17")]).await;
    let mut writer = stage.store.pool().begin().await.unwrap();
    let schema = &stage.schema;
    let lock = format!("LOCK TABLE {schema}.outbox_event IN ROW EXCLUSIVE MODE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *writer).await.unwrap();

    let locked_out = store.join(&unnamed("relay")).await.unwrap_err();

    assert!(
        locked_out.is_transient() && locked_out.to_string().contains("nothing was changed"),
        "{locked_out}"
    );
    assert!(indexes(stage).await.contains(&"pending".to_owned()));
    assert_eq!(claim(stage, 1).await.events.len(), 1);
    writer.rollback().await.unwrap();
    store.join(&unnamed("relay")).await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending(), 1);
    store.close().await;
}

/// O3: a build that does not know the mode of a table leaves it alone.
pub(crate) async fn unknown_mode_is_left_alone(stage: &PostgresStage) {
    stage.execute("INSERT INTO outbox_meta (name, value) VALUES ('mode', 'stream')").await;

    for text in [
        refused(stage.store.join(&unnamed("relay")).await),
        refused(stage.store.acquire(&unnamed("relay"), &[7]).await),
        refused(
            pillarbox::store::EventStore::take(&*stage.store, pillarbox_testkit::conformance::take(1)).await,
        ),
        refused(stage.store.migrate_to(Mode::Claims).await),
    ] {
        assert!(text.contains("`stream`"), "{text}");
    }
}

/// S7: a table of the first version keeps its rows, and those that have no partition get theirs with the mode.
pub(crate) async fn first_version_is_migrated_with_its_rows(stage: &PostgresStage) {
    let schema = unique_name();
    let first = include_str!("../../migrations/0001_outbox.sql");
    let old = format!(
        "CREATE SCHEMA {schema}; SET search_path = {schema}; {first};
         INSERT INTO outbox_meta VALUES ('schema_version', '1');
         INSERT INTO outbox_event (event_id, event_type, payload, event_key)
         SELECT 'event-' || n, 'OrderPlaced', '{{}}', CASE WHEN n % 2 = 0 THEN 'order-' || n END
         FROM generate_series(1, 3000) AS n"
    );
    stage.execute(old).await;
    let store = PostgresStore::options(&stage.url).schema(&schema).connect().await.unwrap();
    assert!(matches!(store.check().await, Err(StoreError::OlderSchema { found: 1, needed: 2 })));

    assert_eq!(store.migrate_to(Mode::Ownership).await.unwrap(), 2);

    assert_eq!(store.stats().await.unwrap().pending(), 3_000);
    let unplaced = format!("SELECT FROM {schema}.outbox_event WHERE event_partition IS NULL");
    assert_eq!(stage.execute(unplaced).await, 0);
    let relay = unnamed("relay");
    store.join(&relay).await.unwrap();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let held = store.acquire(&relay, &all).await.unwrap();
    let visits: Vec<_> = held.iter().map(pillarbox_testkit::conformance::ownership::visit).collect();
    assert_eq!(store.fetch(&visits, 10_000).await.unwrap().len(), 3_000);
    store.close().await;
    stage.execute(format!("DROP SCHEMA {schema} CASCADE")).await;
}
