//! From a commit to the listener, without a poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::{CommitError, Status};
use pillarbox::{
    BoxFuture, Clock, Delivery, Event, ListenerError, MemorySink, MemoryStore, Outbox, Retry, Route, Routing,
    SinkError, Source, Timestamp,
};
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::faulty::{Call, Effect, Fault, Faults, FaultyStore};
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// W13: between commit and listener there is one read for all events of the commit, and no poll.
#[tokio::test(start_paused = true)]
async fn commit_reaches_its_listeners_by_one_read_and_no_poll() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    stage.quiet().await;
    let before = outbox.counts();

    write_all(&outbox, &orders(100)).await;
    let first = desk.next().await;

    let after = outbox.counts();
    assert_eq!(after.read_backs - before.read_backs, 1);
    assert_eq!(after.takes - before.takes, 0);
    assert_eq!((after.hot_enqueued, first.delivery.source()), (100, Source::Hot));
}

/// W13: commits that wait for the database together are read back together.
#[tokio::test(start_paused = true)]
async fn waiting_commits_are_read_back_together() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    faults.read_backs.next(1);

    for order in orders(20) {
        write(&outbox, placed(&order)).await;
    }
    stage.quiet().await;

    assert_eq!((seen.len(), outbox.counts().read_backs), (20, 2), "one failed, one read all");
}

/// W11: the same envelope, byte for byte, comes from memory and from the table.
#[tokio::test(start_paused = true)]
async fn hot_and_cold_deliver_equal_envelopes() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let fails_when_hot = seen.answering(|delivery| match delivery.source() {
        Source::Hot => Err(ListenerError::new("try again")),
        Source::Cold => Ok(()),
    });
    let outbox = stage.outbox().on_aggregate("Order", "OrderPlaced", fails_when_hot).start().unwrap();
    let event = Event::builder("OrderPlaced")
        .aggregate("Order", "order-17")
        .tenant("acme")
        .header("source", "web")
        .context("user", "ada")
        .json_text("{ \"total\" :  4200 }")
        .build()
        .unwrap();

    write(&outbox, event.clone()).await;
    stage.pass(60 * SECOND).await;

    let seen = seen.all();
    let sources: Vec<_> = seen.iter().map(Delivery::source).collect();
    assert_eq!(sources, [Source::Hot, Source::Cold]);
    assert_eq!(seen[0].event(), seen[1].event());
    assert_eq!(seen[0].event().parts(), event.parts());
    assert_eq!(seen[0].created_at(), seen[1].created_at());
}

/// W13: a commit that answers `Ok` and rolled back delivers nothing.
#[tokio::test(start_paused = true)]
async fn silently_aborted_transaction_delivers_nothing() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    tx.abort_silently();
    tx.commit().await.unwrap();
    stage.pass(HOUR).await;

    assert_eq!((seen.len(), outbox.counts().hot_missing), (0, 1));
    assert!(!stage.has_row("order-1").await);
}

/// W13: a commit whose answer was lost is delivered from memory if it took effect.
#[tokio::test(start_paused = true)]
async fn ambiguous_commit_that_took_effect_is_delivered() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    faults.commit_answers.next(1);

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let committed = tx.commit().await;
    stage.quiet().await;

    assert!(matches!(committed, Err(CommitError::Unknown { .. })), "{committed:?}");
    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(seen.all()[0].source(), Source::Hot);
}

/// W13: a commit whose answer was lost delivers nothing if it had no effect.
#[tokio::test(start_paused = true)]
async fn ambiguous_commit_without_effect_delivers_nothing() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    faults.commits.next(1);

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    let committed = tx.commit().await;
    stage.pass(HOUR).await;

    assert!(matches!(committed, Err(CommitError::Unknown { .. })), "{committed:?}");
    assert_eq!((seen.len(), outbox.counts().hot_missing), (0, 1));
}

/// W13: a read that fails is repeated, and nothing goes out before it succeeded.
#[tokio::test(start_paused = true)]
async fn failed_read_back_is_tried_again() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).poll_every(HOUR).start().unwrap();
    faults.read_backs.next(3);

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    assert_eq!(seen.len(), 0);
    stage.pass(SECOND).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(outbox.counts().read_backs, 4);
}

/// W13: what cannot be read back in time is left to the poller, and comes once.
#[tokio::test(start_paused = true)]
async fn event_that_is_not_read_back_in_time_comes_from_the_table() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", seen.listener()).start().unwrap();
    faults.read_backs.next(u32::MAX);

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;
    faults.read_backs.next(0);
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(seen.all()[0].source(), Source::Cold);
}

/// W7, M3: what finds the queue full is warned about and counted, and the poller delivers it at once.
#[tokio::test(start_paused = true)]
async fn full_hot_queue_warns_and_leaves_events_to_the_poller() {
    let (stage, logs) = (Stage::set(), Logs::collect());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).hot_queue(2).poll_every(HOUR).start().unwrap();

    write_all(&outbox, &orders(5)).await;
    let begun = stage.now();
    let delivered = desk.accept_many(5).await;
    outbox.close().await;

    assert_eq!(delivered.iter().filter(|delivery| delivery.source() == Source::Hot).count(), 2);
    assert!(stage.now() - begun < SECOND);
    let counts = outbox.counts();
    assert_eq!((counts.hot_dropped, counts.released, counts.done), (3, 3, 5));
    let warnings = logs.at(Level::WARN);
    assert_eq!(warnings, ["the hot queue is full or closed; the poller will deliver them events=3"]);
}

