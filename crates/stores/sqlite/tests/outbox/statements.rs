//! What a whole outbox costs in statements on its tables, counted by what the driver logs.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::TxStore;
use pillarbox::{
    BoxFuture, Clock, Delivery, Event, GLOBAL, ListenerError, MemorySink, Runtime, SystemClock, Timestamp,
};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::statements;

use crate::stage::{SqliteStage, placed};

async fn counted(prefix: &str) -> SqliteStage {
    statements::keep();
    let stage = SqliteStage::with(|options| options.prefix(prefix)).await;
    statements::with(prefix);
    stage
}

fn orders(count: usize) -> impl Iterator<Item = Event> {
    (0..count).map(|number| placed(&format!("order-{number}")))
}

/// A clock on which little time passes, so that a busy machine counts as many statements as an idle one.
struct SlowClock;

impl Clock for SlowClock {
    fn now(&self) -> Duration {
        SystemClock.now() / 50
    }

    fn wall(&self) -> Timestamp {
        SystemClock.wall()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        SystemClock.sleep(duration * 50)
    }
}

/// D12, P5: draining costs at most 0.05 statements per event at batch size 100.
#[tokio::test]
async fn drained_event_costs_a_twentieth_of_a_statement() {
    const EVENTS: usize = 5_000;
    let stage = counted("drained_").await;
    let events: Vec<Event> = orders(EVENTS).collect();
    let mut tx = stage.store.begin().await.unwrap();
    stage.store.insert(&mut tx, &events, None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
    statements::with("drained_");
    let (seen, mut all_seen) = tokio::sync::watch::channel(0);

    let listener = move |_: Delivery| {
        seen.send_modify(|count| *count += 1);
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    let outbox = stage
        .builder()
        .on("OrderPlaced", listener)
        .batch_size(100)
        .max_batch(100)
        .runtime(Runtime { clock: Arc::new(SlowClock), ..Runtime::tokio() })
        .start()
        .unwrap();
    all_seen.wait_for(|count| *count == EVENTS).await.unwrap();
    outbox.close().await;

    assert_eq!(outbox.counts().done, EVENTS as u64);
    let used = statements::with("drained_").len();
    assert!((1..=EVENTS / 20).contains(&used), "{used} statements for {EVENTS} events");
}

/// P5: an outbox with nothing to do sends no statement to a table between two polls.
#[tokio::test]
async fn idle_outbox_reads_no_table() {
    let stage = counted("idle_").await;
    let sink = MemorySink::new();
    let outbox = stage
        .builder()
        .on_sink(GLOBAL, "OrderPlaced", sink)
        .poll_every(Duration::from_secs(3_600))
        .start()
        .unwrap();
    outbox.poll().await.unwrap();
    settle_down("idle_").await;

    tokio::time::sleep(Duration::from_millis(200)).await;

    assert_eq!(statements::with("idle_"), [""; 0]);
    outbox.close().await;
}

/// Waits until the first looks at the file are over.
async fn settle_down(prefix: &str) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    statements::with(prefix);
}

/// W2: inside the user's transaction there is one INSERT for up to 500 events, and nothing else on any table.
#[tokio::test]
async fn write_of_500_events_is_one_statement_in_the_transaction() {
    let stage = counted("inside_").await;
    let outbox = stage.builder().on_sink(GLOBAL, "OrderPlaced", MemorySink::new()).start().unwrap();
    // The connection is opened, which takes statements of its own.
    outbox.begin().await.unwrap().rollback().await.unwrap();

    let transaction = async {
        let mut tx = outbox.begin().await.unwrap();
        outbox.write_all(&mut tx, orders(500)).await.unwrap();
        sqlx::query("SELECT 'a statement of the user'").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    };
    let ((), inside) = statements::counted(transaction).await;
    outbox.close().await;

    assert_eq!(inside.len(), 2, "{inside:?}");
    assert!(inside[0].contains("INSERT INTO inside_outbox_event"), "{inside:?}");
    assert!(inside[1].contains("a statement of the user"), "{inside:?}");
}
