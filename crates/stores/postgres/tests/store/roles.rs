//! What each role needs, as the guide gives it: enough, and not too much.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, InsertError, Mode, Outcome, Ownership, Page, PausedRoute, Purge,
    Selection, Settlement, Stats, StoreError, TxStore, WakeUp,
};
use pillarbox::{Outbox, PartitionSet, partition_of};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::ownership::{behind_key, floor, named, parked, visit};
use pillarbox_testkit::conformance::{bury, order_placed, owner, take, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::Executor;

use crate::stage::PostgresStage;

/// The page on which the grants stand.
const GUIDE: &str = include_str!("../../../../../docs/guide/postgresql.md");

/// A store of a new role with the grants that the guide gives for `kind`.
pub(crate) async fn role(stage: &PostgresStage, kind: &str) -> (String, PostgresStore) {
    let role = unique_name();
    let grants = grants(kind, &stage.schema, &role);
    let url = stage.login(&role, &grants).await;
    let store = PostgresStore::options(url).schema(&stage.schema).connect().await.unwrap();
    (role, store)
}

/// The block of SQL on the guide's page that begins with the role's name, for this schema and role.
fn grants(kind: &str, schema: &str, role: &str) -> String {
    let begin = format!("-- {kind}\n");
    let block = GUIDE.split("```").find_map(|block| block.strip_prefix("sql\n")?.strip_prefix(&begin));
    let block = block.unwrap_or_else(|| panic!("the guide has grants for a {kind}"));
    block.replace("shop_role", role).replace("shop", schema)
}

async fn assert_refused(store: &PostgresStore, sql: &'static str) {
    let refused = store.pool().execute(sql).await.unwrap_err();
    let code = refused.as_database_error().unwrap().code().unwrap().into_owned();
    assert_eq!(code, "42501", "{sql}: {refused}");
}

fn denied<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(
        error.to_string().contains("lacks a privilege") && error.to_string().contains("GRANT"),
        "{error}"
    );
}

/// W1, S1: a writer writes one event and many; it cannot read, change or delete any, not even its own.
pub(crate) async fn writer_can_write_and_nothing_else(stage: &PostgresStage) {
    let (role, store) = role(stage, "writer").await;
    let outbox = Outbox::builder(store.clone()).writer_only().start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, order_placed("order-1")).await.unwrap();
    outbox.write_all(&mut tx, (2..=10).map(|n| order_placed(&format!("order-{n}")))).await.unwrap();
    tx.commit().await.unwrap();
    outbox.close().await;

    assert_eq!(store.check().await.unwrap(), 2);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 10);
    denied(store.take(take(1)).await);
    denied(store.stats().await);
    denied(store.census().await);
    let set = format!("SET search_path = {}", stage.schema);
    store.pool().execute(sqlx::AssertSqlSafe(set)).await.unwrap();
    let table = |sql: &str| sql.replace("outbox", &format!("{}.outbox", stage.schema)).leak() as &'static str;
    for sql in [
        "SELECT event_id FROM outbox_event",
        "UPDATE outbox_event SET status = 1",
        "DELETE FROM outbox_event",
        "TRUNCATE outbox_event",
        "UPDATE outbox_meta SET value = '2'",
        "DROP TABLE outbox_event",
    ] {
        assert_refused(&store, table(sql)).await;
    }
    store.close().await;
    stage.drop_role(&role).await;
}

