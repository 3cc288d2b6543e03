//! Owners while somebody holds a snapshot open, from the start to the end.

use std::time::Duration;

use pillarbox::store::Mode;
use pillarbox::{Delivery, ListenerError, Outbox, Runtime};
use pillarbox_postgres::{PostgresOptions, PostgresStore};
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::{sleep, timeout};

use crate::owned_reads::pages;
use crate::stage::PostgresStage;

/// How many events each owner finds, of which none but its own lie above the floors that it finds.
const EVENTS: i64 = 15_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// O5, P3: an owner that is stopped, one that dies, and one that takes over from the dead read on from the floor of the one
/// before: a fetch touches at most ten pages per partition, whatever was done since the snapshot was taken.
pub(crate) async fn floors_pass_from_owner_to_owner_under_a_held_snapshot(stage: &PostgresStage) {
    stage.store.migrate_to(Mode::Ownership).await.unwrap();
    stage.execute("ALTER TABLE outbox_event SET (autovacuum_enabled = off)").await;
    let mut holder = stage.connection().await;
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_event").await.unwrap();

    let stopped = start(stage.options()).await;
    drain(stage, 1).await;
    stopped.close().await;
    assert_few_pages(stage).await;

    let life = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let dead = life.spawn(start(stage.options())).await.unwrap();
    drain(stage, 2).await;
    life.shutdown_background();
    // Dropped, it would give its partitions back.
    std::mem::forget(dead);
    assert_few_pages(stage).await;
    assert_eq!(owned(stage).await, 256, "it left its leases behind");

    let successor = start(stage.options()).await;
    drain(stage, 3).await;
    successor.close().await;
    assert_few_pages(stage).await;

    let (_, from_the_beginning) = pages(stage, 0..=255, |_| 0).await;
    assert!(from_the_beginning > 20_000, "nothing lay in the way: {from_the_beginning} pages");
    holder.execute("ROLLBACK").await.unwrap();
}

/// An owner of all partitions.
async fn start(options: PostgresOptions) -> Outbox<PostgresStore> {
    Outbox::builder(options.connect().await.unwrap())
        .runtime(Runtime::tokio())
        .ordered()
        .on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
        .poll_every(Duration::from_millis(100))
        .heartbeat_every(Duration::from_millis(500))
        .margin(Duration::from_secs(1))
        .silent_after(Duration::from_secs(4))
        .start()
        .unwrap()
}

/// Writes events of many keys, and waits until they are done and the floors above all of them are stored.
async fn drain(stage: &PostgresStage, round: i64) {
    stage
        .execute(format!(
            "INSERT INTO outbox_event (event_id, event_type, event_key, payload)
             SELECT '{round}-' || n, 'OrderPlaced', 'order-' || n % 2000, '{{}}'
             FROM generate_series(1, {EVENTS}) AS n"
        ))
        .await;
    let is_over = "
        SELECT (SELECT min(floor) >= (SELECT max(seq) FROM outbox_event) FROM outbox_partition)
            AND NOT EXISTS (SELECT FROM outbox_event WHERE status <> 1)";
    let mut connection = stage.connection().await;
    let waiting = async {
        while !sqlx::query_scalar::<_, bool>(AssertSqlSafe(is_over)).fetch_one(&mut connection).await.unwrap()
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("all of it is done, and the floors are stored");
}

/// How many partitions have an owner, dead or alive.
async fn owned(stage: &PostgresStage) -> i64 {
    let owned = "SELECT count(*) FROM outbox_partition WHERE owner_name IS NOT NULL";
    sqlx::query_scalar(owned).fetch_one(&mut stage.connection().await).await.unwrap()
}

/// A fetch from the floors that are stored touches at most ten pages per partition.
async fn assert_few_pages(stage: &PostgresStage) {
    let floors = "SELECT floor FROM outbox_partition ORDER BY event_partition";
    let floors: Vec<i64> = sqlx::query_scalar(floors).fetch_all(&mut stage.connection().await).await.unwrap();

    let (_, pages) = pages(stage, 0..=255, |partition| floors[usize::from(partition)]).await;

    assert!(pages <= 10 * 256, "{pages} pages for 256 partitions");
}
