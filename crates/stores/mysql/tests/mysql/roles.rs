//! The grants of the guide: each is enough for its role, and none is too much.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, InsertError, Instance, Mode, Outcome, Owner, Ownership, Page,
    PausedRoute, Purge, Selection, Settlement, StoreError, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::ownership::{
    floor, named, owned_outcomes, owner_of, parked, place, visit,
};
use pillarbox_testkit::conformance::{LONG, birth, bury, order_placed, settle, take, write};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::stage::MySqlStage;

const GUIDE: &str = include_str!("../../../../../docs/guide/mysql.md");
const PASSWORD: &str = "seventeen";

/// A store that is used by one role of the guide.
struct Role {
    user: String,
    store: MySqlStore,
}

impl Role {
    async fn new(stage: &MySqlStage, name: &str) -> Self {
        let of_role = |line: &&str| line.starts_with("GRANT ") && line.contains(&format!("'{name}'"));
        let grants: Vec<&str> = GUIDE.lines().filter(of_role).collect();
        assert!(!grants.is_empty(), "the guide has grants for {name}");
        let user = stage.user(name, PASSWORD, &grants).await;
        let url = stage.options_as(&user, PASSWORD).to_url_lossy();
        let store = MySqlStore::connect(url.to_string()).await.unwrap();
        Self { user, store }
    }

    /// Asserts that the role may not do this.
    async fn may_not(&self, sql: &str) {
        let mut connection = self.store.pool().acquire().await.unwrap();
        let refused = connection.execute(AssertSqlSafe(sql.to_owned())).await;
        let number = refused.as_ref().err().and_then(|error| {
            let error = error.as_database_error()?;
            Some(error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number())
        });
        assert!(matches!(number, Some(1044 | 1142 | 1143 | 1227 | 1370 | 1419)), "`{sql}`: {refused:?}");
    }

    async fn leave(self, stage: &MySqlStage) {
        self.store.close().await;
        stage.drop_user(&self.user).await;
    }
}

/// S8: a writer writes, one event and many, leased and not, and is told of a repeated id; it reads nothing.
pub(crate) async fn writer_only_writes(stage: &MySqlStage) {
    let writer = Role::new(stage, "writer").await;
    let store = &writer.store;
    let many: Vec<_> = (0..600).map(|n| order_placed(&format!("order-{n}"))).collect();

    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], Some(&birth(LONG))).await.unwrap();
    store.insert(&mut tx, &many, None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let repeated = store.insert(&mut tx, &many[500..], None).await;
    MySqlStore::rollback(tx).await.unwrap();

    assert!(matches!(repeated, Err(InsertError::DuplicateId { id }) if id == many[500].id()));
    assert_eq!(stage.store.stats().await.unwrap().pending(), 601);
    assert_eq!(store.check().await.unwrap(), 2);
    let refused = store.take(take(1)).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    for sql in [
        "SELECT event_id FROM outbox_event",
        "UPDATE outbox_event SET status = 1",
        "DELETE FROM outbox_event",
        "UPDATE outbox_meta SET value = '9'",
        "DROP TABLE outbox_event",
    ] {
        writer.may_not(sql).await;
    }
    writer.leave(stage).await;
}

