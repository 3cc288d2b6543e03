//! The exporter of an outbox.

use std::time::Duration;

use metrics::{Counter, Gauge, SharedString, counter, gauge};
use pillarbox::store::{Census, HandlerCensus, Mode};
use pillarbox::{Keys, MetricsExporter, Share};

use crate::names;

/// Hands the numbers of one outbox to the recorder that is installed, with its name as the label `outbox`.
#[derive(Clone)]
pub struct Metrics {
    outbox: SharedString,
    hot_enqueued: Counter,
    hot_dropped: Counter,
    cold_enqueued: Counter,
    delivered: Counter,
    failed: Counter,
    died: Counter,
    unanswered: Counter,
    lost_leases: Counter,
    misplaced: Counter,
    below_floor: Counter,
    hot_queue: Gauge,
    cold_queue: Gauge,
    lag: Gauge,
    instances: Gauge,
    partitions_assigned: Gauge,
    partitions_fair: Gauge,
    pending: Gauge,
    pending_max: Gauge,
    keys_blocked: Gauge,
    keys_parked: Gauge,
}

impl Metrics {
    /// The numbers of the outbox of this name.
    pub fn of(outbox: impl Into<String>) -> Self {
        crate::describe();
        let outbox = SharedString::from(outbox.into());
        let counter = |name: &'static str| counter!(name, "outbox" => outbox.clone());
        let gauge = |name: &'static str| gauge!(name, "outbox" => outbox.clone());
        let metrics = Self {
            hot_enqueued: counter(names::HOT_ENQUEUED),
            hot_dropped: counter(names::HOT_DROPPED),
            cold_enqueued: counter(names::COLD_ENQUEUED),
            delivered: counter(names::DELIVERED),
            failed: counter(names::FAILED),
            died: counter(names::DIED),
            unanswered: counter(names::UNANSWERED),
            lost_leases: counter(names::LOST_LEASES),
            misplaced: counter(names::MISPLACED),
            below_floor: counter(names::BELOW_FLOOR),
            hot_queue: gauge(names::HOT_QUEUE),
            cold_queue: gauge(names::COLD_QUEUE),
            lag: gauge(names::LAG),
            instances: gauge(names::INSTANCES),
            partitions_assigned: gauge(names::PARTITIONS_ASSIGNED),
            partitions_fair: gauge(names::PARTITIONS_FAIR),
            pending: gauge(names::PENDING),
            pending_max: gauge(names::PENDING_MAX),
            keys_blocked: gauge(names::KEYS_BLOCKED),
            keys_parked: gauge(names::KEYS_PARKED),
            outbox,
        };
        metrics.hot_queue.set(0.0);
        metrics.cold_queue.set(0.0);
        // Nobody knows yet.
        metrics.record_oldest_lag(None);
        metrics.record_share(None);
        metrics.record_keys(None);
        metrics.record_census(None);
        metrics
    }
}

impl MetricsExporter for Metrics {
    fn increment_hot_enqueued(&self) {
        self.hot_enqueued.increment(1);
    }

    fn increment_hot_dropped(&self) {
        self.hot_dropped.increment(1);
    }

    fn increment_cold_enqueued(&self) {
        self.cold_enqueued.increment(1);
    }

    fn increment_dispatch_success(&self) {
        self.delivered.increment(1);
    }

    fn increment_dispatch_failure(&self) {
        self.failed.increment(1);
    }

    fn increment_dispatch_dead(&self) {
        self.died.increment(1);
    }

    fn increment_unanswered(&self) {
        self.unanswered.increment(1);
    }

    fn increment_lost_lease(&self) {
        self.lost_leases.increment(1);
    }

    fn increment_misplaced(&self) {
        self.misplaced.increment(1);
    }

    fn increment_below_floor(&self) {
        self.below_floor.increment(1);
    }

    fn record_queue_depths(&self, hot: usize, cold: usize) {
        self.hot_queue.set(hot as f64);
        self.cold_queue.set(cold as f64);
    }

    fn record_oldest_lag(&self, lag: Option<Duration>) {
        self.lag.set(or_unknown(lag.map(|lag| lag.as_secs_f64())));
    }

    fn record_share(&self, share: Option<Share>) {
        self.instances.set(or_unknown(share.map(|share| share.instances as f64)));
        self.partitions_assigned.set(or_unknown(share.map(|share| share.held as f64)));
        self.partitions_fair.set(or_unknown(share.map(|share| share.fair as f64)));
    }

    fn record_keys(&self, keys: Option<Keys>) {
        self.keys_blocked.set(or_unknown(keys.map(|keys| keys.blocked as f64)));
        self.keys_parked.set(or_unknown(keys.map(|keys| keys.parked as f64)));
    }

    fn record_census(&self, census: Option<&Census>) {
        let most =
            |census: &Census| census.partitions.iter().map(|tenancy| tenancy.pending()).max().unwrap_or(0);
        // Where rows are claimed there are no partitions, and what waits is not counted by them.
        let census = census.filter(|census| census.mode == Mode::Ownership);
        self.pending.set(or_unknown(census.map(|census| census.pending() as f64)));
        self.pending_max.set(or_unknown(census.map(|census| most(census) as f64)));
    }

    fn increment_unknown_handler(&self, id: &str) {
        counter!(names::UNKNOWN_HANDLER, "outbox" => self.outbox.clone(), "handler" => id.to_owned())
            .increment(1);
    }

    fn record_handlers(&self, handlers: Option<&HandlerCensus>) {
        // Which handlers there would have been is not known either.
        let Some(census) = handlers else { return };
        for handler in &census.handlers {
            let gauge =
                gauge!(names::HANDLER_OWED, "outbox" => self.outbox.clone(), "handler" => handler.id.clone());
            gauge.set(handler.owed as f64);
        }
    }
}

/// A reading, or that there is none.
pub(crate) fn or_unknown(reading: Option<f64>) -> f64 {
    reading.unwrap_or(f64::NAN)
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").field("outbox", &self.outbox).finish_non_exhaustive()
    }
}
