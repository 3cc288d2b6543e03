//! Connections of ours are at READ COMMITTED and go by the database's clock, whatever the defaults are.

use std::time::Duration;

use pillarbox::store::{
    Administration, Birth, DoneRows, EventStore, Outcome, Purge, Settlement, StoreError, Taken, Token,
    TxStore,
};
use pillarbox::{Event, Timestamp};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::{LONG, claim, claim_one, order_placed, stored, take, within, write};
use pillarbox_testkit::servers::unique_name;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgConnection, Row};

use crate::stage::PostgresStage;

/// A store of a role whose defaults are all wrong.
async fn stubborn(stage: &PostgresStage, role: &str) -> PostgresStore {
    let schema = &stage.schema;
    let defaults = format!(
        "GRANT ALL ON SCHEMA {schema} TO {role};
        GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role};
        GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO {role};
        ALTER ROLE {role} SET default_transaction_isolation = 'serializable';
        ALTER ROLE {role} SET default_transaction_deferrable = on;
        ALTER ROLE {role} SET timezone = 'Asia/Kathmandu';
        ALTER ROLE {role} SET statement_timeout = '1h';
        ALTER ROLE {role} SET standard_conforming_strings = off;
        ALTER ROLE {role} SET datestyle = 'German';
        ALTER ROLE {role} SET bytea_output = 'escape'"
    );
    let url = stage.login(role, &defaults).await;
    PostgresStore::options(url).schema(schema).connect().await.unwrap()
}

/// Puts a view in the table's place that notes at which level it is read.
pub(crate) const WITNESS: &str = "
    CREATE TABLE witnessed (level TEXT NOT NULL);
    CREATE FUNCTION witness() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path FROM CURRENT
    AS $$
    BEGIN
        INSERT INTO witnessed VALUES (current_setting('transaction_isolation'));
        RETURN TRUE;
    END
    $$;
    ALTER TABLE outbox_event RENAME TO outbox_event_rows;
    CREATE VIEW outbox_event AS SELECT *, xmax FROM outbox_event_rows WHERE witness()";

/// A step on each of the store's own connections, and some more.
pub(crate) const STEPS: [&str; 6] = ["read back", "take", "renew", "settle", "stats", "purge"];

/// Three events: one that is taken, one that was born leased to the token 17, whose id is returned, one that is due.
pub(crate) async fn write_and_take(store: &PostgresStore) -> (Taken, String) {
    let [due, born, taken] = ["order-1", "order-2", "order-3"].map(order_placed);
    let birth = Birth { owner: take(1).owner, token: Token(17), lease_for: LONG };
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&taken), None).await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&born), Some(&birth)).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();
    let taken = store.take(take(1)).await.unwrap().events.remove(0);
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[due], None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();
    (taken, born.id().to_owned())
}

/// At which levels each of [`STEPS`] reads the table; `user` finds it without a schema.
pub(crate) async fn levels_of_steps(
    store: &PostgresStore,
    user: &mut PgConnection,
    taken: &Taken,
    born: &str,
) -> Vec<(&'static str, Vec<String>)> {
    let mut levels = Vec::new();
    for step in STEPS {
        match step {
            "read back" => drop(store.read_back(Token(17), &[born.to_owned()]).await.unwrap()),
            "take" => drop(store.take(take(1)).await.unwrap()),
            "renew" => drop(store.renew(&[taken.lease], LONG).await.unwrap()),
            "settle" => {
                let settlement = Settlement::of(taken, Outcome::Done);
                drop(store.settle(&[settlement], DoneRows::Keep).await.unwrap());
            }
            "stats" => assert!(store.stats().await.unwrap().pending() > 0),
            _ => {
                let purge = Purge { after: 0, limit: 10, older_than: Duration::ZERO, dead_too: false };
                assert_eq!(store.purge(purge).await.unwrap().deleted, 1);
            }
        }
        let seen = "WITH seen AS (DELETE FROM witnessed RETURNING level) SELECT DISTINCT level FROM seen";
        levels.push((step, sqlx::query_scalar(seen).fetch_all(&mut *user).await.unwrap()));
    }
    levels
}