/// V6: a writer that may not read learns that an id was repeated, and which if it wrote only one; of several it is not
/// told one that may be wrong.
pub(crate) async fn writer_learns_of_a_repeated_id(stage: &PostgresStage) {
    let (role, store) = role(stage, "writer").await;
    let event = order_placed("order-17");
    write(stage, std::slice::from_ref(&event)).await;

    let mut tx = store.begin().await.unwrap();
    let alone = store.insert(&mut tx, std::slice::from_ref(&event), None).await;
    PostgresStore::rollback(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let other = order_placed("order-18");
    let among = store.insert(&mut tx, &[other.clone(), event.clone()], None).await;
    PostgresStore::rollback(tx).await.unwrap();

    assert!(matches!(&alone, Err(InsertError::DuplicateId { id }) if id == event.id()), "{alone:?}");
    let Err(InsertError::Store(among @ StoreError::Refused { .. })) = among else { panic!("{among:?}") };
    let table = format!("{}.outbox_event", stage.schema);
    let words = format!("an event id is in `{table}` already; give every event its own id");
    assert!(among.to_string().ends_with(&words), "{among}");
    store.close().await;
    stage.drop_role(&role).await;
}

/// S5, S9, P5: a relay takes, settles, deletes done events, purges, listens and notifies; it cannot drop or
/// empty the tables.
pub(crate) async fn relay_can_deliver_and_not_drop(stage: &PostgresStage) {
    let (role, store) = role(stage, "relay").await;
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let (listener, mut desk) = Desk::open();

    let relay = Outbox::builder(store.clone())
        .name("relay-1")
        .on_aggregate("Order", "OrderPlaced", listener)
        .poller_only()
        .start()
        .unwrap();
    desk.accept_many(2).await;
    // Delivery waits for no member to join.
    while stage.store.census().await.unwrap().alive().count() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    relay.close().await;
    store.announce(PartitionSet::ALL).await;
    write(stage, &[order_placed("order-3")]).await;
    let taken = store.take(take(1)).await.unwrap().events;
    let done = Settlement::of(&taken[0], Outcome::Done);
    assert!(store.settle(&[done], DoneRows::Delete).await.unwrap().is_empty());
    store.resume(&owner("relay-1")).await.unwrap();
    assert!(store.is_current(&owner("relay-1")).await.unwrap());
    let purge = Purge { older_than: Duration::ZERO, limit: 10, after: 0, dead_too: false };
    assert_eq!(store.purge(purge).await.unwrap().deleted, 2);
    stage.store.pause_route("orders").await.unwrap();
    assert_eq!(store.paused_routes().await.unwrap()[0].name, "orders");
    assert_eq!(PausedRoute::recall(&store, "orders").await.unwrap(), 0);
    denied(store.resume_route("orders").await);

    let table = |sql: &str| sql.replace("outbox", &format!("{}.outbox", stage.schema)).leak() as &'static str;
    for sql in [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'b', '{}')",
        "TRUNCATE outbox_event",
        "DROP TABLE outbox_event",
        "ALTER TABLE outbox_event DROP COLUMN handlers",
        "DELETE FROM outbox_meta",
        "UPDATE outbox_meta SET value = '2'",
        "INSERT INTO outbox_meta (name, value) VALUES ('a', 'b')",
    ] {
        assert_refused(&store, table(sql)).await;
    }
    store.close().await;
    stage.drop_role(&role).await;
}

/// S2, M5: an operator looks, counts, replays, discards and purges; it can neither write events nor drop anything.
pub(crate) async fn operator_can_operate_and_not_write(stage: &PostgresStage) {
    let (role, store) = role(stage, "operator").await;
    let [first, second] = ["order-1", "order-2"].map(order_placed);
    bury(stage, first.clone()).await;
    bury(stage, second.clone()).await;
    let ids = |event: &pillarbox::Event| Selection::Ids(vec![event.id().to_owned()]);

    let Stats { dead, .. } = store.stats().await.unwrap();
    assert_eq!((dead, store.highest().await.unwrap()), (2, 2));
    assert_eq!(store.census().await.unwrap().mode, Mode::Claims);
    assert_eq!(store.dead(Page { after: 0, limit: 10 }).await.unwrap().len(), 2);
    assert!(store.find(first.id()).await.unwrap().is_some());
    assert_eq!(store.replay(&ids(&first)).await.unwrap(), 1);
    assert_eq!(store.discard(&ids(&second)).await.unwrap(), [second.id()]);
    store.purge(Purge { older_than: Duration::ZERO, limit: 10, after: 0, dead_too: true }).await.unwrap();
    assert!(store.pause_route("orders").await.unwrap() && !store.pause_route("orders").await.unwrap());
    assert!(store.resume_route("orders").await.unwrap());
    assert_eq!(PausedRoute::recall(&store, "orders").await.unwrap(), 0);
    let page = Page { after: 0, limit: 10 };
    assert_eq!(store.outlines(page).await.unwrap(), store.outlines_of(&[1, 2]).await.unwrap());

    let mut tx = store.begin().await.unwrap();
    let written = store.insert(&mut tx, &[order_placed("order-3")], None).await;
    assert!(matches!(written, Err(InsertError::Store(StoreError::Refused { .. }))), "{written:?}");
    PostgresStore::rollback(tx).await.unwrap();
    let table = |sql: &str| sql.replace("outbox", &format!("{}.outbox", stage.schema)).leak() as &'static str;
    for sql in ["TRUNCATE outbox_event", "DROP TABLE outbox_event", "UPDATE outbox_meta SET value = '2'"] {
        assert_refused(&store, table(sql)).await;
    }
    store.close().await;
    stage.drop_role(&role).await;
}

