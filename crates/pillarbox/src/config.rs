//! The options of an outbox, and which combinations make no sense.

mod error;

use std::time::Duration;

pub use error::ConfigError;

use crate::destination::Pauses;
use crate::lanes::Order;
use crate::store::{DoneRows, LONGEST_LEASE, Mode};

/// What happens to an event that has no listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unroutable {
    /// It is dead at once; the default.
    #[default]
    Dead,
    /// It is kept and looked at again every 60 seconds, with no attempt spent: for rolling deploys, in which
    /// new event types meet old instances.
    Hold,
}

/// What a dead event at the head of a key means for those that follow it, where order is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeadHead {
    /// The key goes on without it; the default.
    #[default]
    Release,
    /// The key is parked until an operator replays, skips or discards the dead event.
    Park,
}

/// Which parts run behind an outbox, where no handler of the user's own takes their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plan {
    #[default]
    Full,
    PollerOnly,
    WriterOnly,
}

/// The most outcomes that wait to be recorded, whatever the queues hold.
const MOST_UNRECORDED: usize = 10_000;

/// How long an event without a listener is held before it is looked at again.
pub(crate) const HOLD_FOR: Duration = Duration::from_secs(60);

/// How long closing takes at most, and what of it is left when listeners were waited for.
const SHUTDOWN: Duration = Duration::from_secs(15);
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A hundred years.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The options that are plain values; each is documented at its setter, and has a line in `settings::option`.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) enabled: bool,
    pub(crate) discard_when_disabled: bool,
    pub(crate) topology: Plan,
    pub(crate) publish_after_save: bool,
    pub(crate) store_events: bool,
    pub(crate) name: Option<String>,
    pub(crate) workers: usize,
    pub(crate) hot_queue: usize,
    pub(crate) cold_queue: usize,
    pub(crate) delivery_timeout: Duration,
    pub(crate) margin: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) shutdown_timeout: Option<Duration>,
    pub(crate) batch_size: usize,
    pub(crate) max_batch: Option<usize>,
    pub(crate) poll_every: Duration,
    pub(crate) skip_recent: Duration,
    pub(crate) lease_for: Duration,
    pub(crate) max_starts: u32,
    pub(crate) unroutable: Unroutable,
    pub(crate) done: DoneRows,
    pub(crate) keep_done_for: Option<Duration>,
    pub(crate) run_events: usize,
    pub(crate) run_bytes: usize,
    pub(crate) in_flight_ttl: Option<Duration>,
    pub(crate) sink_pause: Duration,
    pub(crate) longest_sink_pause: Duration,
    pub(crate) mode: Option<Mode>,
    pub(crate) is_ordered: bool,
    pub(crate) stop_on_first_failure: bool,
    pub(crate) dead_head: DeadHead,
    pub(crate) heartbeat_every: Duration,
    pub(crate) silent_after: Duration,
    pub(crate) rebalance_every: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            discard_when_disabled: false,
            topology: Plan::Full,
            publish_after_save: true,
            store_events: true,
            name: None,
            workers: 4,
            hot_queue: 1_000,
            cold_queue: 1_000,
            delivery_timeout: Duration::from_secs(30),
            margin: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
            shutdown_timeout: None,
            batch_size: 50,
            max_batch: None,
            poll_every: Duration::from_secs(5),
            skip_recent: Duration::ZERO,
            lease_for: Duration::from_secs(300),
            max_starts: 5,
            unroutable: Unroutable::Dead,
            done: DoneRows::Keep,
            keep_done_for: None,
            run_events: 500,
            run_bytes: 4 * 1024 * 1024,
            in_flight_ttl: None,
            sink_pause: Duration::from_millis(200),
            longest_sink_pause: Duration::from_secs(30),
            mode: None,
            is_ordered: false,
            stop_on_first_failure: true,
            dead_head: DeadHead::Release,
            heartbeat_every: Duration::from_secs(5),
            silent_after: Duration::from_secs(30),
            rebalance_every: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// How work is taken: as was said, or as order needs it.
    pub(crate) fn mode(&self) -> Mode {
        let by_order = if self.is_ordered { Mode::Ownership } else { Mode::Claims };
        self.mode.unwrap_or(by_order)
    }

    /// What a failed event means for its key.
    pub(crate) fn order(&self) -> Order {
        match (self.is_ordered, self.stop_on_first_failure, self.dead_head) {
            (false, _, _) => Order::None,
            (true, false, _) => Order::GoOn,
            (true, true, DeadHead::Release) => Order::Release,
            (true, true, DeadHead::Park) => Order::Park,
        }
    }

    /// How long a sink that is down is left alone.
    pub(crate) fn sink_pauses(&self) -> Pauses {
        Pauses { first: self.sink_pause, longest: self.longest_sink_pause }
    }

    /// How long closing takes at most, waiting for what runs included.
    pub(crate) fn shutdown_timeout(&self) -> Duration {
        let by_default = SHUTDOWN.max(self.drain_timeout.saturating_add(LAST_WORDS));
        self.shutdown_timeout.unwrap_or(by_default)
    }

    /// The same, with durations that a clock can add up: whoever says `Duration::MAX` means never.
    pub(crate) fn within_reach(mut self) -> Self {
        for duration in [
            &mut self.delivery_timeout,
            &mut self.margin,
            &mut self.drain_timeout,
            &mut self.poll_every,
            &mut self.skip_recent,
            &mut self.lease_for,
            &mut self.sink_pause,
            &mut self.longest_sink_pause,
            &mut self.heartbeat_every,
            &mut self.silent_after,
            &mut self.rebalance_every,
        ] {
            *duration = (*duration).min(NEVER);
        }
        for duration in [&mut self.keep_done_for, &mut self.in_flight_ttl] {
            *duration = duration.map(|duration| duration.min(NEVER));
        }
        // Still longer than the drain.
        self.shutdown_timeout = self.shutdown_timeout.map(|timeout| timeout.min(NEVER + LAST_WORDS));
        self
    }

    /// How long a row is leased at birth: the delivery, the way to the worker, and settling.
    pub(crate) fn birth_lease(&self) -> Duration {
        self.delivery_timeout.saturating_add(self.margin.saturating_mul(2))
    }

    /// What must remain of a lease when a delivery begins.
    pub(crate) fn needed_lease(&self) -> Duration {
        self.delivery_timeout.saturating_add(self.margin)
    }

    /// The least room in the cold queue for which a take is made: with a statement for every place that
    /// becomes free, the queue would be kept full at the price of a statement per event.
    pub(crate) fn worthwhile_room(&self) -> usize {
        self.batch_size.min(self.cold_queue.div_ceil(2))
    }

    /// How many events of owned partitions may wait for their outcomes to be recorded while others are read and
    /// delivered: enough for what is being written and what is gathered meanwhile.
    pub(crate) fn unrecorded(&self) -> usize {
        match self.mode() {
            Mode::Claims => 0,
            Mode::Ownership => self.cold_queue.saturating_mul(2).min(MOST_UNRECORDED),
        }
    }

    /// The most outcomes in one write. An owner's are half of what may be unrecorded: while they are written, as many
    /// more can come, and whoever gathers them waits for none that cannot.
    pub(crate) fn most_settled(&self) -> usize {
        match self.mode() {
            Mode::Claims => 500,
            Mode::Ownership => (self.unrecorded() / 2).clamp(1, 1_000),
        }
    }

    /// The most outcomes that are handed in to be recorded before somebody has to wait.
    pub(crate) fn outcomes(&self) -> usize {
        let queued = self.hot_queue.saturating_add(self.cold_queue).min(MOST_UNRECORDED);
        queued.saturating_add(self.unrecorded())
    }

    /// The most events in one take.
    pub(crate) fn batch_limit(&self) -> usize {
        self.max_batch.unwrap_or(usize::MAX).max(self.batch_size)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (option, value) in [
            ("workers", self.workers),
            ("hot_queue", self.hot_queue),
            ("cold_queue", self.cold_queue),
            ("batch_size", self.batch_size),
            ("run_events", self.run_events),
            ("run_bytes", self.run_bytes),
        ] {
            require(value > 0, option, value, "it must be at least 1")?;
        }
        for (option, value) in [
            ("delivery_timeout", self.delivery_timeout),
            ("poll_every", self.poll_every),
            ("heartbeat_every", self.heartbeat_every),
            ("rebalance_every", self.rebalance_every),
            ("sink_pause", self.sink_pause),
        ] {
            require(
                value > Duration::ZERO,
                option,
                format_args!("{value:?}"),
                "it must be longer than zero",
            )?;
        }
        require(self.max_starts > 0, "max_starts", self.max_starts, "it must be at least 1")?;
        require(
            self.longest_sink_pause >= self.sink_pause,
            "longest_sink_pause",
            format_args!("{:?}", self.longest_sink_pause),
            format_args!("it must be at least `sink_pause`, {:?}", self.sink_pause),
        )?;
        require(
            self.shutdown_timeout() > self.drain_timeout,
            "shutdown_timeout",
            format_args!("{:?}", self.shutdown_timeout()),
            format_args!(
                "it must be longer than `drain_timeout`, {:?}: what is left of it is for recording and giving back",
                self.drain_timeout
            ),
        )?;
        if let Some(max) = self.max_batch {
            let size = self.batch_size;
            require(max >= size, "max_batch", max, format_args!("it must be at least `batch_size`, {size}"))?;
        }
        if self.mode() == Mode::Claims {
            self.check_leases()?;
        }
        self.check_ownership()?;
        self.check_heartbeats()?;
        self.check_name()?;
        require(
            self.keep_done_for.is_none() || self.done == DoneRows::Keep,
            "keep_done_for",
            format_args!("{:?}", self.keep_done_for.unwrap_or_default()),
            "with `delete_done` there is nothing to keep; use one of the two",
        )
    }

    fn check_leases(&self) -> Result<(), ConfigError> {
        let (lease, needed, birth) = (self.lease_for, self.needed_lease(), self.birth_lease());
        let shown = format_args!("{lease:?}").to_string();
        require(
            lease > needed,
            "lease_for",
            &shown,
            format_args!(
                "it must exceed `delivery_timeout` and `margin`, together {needed:?}, or an event is taken by another while its listener runs"
            ),
        )?;
        require(lease <= LONGEST_LEASE, "lease_for", &shown, format_args!("at most {LONGEST_LEASE:?}"))?;
        require(
            birth <= LONGEST_LEASE,
            "delivery_timeout",
            format_args!("{:?}", self.delivery_timeout),
            format_args!("with twice the `margin` it makes a lease of {birth:?}, at most {LONGEST_LEASE:?}"),
        )
    }

    fn check_ownership(&self) -> Result<(), ConfigError> {
        require(
            !self.is_ordered || self.mode() == Mode::Ownership,
            "ordered",
            "set",
            "the mode `claims` keeps no order; use `Mode::Ownership`, or leave `mode` out",
        )?;
        require(
            self.dead_head == DeadHead::Release || self.is_ordered && self.stop_on_first_failure,
            "on_dead_head",
            "`Park`",
            "a key is parked only where order is kept and `stop_on_first_failure` is on",
        )?;
        require(
            self.mode() == Mode::Claims || self.skip_recent.is_zero(),
            "skip_recent",
            format_args!("{:?}", self.skip_recent),
            "an owner reads everything in its partitions; leave it out with the mode `ownership`",
        )
    }

    /// What is owned must outlast a late heartbeat by the time that its outcomes need; rows have leases of their own.
    fn check_heartbeats(&self) -> Result<(), ConfigError> {
        let (silent, twice) = (self.silent_after, self.heartbeat_every.saturating_mul(2));
        let (least, rule) = match self.mode() {
            Mode::Claims => {
                (twice, format!("twice `heartbeat_every`, {twice:?}, or one late heartbeat counts as death"))
            }
            Mode::Ownership => {
                let least = twice.saturating_add(self.margin);
                let rule = format!(
                    "twice `heartbeat_every` and the `margin`, together {least:?}, or one late heartbeat loses everything"
                );
                (least, rule)
            }
        };
        require(
            silent >= least,
            "silent_after",
            format_args!("{silent:?}"),
            format_args!("it must be at least {rule}"),
        )?;
        require(
            silent <= LONGEST_LEASE,
            "silent_after",
            format_args!("{silent:?}"),
            format_args!("at most {LONGEST_LEASE:?}"),
        )
    }

    fn check_name(&self) -> Result<(), ConfigError> {
        let Some(name) = &self.name else { return Ok(()) };
        let fits = (1..=100).contains(&name.chars().count()) && !name.contains(['/', '\0']);
        require(fits, "name", format_args!("`{name}`"), "it must have 1 to 100 characters, none of them `/`")
    }
}

