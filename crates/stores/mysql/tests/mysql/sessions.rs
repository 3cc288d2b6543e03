//! Connections: their isolation, their time zone, how many there are, and what becomes of those that are cut.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Owner, Settlement, Status, StoreError, Take, TxStore,
};
use pillarbox::{Event, Timestamp};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::acceptance::{Desk, Stage};
use pillarbox_testkit::conformance::{LONG, claim, claim_one, order_placed, stored, take, within, write};
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor};

use crate::stage::MySqlStage;

/// S5: our own transactions see what others commit meanwhile, though the server's default is another.
pub(crate) async fn begun_transactions_are_read_committed(stage: &MySqlStage) {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB").await;
    let count = "SELECT COUNT(*) FROM orders";
    let mut tx = stage.store.begin().await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *tx).await.unwrap(), 0);

    stage.run("INSERT INTO orders VALUES (17)").await;

    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *tx).await.unwrap(), 1);
    MySqlStore::commit(tx).await.unwrap();
    let level = "SELECT @@GLOBAL.tx_isolation = 'READ-COMMITTED'".to_owned();
    let level = if stage.is_mariadb().await { level } else { level.replace("tx_", "transaction_") };
    assert_eq!(stage.number(&level).await, 0, "the server's default would have done");
}

/// S5: transactions of ours on a pool of the user's are READ COMMITTED and may write, whatever its sessions do by
/// themselves, and leave the sessions as they were.
pub(crate) async fn begun_transactions_on_a_pool_are_read_committed(stage: &MySqlStage) {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB").await;
    let options = stage.administrator().database(&stage.database);
    let pool = MySqlPoolOptions::new().max_connections(1).after_connect(|connection, _| {
        let strict = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY";
        Box::pin(async move { connection.execute(strict).await.map(drop) })
    });
    let pool = pool.connect_with(options).await.unwrap();
    let store = MySqlStore::from_pool(pool.clone()).await.unwrap();
    let count = "SELECT COUNT(*) FROM orders";
    let mut tx = store.begin().await.unwrap();
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *tx).await.unwrap(), 0);

    stage.run("INSERT INTO orders VALUES (17)").await;
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *tx).await.unwrap(), 1);
    tx.execute("INSERT INTO orders VALUES (18)").await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert_eq!(stage.number(count).await, 2);
    let read_only = pool.begin().await.unwrap().execute("INSERT INTO orders VALUES (19)").await;
    assert!(read_only.is_err(), "the session is as it was");
    pool.close().await;
}