/// S8: a relay joins, beats, takes, renews, settles in every way, reads back, resumes and purges; it writes no event.
pub(crate) async fn relay_only_delivers(stage: &MySqlStage) {
    let relay = Role::new(stage, "relay").await;
    let store = &relay.store;
    let events: Vec<_> = (0..6).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;

    store.join(&claiming(2)).await.unwrap();
    store.resume(&claiming(2).owner).await.unwrap();
    assert!(store.is_current(&claiming(2).owner).await.unwrap());
    assert_eq!(store.beat(&claiming(2), &[]).await.unwrap().members.len(), 1);
    let taken = store.take(pillarbox::store::Take { sweep: true, ..take(6) }).await.unwrap().events;
    let leases: Vec<_> = taken.iter().map(|taken| taken.lease).collect();
    assert!(store.renew(&leases, LONG).await.unwrap().is_empty());
    store.read_back(leases[0].token, &[taken[0].event_id.clone()]).await.unwrap();
    let outcomes = [
        Outcome::Done,
        Outcome::Retry { after: LONG, error: "no".into(), spent: true },
        Outcome::Aside { until: Some(LONG), reason: "later".into() },
        Outcome::Dead { error: "no".into(), spent: true },
        Outcome::Released,
    ];
    let settlements: Vec<_> =
        taken.iter().zip(outcomes).map(|(taken, outcome)| Settlement::of(taken, outcome)).collect();
    assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
    let done = Settlement::of(&taken[5], Outcome::Done);
    assert!(store.settle(&[done], DoneRows::Delete).await.unwrap().is_empty());
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: false };
    assert_eq!(store.purge(purge).await.unwrap().deleted, 1);
    stage.store.pause_route("orders").await.unwrap();
    assert_eq!(store.paused_routes().await.unwrap()[0].name, "orders");
    assert_eq!(store.recall("later", 10).await.unwrap(), 1);

    for sql in [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('order-17', 'OrderPlaced', '{}')",
        "INSERT INTO outbox_meta (name, value) VALUES ('more', '1')",
        "DELETE FROM outbox_meta",
        "ALTER TABLE outbox_event ADD COLUMN more INT",
        "DROP TABLE outbox_event",
        "DROP TRIGGER outbox_event_partition",
    ] {
        relay.may_not(sql).await;
    }
    relay.leave(stage).await;
}

/// S8, O3: a relay owns partitions with what it was granted, once the mode was changed by one who may.
pub(crate) async fn relay_owns_partitions(stage: &MySqlStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    let relay = Role::new(stage, "relay").await;
    let store = &relay.store;
    let events: Vec<_> = (0..9).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;
    let (instance, all) = (named("relay", 1), (0..=u8::MAX).collect::<Vec<_>>());

    store.join(&instance).await.unwrap();
    let held = store.acquire(&instance, &all).await.unwrap();
    let visits: Vec<_> = held.iter().map(visit).collect();
    let fetched = store.fetch(&visits, 10).await.unwrap();
    assert!(store.start(&fetched[0].taken).await.unwrap());
    let settlements: Vec<_> = fetched
        .iter()
        .zip(owned_outcomes())
        .map(|(fetched, outcome)| Settlement::of(&fetched.taken, outcome))
        .collect();
    assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
    let done = Settlement::of(&fetched[8].taken, Outcome::Done);
    assert!(store.settle(&[done], DoneRows::Delete).await.unwrap().is_empty());
    assert!(store.below(&visits, 10).await.unwrap().is_empty());
    assert!(store.due(&visits, 10).await.unwrap().events.is_empty());
    assert!(store.aside_of(&visits[7], "order-17", 10).await.unwrap().is_empty());
    assert_eq!(store.blocked(&all).await.unwrap().len(), 4);
    assert_eq!(store.numbers().await.unwrap().closed, 0);
    assert_eq!(store.census().await.unwrap().held_by(&instance.owner).count(), 256);
    assert_eq!(store.beat(&instance, &[floor(&held[7], 1)]).await.unwrap().held.len(), 256);
    store.release(&instance.owner, &[floor(&held[7], 1)]).await.unwrap();
    store.leave(&instance.owner).await.unwrap();
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: true };
    assert_eq!(store.purge(purge).await.unwrap().deleted, 3);

    relay.leave(stage).await;
}

