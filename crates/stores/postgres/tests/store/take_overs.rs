//! Outcomes and acquisitions that meet, and what a heartbeat leaves behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pillarbox::partition_of;
use pillarbox::store::{
    DoneRows, EventStore, Fetched, Holding, Instance, Outcome, Owner, Ownership, Settlement, Status,
    StoreError,
};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::conformance::ownership::{
    acquire, beat, behind_key, dying, floor, joined, own, owner_of_all, parked, place, seq,
};
use pillarbox_testkit::conformance::{LONG, stored};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::owned_reads::pages_of;
use crate::stage::PostgresStage;

fn dead() -> Outcome {
    Outcome::Dead { error: "410".into(), spent: true }
}

/// Waits until a session of the marked store waits for a lock.
async fn until_locked_out(stage: &PostgresStage) {
    let waits =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'";
    let (mut connection, began) = (stage.connection().await, Instant::now());
    loop {
        assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for a lock");
        let waiting = sqlx::query(waits).bind(&stage.schema).fetch_one(&mut connection).await.unwrap();
        if waiting.get::<i64, _>(0) > 0 {
            return;
        }
    }
}

/// An owner whose lease has ended, what it read, and one who may take over.
async fn ended_owner(stage: &PostgresStage) -> (Instance, Instance, Holding, Fetched) {
    let (relay, other) = (joined(stage, "relay").await, joined(stage, "relay-2").await);
    let held = own(stage, &dying(&relay), partition_of("order-17")).await;
    let fetched = place(stage, &held, "order-17").await;
    (relay, other, held, fetched)
}

/// Settles until the database answers, as the settler does.
async fn settle_in_the_end(store: &PostgresStore, settlement: &Settlement) -> Vec<i64> {
    loop {
        match store.settle(std::slice::from_ref(settlement), DoneRows::Keep).await {
            Err(error) => assert!(error.is_transient(), "{error:?}"),
            Ok(lost) => return lost,
        }
    }
}

/// O5, S10: an outcome of an earlier owner that meets the acquisition of the next one is lost, and changes nothing,
/// whatever it says: it waits for the acquisition and sees it.
pub(crate) async fn stale_outcome_does_not_come_after_a_take_over(stage: &PostgresStage) {
    let store = Arc::new(stage.marked().await);
    let retry = Outcome::Retry { after: LONG, error: "503".into(), spent: true };
    let outcomes = [dead(), parked(), retry, behind_key(), Outcome::Released];
    let (_, _, held, fetched) = ended_owner(stage).await;
    let mut epoch = held.epoch;

    for outcome in outcomes {
        let before = format!("{:?}", stored(stage, &fetched.taken.event_id).await);
        let token = pillarbox::store::Token::of_partition(held.partition, epoch);
        let lease = pillarbox::store::Lease { token, ..fetched.taken.lease };
        let settlement = Settlement { lease, ..Settlement::of(&fetched.taken, outcome.clone()) };
        let mut taking_over = stage.connection().await;
        let take_over = format!(
            "BEGIN; UPDATE outbox_partition SET epoch = epoch + 1 WHERE event_partition = {}",
            held.partition
        );
        taking_over.execute(AssertSqlSafe(take_over)).await.unwrap();
        let settling = {
            let store = Arc::clone(&store);
            tokio::spawn(async move { settle_in_the_end(&store, &settlement).await })
        };
        until_locked_out(stage).await;
        taking_over.execute("COMMIT").await.unwrap();

        assert_eq!(settling.await.unwrap(), [seq(&fetched)], "{outcome:?}");
        assert_eq!(format!("{:?}", stored(stage, &fetched.taken.event_id).await), before, "{outcome:?}");
        epoch = epoch.next();
    }
    store.close().await;
}