pub(crate) async fn setting(connection: &mut PgConnection, name: &str) -> String {
    let query = sqlx::query("SELECT current_setting($1)").bind(name);
    query.fetch_one(connection).await.unwrap().get(0)
}

/// S5: transactions of ours are READ COMMITTED, whatever the role's default is.
pub(crate) async fn transactions_ignore_the_defaults_of_the_role(stage: &PostgresStage) {
    let role = unique_name();
    let store = stubborn(stage, &role).await;

    let mut tx = store.begin().await.unwrap();
    let level = setting(&mut tx, "transaction_isolation").await;
    let event = order_placed("order-17");
    store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
    PostgresStore::commit(tx).await.unwrap();

    assert_eq!(level, "read committed");
    assert_eq!(stored(stage, event.id()).await.event, Ok(event));
    store.close().await;
    stage.drop_role(&role).await;
}

/// S5: every step of the store's own is READ COMMITTED, whatever the role's default is.
pub(crate) async fn steps_ignore_the_defaults_of_the_role(stage: &PostgresStage) {
    let role = unique_name();
    let (taken, born) = write_and_take(&stage.store).await;
    let mut user = stage.connection().await;
    user.execute(WITNESS).await.unwrap();
    let store = stubborn(stage, &role).await;

    let levels = levels_of_steps(&store, &mut user, &taken, &born).await;

    assert_eq!(levels, STEPS.map(|step| (step, vec!["read committed".to_owned()])));
    store.close().await;
    stage.drop_role(&role).await;
}

/// S5: takers that run side by side stumble over nobody, whatever the role's default is.
pub(crate) async fn takes_ignore_the_defaults_of_the_role(stage: &PostgresStage) {
    let role = unique_name();
    let (first, second) = (stubborn(stage, &role).await, stage.options().connect().await.unwrap());
    let events: Vec<Event> = (0..200).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;

    let mut taken = 0;
    while taken < events.len() {
        let (one, other) = tokio::join!(first.take(take(7)), second.take(take(7)));
        taken += one.unwrap().events.len() + other.unwrap().events.len();
    }

    assert_eq!(taken, events.len());
    first.close().await;
    stage.drop_role(&role).await;
}

/// A role that may only read by default is refused: an operator who lets nobody write means us too.
pub(crate) async fn role_that_may_only_read_is_refused(stage: &PostgresStage) {
    let role = unique_name();
    let read_only = format!("ALTER ROLE {role} SET default_transaction_read_only = on");
    let url = stage.login(&role, &read_only).await;

    let refused = PostgresStore::connect(url).await.unwrap_err();

    assert!(matches!(refused, StoreError::Config(_)), "{refused:?}");
    assert!(refused.to_string().contains("switch `default_transaction_read_only` off"), "{refused}");
    stage.drop_role(&role).await;
}

/// S4: in a pool of the user's, transactions of ours are READ COMMITTED too, and the user's own are as they were.
pub(crate) async fn pool_of_the_user_keeps_its_defaults(stage: &PostgresStage) {
    let serializable = "SET default_transaction_isolation = 'serializable'";
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(serializable).await.map(drop) })
        })
        .connect(&stage.url)
        .await
        .unwrap();
    let store = PostgresStore::options_of_pool(pool.clone()).schema(&stage.schema).connect().await.unwrap();

    let mut ours = store.begin().await.unwrap();
    let level = setting(&mut ours, "transaction_isolation").await;
    PostgresStore::rollback(ours).await.unwrap();
    store.close().await;
    let mut theirs = pool.begin().await.unwrap();
    let their_level = setting(&mut theirs, "transaction_isolation").await;

    assert_eq!((level.as_str(), their_level.as_str()), ("read committed", "serializable"));
}

