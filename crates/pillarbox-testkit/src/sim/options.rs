//! What a seed decides: the kind of run, and the settings of each incarnation.

use std::time::Duration;

use super::rng::Rng;

/// In how many seeds of a thousand events go by routes to named sinks.
const ROUTED: u64 = 120;
/// In how many seeds of a thousand memory has room for a few events of a key only.
const CROWDED: u64 = 150;

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
    /// Whether events go to handlers, in place of listeners and a sink.
    pub(super) has_handlers: bool,
    /// Whether events go by routes to named sinks, in place of listeners and one sink.
    pub(super) has_routes: bool,
    /// Whether an administrator pauses routes, if there are any.
    pub(super) has_pauses: bool,
    /// Present where partitions are owned.
    pub(super) owned: Option<Owned>,
}

/// What a seed decides besides where partitions are owned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owned {
    pub(super) order: Order,
    /// How many instances there are at most at the same time.
    pub(super) instances: u64,
    /// How often one comes, goes, dies or freezes before the faults end.
    pub(super) changes: u64,
    pub(super) keys: u64,
    /// Whether an instance may stop for a while, as if its machine slept.
    pub(super) has_freezes: bool,
    /// Whether the database's clock may jump: leases end early by that, and order is not promised.
    pub(super) has_jumps: bool,
    /// Whether an operator replays, discards, skips and purges.
    pub(super) has_operator: bool,
    /// Whether a call that is under way when its process freezes can take effect meanwhile.
    pub(super) has_late_effects: bool,
    /// Whether the database's clock goes back a little now and then. Nothing suffers from that.
    pub(super) has_steps: bool,
    /// Whether instances hear of each other's commits; some of it is lost, and some comes late.
    pub(super) has_hints: bool,
    /// Whether the database may fail over to a replica that lags behind: commits are taken back, and sessions cut.
    pub(super) has_failovers: bool,
    /// Of a thousand polls so many are put off, so that the tasks of a process run in any order.
    pub(super) put_off: u64,
    /// Whether memory has room for a few events of a key only, so that others wait behind a hot one.
    pub(super) has_crowds: bool,
}

/// What is promised about the events of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing.
    #[default]
    None,
    /// They run one by one.
    GoOn,
    /// They wait for one that failed until it is done or dead.
    Release,
    /// They wait for one that is dead until an operator frees the key.
    Park,
}

impl Order {
    /// Whether events wait for one of their key that failed.
    pub(super) fn is_kept(self) -> bool {
        matches!(self, Self::Release | Self::Park)
    }
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
            has_handlers: false,
            has_routes: false,
            has_pauses: false,
            owned: None,
        }
    }

    /// A run in which partitions are owned. What `beside` decides came later: without it older seeds stay what they
    /// were.
    pub(super) fn draw_owned(rng: &Rng, beside: &Rng) -> Self {
        let drawn = Self::draw(rng);
        let owned = Owned {
            order: rng.pick(&[
                Order::Release,
                Order::Release,
                Order::Park,
                Order::Park,
                Order::GoOn,
                Order::None,
            ]),
            instances: rng.between(1, 5),
            changes: rng.between(1, 6),
            keys: rng.between(1, 6),
            has_freezes: drawn.has_faults && rng.chance(500),
            has_jumps: drawn.has_faults && rng.chance(150),
            has_operator: rng.chance(500),
            has_late_effects: beside.chance(700),
            has_steps: drawn.has_faults && beside.chance(250),
            has_hints: beside.chance(500),
            put_off: beside.pick(&[0, 0, 50, 300]),
            has_failovers: drawn.has_faults && beside.chance(200),
            has_crowds: false,
        };
        Self { owned: Some(owned), has_silence: drawn.has_faults && rng.chance(200), ..drawn }
    }

    /// The same run with what was thought of last, drawn from a stream of its own: named sinks, and hot keys.
    pub(super) fn with_latest(self, rng: &Rng) -> Self {
        let (has_routes, has_pauses, has_crowds) = (rng.chance(ROUTED), rng.chance(500), rng.chance(CROWDED));
        let owned = self.owned.map(|owned| Owned { has_crowds, ..owned });
        Self { has_routes, has_pauses, owned, ..self }
    }

    /// Whether it is stored with an event who has it: there are several handlers, or sinks with names.
    pub(super) fn are_receivers_tracked(&self) -> bool {
        self.has_handlers || self.has_routes
    }

    /// The same run with nothing that goes wrong by chance.
    pub(super) fn calm(self) -> Self {
        let owned = self.owned.map(|owned| Owned {
            has_freezes: false,
            has_jumps: false,
            has_steps: false,
            has_failovers: false,
            ..owned
        });
        Self { has_faults: false, has_poison: false, has_silence: false, owned, ..self }
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
    /// The most events in a run, and of a key in memory, if not the default.
    pub(super) run_events: Option<usize>,
    /// How long a sink that is down is left alone at the longest.
    pub(super) longest_sink_pause: Duration,
    /// Present where partitions are owned.
    pub(super) beats: Option<Beats>,
}

/// The longest time from one heartbeat to the next.
pub(super) const LONGEST_BEAT: Duration = Duration::from_millis(2_500);

/// The times of a member.
#[derive(Clone, Debug)]
pub(super) struct Beats {
    pub(super) every: Duration,
    pub(super) silent_after: Duration,
    pub(super) rebalance_every: Duration,
}

impl Settings {
    /// How long closing takes at most.
    pub(super) fn shutdown_timeout(&self) -> Duration {
        self.drain_timeout + self.drain_timeout.max(self.margin)
    }

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
            run_events: None,
            longest_sink_pause: Duration::from_secs(30),
            beats: None,
        }
    }

    /// The same settings with what was thought of last.
    pub(super) fn with_latest(self, rng: &Rng, options: &Options) -> Self {
        let is_crowded = options.owned.is_some_and(|owned| owned.has_crowds);
        Self {
            run_events: is_crowded.then(|| rng.pick(&[1, 2, 4])),
            longest_sink_pause: rng.pick(&[Duration::from_millis(500), Duration::from_secs(5)]),
            ..self
        }
    }

    /// The settings of a member.
    pub(super) fn draw_owned(rng: &Rng, name: Option<&'static str>) -> Self {
        let drawn = Self::draw(rng, name);
        let every = rng.millis(800, LONGEST_BEAT.as_millis() as u64);
        let beats = Beats {
            every,
            silent_after: every * 2 + drawn.margin + rng.millis(0, 3_000),
            rebalance_every: rng.millis(500, 5_000),
        };
        let delivery_timeout = rng.millis(1_000, 12_000);
        let lease_for = delivery_timeout + drawn.margin + Duration::from_secs(1);
        let poll_every = rng.millis(1_000, 5_000);
        // A queue for one has its partitions read one by one.
        let cold_queue = rng.pick(&[1, 8, 100, 1_000, 1_000, 1_000, 1_000, 1_000]);
        Self { beats: Some(beats), delivery_timeout, lease_for, poll_every, cold_queue, ..drawn }
    }
}
