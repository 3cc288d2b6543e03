//! An outbox that is switched off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pillarbox::store::{Administration, Mode};
use pillarbox::{
    BoxFuture, Delivery, Event, MemoryConnection, MemoryStore, Outbox, OutboxBuilder, Runtime, Settings,
    Spawn, WriteError,
};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, Stage, placed, write};
use crate::surroundings::{OrderShipped, shipped};

/// Counts tasks, and runs them.
struct Counting(Arc<dyn Spawn>, Arc<AtomicUsize>);

impl Spawn for Counting {
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.spawn(name, task);
    }
}

/// An outbox with everything that could run, and how many tasks it has started.
fn outbox(stage: &Stage, seen: &Notes<Delivery>) -> (OutboxBuilder<MemoryStore>, Arc<AtomicUsize>) {
    let tasks = Arc::new(AtomicUsize::new(0));
    let spawner = Arc::new(Counting(stage.runtime.spawner.clone(), tasks.clone()));
    let runtime = Runtime { spawner, ..stage.runtime.clone() };
    let outbox = Outbox::builder(stage.store.clone()).runtime(runtime).name("orders-1").keep_done_for(HOUR);
    (outbox.on("OrderPlaced", seen.listener()), tasks)
}

/// M4: nothing is delivered, polled or registered, and no task runs, in either mode.
#[tokio::test(start_paused = true)]
async fn disabled_outbox_does_nothing() {
    for mode in [Mode::Claims, Mode::Ownership] {
        let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
        stage.pending(&["order-1"]).await;
        let (builder, tasks) = outbox(&stage, &seen);
        let disabled = builder.mode(mode).enabled(false).start().unwrap();

        stage.pass(24 * HOUR).await;
        disabled.poll().await.unwrap();
        assert!(!disabled.is_enabled() && !disabled.enqueue_hot(placed("order-2")));
        assert!(!disabled.has_cold_capacity() && disabled.partitions().is_empty());

        assert_eq!((seen.len(), tasks.load(Ordering::Relaxed)), (0, 0), "{mode}");
        assert_eq!(stage.store.census().await.unwrap().instances, [], "{mode}");
        disabled.close().await;
    }
}

/// M4: the same outbox, enabled, does all of that: the test above can fail.
#[tokio::test(start_paused = true)]
async fn enabled_outbox_does_all_of_it() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    let (builder, tasks) = outbox(&stage, &seen);
    let enabled = builder.start().unwrap();

    stage.quiet().await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert!(enabled.is_enabled() && tasks.load(Ordering::Relaxed) > 0);
    assert_eq!(stage.store.census().await.unwrap().instances.len(), 1);
}

/// M4: writing to it fails, in every way, and leaves the transaction as it was.
#[tokio::test(start_paused = true)]
async fn writing_to_a_disabled_outbox_fails() {
    let stage = Stage::set();
    let settings = Settings::from_vars("PILLARBOX_", [("PILLARBOX_ENABLED", "false")]).unwrap();
    let outbox = stage.outbox().settings(settings).start().unwrap();
    let is_disabled = |error: WriteError| assert!(matches!(error, WriteError::Disabled), "{error}");

    let mut tx = outbox.begin().await.unwrap();
    let error = outbox.write(&mut tx, placed("order-1")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the outbox is disabled (`enabled = false`); enable it, or throw its events away with `discard_when_disabled`"
    );
    is_disabled(outbox.write_all(&mut tx, [placed("order-2")]).await.unwrap_err());
    is_disabled(outbox.write_in(&mut stage.store.open(), [placed("order-3")]).await.unwrap_err());

    assert!(tx.is_active(), "the business goes on, if it can do without");
    tx.commit().await.unwrap();
    assert_eq!(stage.store.highest().await.unwrap(), 0);
}

/// M4: `discard_when_disabled` throws events away, and says so once.
#[tokio::test(start_paused = true)]
async fn discarding_warns_once() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let settings = Settings::from_toml("enabled = false\ndiscard_when_disabled = true").unwrap();
    let outbox = stage.outbox().settings(settings).start().unwrap();

    for order in ["order-1", "order-2"] {
        assert_eq!(write(&outbox, placed(order)).await, order);
    }
    let receipt = outbox.write_in(&mut stage.store.open(), [placed("order-3")]).await.unwrap();
    assert!(receipt.ids().is_empty());

    assert_eq!(stage.store.highest().await.unwrap(), 0);
    let warnings = logs.at(Level::WARN);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("throws events away"), "{warnings:?}");
}

/// M4: nothing is said, and nothing thrown away, while it is enabled.
#[tokio::test(start_paused = true)]
async fn discarding_needs_a_disabled_outbox() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let outbox = stage.outbox().discard_when_disabled(true).poller_only().start().unwrap();

    write(&outbox, placed("order-1")).await;

    assert!(stage.has_row("order-1").await);
    assert_eq!(logs.at(Level::WARN), Vec::<String>::new());
}

/// M4, W10: subscribers are part of the transaction: they are told of what is discarded, and not of what fails.
#[tokio::test(start_paused = true)]
async fn subscribers_hear_of_what_is_discarded() {
    for (discard, told) in [(true, 1), (false, 0)] {
        let (stage, notes) = (Stage::set(), Notes::<String>::new());
        let noted = notes.clone();
        let outbox = stage
            .outbox()
            .enabled(false)
            .discard_when_disabled(discard)
            .subscribe(move |event: OrderShipped, _: &mut MemoryConnection| {
                noted.note(event.order);
                Box::pin(std::future::ready(Ok(())))
            })
            .start()
            .unwrap();

        let mut tx = outbox.begin().await.unwrap();
        let written = outbox.write(&mut tx, shipped("order-1")).await;

        assert_eq!((written.is_ok(), notes.len()), (discard, told));
    }
}

/// M4: a hook hears of nothing, for nothing was written.
#[tokio::test(start_paused = true)]
async fn hook_hears_nothing_of_what_is_discarded() {
    struct Heard(Notes<usize>);
    impl pillarbox::AfterCommitHook for Heard {
        fn on_commit(&self, events: &[Event]) {
            self.0.note(events.len());
        }
    }
    let (stage, heard) = (Stage::set(), Notes::<usize>::new());
    let outbox = stage.outbox().after_commit(Heard(heard.clone())).enabled(false).discard_when_disabled(true);
    let outbox = outbox.start().unwrap();

    write(&outbox, placed("order-1")).await;

    assert_eq!(heard.len(), 0);
}