/// S5: the store's own steps are READ COMMITTED too: one that waits for a row is seen to be.
pub(crate) async fn own_steps_are_read_committed(stage: &MySqlStage) {
    write(stage, &[order_placed("order-17")]).await;
    let taken = claim_one(stage).await;
    let mut holder = stage.connection().await;
    holder.execute("START TRANSACTION").await.unwrap();
    holder.execute("SELECT * FROM outbox_event FOR UPDATE").await.unwrap();

    let store = stage.store.clone();
    let settling = tokio::spawn(async move {
        let done = Settlement::of(&taken, Outcome::Done);
        store.settle(&[done], DoneRows::Keep).await
    });
    let waiting = "SELECT trx_isolation_level
        FROM information_schema.innodb_trx
        JOIN information_schema.processlist ON processlist.id = innodb_trx.trx_mysql_thread_id
        WHERE trx_state = 'LOCK WAIT' AND db = DATABASE()";
    let mut looking = stage.connection().await;
    let mut level: Option<String> = None;
    // InnoDB gathers this view anew only when nobody has looked for a tenth of a second.
    for _ in 0..30 {
        level = sqlx::query_scalar(waiting).fetch_optional(&mut looking).await.unwrap();
        if level.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    holder.execute("ROLLBACK").await.unwrap();

    assert_eq!(level.as_deref(), Some("READ COMMITTED"));
    assert!(settling.await.unwrap().unwrap().is_empty());
}

/// S1: the time zone of the user's session changes no time.
pub(crate) async fn time_zone_of_a_session_has_no_effect(stage: &MySqlStage) {
    let mut tx = stage.store.pool().begin().await.unwrap();
    tx.execute("SET time_zone = '+09:30'").await.unwrap();
    let occurred_at = Timestamp::from_micros(1_772_366_400_000_001);
    let event = Event::builder("OrderPlaced").occurred_at(occurred_at).json_text("{}").build().unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
    let by_hand =
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('by-hand', 'OrderPlaced', '{}')";
    tx.execute(by_hand).await.unwrap();
    tx.commit().await.unwrap();

    let now = Timestamp::from(std::time::SystemTime::now());
    for id in [event.id(), "by-hand"] {
        let row = stored(stage, id).await;
        within(now, row.created_at, Duration::ZERO);
        within(row.created_at, now, Duration::ZERO);
        assert_eq!((row.due_at, row.available_at), (row.created_at, row.created_at));
    }
    assert_eq!(stored(stage, event.id()).await.event.unwrap().occurred_at(), occurred_at);
    assert_eq!(claim(stage, 10).await.events.len(), 2);
}

/// S5: a writer whose clock is an hour off writes events that are due now; only what it says of them is off.
pub(crate) async fn clock_of_the_writer_has_no_effect(stage: &MySqlStage) {
    let now = Timestamp::from(std::time::SystemTime::now());
    let hour = Duration::from_secs(3_600);
    let ahead = Event::builder("OrderPlaced").occurred_at(now.saturating_add(hour)).json_text("{}");
    let ahead = ahead.build().unwrap();

    write(stage, std::slice::from_ref(&ahead)).await;

    let taken = claim_one(stage).await;
    assert_eq!(taken.event_id, ahead.id());
    within(taken.created_at, now, Duration::ZERO);
    assert_eq!(taken.event.unwrap().occurred_at(), now.saturating_add(hour));
}

/// W11: times that a column cannot hold are refused, and delays that would lead there end with the calendar.
pub(crate) async fn times_beyond_the_calendar_are_refused(stage: &MySqlStage) {
    let occurred = |micros| {
        let builder = Event::builder("OrderPlaced").occurred_at(Timestamp::from_micros(micros));
        builder.json_text("{}").build().unwrap()
    };
    let mut tx = stage.store.begin().await.unwrap();
    for wrong in [i64::MAX, i64::MIN] {
        let refused = stage.store.insert(&mut tx, &[occurred(wrong)], None).await.unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains("outside the years 1000 to 9999"), "{text}");
    }
    let never = Event::builder("OrderPlaced").deliver_after(Duration::MAX).json_text("{}").build().unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&never), None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert!(claim(stage, 10).await.events.is_empty());
    assert!(stored(stage, never.id()).await.due_at.to_string().starts_with("30"), "in a thousand years");
}

/// S4: with one connection for the user, and the user holding it, everything else works.
pub(crate) async fn pool_of_one_connection_is_enough(stage: &MySqlStage) {
    let options = stage.administrator().database(&stage.database);
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = MySqlStore::from_pool(pool.clone()).await.unwrap();
    write(stage, &[order_placed("order-17")]).await;

    let held = store.begin().await.unwrap();
    let taken = store.take(take(10)).await.unwrap().events;
    let done = Settlement::of(&taken[0], Outcome::Done);
    assert!(store.settle(&[done], DoneRows::Keep).await.unwrap().is_empty());
    assert_eq!(store.stats().await.unwrap().pending(), 0);
    assert!(store.read_back(taken[0].lease.token, &[taken[0].event_id.clone()]).await.unwrap().is_empty());
    drop(held);

    let again = store.begin().await.unwrap();
    MySqlStore::rollback(again).await.unwrap();
    store.close().await;
    assert!(!pool.is_closed(), "it stays the user's");
    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
    pool.close().await;
}

/// S4: a session of a pool that was given is left as it was: statements of the user's own may write by themselves.
pub(crate) async fn sessions_go_back_as_they_came(stage: &MySqlStage) {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY) ENGINE = InnoDB").await;
    let options = stage.administrator().database(&stage.database);
    let pool = MySqlPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    let store = MySqlStore::from_pool(pool.clone()).await.unwrap();

    MySqlStore::commit(store.begin().await.unwrap()).await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (1)").execute(&pool).await.unwrap();
    MySqlStore::rollback(store.begin().await.unwrap()).await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (2)").execute(&pool).await.unwrap();
    drop(store.begin().await.unwrap());
    sqlx::query("INSERT INTO orders VALUES (3)").execute(&pool).await.unwrap();

    assert_eq!(stage.number("SELECT COUNT(*) FROM orders").await, 3);
    store.close().await;
    pool.close().await;
}