/// W1: with a pool of one connection, which the user holds, everything of the engine works.
pub(crate) async fn user_who_holds_the_only_connection_stops_nothing(stage: &PostgresStage) {
    let store = stage.options().max_connections(1).connect().await.unwrap();
    write(stage, &[order_placed("order-17")]).await;
    let mut held = store.begin().await.unwrap();
    held.execute("SELECT 1").await.unwrap();

    let taken = store.take(take(10)).await.unwrap().events;

    assert_eq!(taken.len(), 1);
    let impatient = stage.options().max_connections(1).connect_timeout(Duration::from_secs(2));
    let impatient = impatient.connect().await.unwrap();
    let _tx = impatient.begin().await.unwrap();
    let busy = impatient.begin().await.unwrap_err().to_string();
    assert!(busy.contains("raise `max_connections`"), "{busy}");
}

/// S10: the database's clock decides about leases and delays; a writer whose clock is an hour off changes nothing
/// but what it says happened.
pub(crate) async fn clock_of_the_writer_has_no_say(stage: &PostgresStage) {
    let hour = 3_600_000_000;
    let now = sqlx::query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    let now: i64 = now.fetch_one(&mut stage.connection().await).await.unwrap().get(0);
    let placed = |order: &str, off: i64| {
        let occurred_at = Timestamp::from_micros(now + off);
        Event::builder("OrderPlaced").id(order).occurred_at(occurred_at).json_text("{}").build().unwrap()
    };

    write(stage, &[placed("behind", -hour), placed("ahead", hour)]).await;

    let taken = claim(stage, 10).await.events;
    assert_eq!(taken.len(), 2);
    for (taken, off) in taken.into_iter().zip([-hour, hour]) {
        within(taken.created_at, Timestamp::from_micros(now), Duration::ZERO);
        assert!(taken.due_for < Duration::from_secs(60));
        assert_eq!(taken.event.unwrap().occurred_at(), Timestamp::from_micros(now + off));
    }
}

/// S5: a row that a user has locked is skipped, and taken when it is free; nobody waits for it.
pub(crate) async fn locked_row_is_skipped(stage: &PostgresStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let mut user = stage.connection().await;
    user.execute("BEGIN; SELECT FROM outbox_event WHERE aggregate_id = 'order-1' FOR UPDATE").await.unwrap();

    let free = claim(stage, 10).await;
    let again = claim(stage, 10).await;
    user.execute("ROLLBACK").await.unwrap();

    assert_eq!(free.events[0].event.as_ref().unwrap().key(), Some("order-2"));
    assert!(again.events.is_empty() && again.next_due_in.is_some(), "the lease of the other ends");
    assert_eq!(claim_one(stage).await.event.unwrap().key(), Some("order-1"));
}

/// S5: a lock that was given up leaves a mark on its row, and the event in its place.
pub(crate) async fn lock_that_was_given_up_changes_no_order(stage: &PostgresStage) {
    write(stage, &["order-1", "order-2", "order-3", "order-4"].map(order_placed)).await;
    claim(stage, 1).await;
    let mut user = stage.connection().await;
    user.execute("BEGIN; SELECT FROM outbox_event WHERE aggregate_id = 'order-2' FOR UPDATE").await.unwrap();
    user.execute("ROLLBACK").await.unwrap();

    let mut keys = Vec::new();
    for _ in 0..2 {
        let events = claim(stage, 2).await.events;
        keys.extend(events.into_iter().map(|taken| taken.event.unwrap().key().unwrap().to_owned()));
    }

    assert_eq!(keys, ["order-2", "order-3", "order-4"]);
}

/// S5: locks that several shared leave a mark of another kind, and the event in its place as well.
pub(crate) async fn shared_lock_that_was_given_up_changes_no_order(stage: &PostgresStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let mut users = [stage.connection().await, stage.connection().await];
    for user in &mut users {
        user.execute("BEGIN; SELECT FROM outbox_event WHERE aggregate_id = 'order-1' FOR SHARE")
            .await
            .unwrap();
    }
    for user in &mut users {
        user.execute("ROLLBACK").await.unwrap();
    }

    let mut keys = Vec::new();
    for _ in 0..2 {
        let events = claim(stage, 1).await.events;
        keys.extend(events.into_iter().map(|taken| taken.event.unwrap().key().unwrap().to_owned()));
    }

    assert_eq!(keys, ["order-1", "order-2"]);
}
