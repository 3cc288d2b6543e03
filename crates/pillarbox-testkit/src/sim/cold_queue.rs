//! How full the cold queue of a simulated process gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::MetricsExporter;

use super::world::World;

/// Counts along what waits in a cold queue, and notes when it is full.
pub(super) struct ColdQueue {
    world: Arc<World>,
    limit: usize,
    depth: AtomicUsize,
}

impl ColdQueue {
    pub(super) fn new(world: &Arc<World>, limit: usize) -> Self {
        Self { world: world.clone(), limit, depth: AtomicUsize::new(0) }
    }
}

impl MetricsExporter for ColdQueue {
    fn increment_cold_enqueued(&self) {
        let depth = self.depth.fetch_add(1, Ordering::Relaxed) + 1;
        self.world.cover("cold queue full", u64::from(depth >= self.limit));
    }

    fn record_queue_depths(&self, _hot: usize, cold: usize) {
        self.depth.store(cold, Ordering::Relaxed);
    }

    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_dispatch_success(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_oldest_lag(&self, _lag: Option<Duration>) {}
}
