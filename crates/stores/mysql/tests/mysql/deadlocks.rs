//! Deadlocks: those of the user leave no ghost, and those of the store are its own business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::{
    Administration, CommitError, DoneRows, EventStore, InsertError, Lease, Outcome, Purge, Selection,
    Settlement, Status, Taken, TxStore,
};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::acceptance::{Desk, Stage};
use pillarbox_testkit::conformance::{order_placed, take, write};
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError};
use sqlx::{Connection, Executor};

use crate::stage::MySqlStage;

/// Two orders, and another transaction that is heavy, so that it survives, and holds the second of them.
async fn other(stage: &MySqlStage) -> MySqlConnection {
    stage.run("CREATE TABLE orders (id INT PRIMARY KEY, total INT) ENGINE = InnoDB").await;
    stage.run("INSERT INTO orders VALUES (1, 0), (2, 0)").await;
    let mut other = stage.connection().await;
    other.execute("START TRANSACTION").await.unwrap();
    for id in 100..200 {
        sqlx::query("INSERT INTO orders VALUES (?, 0)").bind(id).execute(&mut other).await.unwrap();
    }
    other.execute("UPDATE orders SET total = 2 WHERE id = 2").await.unwrap();
    other
}

/// Runs `connection`, which holds the first order, into a deadlock that rolls it back.
async fn run_into_deadlock(connection: &mut MySqlConnection, mut other: MySqlConnection) {
    let waiting = tokio::spawn(async move {
        other.execute("UPDATE orders SET total = 2 WHERE id = 1").await.unwrap();
        other.execute("COMMIT").await.unwrap();
        other.close().await.unwrap();
    });
    let deadlock = connection.execute("UPDATE orders SET total = 1 WHERE id = 2").await.unwrap_err();
    let deadlock = deadlock.into_database_error().unwrap();
    assert_eq!(deadlock.downcast_ref::<MySqlDatabaseError>().number(), 1213, "{deadlock}");
    waiting.await.unwrap();
}

/// Guarantee 1, W1: after a deadlock that was swallowed nothing is delivered, neither what was written before nor
/// what was written after, and the commit says why.
pub(crate) async fn swallowed_deadlock_leaves_no_ghost(stage: &MySqlStage) {
    let other = other(stage).await;
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    tx.execute("UPDATE orders SET total = 1 WHERE id = 1").await.unwrap();
    let before = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();

    run_into_deadlock(&mut tx, other).await;
    let after = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    tx.execute("UPDATE orders SET total = 1 WHERE id = 1").await.unwrap();
    let committed = tx.commit().await;
    outbox.poll().await.unwrap();
    outbox.close().await;

    let Err(CommitError::Unknown { reason, .. }) = committed else { panic!("{committed:?}") };
    assert!(reason.contains("a deadlock rolled it back"), "{reason}");
    assert!(stage.status(&before).await.is_none() && stage.status(&after).await.is_none());
    assert!(desk.waiting().is_none(), "nothing is delivered");
    assert_eq!(stage.number("SELECT CAST(SUM(total) AS SIGNED) FROM orders").await, 4, "only the other's");
}

/// S4: the connection of such a transaction can be used again, for writing too.
pub(crate) async fn connection_is_usable_after_a_deadlock(stage: &MySqlStage) {
    let other = other(stage).await;
    let store = stage.options().max_connections(1).connect().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.execute("UPDATE orders SET total = 1 WHERE id = 1").await.unwrap();

    run_into_deadlock(&mut tx, other).await;
    MySqlStore::commit(tx).await.unwrap_err();

    sqlx::query("INSERT INTO orders VALUES (17, 0)").execute(store.pool()).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, &[order_placed("order-17")], None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_event").await, 1);
    store.close().await;
}

/// W12: in a transaction of the user's own, MySQL runs what follows a deadlock by itself. What was written
/// before is gone; what is written after is committed alone, and so it is delivered.
pub(crate) async fn foreign_transaction_goes_on_without_its_beginning(stage: &MySqlStage) {
    let other = other(stage).await;
    let [before, after] = ["order-1", "order-2"].map(order_placed);
    let mut tx = stage.store.pool().begin().await.unwrap();
    tx.execute("UPDATE orders SET total = 1 WHERE id = 1").await.unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&before), None).await.unwrap();

    run_into_deadlock(&mut tx, other).await;
    stage.store.insert(&mut tx, std::slice::from_ref(&after), None).await.unwrap();
    tx.rollback().await.unwrap();

    assert_eq!(stage.status(before.id()).await, None);
    assert_eq!(stage.status(after.id()).await, Some(Status::New), "the rollback came too late for it");
}