/// S8, O3: a relay that may not change indexes does not change the mode: it is told who may, and all goes on as before.
pub(crate) async fn relay_does_not_change_the_mode(stage: &MySqlStage) {
    let relay = Role::new(stage, "relay").await;
    write(stage, &[order_placed("order-17")]).await;

    let refused = relay.store.join(&named("relay", 1)).await.unwrap_err();

    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("`ownership`") && text.contains("`pillarbox migrate --mode ownership`"), "{text}");
    relay.store.join(&claiming(1)).await.unwrap();
    assert_eq!(relay.store.take(take(1)).await.unwrap().events.len(), 1);
    relay.leave(stage).await;
}

/// S8, O6: an operator frees parked keys, and counts what owners have.
pub(crate) async fn operator_frees_keys(stage: &MySqlStage) {
    let operator = Role::new(stage, "operator").await;
    let store = &operator.store;
    let (_, held) = owner_of(stage, "order-17").await;
    let head = place(stage, &held, "order-17").await;
    settle(stage, &head.taken, parked()).await;

    assert_eq!(store.stats().await.unwrap().dead, 1);
    assert_eq!(store.blocked(&[held.partition]).await.unwrap().len(), 1);
    let census = store.census().await.unwrap();
    assert_eq!((census.alive().count(), census.parked_keys, census.free().count()), (1, 1, 255));
    assert_eq!(store.skip(&["order-17".to_owned()]).await.unwrap(), 1);
    assert_eq!(store.replay(&Selection::Ids(vec![head.taken.event_id])).await.unwrap(), 1);

    assert_eq!(store.stats().await.unwrap().retry, 1);
    operator.leave(stage).await;
}

/// S8: an operator looks, replays, discards and purges; it writes no event and changes no version.
pub(crate) async fn operator_only_operates(stage: &MySqlStage) {
    let operator = Role::new(stage, "operator").await;
    let store = &operator.store;
    let page = Page { after: 0, limit: 10 };
    let [first, second] = ["order-1", "order-2"].map(order_placed);
    bury(stage, first.clone()).await;
    bury(stage, second.clone()).await;

    assert_eq!(store.stats().await.unwrap().dead, 2);
    assert_eq!(store.highest().await.unwrap(), 2);
    assert_eq!(store.census().await.unwrap().mode, Mode::Claims);
    assert_eq!(store.dead(page).await.unwrap().len(), 2);
    assert_eq!(store.find_by_aggregate("order-1", page).await.unwrap().len(), 1);
    assert!(store.find(first.id()).await.unwrap().is_some());
    assert_eq!(store.discard(&Selection::Ids(vec![first.id().into()])).await.unwrap(), [first.id()]);
    assert_eq!(store.replay(&Selection::Numbers { from: 1, to: 9 }).await.unwrap(), 1);
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: true };
    store.purge(purge).await.unwrap();
    assert!(store.pause_route("orders").await.unwrap() && !store.pause_route("orders").await.unwrap());
    assert!(store.resume_route("orders").await.unwrap());
    assert_eq!(PausedRoute::recall(store, "orders").await.unwrap(), 0);
    assert_eq!(store.outlines(page).await.unwrap(), store.outlines_of(&[1, 2]).await.unwrap());

    for sql in [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('order-17', 'OrderPlaced', '{}')",
        "UPDATE outbox_meta SET value = '9'",
        "TRUNCATE TABLE outbox_event",
    ] {
        operator.may_not(sql).await;
    }
    operator.leave(stage).await;
}

/// S6: the grants for migrations are enough to migrate, with the trigger unless the binary log forbids it.
pub(crate) async fn migrator_migrates(stage: &MySqlStage) {
    let migrator = Role::new(stage, "migrator").await;
    stage.empty().await;

    assert_eq!(migrator.store.migrate().await.unwrap(), 2);

    let allowed = "SELECT NOT @@GLOBAL.log_bin OR @@GLOBAL.log_bin_trust_function_creators";
    let triggers = format!(
        "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = '{}'",
        stage.database
    );
    assert_eq!(stage.number(&triggers).await, stage.number(allowed).await);
    stage.run("INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES ('a', 'b', '{}', 'c')").await;
    for mode in [Mode::Ownership, Mode::Claims] {
        assert_eq!(migrator.store.migrate_to(mode).await.unwrap(), 2);
    }
    migrator.may_not("DROP TABLE outbox_event").await;
    migrator.leave(stage).await;
}

