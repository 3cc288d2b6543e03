//! Numbers that tell what is going on.

mod unknown;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use unknown::Unknown;
pub use unknown::UnknownHandler;

use crate::dispatcher::caught;
use crate::store::{Census, HandlerCensus};

/// Receives the engine's numbers; the bridge to whatever monitoring you use.
///
/// Methods are called on the hot path: they must be quick and must not block. A panic in
/// one is caught, and the first one is logged.
pub trait MetricsExporter: Send + Sync + 'static {
    /// An event entered the hot queue.
    fn increment_hot_enqueued(&self);
    /// An event found the hot queue full and is left to the poller.
    fn increment_hot_dropped(&self);
    /// An event entered the cold queue.
    fn increment_cold_enqueued(&self);
    /// An event was delivered.
    fn increment_dispatch_success(&self);
    /// A delivery failed and spent an attempt.
    fn increment_dispatch_failure(&self);
    /// An event is dead.
    fn increment_dispatch_dead(&self);
    /// How many events wait in the queues.
    fn record_queue_depths(&self, hot: usize, cold: usize);
    /// How long the oldest available event has been due; `None` when that could not be read.
    fn record_oldest_lag(&self, lag: Option<Duration>);

    /// How partitions are shared, as the last heartbeat told, at no cost of its own; `None` while that is not known: the
    /// heartbeat failed, or this instance is no member. Does nothing by default.
    fn record_share(&self, share: Option<Share>) {
        let _ = share;
    }

    /// How many keys are held back in the partitions that this instance reads, with every heartbeat and from memory;
    /// `None` while that is not known: the heartbeat failed, a partition has come that was not looked at yet, or this
    /// instance owns none. Those of all instances together are all that there are. Does nothing by default.
    fn record_keys(&self, keys: Option<Keys>) {
        let _ = keys;
    }

    /// What a [`census`](crate::Outbox::census) has found whenever somebody asked for one; `None` if it failed. Does
    /// nothing by default.
    fn record_census(&self, census: Option<&Census>) {
        let _ = census;
    }

    /// An event was looked at that is owed to the handler `id`, and no such handler is registered here. Each such event is
    /// looked at every minute, and each time counts. Does nothing by default.
    fn increment_unknown_handler(&self, id: &str) {
        let _ = id;
    }

    /// A sink left an event unanswered: it may have arrived, and comes again. Does nothing by default.
    fn increment_unanswered(&self) {}

    /// An outcome could not be recorded because the lease of its event had passed to another, who delivers it again. Does
    /// nothing by default.
    fn increment_lost_lease(&self) {}

    /// An event was found in another partition than that of its key: its writer computes partitions wrongly, and the key
    /// has no order. Does nothing by default.
    fn increment_misplaced(&self) {}

    /// An event became visible below the floor of its partition, and was found there late. Does nothing by default.
    fn increment_below_floor(&self) {}

    /// What was found whenever somebody asked for the [handlers](crate::Outbox::handlers) that are owed; `None` if it
    /// failed. Does nothing by default.
    fn record_handlers(&self, handlers: Option<&HandlerCensus>) {
        let _ = handlers;
    }
}

/// How partitions are shared, as one instance sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// Instances that are alive, this one among them.
    pub instances: usize,
    /// Partitions that this one holds; none where rows are claimed.
    pub held: usize,
    /// Partitions that it should hold: its fair share.
    pub fair: usize,
}

/// Keys that are held back in the partitions of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keys {
    /// Keys that wait for one of their events, those that are parked included.
    pub blocked: usize,
    /// Keys that wait for an operator.
    pub parked: usize,
}

impl std::iter::Sum for Keys {
    fn sum<I: Iterator<Item = Self>>(each: I) -> Self {
        each.fold(Self::default(), |sum, keys| Self {
            blocked: sum.blocked + keys.blocked,
            parked: sum.parked + keys.parked,
        })
    }
}

/// Throws all numbers away; the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMetrics;

impl MetricsExporter for NoMetrics {
    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_cold_enqueued(&self) {}
    fn increment_dispatch_success(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_queue_depths(&self, _hot: usize, _cold: usize) {}
    fn record_oldest_lag(&self, _lag: Option<Duration>) {}
}

/// What an outbox has counted since it was started.
///
/// An outcome whose record was confirmed too late counts: the answer was lost, and a repeat found the event no
/// longer leased to us. Rarely another instance has taken it over meanwhile, and counts it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events that entered the hot queue.
    pub hot_enqueued: u64,
    /// Events that found the hot queue full.
    pub hot_dropped: u64,
    /// Events that were not found when the hot path read them back: rolled back behind our back, or taken
    /// by another instance after their lease ran out. Nothing was delivered for them from memory.
    pub hot_missing: u64,
    /// Statements by which the hot path read events back.
    pub read_backs: u64,
    /// Events that entered the cold queue.
    pub cold_enqueued: u64,
    /// Statements by which the poller took events.
    pub takes: u64,
    /// Events recorded as delivered.
    pub done: u64,
    /// Deliveries that failed and spent an attempt.
    pub failed: u64,
    /// Events recorded as dead.
    pub dead: u64,
    /// Events given back untried.
    pub released: u64,
    /// Outcomes that could not be recorded because the lease had passed to another.
    pub lost_leases: u64,
    /// Batches of outcomes that were written.
    pub settle_batches: u64,
    /// Events that were found in another partition than that of their key: their writer computes it wrongly.
    pub misplaced: u64,
    /// Events that became visible below the floor of their partition, and were found there.
    pub below_floor: u64,
    /// How often an event was looked at that is owed to a handler which is not registered here, once for each such
    /// handler; [`Outbox::unknown_handlers`](crate::Outbox::unknown_handlers) names them.
    pub unknown_handlers: u64,
    /// How often a sink left an event unanswered: it may have arrived, and comes again. With a sink that answers, no event
    /// arrives twice.
    pub unanswered: u64,
}

