//! Other processes' events wake, and nothing else does.

use std::time::Duration;

use pillarbox::store::WakeUp;
use pillarbox::{Event, Outbox, PartitionSet, Runtime};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::order_placed;
use sqlx::Row;
use sqlx::postgres::PgListener;
use tokio::time::timeout;

use crate::stage::PostgresStage;

/// Far more than a wake-up takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What nobody waits for: the tests rely on NOTIFY.
const NEVER: Duration = Duration::from_secs(3_600);

/// Another store on the same tables that already listens.
async fn listening(stage: &PostgresStage) -> PostgresStore {
    let store = stage.options().connect().await.unwrap();
    timeout(PATIENCE, store.changed()).await.expect("LISTEN is set up");
    store
}

/// Waits for news, and returns the partitions that they name.
async fn assert_woken(store: &PostgresStore) -> PartitionSet {
    timeout(PATIENCE, store.changed()).await.expect("it is woken")
}

/// A set of these partitions.
fn named(partitions: &[u8]) -> PartitionSet {
    partitions.iter().copied().collect()
}

async fn assert_asleep(store: &PostgresStore) {
    assert!(timeout(Duration::from_millis(100), store.changed()).await.is_err(), "it slept");
}

/// P5: each announcement of another store wakes, also one that comes while nobody waits, and only once.
pub(crate) async fn announcements_of_others_wake_each_time(stage: &PostgresStage) {
    let store = listening(stage).await;

    for _ in 0..3 {
        stage.store.announce(PartitionSet::ALL).await;
        assert_woken(&store).await;
    }
    assert_asleep(&store).await;
}

/// P5: our own announcements wake others and not ourselves.
pub(crate) async fn own_announcements_wake_others_only(stage: &PostgresStage) {
    let (store, other) = (listening(stage).await, listening(stage).await);

    store.announce(PartitionSet::ALL).await;

    assert_woken(&other).await;
    assert_asleep(&store).await;
}

/// P5: clones of one store wake each other, each time, and not themselves.
pub(crate) async fn clones_wake_each_other_and_not_themselves(stage: &PostgresStage) {
    let first = listening(stage).await;
    let (second, third) = (first.clone(), first.clone());
    for newcomer in [&second, &third] {
        assert_woken(newcomer).await;
    }

    for _ in 0..3 {
        first.announce(PartitionSet::ALL).await;
        assert_woken(&second).await;
        assert_woken(&third).await;
    }
    assert_asleep(&first).await;
    second.announce(PartitionSet::ALL).await;
    stage.store.announce(PartitionSet::ALL).await;
    for each in [&first, &second, &third] {
        assert_woken(each).await;
    }
}

/// P5: announcements name their partitions to other stores and to clones, several of them together, and none that
/// nobody has named.
pub(crate) async fn announcements_name_their_partitions(stage: &PostgresStage) {
    let store = listening(stage).await;
    let (speaker, clone) = (&stage.store, PostgresStore::clone(&stage.store));
    assert!(timeout(Duration::ZERO, clone.changed()).await.is_err(), "it listens from now on");
    assert_woken(&clone).await;

    for partitions in [named(&[0, 17, 255]), PartitionSet::ALL] {
        speaker.announce(partitions).await;
        for hearer in [&store, &clone] {
            assert_eq!(assert_woken(hearer).await, partitions);
        }
    }
    speaker.announce(named(&[3])).await;
    speaker.announce(named(&[4])).await;
    let mut heard = PartitionSet::default();
    while heard != named(&[3, 4]) {
        heard |= assert_woken(&store).await;
    }
    assert_asleep(&store).await;
}