async fn session_of(tx: &mut MySqlConnection) -> u64 {
    sqlx::query_scalar("SELECT CONNECTION_ID()").fetch_one(tx).await.unwrap()
}

/// S5: a session whose user has switched `autocommit` on commits nothing by itself for the next.
pub(crate) async fn switched_autocommit_does_not_outlive_its_transaction(stage: &MySqlStage) {
    let store = stage.options().max_connections(1).connect().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let before = session_of(&mut tx).await;
    tx.execute("SET SESSION autocommit = 1").await.unwrap();
    MySqlStore::rollback(tx).await.unwrap();

    let [undone, kept] = ["order-1", "order-2"].map(order_placed);
    let mut tx = store.begin().await.unwrap();
    let after = session_of(&mut tx).await;
    store.insert(&mut tx, std::slice::from_ref(&undone), None).await.unwrap();
    MySqlStore::rollback(tx).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, std::slice::from_ref(&kept), None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert_eq!(before, after, "another session would prove nothing");
    assert_eq!(stage.status(undone.id()).await, None);
    assert_eq!(stage.status(kept.id()).await, Some(Status::New));
    store.close().await;
}

/// S5: every transaction of ours is one from its beginning on, also in a session that has had others: one inside of
/// it may be the first thing that is done.
pub(crate) async fn transaction_may_begin_with_one_inside(stage: &MySqlStage) {
    let store = stage.options().max_connections(1).connect().await.unwrap();

    for end_by_commit in [true, false, true, true] {
        let mut tx = store.begin().await.unwrap();
        let inside = tx.begin().await.unwrap();
        inside.commit().await.unwrap();
        if end_by_commit {
            MySqlStore::commit(tx).await.unwrap();
        } else {
            MySqlStore::rollback(tx).await.unwrap();
        }
    }
    store.close().await;
}

/// S5: a transaction inside of ours that its user forgot does not become part of the next.
pub(crate) async fn forgotten_transaction_inside_is_not_passed_on(stage: &MySqlStage) {
    let store = stage.options().max_connections(1).connect().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    std::mem::forget(tx.begin().await.unwrap());
    MySqlStore::commit(tx).await.unwrap();

    let mut tx = store.begin().await.unwrap();
    let mut inside = tx.begin().await.unwrap();
    store.insert(&mut inside, &[order_placed("order-17")], None).await.unwrap();
    inside.commit().await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_event").await, 1);
    store.close().await;
}

async fn are_there(connection: &mut MySqlConnection, sessions: [u64; 2]) -> bool {
    let there = "SELECT COUNT(*) FROM information_schema.processlist WHERE id IN (?, ?)";
    let there = sqlx::query_scalar::<_, i64>(there).bind(sessions[0]).bind(sessions[1]);
    there.fetch_one(connection).await.unwrap() > 0
}

/// S11: once a connection was found lost, one that was cut at the same time is not handed out.
pub(crate) async fn idle_connection_that_was_cut_is_not_handed_out(stage: &MySqlStage) {
    let store = stage.options().max_connections(2).connect().await.unwrap();
    let mut administrator = stage.connection().await;

    for _ in 0..10 {
        let mut lost = store.begin().await.unwrap();
        let mut idle = store.begin().await.unwrap();
        let cut = [session_of(&mut lost).await, session_of(&mut idle).await];
        MySqlStore::commit(idle).await.unwrap();
        for session in cut {
            administrator.execute(AssertSqlSafe(format!("KILL CONNECTION {session}"))).await.unwrap();
        }
        // Until then they may still answer.
        while are_there(&mut administrator, cut).await {}
        MySqlStore::commit(lost).await.unwrap_err();

        let mut next = store.begin().await.unwrap();
        assert!(!cut.contains(&session_of(&mut next).await));
        MySqlStore::rollback(next).await.unwrap();
    }
    store.close().await;
}