/// W1, W12: more events than fit into one statement are not written one statement after the other where the
/// transaction has ended unnoticed: all or none, and here none.
pub(crate) async fn many_events_after_the_end_are_refused(stage: &MySqlStage) {
    let many: Vec<_> = (0..501).map(|n| order_placed(&format!("order-{n}"))).collect();
    let mut tx = stage.store.pool().begin().await.unwrap();
    tx.execute("ROLLBACK").await.unwrap();

    let refused = stage.store.insert(&mut tx, &many, None).await.unwrap_err();

    let InsertError::Store(refused) = refused else { panic!("{refused:?}") };
    assert!(refused.to_string().contains("had ended before"), "{refused}");
    assert_eq!(stage.number("SELECT COUNT(*) FROM outbox_event").await, 0);
}

/// W5: a statement that commits by itself ends the transaction: what comes later is rolled back, and the commit
/// does not claim to have been one.
pub(crate) async fn implicit_commit_is_noticed(stage: &MySqlStage) {
    let [before, after] = ["order-1", "order-2"].map(order_placed);
    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&before), None).await.unwrap();

    tx.execute("CREATE TABLE orders (id INT)").await.unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&after), None).await.unwrap();
    let committed = MySqlStore::commit(tx).await;

    assert!(matches!(committed, Err(CommitError::Unknown { .. })), "{committed:?}");
    assert_eq!(stage.status(before.id()).await, Some(Status::New), "it was committed with the table");
    assert_eq!(stage.status_in_time(after.id()).await, None);
}

/// S5: a transaction inside of ours is a savepoint of it.
pub(crate) async fn transaction_in_a_transaction_is_a_savepoint(stage: &MySqlStage) {
    let [kept, undone] = ["order-1", "order-2"].map(order_placed);
    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, std::slice::from_ref(&kept), None).await.unwrap();

    let mut inner = tx.begin().await.unwrap();
    stage.store.insert(&mut inner, std::slice::from_ref(&undone), None).await.unwrap();
    inner.rollback().await.unwrap();
    MySqlStore::commit(tx).await.unwrap();

    assert_eq!(stage.status(kept.id()).await, Some(Status::New));
    assert_eq!(stage.status(undone.id()).await, None);
}

/// S5: takers, settlers and operators that work on the same rows at once never hear of a deadlock.
pub(crate) async fn store_hides_its_own_deadlocks(stage: &MySqlStage) {
    const STORES: usize = 8;
    const EVENTS: usize = 1_600;
    let events: Vec<_> = (0..EVENTS).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;
    let mut stores = Vec::new();
    for _ in 0..STORES {
        stores.push(Arc::new(stage.options().connect().await.unwrap()));
    }

    let workers = stores.iter().cloned().map(|store| tokio::spawn(work(store))).collect::<Vec<_>>();
    let is_over = Arc::new(AtomicBool::new(false));
    let operator = tokio::spawn(operate(Arc::clone(&stores[0]), Arc::clone(&is_over)));
    let mut settled = 0;
    for worker in workers {
        settled += worker.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    operator.await.unwrap();

    assert_eq!(settled, EVENTS);
    for store in stores {
        store.close().await;
    }
}

/// Takes, renews and settles in many ways until all is done, and says how many it has settled as done.
async fn work(store: Arc<MySqlStore>) -> usize {
    let mut done = 0;
    loop {
        let taken = store.take(take(20)).await.unwrap().events;
        if taken.is_empty() && store.stats().await.unwrap().pending() == 0 {
            return done;
        }
        let leases: Vec<_> = taken.iter().map(|taken| taken.lease).collect();
        assert!(store.renew(&leases, Duration::from_secs(600)).await.unwrap().is_empty());
        let settle = |taken: &Taken| Settlement::of(taken, outcome_of(&taken.lease));
        let settlements: Vec<_> = taken.iter().map(settle).collect();
        assert!(store.settle(&settlements, DoneRows::Keep).await.unwrap().is_empty());
        done += settlements.iter().filter(|settlement| settlement.outcome == Outcome::Done).count();
    }
}

/// Some are tried again once, some are given back for as long as their take had an even token.
fn outcome_of(lease: &Lease) -> Outcome {
    match (lease.seq % 4, lease.attempts) {
        (0, 0) => Outcome::Retry { after: Duration::ZERO, error: "no".into(), spent: true },
        (1, 0) if lease.token.0 % 2 == 0 => Outcome::Released,
        _ => Outcome::Done,
    }
}

/// Looks, purges and replays until it is over.
async fn operate(store: Arc<MySqlStore>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        store.stats().await.unwrap();
        store.replay(&Selection::Numbers { from: 0, to: i64::MAX }).await.unwrap();
        let old = Purge { older_than: Duration::from_secs(60), limit: 500, after: 0, dead_too: true };
        store.purge(old).await.unwrap();
    }
}
