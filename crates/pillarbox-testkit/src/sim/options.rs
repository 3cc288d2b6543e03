//! What a seed decides: the kind of run, and the settings of each incarnation.

use std::time::Duration;

use super::rng::Rng;

/// The kind of run that a seed makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Whether calls fail, processes die and clocks jump.
    pub(super) has_faults: bool,
    /// Whether there are events that kill the process.
    pub(super) has_poison: bool,
    /// Whether a call may never answer. The engine sets no limit to a settlement, so the process takes its
    /// own events again and again, which looks to others as if it died over them.
    pub(super) has_silence: bool,
    /// How many calls in a thousand fail.
    pub(super) fault_rate: u64,
    /// How many processes live one after the other before the faults end.
    pub(super) incarnations: u64,
    pub(super) writers: u64,
    pub(super) transactions: u64,
    pub(super) max_attempts: u32,
    pub(super) max_starts: u32,
}

impl Options {
    pub(super) fn draw(rng: &Rng) -> Self {
        let manner = rng.below(10);
        Self {
            has_faults: manner >= 2,
            has_poison: manner == 1 || rng.chance(150) && manner >= 2,
            has_silence: manner >= 2,
            fault_rate: rng.pick(&[0, 10, 30, 80, 150]),
            incarnations: rng.between(1, 4),
            writers: rng.between(1, 3),
            transactions: rng.between(1, 5),
            max_attempts: 5,
            max_starts: rng.between(4, 5) as u32,
        }
    }

    /// The same run with nothing that goes wrong by chance.
    pub(super) fn calm(self) -> Self {
        Self { has_faults: false, has_poison: false, has_silence: false, ..self }
    }

    /// Whether processes die of nothing but poison.
    pub(super) fn only_poison_kills(&self) -> bool {
        !self.has_faults && !self.has_silence
    }
}

/// The settings of one incarnation.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: Option<&'static str>,
    pub(super) workers: usize,
    pub(super) hot_queue: usize,
    pub(super) cold_queue: usize,
    pub(super) batch_size: usize,
    pub(super) delivery_timeout: Duration,
    pub(super) margin: Duration,
    pub(super) lease_for: Duration,
    pub(super) poll_every: Duration,
    pub(super) drain_timeout: Duration,
    pub(super) first_retry: Duration,
    pub(super) poller_only: bool,
    pub(super) delete_done: bool,
}

impl Settings {
    pub(super) fn draw(rng: &Rng, name: Option<&'static str>) -> Self {
        let delivery_timeout = rng.millis(1_000, 3_000);
        let margin = rng.millis(200, 1_000);
        Self {
            name,
            workers: rng.between(1, 4) as usize,
            hot_queue: rng.pick(&[1, 2, 8, 1_000]),
            cold_queue: rng.pick(&[1, 2, 8, 1_000]),
            batch_size: rng.pick(&[1, 3, 10, 50]),
            delivery_timeout,
            margin,
            lease_for: delivery_timeout + margin + rng.millis(500, 10_000),
            poll_every: rng.millis(300, 5_000),
            drain_timeout: rng.millis(50, 3_000),
            first_retry: rng.pick(&[
                Duration::from_millis(1),
                Duration::from_millis(100),
                Duration::from_secs(2),
            ]),
            poller_only: rng.chance(150),
            delete_done: rng.chance(200),
        }
    }
}
