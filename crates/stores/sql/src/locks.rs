//! Rows that other transactions were found to have locked.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most numbers that are remembered; more than that many are locked by a statement on the whole table.
const MOST_KNOWN: usize = 10_000;

/// The rows that were locked when they were last looked at.
///
/// Whether a row is locked is learnt by waiting for it. Whoever waited once remembers it here, so that the next
/// write to the same row asks first, and does not wait again.
#[derive(Default)]
pub struct KnownLocks {
    numbers: Mutex<HashSet<i64>>,
}

impl KnownLocks {
    /// Whether one of these rows was locked.
    pub fn concern(&self, mut numbers: impl Iterator<Item = i64>) -> bool {
        let known = self.known();
        !known.is_empty() && numbers.any(|number| known.contains(&number))
    }

    /// Remembers which of the rows that were looked at are locked, and that the others are not.
    pub fn learn(&self, looked_at: impl Iterator<Item = i64>, locked: &[i64]) {
        let mut known = self.known();
        looked_at.for_each(|number| {
            known.remove(&number);
        });
        if known.len() + locked.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(locked.iter().take(MOST_KNOWN));
    }

    fn known(&self) -> MutexGuard<'_, HashSet<i64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row is known to be locked until it is found free, whatever is learnt of others.
    #[test]
    fn a_lock_is_known_until_its_row_is_free() {
        let locks = KnownLocks::default();

        locks.learn(1..=3, &[2]);
        locks.learn(4..=6, &[]);
        let knew = [1, 2, 3].map(|number| locks.concern([number].into_iter()));
        locks.learn(2..=2, &[]);

        assert_eq!(knew, [false, true, false]);
        assert!(!locks.concern(1..=6));
    }

    /// What is remembered does not grow without end.
    #[test]
    fn few_locks_are_remembered() {
        let locks = KnownLocks::default();
        let most: Vec<i64> = (0..MOST_KNOWN as i64).collect();

        locks.learn(std::iter::empty(), &most);
        locks.learn(std::iter::empty(), &[-1]);

        assert!(locks.concern([-1].into_iter()) && !locks.concern([0].into_iter()));
    }
}
