//! The closed number, as far as it can be known here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::store::{Administration, Numbers, StoreError};
use tokio::time::Instant;

use crate::MySqlStore;

/// How many readings are remembered over the time of the longest transaction.
const READINGS: u32 = 10;

/// What the highest number was, and when.
#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    highest: i64,
}

/// Readings of the highest number, of which those count that are old enough.
pub(crate) struct Readings {
    longest_transaction: Duration,
    /// The earliest first; the first of them is the one that counts once it is old enough.
    kept: Mutex<VecDeque<Reading>>,
}

impl Readings {
    pub(crate) fn new(longest_transaction: Duration) -> Self {
        Self { longest_transaction, kept: Mutex::default() }
    }

    /// Whether it is time for another one.
    fn is_due(&self, now: Instant) -> bool {
        let pause = self.longest_transaction / READINGS;
        self.kept().back().is_none_or(|last| now.saturating_duration_since(last.at) >= pause)
    }

    fn add(&self, reading: Reading) {
        let mut kept = self.kept();
        if kept.back().is_some_and(|last| reading.highest < last.highest) {
            // Numbers went back, and will be given again.
            kept.clear();
        }
        kept.push_back(reading);
    }

    pub(crate) fn forget(&self) {
        self.kept().clear();
    }

    /// The number of the latest reading that is old enough; 0 if there is none.
    fn closed(&self, now: Instant) -> i64 {
        let mut kept = self.kept();
        let is_old =
            |reading: &Reading| now.saturating_duration_since(reading.at) >= self.longest_transaction;
        while kept.get(1).is_some_and(is_old) {
            kept.pop_front();
        }
        kept.front().filter(|first| is_old(first)).map_or(0, |first| first.highest)
    }

    /// The number of the latest reading.
    fn given(&self) -> i64 {
        self.kept().back().map_or(0, |last| last.highest)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Reading>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MySqlStore {
    pub(crate) async fn known_numbers(&self) -> Result<Numbers, StoreError> {
        let inner = Arc::clone(&self.inner);
        if inner.readings.is_due(Instant::now()) {
            match self.highest().await {
                Ok(highest) => inner.readings.add(Reading { at: Instant::now(), highest }),
                Err(error) => {
                    // It may be another server that answers next.
                    inner.readings.forget();
                    return Err(error);
                }
            }
        }
        Ok(Numbers { closed: inner.readings.closed(Instant::now()), given: inner.readings.given() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// O1: a number is closed when it was read as long ago as a transaction may take, and not before.
    #[test]
    fn readings_count_when_they_are_old() {
        let (readings, start) = (Readings::new(10 * SECOND), Instant::now());
        assert!(readings.is_due(start));

        for second in 0..5 {
            readings.add(Reading { at: start + second * SECOND, highest: 100 + i64::from(second) });
        }

        assert!(!readings.is_due(start + 4 * SECOND) && readings.is_due(start + 5 * SECOND));
        assert_eq!(readings.closed(start + 10 * SECOND - Duration::from_nanos(1)), 0);
        assert_eq!(readings.closed(start + 10 * SECOND), 100);
        assert_eq!(readings.closed(start + 13 * SECOND), 103);
        assert_eq!(readings.closed(start + 60 * SECOND), 104);
        assert_eq!(readings.kept().len(), 1);
    }

    /// O5: when numbers went back, nothing that was read before is closed.
    #[test]
    fn numbers_that_went_back_are_not_closed() {
        let (readings, start) = (Readings::new(10 * SECOND), Instant::now());
        readings.add(Reading { at: start, highest: 100 });
        assert_eq!(readings.closed(start + 10 * SECOND), 100);

        readings.add(Reading { at: start + 11 * SECOND, highest: 90 });

        assert_eq!(readings.closed(start + 12 * SECOND), 0);
        assert_eq!(readings.closed(start + 21 * SECOND), 90);
    }

    /// O1: where no transaction takes any time, what was read is closed.
    #[test]
    fn no_time_closes_at_once() {
        let (readings, now) = (Readings::new(Duration::ZERO), Instant::now());

        readings.add(Reading { at: now, highest: 7 });

        assert!(readings.is_due(now));
        assert_eq!(readings.closed(now), 7);
    }
}
