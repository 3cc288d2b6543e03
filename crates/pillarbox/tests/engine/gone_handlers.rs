//! Handlers that are owed and exist no more: who names them, and what becomes of events when an operator drops or renames
//! one.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::{HandlerCensus, HandlerChange, HandlersChanged, Status};
use pillarbox::{Handlers, MemoryStore, MetricsExporter, OutboxBuilder, UnknownHandler};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::handling::{each_second, noting, placed};
use crate::logs::Logs;
use crate::stage::{MILLISECOND, Notes, SECOND, Stage, write};

/// Notes what is said of handlers, and throws all other numbers away.
#[derive(Clone, Default)]
struct Ledger {
    unknown: Notes,
    censuses: Notes<Option<HandlerCensus>>,
}

impl MetricsExporter for Ledger {
    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_cold_enqueued(&self) {}
    fn increment_dispatch_success(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_queue_depths(&self, _: usize, _: usize) {}
    fn record_oldest_lag(&self, _: Option<Duration>) {}
    fn increment_unknown_handler(&self, id: &str) {
        self.unknown.note(id);
    }
    fn record_handlers(&self, handlers: Option<&HandlerCensus>) {
        self.censuses.note(handlers.cloned());
    }
}

/// Leaves `order-1` as an instance does that is replaced by one without `search`: billing is done, search has failed once.
async fn leave_behind(stage: &Stage, builder: OutboxBuilder<MemoryStore>, notes: &Notes) {
    let handlers =
        Handlers::new().handler("billing", noting(notes, 0)).handler("search", noting(notes, u32::MAX));
    let outbox = builder.handlers(handlers).retry(each_second()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;
    assert_eq!(stage.status("order-1").await, Status::Retry);
}

fn billing(notes: &Notes) -> Handlers {
    Handlers::new().handler("billing", noting(notes, 0))
}

async fn apply(stage: &Stage, change: &HandlerChange) -> HandlersChanged {
    let found = change.look(&stage.store, 100).await.unwrap();
    change.apply(&stage.store, &found).await.unwrap()
}

fn search_is_dropped() -> HandlerChange {
    HandlerChange::drop("search").unwrap()
}

/// The numbers: changed, busy.
fn told(changed: HandlersChanged) -> (u64, u64) {
    (changed.changed, changed.busy)
}

/// L3, M2: metrics, counts, the log and a census name a handler that is owed and not registered.
#[tokio::test(start_paused = true)]
async fn unknown_handler_is_named() {
    let (stage, ledger, notes) = (Stage::set(), Ledger::default(), Notes::new());
    leave_behind(&stage, stage.outbox(), &notes).await;
    let logs = Logs::collect();
    let outbox = stage.outbox().handlers(billing(&notes)).metrics(ledger.clone()).start().unwrap();

    stage.pass(130 * SECOND).await;

    assert_eq!(ledger.unknown.all(), ["search"; 3], "at once, and every minute");
    assert_eq!(outbox.counts().unknown_handlers, 3);
    let [UnknownHandler { id, met, last_met_ago, .. }] = &outbox.unknown_handlers()[..] else {
        panic!("{:?}", outbox.unknown_handlers())
    };
    assert_eq!((id.as_str(), *met), ("search", 3));
    assert!(*last_met_ago < 60 * SECOND, "{last_met_ago:?}");
    assert_eq!(logs.at(Level::WARN).iter().filter(|line| line.contains("search")).count(), 1);
    let census = outbox.handlers().await.unwrap();
    let unknown: Vec<(&str, u64)> = census.unknown().map(|of| (&*of.id, of.unknown)).collect();
    assert_eq!(unknown, [("search", 1)]);
    assert_eq!(ledger.censuses.all(), [Some(census)]);
    outbox.close().await;
}

/// M6: handlers that could not be counted are unknown, never none.
#[tokio::test(start_paused = true)]
async fn handlers_that_could_not_be_counted_are_not_none() {
    let (stage, ledger, notes) = (Stage::set(), Ledger::default(), Notes::new());
    let (outbox, faults) = stage.faulty();
    let outbox = outbox.handlers(billing(&notes)).metrics(ledger.clone()).start().unwrap();

    faults.reads.next(1);
    let failed = outbox.handlers().await;

    assert!(failed.is_err());
    assert_eq!(ledger.censuses.all(), [None]);
    outbox.close().await;
}

/// L3: an event that waits for nobody else is done when its last owed handler is dropped, and nobody runs again; in both
/// modes, and at once.
#[tokio::test(start_paused = true)]
async fn event_is_done_when_its_last_owed_handler_is_dropped() {
    for ordered in [false, true] {
        let (stage, notes) = (Stage::set(), Notes::new());
        let builder = || if ordered { stage.outbox().ordered() } else { stage.outbox() };
        leave_behind(&stage, builder(), &notes).await;
        let outbox = builder().handlers(billing(&notes)).start().unwrap();
        stage.pass(10 * SECOND).await;
        assert_eq!(stage.status("order-1").await, Status::Retry);

        assert_eq!(told(apply(&stage, &search_is_dropped()).await), (1, 0));
        stage.pass(10 * SECOND).await;

        assert_eq!(stage.status("order-1").await, Status::Done);
        assert_eq!(notes.all(), ["billing order-1 1", "search order-1 1"]);
        outbox.close().await;
    }
}

/// L3, O6: a key that was held up by an event for a handler that is gone goes on when that is dropped.
#[tokio::test(start_paused = true)]
async fn key_goes_on_when_a_handler_is_dropped() {
    let (stage, notes) = (Stage::set(), Notes::new());
    leave_behind(&stage, stage.outbox().ordered(), &notes).await;
    let outbox = stage.outbox().ordered().handlers(billing(&notes)).start().unwrap();
    let mut follower = pillarbox::Event::of(&placed("order-2")).key("order-1");
    follower = follower.aggregate_id("order-1");
    write(&outbox, follower.build().unwrap()).await;
    stage.pass(10 * SECOND).await;
    assert!(!notes.all().contains(&"billing order-2 1".to_owned()), "{:?}", notes.all());

    apply(&stage, &search_is_dropped()).await;
    stage.pass(10 * SECOND).await;

    assert_eq!(notes.all(), ["billing order-1 1", "search order-1 1", "billing order-2 1"]);
    assert_eq!(stage.status("order-2").await, Status::Done);
    outbox.close().await;
}

/// L3: a handler that was renamed goes on where it was, with the attempts that it had.
#[tokio::test(start_paused = true)]
async fn renamed_handler_goes_on_where_it_was() {
    let (stage, notes) = (Stage::set(), Notes::new());
    leave_behind(&stage, stage.outbox(), &notes).await;
    let renamed = HandlerChange::rename("search", "full-text").unwrap();
    assert_eq!(told(apply(&stage, &renamed).await), (1, 0));

    let handlers = billing(&notes).handler("full-text", noting(&notes, 0));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    stage.pass(10 * SECOND).await;

    assert_eq!(notes.all(), ["billing order-1 1", "search order-1 1", "full-text order-1 2"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    outbox.close().await;
}

/// L3: an event that was dead for the dropped handler alone is done, and one that is dead for another too stays dead.
#[tokio::test(start_paused = true)]
async fn dead_event_is_cured_when_its_last_dead_handler_is_dropped() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let handlers =
        billing(&notes).handler("mail", noting(&notes, u32::MAX)).handler("search", noting(&notes, u32::MAX));
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(10 * SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::Dead);
    outbox.close().await;
    let outbox = stage.outbox().handlers(billing(&notes)).start().unwrap();

    let first = apply(&stage, &search_is_dropped()).await;
    stage.pass(10 * SECOND).await;
    assert_eq!((first.changed, first.replayed), (1, 0));
    assert_eq!(stage.status("order-1").await, Status::Dead);

    let second = apply(&stage, &HandlerChange::drop("mail").unwrap()).await;
    stage.pass(10 * SECOND).await;
    assert_eq!((second.changed, second.replayed), (1, 1));
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(notes.all().iter().filter(|note| note.starts_with("billing")).count(), 1);
    outbox.close().await;
}

/// L3: an operator who drops a handler while an instance that took the event runs another is told that it is busy; what
/// runs is recorded, and dropping again ends the event.
#[tokio::test(start_paused = true)]
async fn event_that_was_taken_is_busy() {
    let (stage, notes) = (Stage::set(), Notes::new());
    leave_behind(&stage, stage.outbox(), &notes).await;
    let (audit, mut desk) = Desk::open();
    let outbox = stage.outbox().handlers(billing(&notes).on_any("audit", audit)).start().unwrap();
    let call = desk.next().await;

    assert_eq!(told(apply(&stage, &search_is_dropped()).await), (0, 1));
    call.succeed();
    stage.quiet().await;
    assert_eq!(told(apply(&stage, &search_is_dropped()).await), (1, 0));
    stage.pass(10 * SECOND).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert!(desk.waiting().is_none(), "it has succeeded");
    assert_eq!(outbox.counts().lost_leases, 0);
    outbox.close().await;
}

/// L3, O5: where partitions are owned the handler is dropped under the eyes of the owner: what it says of handlers later is
/// not recorded over it, the event comes again as it is now, and who has succeeded does not run again.
#[tokio::test(start_paused = true)]
async fn owner_does_not_undo_what_was_dropped_meanwhile() {
    let (stage, notes, logs) = (Stage::set(), Notes::new(), Logs::collect());
    leave_behind(&stage, stage.outbox().ordered(), &notes).await;
    let (audit, mut desk) = Desk::open();
    let outbox = stage.outbox().ordered().handlers(billing(&notes).on_any("audit", audit)).start().unwrap();
    let call = desk.next().await;

    assert_eq!(told(apply(&stage, &search_is_dropped()).await), (1, 0));
    call.succeed();
    stage.pass(10 * SECOND).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert!(desk.waiting().is_none(), "it has succeeded");
    assert_eq!(notes.all(), ["billing order-1 1", "search order-1 1"]);
    assert_eq!(outbox.counts().lost_leases, 0, "the partition is still its own");
    let warnings = logs.at(Level::WARN);
    assert!(warnings.iter().any(|line| line.contains("handlers has changed")), "{warnings:?}");
    outbox.close().await;
}

/// L3, O5: the same when what ran meanwhile has failed: it is tried again, and the event does not wait for who is gone.
#[tokio::test(start_paused = true)]
async fn failure_does_not_bring_back_what_was_dropped() {
    let (stage, notes) = (Stage::set(), Notes::new());
    leave_behind(&stage, stage.outbox().ordered(), &notes).await;
    let (audit, mut desk) = Desk::open();
    let handlers = billing(&notes).on_any("audit", audit);
    let outbox = stage.outbox().ordered().handlers(handlers).retry(each_second()).start().unwrap();
    let call = desk.next().await;

    apply(&stage, &search_is_dropped()).await;
    call.fail(pillarbox::ListenerError::new("503"));
    desk.next().await.succeed();
    stage.pass(10 * SECOND).await;

    assert_eq!(stage.status("order-1").await, Status::Done);
    assert!(search_is_dropped().look(&stage.store, 10).await.unwrap().is_empty());
    outbox.close().await;
}

/// L3, O6: nor does its key stand still when the outcome was refused at its second try only.
#[tokio::test(start_paused = true)]
async fn key_goes_on_when_a_repeated_outcome_is_refused() {
    let (stage, notes) = (Stage::set(), Notes::new());
    let (search, mut desk) = Desk::open();
    let outbox = stage.outbox().ordered().handlers(billing(&notes).on_any("search", search)).start().unwrap();
    write(&outbox, placed("order-1")).await;
    let _hangs = desk.next().await;
    outbox.close().await;
    assert_eq!(stage.status("order-1").await, Status::New, "what was cut off goes back");

    let (audit, mut desk) = Desk::open();
    let (builder, faults) = stage.faulty();
    let handlers = billing(&notes).on_any("audit", audit);
    let outbox = builder.ordered().handlers(handlers).retry(each_second()).start().unwrap();
    let call = desk.next().await;
    faults.settles.next(1);
    call.fail(pillarbox::ListenerError::new("503"));
    while faults.settled.load(Ordering::Relaxed) == 0 {
        stage.pass(MILLISECOND).await;
    }
    assert_eq!(told(apply(&stage, &search_is_dropped()).await), (1, 0));

    stage.pass(30 * SECOND).await;
    desk.waiting().expect("it is tried again").succeed();
    stage.pass(10 * SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::Done);
    outbox.close().await;
}