/// S7: a role without any grant learns which it needs.
pub(crate) async fn role_without_grants_learns_which_it_needs(stage: &PostgresStage) {
    let name = unique_name();
    let url = stage.login(&name, "").await;
    let options = || PostgresStore::options(&url).schema(&stage.schema);

    let stranger = options().connect().await.unwrap_err().to_string();
    stage.execute(format!("GRANT USAGE ON SCHEMA {} TO {name}", stage.schema)).await;
    let guest = options().connect().await.unwrap_err().to_string();

    assert!(stranger.contains(&format!("`GRANT USAGE ON SCHEMA {} TO {name}`", stage.schema)), "{stranger}");
    assert!(guest.contains(&format!("`GRANT SELECT ON {}.outbox_meta TO {name}`", stage.schema)), "{guest}");
    stage.drop_role(&name).await;
}

/// O3, O6: with the same grants a relay owns partitions and does all that owners do, and an operator frees a key.
pub(crate) async fn relay_can_own_and_operator_can_skip(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let (relay_role, relay) = role(stage, "relay").await;
    let (operator_role, operator) = role(stage, "operator").await;
    let instance = named("relay-1", 1);
    write(stage, &["order-1", "order-1"].map(order_placed)).await;

    relay.join(&instance).await.unwrap();
    let held = relay.acquire(&instance, &[partition_of("order-1")]).await.unwrap()[0];
    let visits = [visit(&held)];
    let fetched = relay.fetch(&visits, 10).await.unwrap();
    assert!(relay.start(&fetched[0].taken).await.unwrap());
    let outcomes = [(&fetched[0], parked()), (&fetched[1], behind_key())];
    let outcomes = outcomes.map(|(fetched, outcome)| Settlement::of(&fetched.taken, outcome));
    assert!(relay.settle(&outcomes, DoneRows::Keep).await.unwrap().is_empty());
    relay.due(&visits, 10).await.unwrap();
    relay.below(&visits, 10).await.unwrap();
    relay.numbers().await.unwrap();
    for store in [&relay, &operator] {
        let census = store.census().await.unwrap();
        assert_eq!((census.held_by(&instance.owner).count(), census.parked_keys), (1, 1));
    }
    assert_eq!(operator.skip(&["order-1".to_owned()]).await.unwrap(), 1);
    assert_eq!(relay.blocked(&[held.partition]).await.unwrap()[0].parked_for, None);
    let follower = relay.aside_of(&visits[0], "order-1", 10).await.unwrap().remove(0);
    let done = Settlement::of(&follower.taken, Outcome::Done);
    assert!(relay.settle(&[done], DoneRows::Delete).await.unwrap().is_empty());
    relay.beat(&instance, &[floor(&held, 2)]).await.unwrap();
    relay.release(&instance.owner, &[floor(&held, 2)]).await.unwrap();
    relay.leave(&instance.owner).await.unwrap();

    relay.close().await;
    operator.close().await;
    stage.drop_role(&relay_role).await;
    stage.drop_role(&operator_role).await;
}

/// O3: a relay that has the grants of an earlier version learns which it needs.
pub(crate) async fn relay_without_new_grants_learns_which_it_needs(stage: &PostgresStage) {
    let (role, store) = role(stage, "relay").await;
    let schema = &stage.schema;
    for table in ["outbox_instance", "outbox_partition"] {
        stage.execute(format!("REVOKE ALL ON {schema}.{table} FROM {role}")).await;

        let text = store.beat(&named("relay-1", 1), &[]).await.unwrap_err().to_string();

        assert!(text.contains("GRANT") && text.contains(&format!("{schema}.{table} TO {role}")), "{text}");
        stage.execute(format!("GRANT ALL ON {schema}.{table} TO {role}")).await;
    }
    store.close().await;
    stage.drop_role(&role).await;
}