/// Q3: while an event is on its hot path, no other instance takes it.
#[tokio::test(start_paused = true)]
async fn event_on_its_hot_path_is_taken_by_nobody_else() {
    let (stage, elsewhere) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let other = stage.outbox().on("OrderPlaced", elsewhere.listener()).poll_every(SECOND).start().unwrap();

    write(&outbox, placed("order-1")).await;
    let call = desk.next().await;
    stage.pass(29 * SECOND).await;
    call.succeed();
    stage.pass(HOUR).await;

    assert_eq!((elsewhere.len(), other.counts().cold_enqueued), (0, 0));
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// Q3: an event that waited long for a worker is renewed before it is delivered, and comes once.
#[tokio::test(start_paused = true)]
async fn event_that_waited_long_is_renewed_before_delivery() {
    let (stage, elsewhere) = (Stage::set(), Notes::<Delivery>::new());
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).start().unwrap();
    let _other = stage.outbox().on("OrderPlaced", elsewhere.listener()).poll_every(SECOND).start().unwrap();

    write_all(&outbox, &orders(4)).await;
    for _ in 0..4 {
        let call = desk.next().await;
        stage.pass(25 * SECOND).await;
        call.succeed();
    }
    stage.pass(HOUR).await;

    assert_eq!((elsewhere.len(), outbox.counts().done), (0, 4));
}

/// Q3, D12: a locked row keeps no other from being renewed; its own event is given back.
#[tokio::test(start_paused = true)]
async fn locked_row_keeps_no_other_from_being_renewed() {
    let stage = Stage::set();
    let (listener, mut desk) = Desk::open();
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.on("OrderPlaced", listener).workers(1).start().unwrap();
    write_all(&outbox, &orders(3)).await;
    let first = desk.next().await;
    stage.pass(25 * SECOND).await;

    faults.locked.store(3, std::sync::atomic::Ordering::Relaxed);
    first.succeed();
    let second = desk.next().await;

    assert_eq!(second.delivery.id(), "order-2");
    assert_eq!(stage.row("order-2").await.attempts, 0);
    assert!(stage.row("order-2").await.available_at > stage.row("order-3").await.available_at);
}

/// W13, Q3: an event whose transaction stayed open for longer than its lease comes once.
#[tokio::test(start_paused = true)]
async fn commit_long_after_the_write_delivers_once() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage.outbox().on("OrderPlaced", seen.listener()).start().unwrap();
    let other = stage.outbox().on("OrderPlaced", seen.listener()).poll_every(SECOND).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, placed("order-1")).await.unwrap();
    stage.pass(100 * SECOND).await;
    tx.commit().await.unwrap();
    stage.pass(HOUR).await;

    assert_eq!(seen.ids(), ["order-1"]);
    assert_eq!(outbox.counts().done + other.counts().done, 1);
}

/// D3: a retry of a hot event comes from the table, when its time has come.
#[tokio::test(start_paused = true)]
async fn failed_hot_event_is_retried_in_time() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let fails_once = seen.answering(|delivery| match delivery.attempt() {
        1 => Err(ListenerError::new("try again")),
        _ => Ok(()),
    });
    let outbox = stage
        .outbox()
        .on("OrderPlaced", fails_once)
        .retry(Retry::fixed(Duration::from_millis(200)))
        .poll_every(HOUR)
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND).await;

    assert_eq!(seen.len(), 2);
}

/// The database's clock: an hour ahead from when it has jumped.
struct JumpingClock {
    clock: Arc<dyn Clock>,
    has_jumped: AtomicBool,
}

impl Clock for JumpingClock {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        let ahead = if self.has_jumped.load(Ordering::Relaxed) { HOUR } else { Duration::ZERO };
        self.clock.wall().saturating_add(ahead)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep(duration)
    }
}

/// A line on which the answers to read-backs take four seconds.
struct SlowReadBacks;

impl Faults for SlowReadBacks {
    fn next(&self, call: Call) -> Fault {
        let after = if call == Call::ReadBack { 4 * SECOND } else { Duration::ZERO };
        Fault { after, ..Fault::NONE }
    }

    fn took_effect(&self, _: Effect<'_>) {}
}

/// L4, Q3: a jump of the database's clock ends the lease of an event while its row is read back. If it was taken from the
/// table and settled before the answer comes, it is not delivered from memory as well.
#[tokio::test(start_paused = true)]
async fn event_that_was_taken_while_it_was_read_back_is_not_delivered_again() {
    let stage = Stage::set();
    let clock = Arc::new(JumpingClock { clock: stage.runtime.clock.clone(), has_jumped: false.into() });
    let store = FaultyStore::new(MemoryStore::with_clock(clock.clone()), Arc::new(SlowReadBacks));
    let kafka = MemorySink::new();
    let routing = Routing::new().sink("kafka", kafka.clone()).unwrap();
    let routing = routing.sink("audit", MemorySink::answering(|_| Err(SinkError::rejected("422")))).unwrap();
    let routing = routing.routes(vec![Route::new("all").to("kafka").to("audit")]).unwrap();
    let builder = Outbox::builder(store).runtime(stage.runtime.clone()).routing(&routing);
    let outbox = builder.poll_every(SECOND).retry(Retry::fixed(HOUR)).start().unwrap();

    write(&outbox, placed("order-1")).await;
    clock.has_jumped.store(true, Ordering::Relaxed);
    stage.pass(2 * SECOND).await;
    assert_eq!((kafka.published().len(), outbox.counts().failed), (1, 1));
    stage.pass(4 * SECOND).await;

    assert_eq!(kafka.published().len(), 1);
}