/// S11: connections that the server cuts are replaced, and nothing is lost or delivered for nothing.
pub(crate) async fn cut_connections_are_replaced(stage: &MySqlStage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).poll_every(Duration::from_millis(20));
    let outbox = outbox.start().unwrap();
    let mut committed = Vec::new();

    for _ in 0..5 {
        let mut tx = outbox.begin().await.unwrap();
        committed.push(outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap());
        tx.commit().await.unwrap();
        let mut lost = outbox.begin().await.unwrap();
        let ghost = outbox.write_json(&mut lost, "OrderPlaced", "{}").await.unwrap();
        stage.cut_connections().await;
        assert!(lost.commit().await.is_err());
        desk.accept().await;
        assert_eq!(stage.status_in_time(&ghost).await, None);
    }
    outbox.close().await;

    for id in committed {
        assert_eq!(stage.status(&id).await, Some(Status::Done));
    }
    assert!(desk.waiting().is_none());
}

/// S11: a cut in the middle of a transaction is an outage, and the commit does not claim anything.
pub(crate) async fn cut_transaction_is_unknown(stage: &MySqlStage) {
    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    stage.cut_connections().await;

    let refused = stage.store.insert(&mut tx, &[order_placed("order-18")], None).await.unwrap_err();
    let committed = MySqlStore::commit(tx).await.unwrap_err();

    let text = format!("{refused:?}");
    assert!(text.contains("Unavailable"), "{text}");
    assert!(matches!(committed, pillarbox::store::CommitError::Unknown { .. }), "{committed:?}");
    drop(stage.store.begin().await.unwrap());
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_event").await, 0);
}

/// D12: rows that others have locked are named, so that the rest is settled and renewed without them.
pub(crate) async fn locked_rows_are_named(stage: &MySqlStage) {
    write(stage, &["order-17", "order-18"].map(order_placed)).await;
    let taken = stage.store.take(take(2)).await.unwrap().events;
    let leases = [taken[0].lease, taken[1].lease];
    let done = [0, 1].map(|at: usize| Settlement::of(&taken[at], Outcome::Done));
    let mut holder = stage.connection().await;
    holder.execute("START TRANSACTION").await.unwrap();
    sqlx::query(LOCK).bind(leases[0].seq).execute(&mut holder).await.unwrap();

    let settled = stage.store.settle(&done, DoneRows::Keep).await.unwrap_err();
    let renewed = stage.store.renew(&leases, LONG).await.unwrap_err();
    let without = stage.store.settle(&done[1..], DoneRows::Keep).await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();
    let when_free = stage.store.settle(&done[..1], DoneRows::Keep).await.unwrap();

    for error in [settled, renewed] {
        assert!(matches!(error, StoreError::Locked { numbers } if numbers == [leases[0].seq]));
    }
    assert_eq!((without, when_free), (vec![], vec![]));
}

/// S10, D12: an instance that starts again takes over its own leases but for rows that somebody has locked.
pub(crate) async fn locked_row_does_not_keep_a_name_from_resuming(stage: &MySqlStage) {
    write(stage, &["order-1", "order-2"].map(order_placed)).await;
    let before = Take { owner: Owner::new("relay", 1), ..take(2) };
    let taken = stage.store.take(before).await.unwrap().events;
    let mut holder = stage.connection().await;
    holder.execute("START TRANSACTION").await.unwrap();
    sqlx::query(LOCK).bind(taken[0].lease.seq).execute(&mut holder).await.unwrap();

    let resumed = stage.store.resume(&Owner::new("relay", 2)).await.unwrap();

    assert_eq!(resumed, 1);
    let next = stage.store.take(take(2)).await.unwrap().events;
    assert_eq!(next.iter().map(|taken| taken.lease.seq).collect::<Vec<_>>(), [taken[1].lease.seq]);
}

const LOCK: &str = "SELECT seq FROM outbox_event WHERE seq = ? FOR UPDATE";

/// S11: a store that was closed says so.
pub(crate) async fn closed_store_says_so(stage: &MySqlStage) {
    let store = stage.options().connect().await.unwrap();
    store.close().await;

    for error in [
        store.take(take(1)).await.map(drop).unwrap_err(),
        store.stats().await.map(drop).unwrap_err(),
        store.begin().await.map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(&error, StoreError::Unavailable { reason, .. } if reason == "the store is closed"),
            "{error:?}"
        );
    }
}