macro_rules! counters {
    ($($name:ident)*) => {
        /// The live counters behind [`Counts`], together with the user's exporter.
        pub(crate) struct Meter {
            exporter: Guarded,
            pub(crate) unknown: Unknown,
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Meter {
            pub(crate) fn new(exporter: Arc<dyn MetricsExporter>) -> Self {
                let exporter = Guarded { exporter, has_panicked: AtomicBool::new(false) };
                Self { exporter, unknown: Unknown::default(), $($name: AtomicU64::new(0),)* }
            }

            pub(crate) fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}
counters!(hot_enqueued hot_dropped hot_missing read_backs cold_enqueued takes done failed dead released
    lost_leases settle_batches misplaced below_floor unknown_handlers unanswered);

impl Meter {
    pub(crate) fn exporter(&self) -> &dyn MetricsExporter {
        &self.exporter
    }

    /// An outcome could not be recorded, for its event is another's by now.
    pub(crate) fn lose_lease(&self) {
        add(&self.lost_leases, 1);
        self.exporter.increment_lost_lease();
    }

    /// An event was found in a wrong partition.
    pub(crate) fn meet_misplaced(&self) {
        add(&self.misplaced, 1);
        self.exporter.increment_misplaced();
    }

    /// An event was found below the floor of its partition.
    pub(crate) fn meet_below_floor(&self) {
        add(&self.below_floor, 1);
        self.exporter.increment_below_floor();
    }

    /// A sink left an event unanswered.
    pub(crate) fn leave_unanswered(&self) {
        add(&self.unanswered, 1);
        self.exporter.increment_unanswered();
    }

    /// An event is owed to a handler that is not registered here; `now` is the local time.
    pub(crate) fn meet_unknown(&self, id: &str, now: Duration) {
        add(&self.unknown_handlers, 1);
        self.exporter.increment_unknown_handler(id);
        if self.unknown.meet(id, now) {
            tracing::warn!(
                handler = id,
                "events are owed to a handler that is not registered here; `pillarbox handlers` drops or renames it"
            );
        }
    }
}

/// The user's exporter. A panic in it goes no further and is logged once: it is called for every event.
struct Guarded {
    exporter: Arc<dyn MetricsExporter>,
    has_panicked: AtomicBool,
}

impl Guarded {
    fn call(&self, call: impl FnOnce(&dyn MetricsExporter)) {
        if let Err(panic) = caught(|| call(&*self.exporter))
            && !self.has_panicked.swap(true, Ordering::Relaxed)
        {
            tracing::error!(panic, "the metrics exporter panicked; later panics in it are not logged");
        }
    }
}

impl MetricsExporter for Guarded {
    fn increment_hot_enqueued(&self) {
        self.call(|exporter| exporter.increment_hot_enqueued());
    }
    fn increment_hot_dropped(&self) {
        self.call(|exporter| exporter.increment_hot_dropped());
    }
    fn increment_cold_enqueued(&self) {
        self.call(|exporter| exporter.increment_cold_enqueued());
    }
    fn increment_dispatch_success(&self) {
        self.call(|exporter| exporter.increment_dispatch_success());
    }
    fn increment_dispatch_failure(&self) {
        self.call(|exporter| exporter.increment_dispatch_failure());
    }
    fn increment_dispatch_dead(&self) {
        self.call(|exporter| exporter.increment_dispatch_dead());
    }
    fn record_queue_depths(&self, hot: usize, cold: usize) {
        self.call(|exporter| exporter.record_queue_depths(hot, cold));
    }
    fn record_oldest_lag(&self, lag: Option<Duration>) {
        self.call(|exporter| exporter.record_oldest_lag(lag));
    }
    fn record_share(&self, share: Option<Share>) {
        self.call(|exporter| exporter.record_share(share));
    }
    fn record_keys(&self, keys: Option<Keys>) {
        self.call(|exporter| exporter.record_keys(keys));
    }
    fn record_census(&self, census: Option<&Census>) {
        self.call(|exporter| exporter.record_census(census));
    }
    fn increment_unknown_handler(&self, id: &str) {
        self.call(|exporter| exporter.increment_unknown_handler(id));
    }
    fn increment_unanswered(&self) {
        self.call(|exporter| exporter.increment_unanswered());
    }
    fn increment_lost_lease(&self) {
        self.call(|exporter| exporter.increment_lost_lease());
    }
    fn increment_misplaced(&self) {
        self.call(|exporter| exporter.increment_misplaced());
    }
    fn increment_below_floor(&self) {
        self.call(|exporter| exporter.increment_below_floor());
    }
    fn record_handlers(&self, handlers: Option<&HandlerCensus>) {
        self.call(|exporter| exporter.record_handlers(handlers));
    }
}

/// Counts up by `by`.
pub(crate) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
