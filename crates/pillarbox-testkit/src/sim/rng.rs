//! Randomness that repeats from a seed.

use std::time::Duration;

use pillarbox::{Random, SeededRandom};

/// One stream of a seed, and what is drawn from it.
pub(super) struct Rng(SeededRandom);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// A second stream from the same seed.
    pub(super) fn beside(seed: u64) -> Self {
        Self::new(Self::new(!seed).next())
    }

    /// A third stream from the same seed.
    pub(super) fn failing_over(seed: u64) -> Self {
        Self::new(Self::beside(seed).next())
    }

    /// A fourth stream from the same seed.
    pub(super) fn handling(seed: u64) -> Self {
        Self::new(Self::failing_over(seed).next())
    }

    /// A fifth stream from the same seed.
    pub(super) fn routing(seed: u64) -> Self {
        Self::new(Self::handling(seed).next())
    }

    /// A stream of its own, so that what others draw does not disturb it.
    pub(super) fn fork(&self) -> Self {
        Self::new(self.next())
    }

    pub(super) fn next(&self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 up to, but not including, `end`.
    pub(super) fn below(&self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(super) fn between(&self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    pub(super) fn chance(&self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub(super) fn pick<T: Copy>(&self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    pub(super) fn millis(&self, first: u64, last: u64) -> Duration {
        Duration::from_millis(self.between(first, last))
    }

    /// Mostly nothing, seldom long: the time that a call to elsewhere takes.
    pub(super) fn dawdle(&self) -> Duration {
        match self.below(100) {
            0..70 => Duration::ZERO,
            70..95 => self.millis(1, 5),
            95..99 => self.millis(10, 300),
            _ => self.millis(1_000, 15_000),
        }
    }
}

impl Random for Rng {
    fn next_u64(&self) -> u64 {
        self.next()
    }
}