fn require(
    holds: bool,
    option: &'static str,
    value: impl std::fmt::Display,
    remedy: impl std::fmt::Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::invalid(option, value, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D1, P1, D10, S5: the defaults are those that are documented, and they fit together.
    #[test]
    fn defaults_are_those_that_are_documented() {
        let config = Config::default();

        assert_eq!((config.workers, config.hot_queue, config.cold_queue), (4, 1_000, 1_000));
        assert_eq!((config.batch_size, config.max_batch, config.max_starts), (50, None, 5));
        assert_eq!(
            (config.drain_timeout, config.shutdown_timeout()),
            (Duration::from_secs(5), Duration::from_secs(15))
        );
        assert_eq!(config.delivery_timeout, Duration::from_secs(30));
        assert_eq!(config.lease_for, Duration::from_secs(5 * 60));
        assert_eq!((config.poll_every, config.skip_recent), (Duration::from_secs(5), Duration::ZERO));
        assert_eq!((config.unroutable, config.done), (Unroutable::Dead, DoneRows::Keep));
        assert_eq!((&config.name, config.keep_done_for, config.in_flight_ttl), (&None, None, None));
        assert_eq!(config.check(), Ok(()));
    }

    /// O2, O4, O5: claims by default; order brings ownership, with the documented times.
    #[test]
    fn defaults_of_ownership_are_those_that_are_documented() {
        let config = Config { is_ordered: true, ..Config::default() };

        assert_eq!(Config::default().mode(), Mode::Claims);
        assert_eq!((config.mode(), config.order()), (Mode::Ownership, Order::Release));
        assert_eq!(config.heartbeat_every, Duration::from_secs(5));
        assert_eq!(config.silent_after, Duration::from_secs(30));
        assert_eq!(config.rebalance_every, Duration::from_secs(10));
        assert_eq!(
            (config.drain_timeout, config.shutdown_timeout()),
            (Duration::from_secs(5), Duration::from_secs(15))
        );
        assert_eq!(config.check(), Ok(()));
    }
}
