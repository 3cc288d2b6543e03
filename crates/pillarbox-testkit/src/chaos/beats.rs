//! Whether an instance says in time that it is alive.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pillarbox::{Clock, MetricsExporter, Share, SystemClock};

use crate::cluster::say;

/// When the last two heartbeats of this process were over.
#[derive(Clone)]
pub(super) struct Beats(Arc<Times>);

/// In nanoseconds of the machine's clock. The last but one was over before the last began, from which the leases count.
struct Times {
    last_but_one: AtomicU64,
    last: AtomicU64,
    silent_after: u64,
}

impl Beats {
    /// Counts from now on.
    pub(super) fn new(silent_after: Duration) -> Self {
        let now = now();
        let silent_after = nanos(silent_after);
        Self(Arc::new(Times { last_but_one: now.into(), last: now.into(), silent_after }))
    }

    /// Tells since when nothing was heard, if the leases may have ended meanwhile.
    pub(super) fn tell_silence(&self) {
        let (since, now) = (self.0.last_but_one.load(Ordering::Relaxed), now());
        if now.saturating_sub(since) >= self.0.silent_after {
            say(&format!("silent - - {now} {since}"));
        }
    }
}

impl MetricsExporter for Beats {
    fn record_share(&self, share: Option<Share>) {
        if share.is_some() {
            // What it ends may pass before anybody looks.
            self.tell_silence();
            let last = self.0.last.swap(now(), Ordering::Relaxed);
            self.0.last_but_one.store(last, Ordering::Relaxed);
        }
    }

    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_cold_enqueued(&self) {}
    fn increment_dispatch_success(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_queue_depths(&self, _hot: usize, _cold: usize) {}
    fn record_oldest_lag(&self, _lag: Option<Duration>) {}
}

fn now() -> u64 {
    nanos(SystemClock.now())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