/// P5, W12: what plain SQL or an older version notifies names no partition, and so all of them; so does LISTEN that is
/// set up, as something may have been missed.
pub(crate) async fn notification_without_partitions_names_all(stage: &PostgresStage) {
    let store = stage.options().connect().await.unwrap();
    assert_eq!(assert_woken(&store).await, PartitionSet::ALL, "LISTEN is set up");

    for content in ["", "0123456789abcdef", "0123456789abcdef:7"] {
        let channel = format!("pillarbox:{}.outbox_event", stage.schema);
        let notify = sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(content);
        notify.execute(&mut stage.connection().await).await.unwrap();

        assert_eq!(assert_woken(&store).await, PartitionSet::ALL, "{content:?}");
    }
}

/// P5: other outboxes of the database, and other channels, wake nobody here.
pub(crate) async fn other_outboxes_do_not_wake(stage: &PostgresStage) {
    let store = listening(stage).await;
    let neighbour = stage.options().prefix("neighbour_").connect().await.unwrap();
    neighbour.migrate().await.unwrap();

    neighbour.announce(PartitionSet::ALL).await;
    stage.execute("NOTIFY pillarbox; NOTIFY outbox_event").await;

    assert_asleep(&store).await;
}

/// P5, W12: any program can wake by a NOTIFY on the channel that is named after the table.
pub(crate) async fn plain_notify_wakes(stage: &PostgresStage) {
    let store = listening(stage).await;

    stage.execute(format!("NOTIFY \"pillarbox:{}.outbox_event\"", stage.schema)).await;

    assert_woken(&store).await;
}

/// P5: an outbox that is migrated after we began to listen wakes us too.
pub(crate) async fn outbox_that_is_migrated_later_wakes(stage: &PostgresStage) {
    let options = || stage.options().prefix("later_");
    let store = options().connect().await.unwrap();
    assert_asleep(&store).await;

    options().connect().await.unwrap().migrate().await.unwrap();

    assert_woken(&store).await;
}

/// P5: with the wake-up switched off nobody listens and nobody notifies.
pub(crate) async fn store_without_wake_up_is_silent_and_deaf(stage: &PostgresStage) {
    let witness = listening(stage).await;
    let store = stage.options().wake_up(false).connect().await.unwrap();

    store.announce(PartitionSet::ALL).await;
    assert_asleep(&witness).await;
    stage.store.announce(PartitionSet::ALL).await;

    assert_woken(&witness).await;
    assert_asleep(&store).await;
}

/// P5: a LISTEN whose session was ended is set up again, which counts as a change.
pub(crate) async fn lost_listen_is_set_up_again(stage: &PostgresStage) {
    let store = listening(stage).await;

    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND query LIKE $1";
    let schema = format!("%{}%", stage.schema);
    let row = sqlx::query(ended).bind(schema).fetch_one(&mut stage.connection().await).await.unwrap();
    assert_eq!(row.get::<i64, _>(0), 1);

    assert_woken(&store).await;
    stage.store.announce(PartitionSet::ALL).await;
    assert_woken(&store).await;
}

