//! Connections that are cut from outside: everything recovers by itself, nothing is lost.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Lease, Outcome, Owner, Ownership, Settlement, StoreError, Take,
    TxStore,
};
use pillarbox::{Event, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::ownership::{floor, unnamed};
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::{AssertSqlSafe, Row};

use crate::stage::PostgresStage;
use crate::statements::counted;

/// Ends all sessions of the marked store, and returns how many there were.
pub(crate) async fn cut(stage: &PostgresStage) -> i64 {
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = '{}'",
        stage.schema
    );
    let row = sqlx::raw_sql(AssertSqlSafe(cut)).fetch_one(&mut stage.connection().await).await.unwrap();
    row.get(0)
}

/// Calls again until it works, as the engine does.
async fn insistently<T>(mut call: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..5 {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
    call().await.unwrap()
}

/// S3: after all connections were cut, every call works again, at the latest when it is repeated.
pub(crate) async fn store_recovers_from_cut_connections(stage: &PostgresStage) {
    let store = stage.marked().await;
    let ids = ["order-1".to_owned()];
    let nobodys = Lease { seq: 0, token: take(1).token, attempts: 0, starts: 0 };
    for round in 0..3 {
        write(stage, &[order_placed(&format!("order-{round}"))]).await;
        insistently(async || store.take(take(1)).await).await;
        insistently(async || store.renew(&[nobodys], Duration::ZERO).await).await;
        insistently(async || store.read_back(take(1).token, &ids).await).await;
        insistently(async || store.stats().await).await;
        PostgresStore::rollback(insistently(async || store.begin().await).await).await.unwrap();

        assert_eq!(cut(stage).await, 5, "each call has a connection of its own");
    }

    assert_eq!(insistently(async || store.stats().await).await.pending(), 3);
    store.close().await;
}

/// O5: a connection that was lost between two heartbeats is no secret, though a new one could be had at once: the server
/// may be another since, and floors from before must not be told to it.
pub(crate) async fn heartbeat_tells_of_a_lost_connection_once(stage: &PostgresStage) {
    let (store, relay) = (stage.marked().await, unnamed("relay"));
    store.join(&relay).await.unwrap();
    // One that was used a moment ago is not asked whether it is still there.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    cut(stage).await;

    let told = store.beat(&relay, &[]).await.unwrap_err();

    assert!(told.is_transient(), "{told:?}");
    assert_eq!(store.beat(&relay, &[]).await.unwrap().members.len(), 1);
    store.close().await;
}

/// O5: a failover between two heartbeats, of which the session tells nothing because a pooler keeps it, fails one of each
/// instance's; floors from before are not told to the new server. Here a function that stands before the server's own says
/// when it was started.
pub(crate) async fn heartbeat_tells_of_another_server_once(stage: &PostgresStage) {
    let schema = &stage.schema;
    stage
        .execute(format!(
            "CREATE TABLE server (started_at timestamptz); INSERT INTO server VALUES ('2026-03-01');
             CREATE FUNCTION {schema}.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql
             AS 'SELECT started_at FROM {schema}.server'"
        ))
        .await;
    let mark = if stage.url.contains('?') { "&" } else { "?" };
    let url = format!("{}{mark}options=-c%20search_path={schema},pg_catalog", stage.url);
    let store = PostgresStore::options(url).schema(schema).connect().await.unwrap();
    let (beside, relay, other) = (store.clone(), unnamed("relay"), unnamed("other"));
    store.join(&relay).await.unwrap();
    beside.join(&other).await.unwrap();
    let held = store.acquire(&relay, &[17]).await.unwrap()[0];
    store.beat(&relay, &[floor(&held, 5)]).await.unwrap();
    beside.beat(&other, &[]).await.unwrap();

    stage.execute("UPDATE server SET started_at = '2026-03-02'").await;
    let told = [store.beat(&relay, &[floor(&held, 9)]).await, beside.beat(&other, &[]).await];

    assert!(told.iter().all(|told| told.as_ref().is_err_and(StoreError::is_transient)), "{told:?}");
    assert_eq!(store.beat(&relay, &[]).await.unwrap().held[0].floor, 5);
    assert_eq!(beside.beat(&other, &[]).await.unwrap().members.len(), 2);
    store.close().await;
}

/// D11: a server that lets nobody in for a while (a password that is being changed, a database that is being moved)
/// refuses no outcome: it is recorded when the door is open again.
pub(crate) async fn closed_door_refuses_no_outcome(stage: &PostgresStage) {
    let (role, schema) = (format!("{}_relay", stage.schema), &stage.schema);
    let grants = format!(
        "GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {role}"
    );
    let url = stage.login(&role, &grants).await;
    let store = PostgresStore::options(url).schema(schema).connect().await.unwrap();
    write(stage, &[order_placed("order-17")]).await;
    let done = [Settlement::of(&store.take(take(1)).await.unwrap().events[0], Outcome::Done)];

    stage.execute(format!("ALTER ROLE {role} NOLOGIN")).await;
    stage
        .execute(format!(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '{role}'"
        ))
        .await;
    for _ in 0..2 {
        let error = store.settle(&done, DoneRows::Keep).await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
    }
    stage.execute(format!("ALTER ROLE {role} LOGIN")).await;
    let lost = store.settle(&done, DoneRows::Keep).await.unwrap();

    assert_eq!(lost, [0_i64; 0]);
    store.close().await;
    stage.drop_role(&role).await;
}

/// S3: a connection that died while nobody used it is found out before it is used.
pub(crate) async fn idle_connection_that_was_cut_is_replaced(stage: &PostgresStage) {
    let store = stage.marked().await;
    store.take(take(1)).await.unwrap();
    write(stage, &[order_placed("order-17")]).await;
    store.stats().await.unwrap();
    PostgresStore::rollback(store.begin().await.unwrap()).await.unwrap();

    assert_eq!(cut(stage).await, 3);
    tokio::time::sleep(Duration::from_millis(1_100)).await;

    assert_eq!(store.stats().await.unwrap().pending(), 1);
    assert_eq!(store.take(take(1)).await.unwrap().events.len(), 1);
    PostgresStore::rollback(store.begin().await.unwrap()).await.unwrap();
    store.close().await;
}

/// W5, W13: a commit on a connection that was cut is not known to have happened, and its event is not delivered.
pub(crate) async fn commit_on_a_cut_connection_is_unknown(stage: &PostgresStage) {
    let store = stage.marked().await;
    let event = order_placed("order-17");
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();

    cut(stage).await;
    let committed = PostgresStore::commit(tx).await;

    assert!(matches!(committed, Err(pillarbox::store::CommitError::Unknown { .. })), "{committed:?}");
    assert!(insistently(async || store.find(event.id()).await).await.is_none());
    PostgresStore::rollback(insistently(async || store.begin().await).await).await.unwrap();
    store.close().await;
}

/// D11, Q3: an outbox with a pool of one connection, all of whose sessions are cut again and again, delivers every
/// committed event.
pub(crate) async fn outbox_survives_cut_connections(stage: &PostgresStage) {
    const EVENTS: usize = 60;
    let (listener, mut desk) = Desk::open();
    let outbox = Outbox::builder(stage.marked().await)
        .on("OrderPlaced", listener)
        .poll_every(Duration::from_millis(50))
        .start()
        .unwrap();
    let mut committed = Vec::new();
    for n in 0..EVENTS {
        if n % 20 == 10 {
            cut(stage).await;
        }
        let event = Event::of_json("OrderPlaced", format!("{n}")).unwrap();
        if let Ok(id) = commit(&outbox, event).await {
            committed.push(id);
        }
    }

    let mut delivered = Vec::new();
    while !committed.iter().all(|id| delivered.contains(id)) {
        delivered.push(desk.accept().await.id().to_owned());
    }
    outbox.close().await;

    assert!(committed.len() > EVENTS / 2);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}

async fn commit(outbox: &Outbox<PostgresStore>, event: Event) -> Result<String, Box<dyn std::error::Error>> {
    let mut tx = outbox.begin().await?;
    let id = outbox.write(&mut tx, event).await?;
    tx.commit().await?;
    Ok(id)
}

/// D12: a renewal names the rows that another transaction has locked, too.
pub(crate) async fn locked_row_is_named_by_a_renewal(stage: &PostgresStage) {
    write(stage, &[order_placed("order-17")]).await;
    let leases = [stage.store.take(take(1)).await.unwrap().events[0].lease];
    let mut user = stage.connection().await;
    sqlx::Executor::execute(&mut user, "BEGIN; SELECT FROM outbox_event FOR UPDATE").await.unwrap();

    let refused = stage.store.renew(&leases, Duration::from_secs(60)).await.unwrap_err();
    sqlx::Executor::execute(&mut user, "ROLLBACK").await.unwrap();
    let renewed = stage.store.renew(&leases, Duration::from_secs(60)).await.unwrap();

    assert!(matches!(refused, StoreError::Locked { numbers } if numbers == [leases[0].seq]));
    assert_eq!(renewed, [0; 0]);
}

/// S10, D12: an instance that starts again takes over its own leases but for rows that somebody has locked.
pub(crate) async fn locked_row_does_not_keep_a_name_from_resuming(stage: &PostgresStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let before = Take { owner: Owner::new("relay", 1), ..take(2) };
    let taken = stage.store.take(before).await.unwrap().events;
    let mut user = stage.connection().await;
    let lock = "SELECT FROM outbox_event WHERE seq = $1 FOR UPDATE";
    sqlx::Executor::execute(&mut user, "BEGIN").await.unwrap();
    sqlx::query(lock).bind(taken[0].lease.seq).execute(&mut user).await.unwrap();

    let resumed = stage.store.resume(&Owner::new("relay", 2)).await.unwrap();

    assert_eq!(resumed, 1);
    let next = stage.store.take(take(2)).await.unwrap().events;
    assert_eq!(next.iter().map(|taken| taken.lease.seq).collect::<Vec<_>>(), [taken[1].lease.seq]);
}

/// D12: rows that another transaction has locked are named, so that the others are settled without them; the
/// second settlement does not wait for them.
pub(crate) async fn locked_rows_are_named(stage: &PostgresStage) {
    let store = stage.options().lock_timeout(Duration::from_millis(100)).connect().await.unwrap();
    write(stage, &["order-1", "order-2", "order-3"].map(order_placed)).await;
    let taken = store.take(take(3)).await.unwrap().events;
    let done = |of: &[usize]| -> Vec<Settlement> {
        let settle = |&at: &usize| Settlement::of(&taken[at], Outcome::Done);
        of.iter().map(settle).collect()
    };
    let mut user = stage.connection().await;
    let lock = "SELECT FROM outbox_event WHERE seq = $1 FOR UPDATE";
    sqlx::Executor::execute(&mut user, "BEGIN").await.unwrap();
    sqlx::query(lock).bind(taken[1].lease.seq).execute(&mut user).await.unwrap();

    let first = store.settle(&done(&[0, 1, 2]), DoneRows::Keep).await.unwrap_err();
    let without = store.settle(&done(&[0, 2]), DoneRows::Keep).await.unwrap();
    let (again, statements) = counted(store.settle(&done(&[1]), DoneRows::Delete)).await;
    sqlx::Executor::execute(&mut user, "ROLLBACK").await.unwrap();
    let when_free = store.settle(&done(&[1]), DoneRows::Keep).await.unwrap();

    let locked = |error| matches!(error, StoreError::Locked { numbers } if numbers == [taken[1].lease.seq]);
    assert!(locked(first) && locked(again.unwrap_err()));
    assert_eq!(statements.len(), 1, "it asks, and does not wait: {statements:?}");
    assert_eq!((without, when_free), (vec![], vec![]));
}