/// O5, S10: a partition is not taken over while an outcome of its owner is being recorded; others are.
pub(crate) async fn partition_is_not_taken_over_in_the_middle_of_an_outcome(stage: &PostgresStage) {
    let (_, other, held, fetched) = ended_owner(stage).await;
    let store = Arc::new(stage.marked().await);
    let mut holder = stage.connection().await;
    let lock = format!("BEGIN; SELECT FROM outbox_event WHERE seq = {} FOR UPDATE", seq(&fetched));
    holder.execute(AssertSqlSafe(lock)).await.unwrap();
    let settling = {
        let (store, settlement) = (Arc::clone(&store), Settlement::of(&fetched.taken, dead()));
        tokio::spawn(async move { store.settle(&[settlement], DoneRows::Keep).await })
    };
    until_locked_out(stage).await;

    let given = acquire(stage, &other, &[held.partition, held.partition.wrapping_add(1)]).await;
    assert_eq!(given.iter().map(|held| held.partition).collect::<Vec<_>>(), [held.partition.wrapping_add(1)]);
    holder.execute("ROLLBACK").await.unwrap();
    let settled = settling.await.unwrap();

    // The lock may have lasted longer than a settlement waits.
    if !matches!(settled, Err(StoreError::Locked { .. } | StoreError::Unavailable { .. })) {
        assert_eq!(settled.unwrap(), [0; 0]);
        assert_eq!(stored(stage, &fetched.taken.event_id).await.status, Ok(Status::Dead));
    }
    assert_eq!(own(stage, &other, held.partition).await.epoch, held.epoch.next());
    store.close().await;
}

/// O5: a session that stopped in the middle of recording outcomes keeps nobody from its partitions for longer than a
/// few seconds.
pub(crate) async fn stopped_session_is_ended(stage: &PostgresStage) {
    let session = include_str!("../../src/lane/session.sql");
    let (_, other, held, _) = ended_owner(stage).await;
    let mut stopped = stage.connection().await;
    stopped.execute(session).await.unwrap();
    let lock =
        format!("BEGIN; SELECT FROM outbox_partition WHERE event_partition = {} FOR SHARE", held.partition);
    stopped.execute(AssertSqlSafe(lock)).await.unwrap();
    assert_eq!(acquire(stage, &other, &[held.partition]).await, []);

    let began = Instant::now();
    while acquire(stage, &other, &[held.partition]).await.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(15), "the partition is still locked");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// O5, P3: a lease is not scattered by heartbeats: its versions share pages, even if a snapshot is held open and no version of its
/// row can be cleared away.
pub(crate) async fn heartbeats_do_not_scatter_the_leases(stage: &PostgresStage) {
    let (relay, holdings) = owner_of_all(stage).await;
    let mut holder = stage.connection().await;
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_partition").await.unwrap();

    for beaten in 1..=200 {
        let floors: Vec<_> = holdings.iter().map(|held| floor(held, beaten)).collect();
        assert_eq!(beat(stage, &relay, &floors).await.held.len(), 256);
    }

    let mut connection = stage.connection().await;
    connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.unwrap();
    let look =
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM outbox_partition WHERE event_partition = 7";
    let plan = connection.fetch_one(look).await.unwrap();
    let pages = pages_of(plan.try_get_unchecked(0).unwrap());
    assert!(pages <= 40, "{pages} pages for one lease, of which there are 200 versions");
    holder.execute("ROLLBACK").await.unwrap();
}

/// O5: of instances that take, renew and give back the same partitions all the time nobody fails, and none is lost.
pub(crate) async fn busy_owners_do_not_stand_in_each_others_way(stage: &PostgresStage) {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    joined(stage, "relay").await;
    let busy: Vec<_> = (0..4)
        .map(|number| {
            let (options, all) = (stage.options(), all.clone());
            tokio::spawn(async move {
                let store = options.connect().await.unwrap();
                let instance = pillarbox_testkit::conformance::ownership::unnamed(&format!("relay-{number}"));
                for round in 0..20 {
                    if round % 5 == 0 {
                        store.join(&instance).await.unwrap();
                    }
                    let held = store.acquire(&instance, &all).await.unwrap();
                    let floors: Vec<_> = held.iter().rev().map(|held| floor(held, 0)).collect();
                    let pulse = store.beat(&instance, &floors).await.unwrap();
                    assert_eq!(pulse.held.len(), held.len());
                    store.release(&instance.owner, &floors).await.unwrap();
                }
                store.close().await;
            })
        })
        .collect();
    for ended in busy {
        ended.await.unwrap();
    }

    let owner = Owner::new("relay", 1);
    let relay = joined(stage, owner.name()).await;
    assert_eq!(acquire(stage, &relay, &all).await.len(), 256);
}
