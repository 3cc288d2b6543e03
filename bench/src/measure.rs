//! Sizes, medians, and knowing when the engine has finished.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use pillarbox::MetricsExporter;
use tokio::sync::Notify;

/// How much smaller every case is with `--quick`.
const FRACTION: usize = 50;
/// Longer than any part of any case takes.
const PATIENCE: Duration = Duration::from_secs(900);

/// Full size, or a fiftieth of it.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    quick: bool,
}

impl Scale {
    pub(crate) fn new(quick: bool) -> Self {
        Self { quick }
    }

    /// What `full` comes to.
    pub(crate) fn of(self, full: usize) -> usize {
        if self.quick { full.div_ceil(FRACTION) } else { full }
    }

    /// `full` or, with `--quick`, `quick`: for what says nothing at a fiftieth of its size.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The value below which `share` of the samples lie. Sorts them.
pub(crate) fn quantile(samples: &mut [f64], share: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let rank = (samples.len() as f64 * share).ceil() as usize;
    samples.get(rank.clamp(1, samples.len().max(1)) - 1).copied().unwrap_or(f64::NAN)
}

/// The middle of the samples. Sorts them.
pub(crate) fn median(samples: &mut [f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The rates of the round in which they have their median ratio. From one round to the next the machine may be half
/// as fast, which moves both alike.
pub(crate) fn typical_round(rates: &[f64], raw: &[f64]) -> (f64, f64) {
    let mut rounds: Vec<(f64, f64)> = rates.iter().copied().zip(raw.iter().copied()).collect();
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    rounds.get(rounds.len() / 2).copied().unwrap_or((f64::NAN, f64::NAN))
}

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Says when the engine has recorded a number of deliveries.
#[derive(Clone, Default)]
pub(crate) struct Deliveries {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    recorded: AtomicU64,
    awaited: AtomicU64,
    reached: Notify,
}

impl Deliveries {
    /// How many deliveries are recorded, counted from the start of the engine.
    pub(crate) fn recorded(&self) -> u64 {
        self.shared.recorded.load(Ordering::SeqCst)
    }

    /// Waits until `count` deliveries are recorded, counted from the start of the engine.
    pub(crate) async fn reach(&self, count: usize) -> Result<()> {
        let shared = &self.shared;
        shared.awaited.store(count as u64, Ordering::SeqCst);
        while shared.recorded.load(Ordering::SeqCst) < count as u64 {
            let waiting = tokio::time::timeout(PATIENCE, shared.reached.notified()).await;
            waiting.with_context(|| {
                let recorded = shared.recorded.load(Ordering::SeqCst);
                format!("only {recorded} of {count} events were delivered within {PATIENCE:?}")
            })?;
        }
        Ok(())
    }
}

impl MetricsExporter for Deliveries {
    fn increment_dispatch_success(&self) {
        let recorded = self.shared.recorded.fetch_add(1, Ordering::SeqCst) + 1;
        if recorded == self.shared.awaited.load(Ordering::SeqCst) {
            self.shared.reached.notify_one();
        }
    }

    fn increment_hot_enqueued(&self) {}
    fn increment_hot_dropped(&self) {}
    fn increment_cold_enqueued(&self) {}
    fn increment_dispatch_failure(&self) {}
    fn increment_dispatch_dead(&self) {}
    fn record_queue_depths(&self, _hot: usize, _cold: usize) {}
    fn record_oldest_lag(&self, _lag: Option<Duration>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();

        assert_eq!(median(&mut samples), 50.0);
        assert_eq!(quantile(&mut samples, 0.99), 99.0);
        assert_eq!(quantile(&mut [7.0], 0.99), 7.0);
    }

    #[test]
    fn a_typical_round_has_the_median_ratio() {
        assert_eq!(typical_round(&[100.0, 30.0, 10.0], &[100.0, 10.0, 5.0]), (10.0, 5.0));
    }

    #[test]
    fn quick_is_a_fiftieth() {
        assert_eq!(Scale::new(true).of(100_000), 2_000);
        assert_eq!(Scale::new(false).of(100_000), 100_000);
    }
}
