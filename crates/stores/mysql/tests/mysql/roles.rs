//! The grants of the guide: each is enough for its role, and none is too much.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, InsertError, Outcome, Owner, Page, Purge, Selection, Settlement,
    StoreError, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::conformance::{LONG, birth, bury, order_placed, take, write};
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
    assert_eq!(store.check().await.unwrap(), 1);
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

/// S8: a relay takes, renews, settles in every way, reads back, resumes and purges; it writes no event.
pub(crate) async fn relay_only_delivers(stage: &MySqlStage) {
    let relay = Role::new(stage, "relay").await;
    let store = &relay.store;
    let events: Vec<_> = (0..6).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;

    store.resume(&Owner::new("relay", 2)).await.unwrap();
    assert!(store.is_current(&Owner::new("relay", 2)).await.unwrap());
    let taken = store.take(pillarbox::store::Take { sweep: true, ..take(6) }).await.unwrap().events;
    let leases: Vec<_> = taken.iter().map(|taken| taken.lease).collect();
    assert!(store.renew(&leases, LONG).await.unwrap().is_empty());
    assert_eq!(store.read_back(leases[0].token, &[taken[0].event_id.clone()]).await.unwrap().len(), 1);
    let outcomes = [
        Outcome::Done,
        Outcome::Retry { after: LONG, error: "no".into(), spent: true },
        Outcome::Aside { until: Some(LONG), reason: "later".into() },
        Outcome::Dead { error: "no".into(), spent: true },
        Outcome::Released,
    ];
    let settlements: Vec<_> =
        leases.iter().zip(outcomes).map(|(&lease, outcome)| Settlement { lease, outcome }).collect();
    assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
    let done = Settlement { lease: leases[5], outcome: Outcome::Done };
    assert!(store.settle(&[done], DoneRows::Delete).await.unwrap().is_empty());
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: false };
    assert_eq!(store.purge(purge).await.unwrap().deleted, 1);

    for sql in [
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('order-17', 'OrderPlaced', '{}')",
        "DELETE FROM outbox_meta",
        "ALTER TABLE outbox_event ADD COLUMN more INT",
        "DROP TABLE outbox_event",
        "DROP TRIGGER outbox_event_partition",
    ] {
        relay.may_not(sql).await;
    }
    relay.leave(stage).await;
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
    assert_eq!(store.dead(page).await.unwrap().len(), 2);
    assert_eq!(store.find_by_aggregate("order-1", page).await.unwrap().len(), 1);
    assert!(store.find(first.id()).await.unwrap().is_some());
    assert_eq!(store.discard(&Selection::Ids(vec![first.id().into()])).await.unwrap(), [first.id()]);
    assert_eq!(store.replay(&Selection::Numbers { from: 1, to: 9 }).await.unwrap(), 1);
    let purge = Purge { older_than: Duration::ZERO, limit: 100, after: 0, dead_too: true };
    store.purge(purge).await.unwrap();

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
    stage.run("DROP TABLE outbox_event, outbox_meta").await;

    assert_eq!(migrator.store.migrate().await.unwrap(), 1);

    let allowed = "SELECT NOT @@GLOBAL.log_bin OR @@GLOBAL.log_bin_trust_function_creators";
    let triggers = format!(
        "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = '{}'",
        stage.database
    );
    assert_eq!(stage.number(&triggers).await, stage.number(allowed).await);
    stage.run("INSERT INTO outbox_event (event_id, event_type, payload, event_key) VALUES ('a', 'b', '{}', 'c')").await;
    migrator.may_not("DROP TABLE outbox_event").await;
    migrator.leave(stage).await;
}

/// S8: what the guide grants is needed: without any one of the privileges a role fails at its work.
pub(crate) async fn no_grant_is_idle(stage: &MySqlStage) {
    write(stage, &[order_placed("order-1"), order_placed("order-2")]).await;
    let database = &stage.database;
    let taken = stage.store.take(take(2)).await.unwrap().events;
    let settlement = |n: usize| Settlement { lease: taken[n].lease, outcome: Outcome::Done };

    for (privilege, table) in [
        ("SELECT", "outbox_event"),
        ("UPDATE", "outbox_event"),
        ("DELETE", "outbox_event"),
        ("INSERT", "outbox_meta"),
        ("UPDATE", "outbox_meta"),
        ("SELECT", "outbox_meta"),
    ] {
        let relay = Role::new(stage, "relay").await;
        stage.run(&format!("REVOKE {privilege} ON {database}.{table} FROM '{}'@'%'", relay.user)).await;

        let store = &relay.store;
        let results = [
            store.take(take(1)).await.map(drop),
            store.settle(&[settlement(0)], DoneRows::Keep).await.map(drop),
            store.settle(&[settlement(1)], DoneRows::Delete).await.map(drop),
            store.resume(&Owner::new("relay", 2)).await.map(drop),
            store.check().await.map(drop),
        ];

        let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        let names_it = |error: &&StoreError| error.to_string().contains(&format!("GRANT {privilege} ON"));
        assert!(!refused.is_empty(), "{privilege} on {table} is never used");
        assert!(refused.iter().any(names_it), "{privilege} on {table}: {refused:?}");
        relay.leave(stage).await;
    }
}