/// S8: what the guide grants is needed: without any one of the privileges a role fails at its work.
pub(crate) async fn no_grant_is_idle(stage: &MySqlStage) {
    write(stage, &[order_placed("order-1"), order_placed("order-2")]).await;
    let taken = stage.store.take(take(2)).await.unwrap().events;
    let settlement = |n: usize| Settlement::of(&taken[n], Outcome::Done);

    for (privilege, table) in [
        ("SELECT", "outbox_event"),
        ("UPDATE", "outbox_event"),
        ("DELETE", "outbox_event"),
        ("UPDATE", "outbox_meta"),
        ("SELECT", "outbox_meta"),
    ] {
        // MariaDB lets everybody lock what they may read.
        if privilege == "UPDATE" && table == "outbox_meta" && stage.is_mariadb().await {
            continue;
        }
        let relay = without(stage, privilege, table).await;
        let store = &relay.store;
        let results = [
            store.take(take(1)).await.map(drop),
            store.settle(&[settlement(0)], DoneRows::Keep).await.map(drop),
            store.settle(&[settlement(1)], DoneRows::Delete).await.map(drop),
            store.join(&claiming(2)).await.map(drop),
            store.check().await.map(drop),
        ];
        assert_missed(privilege, table, &results);
        relay.leave(stage).await;
    }
}

/// S8, O3: so is what it grants for owners.
pub(crate) async fn no_grant_of_owners_is_idle(stage: &MySqlStage) {
    let (relay, held) = owner_of(stage, "order-17").await;

    for (privilege, table) in [
        ("SELECT", "outbox_instance"),
        ("INSERT", "outbox_instance"),
        ("UPDATE", "outbox_instance"),
        ("DELETE", "outbox_instance"),
        ("SELECT", "outbox_partition"),
        ("UPDATE", "outbox_partition"),
        ("SELECT", "outbox_parked"),
        ("INSERT", "outbox_parked"),
        ("UPDATE", "outbox_parked"),
    ] {
        let role = without(stage, privilege, table).await;
        let store = &role.store;
        let head = place(stage, &held, "order-17").await.taken;
        let dead = Settlement::of(&head, parked());
        let results = [
            store.join(&named("relay-2", 1)).await.map(drop),
            store.beat(&relay, &[]).await.map(drop),
            store.leave(&Owner::new("relay-2", 1)).await.map(drop),
            store.blocked(&[7]).await.map(drop),
            store.settle(std::slice::from_ref(&dead), DoneRows::Keep).await.map(drop),
        ];
        assert_missed(privilege, table, &results);
        settle(stage, &head, Outcome::Done).await;
        role.leave(stage).await;
    }
}

/// An incarnation of a relay that claims rows.
fn claiming(incarnation: u64) -> Instance {
    Instance { mode: Mode::Claims, ..named("relay", incarnation) }
}

/// A relay that was granted all but one privilege.
async fn without(stage: &MySqlStage, privilege: &str, table: &str) -> Role {
    let relay = Role::new(stage, "relay").await;
    stage.run(&format!("REVOKE {privilege} ON {}.{table} FROM '{}'@'%'", stage.database, relay.user)).await;
    relay
}

/// Asserts that something was refused for the want of a privilege, which was named.
fn assert_missed(privilege: &str, table: &str, results: &[Result<(), StoreError>]) {
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let names_it = |error: &&StoreError| error.to_string().contains(&format!("GRANT {privilege} ON"));
    assert!(!refused.is_empty(), "{privilege} on {table} is never used");
    assert!(refused.iter().any(names_it), "{privilege} on {table}: {refused:?}");
}