/// P5: listening ends with the store, closed or dropped.
pub(crate) async fn listening_ends_with_its_store(stage: &PostgresStage) {
    let (closed, dropped) = (listening(stage).await, listening(stage).await);

    closed.close().await;
    drop(dropped);

    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND query LIKE $1";
    let mut connection = stage.connection().await;
    let listeners = timeout(PATIENCE, async {
        loop {
            let query = sqlx::query(sessions).bind(format!("%{}%", stage.schema));
            if query.fetch_one(&mut connection).await.unwrap().get::<i64, _>(0) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    listeners.await.expect("nobody listens any more");
}

/// P5: when the runtime is gone on which a clone of the store asked first, another that waits is woken, asks again, and
/// hears as before.
pub(crate) async fn listening_outlives_the_runtime_that_began_it(stage: &PostgresStage) {
    let store = stage.options().connect().await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = store.clone();
    runtime.spawn(async move { first.changed().await }).await.unwrap();
    assert_woken(&store).await;
    assert_asleep(&store).await;

    runtime.shutdown_background();
    assert_woken(&store).await;
    assert_woken(&store).await;
    stage.store.announce(PartitionSet::ALL).await;

    assert_woken(&store).await;
}

/// P5, W12: an event that one outbox commits reaches the listener of another without a poll, whether it was written
/// in a transaction of ours or told of by a receipt.
pub(crate) async fn commit_reaches_another_process_without_a_poll(stage: &PostgresStage) {
    let (listener, mut desk) = Desk::open();
    let relay = Outbox::builder(stage.options().connect().await.unwrap())
        .runtime(Runtime::tokio())
        .on("OrderPlaced", listener)
        .poller_only()
        .poll_every(NEVER)
        .start()
        .unwrap();
    let writer = Outbox::builder(PostgresStore::clone(&stage.store)).writer_only().start().unwrap();

    let mut tx = writer.begin().await.unwrap();
    writer.write(&mut tx, Event::of_json("OrderPlaced", r#"{"id":1}"#).unwrap()).await.unwrap();
    tx.commit().await.unwrap();
    let first = timeout(PATIENCE, desk.accept()).await.expect("it is delivered");
    let mut tx = stage.store.pool().begin().await.unwrap();
    let event = Event::of_json("OrderPlaced", r#"{"id":2}"#).unwrap();
    let receipt = writer.write_in(&mut tx, [event.clone()]).await.unwrap();
    tx.commit().await.unwrap();
    writer.committed(receipt);
    let second = timeout(PATIENCE, desk.accept()).await.expect("it is delivered");

    assert_eq!(first.payload().as_json(), Some(r#"{"id":1}"#));
    assert_eq!(second.id(), event.id());
    relay.close().await;
}

/// P5: an outbox that only writes and one that only polls share a store, and what the one commits reaches the
/// listener of the other without a poll.
pub(crate) async fn commit_reaches_another_outbox_on_the_same_store_without_a_poll(stage: &PostgresStage) {
    let (listener, mut desk) = Desk::open();
    let relay = Outbox::builder(PostgresStore::clone(&stage.store))
        .on_aggregate("Order", "OrderPlaced", listener)
        .poller_only()
        .poll_every(NEVER)
        .start()
        .unwrap();
    let writer = Outbox::builder(PostgresStore::clone(&stage.store)).writer_only().start().unwrap();

    for order in ["order-1", "order-2", "order-3"] {
        let mut tx = writer.begin().await.unwrap();
        let id = writer.write(&mut tx, order_placed(order)).await.unwrap();
        tx.commit().await.unwrap();
        let delivered = timeout(PATIENCE, desk.accept()).await.expect("it is delivered");
        assert_eq!(delivered.id(), id);
    }
    relay.close().await;
}

/// P5: nothing is sent inside the user's transaction: one that is rolled back is announced to nobody, and one that
/// is committed by another session than its own.
pub(crate) async fn nothing_is_notified_inside_a_transaction(stage: &PostgresStage) {
    let writer = Outbox::builder(PostgresStore::clone(&stage.store)).writer_only().start().unwrap();
    let channel = format!("pillarbox:{}.outbox_event", stage.schema);
    let mut listener = PgListener::connect(&stage.url).await.unwrap();
    listener.listen(&channel).await.unwrap();

    let mut tx = writer.begin().await.unwrap();
    writer.write(&mut tx, order_placed("order-17")).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = writer.begin().await.unwrap();
    writer.write(&mut tx, order_placed("order-18")).await.unwrap();
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let heard = timeout(PATIENCE, listener.recv()).await.expect("it is announced").unwrap();
    stage.execute(format!("NOTIFY \"{channel}\", 'end'")).await;
    let next = timeout(PATIENCE, listener.recv()).await.expect("it is heard").unwrap();

    assert_ne!(heard.process_id(), u32::try_from(session).unwrap());
    assert_ne!(heard.payload(), "end");
    assert_eq!(next.payload(), "end", "one commit is announced once");
}
