//! Numbers that tell what is going on.

use std::time::Duration;

use pillarbox::{Delivery, ListenerError, MetricsExporter, Retry};
use pillarbox_testkit::acceptance::Desk;
use tracing::Level;

use crate::logs::Logs;
use crate::stage::{HOUR, Notes, SECOND, Stage, orders, placed, write, write_all};

/// Notes every call.
#[derive(Clone, Default)]
struct Ledger {
    calls: Notes<&'static str>,
    depths: Notes<(usize, usize)>,
    lags: Notes<Option<Duration>>,
}

impl Ledger {
    fn count(&self, call: &str) -> usize {
        self.calls.all().iter().filter(|noted| **noted == call).count()
    }
}

impl MetricsExporter for Ledger {
    fn increment_hot_enqueued(&self) {
        self.calls.note("hot enqueued");
    }
    fn increment_hot_dropped(&self) {
        self.calls.note("hot dropped");
    }
    fn increment_cold_enqueued(&self) {
        self.calls.note("cold enqueued");
    }
    fn increment_dispatch_success(&self) {
        self.calls.note("success");
    }
    fn increment_dispatch_failure(&self) {
        self.calls.note("failure");
    }
    fn increment_dispatch_dead(&self) {
        self.calls.note("dead");
    }
    fn record_queue_depths(&self, hot: usize, cold: usize) {
        self.depths.note((hot, cold));
    }
    fn record_oldest_lag(&self, lag: Option<Duration>) {
        self.lags.note(lag);
    }
}

/// M1: every step of an event is exported, and equals what the outbox counts itself.
#[tokio::test(start_paused = true)]
async fn exporter_hears_of_every_step() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let fails = seen.answering(|delivery| match delivery.id() {
        "order-1" => Err(ListenerError::new("no answer")),
        _ => Ok(()),
    });
    let outbox = stage
        .outbox()
        .on("OrderPlaced", fails)
        .retry(Retry::fixed(SECOND).max_attempts(3))
        .hot_queue(3)
        .metrics(ledger.clone())
        .start()
        .unwrap();

    write_all(&outbox, &orders(5)).await;
    stage.pass(60 * SECOND).await;

    assert_eq!((ledger.count("hot enqueued"), ledger.count("hot dropped")), (3, 2));
    assert_eq!(ledger.count("cold enqueued"), 4, "two dropped, and two retries");
    assert_eq!((ledger.count("success"), ledger.count("failure"), ledger.count("dead")), (4, 3, 1));
    let counts = outbox.counts();
    assert_eq!((counts.hot_enqueued, counts.hot_dropped, counts.cold_enqueued), (3, 2, 4));
    assert_eq!((counts.done, counts.failed, counts.dead), (4, 3, 1));
}

/// M1: the depths of both queues are told while events wait.
#[tokio::test(start_paused = true)]
async fn depths_of_the_queues_are_told() {
    let (stage, ledger) = (Stage::set(), Ledger::default());
    let (listener, mut desk) = Desk::open();
    let outbox =
        stage.outbox().on("OrderPlaced", listener).workers(1).metrics(ledger.clone()).start().unwrap();

    write_all(&outbox, &orders(4)).await;
    desk.accept_many(4).await;

    assert_eq!(ledger.depths.all(), [(3, 0), (2, 0), (1, 0), (0, 0)]);
}

/// Panics over every number.
struct Broken;

impl MetricsExporter for Broken {
    fn increment_hot_enqueued(&self) {
        panic!("no registry");
    }
    fn increment_hot_dropped(&self) {
        panic!("no registry");
    }
    fn increment_cold_enqueued(&self) {
        panic!("no registry");
    }
    fn increment_dispatch_success(&self) {
        panic!("no registry");
    }
    fn increment_dispatch_failure(&self) {
        panic!("no registry");
    }
    fn increment_dispatch_dead(&self) {
        panic!("no registry");
    }
    fn record_queue_depths(&self, _: usize, _: usize) {
        panic!("no registry");
    }
    fn record_oldest_lag(&self, _: Option<Duration>) {
        panic!("no registry");
    }
}

/// M1: an exporter that panics disturbs neither commits nor deliveries, and is logged once.
#[tokio::test(start_paused = true)]
async fn panicking_exporter_disturbs_nothing() {
    let (stage, seen, logs) = (Stage::set(), Notes::<Delivery>::new(), Logs::collect());
    let fails = seen.answering(|delivery| match delivery.id() {
        "order-1" => Err(ListenerError::new("no answer")),
        _ => Ok(()),
    });
    let retry = Retry::fixed(SECOND).max_attempts(2);
    let outbox = stage.outbox().on("OrderPlaced", fails).retry(retry).hot_queue(3).metrics(Broken);
    let outbox = outbox.start().unwrap();

    write_all(&outbox, &orders(5)).await;
    stage.pass(60 * SECOND).await;
    write(&outbox, placed("order-6")).await;
    stage.pass(60 * SECOND).await;

    let counts = outbox.counts();
    assert_eq!((counts.hot_enqueued, counts.hot_dropped), (4, 2));
    assert_eq!((counts.done, counts.failed, counts.dead), (5, 2, 1));
    let errors = logs.at(Level::ERROR);
    let panics: Vec<_> = errors.iter().filter(|line| line.contains("no registry")).collect();
    assert_eq!(panics.len(), 1, "{errors:?}");
}

/// M6: the lag is measured from when the oldest event became due, and is zero when none is.
#[tokio::test(start_paused = true)]
async fn lag_is_that_of_the_oldest_due_event() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    stage.pending(&["order-1"]).await;
    stage.pass(40 * SECOND).await;
    stage.pending(&["order-2"]).await;

    let _outbox = stage.outbox().on("OrderPlaced", seen.listener()).metrics(ledger.clone()).start().unwrap();
    stage.pass(6 * SECOND).await;

    let lags = ledger.lags.all();
    assert!(lags[0].is_some_and(|lag| lag >= 40 * SECOND && lag < 41 * SECOND), "{lags:?}");
    assert_eq!(lags.last(), Some(&Some(Duration::ZERO)));
}

/// M6: a reading that failed is unknown, never zero.
#[tokio::test(start_paused = true)]
async fn lag_is_unknown_while_the_database_is_away() {
    let (stage, ledger, seen) = (Stage::set(), Ledger::default(), Notes::<Delivery>::new());
    let (outbox, faults) = stage.faulty();
    faults.takes.next(2);

    let _outbox = outbox.on("OrderPlaced", seen.listener()).metrics(ledger.clone()).start().unwrap();
    stage.pass(8 * SECOND).await;

    let lags = ledger.lags.all();
    let (last, before) = lags.split_last().unwrap();
    assert!(before.len() >= 2 && before.iter().all(Option::is_none), "{lags:?}");
    assert_eq!(*last, Some(Duration::ZERO));
}

/// Q3: with no fault there are no duplicates, whatever fails and is retried.
#[tokio::test(start_paused = true)]
async fn without_faults_nothing_comes_twice() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let start = || {
        stage.outbox().on("OrderPlaced", seen.listener()).hot_queue(20).poll_every(SECOND).start().unwrap()
    };
    let (one, two) = (start(), start());

    for chunk in orders(600).chunks(30) {
        write_all(&one, chunk).await;
        write(&two, placed(&format!("{}-two", chunk[0]))).await;
    }
    stage.pass(HOUR).await;

    assert_eq!((seen.len(), seen.distinct().len()), (620, 620));
    assert_eq!(one.counts().done + two.counts().done, 620);
    assert_eq!(one.counts().lost_leases + two.counts().lost_leases, 0);
}
