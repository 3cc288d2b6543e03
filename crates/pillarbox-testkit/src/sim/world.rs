//! What outlives the simulated processes: the clock, the database, the books.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::{BoxFuture, Clock, MemoryStore, Timestamp};
use tokio::time::Instant;

use super::brokers::Brokers;
use super::failover::Failovers;
use super::hints::Hints;
use super::model::Model;
use super::options::LONGEST_BEAT;
use super::rng::Rng;
use super::standings::Standings;
use super::tenancy::Tenancy;
use super::{Options, Script};
use crate::faulty::Then;
use crate::ledger::Ledger;
use crate::paused::NOON;

/// How many poisonous events there are at most where nothing else kills.
const FEW_POISONS: u64 = 3;

/// The database's clock, which jumps; the time that passes is that of the paused runtime.
pub(super) struct SimClock {
    begun: Instant,
    skew: AtomicI64,
    latest_skew: AtomicI64,
    has_jumped: AtomicBool,
}

impl SimClock {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            skew: AtomicI64::new(0),
            latest_skew: AtomicI64::new(0),
            has_jumped: AtomicBool::new(false),
        }
    }

    /// Whether it has ever jumped.
    pub(super) fn has_jumped(&self) -> bool {
        self.has_jumped.load(Ordering::Relaxed)
    }

    pub(super) fn jump(&self, millis: i64) {
        self.has_jumped.store(true, Ordering::Relaxed);
        let skew = self.skew.fetch_add(millis * 1_000, Ordering::Relaxed) + millis * 1_000;
        self.latest_skew.fetch_max(skew, Ordering::Relaxed);
    }

    /// Goes back by so little that nobody may suffer from it.
    pub(super) fn step_back(&self, millis: u64) {
        let micros = millis as i64 * 1_000;
        self.skew.fetch_sub(micros, Ordering::Relaxed);
        self.latest_skew.fetch_sub(micros, Ordering::Relaxed);
    }

    /// Goes forward to where the clock was at the latest, so that nothing waits for it to catch up.
    pub(super) fn catch_up(&self) {
        self.skew.store(self.latest_skew.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn wall(&self) -> Timestamp {
        let at = NOON.saturating_add(self.begun.elapsed());
        Timestamp::from_micros(at.as_micros() + self.skew.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Everything that a simulated process cannot take with it when it dies.
pub(super) struct World {
    pub(super) options: Options,
    pub(super) script: Script,
    pub(super) rng: Rng,
    /// For what came later, so that seeds without it stay what they were.
    pub(super) beside: Rng,
    pub(super) clock: Arc<SimClock>,
    pub(super) db: MemoryStore,
    pub(super) ledger: Ledger,
    pub(super) model: Mutex<Model>,
    tenancy: Mutex<Tenancy>,
    standings: Mutex<Standings>,
    pub(super) hints: Hints,
    pub(super) failovers: Failovers,
    pub(super) brokers: Brokers,
    /// The dead event that each parked key is parked for.
    parked: Mutex<BTreeMap<String, String>>,
    /// Keys that were freed, and of which nothing has been delivered since.
    resumed: Mutex<BTreeSet<String>>,
    /// Dead events that operators have deleted.
    discarded: Mutex<BTreeSet<String>>,
    highest_commit: AtomicI64,
    /// When the last call that was made among faults is over, in milliseconds.
    calls_end: AtomicU64,
    /// Whether faults are injected at this time.
    pub(super) is_faulty: AtomicBool,
    /// Whether the part is over in which things go wrong.
    pub(super) is_quiet: AtomicBool,
    /// How often each event has been begun.
    calls: Mutex<BTreeMap<String, u64>>,
    records: Mutex<Records>,
    events: AtomicU64,
    deliveries: AtomicU64,
    poisons: AtomicU64,
    store_calls: AtomicU64,
}

#[derive(Default)]
struct Records {
    trace: Trace,
    violations: Vec<String>,
    coverage: BTreeMap<&'static str, u64>,
}

/// What happened, line by line; the lines themselves are kept on request only.
#[derive(Default)]
struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl World {
    pub(super) fn new(
        options: Options,
        script: Script,
        [rng, beside, failovers, brokers]: [Rng; 4],
    ) -> Arc<Self> {
        let clock = Arc::new(SimClock::new());
        let trace = Trace { hash: 0xcbf2_9ce4_8422_2325, lines: script.keep_trace.then(Vec::new) };
        Arc::new(Self {
            db: MemoryStore::with_clock(clock.clone()),
            clock,
            is_faulty: AtomicBool::new(options.has_faults),
            is_quiet: AtomicBool::new(false),
            options,
            script,
            rng,
            beside,
            ledger: Ledger::new(),
            model: Mutex::default(),
            tenancy: Mutex::default(),
            standings: Mutex::default(),
            hints: Hints::default(),
            failovers: Failovers::new(failovers),
            brokers: Brokers::new(brokers),
            parked: Mutex::default(),
            resumed: Mutex::default(),
            discarded: Mutex::default(),
            highest_commit: AtomicI64::new(0),
            calls_end: AtomicU64::new(0),
            calls: Mutex::default(),
            records: Mutex::new(Records { trace, ..Records::default() }),
            events: AtomicU64::new(0),
            deliveries: AtomicU64::new(0),
            poisons: AtomicU64::new(0),
            store_calls: AtomicU64::new(0),
        })
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.is_faulty.load(Ordering::Relaxed)
    }

    pub(super) fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of a delivery that begins.
    pub(super) fn next_delivery(&self) -> u64 {
        self.deliveries.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What the script says about the next call to the store.
    pub(super) fn scripted_fault(&self) -> Option<Then> {
        let (call, then) = self.script.fault_at?;
        if self.is_quiet.load(Ordering::Relaxed) {
            return None;
        }
        let is_now = self.store_calls.fetch_add(1, Ordering::Relaxed) + 1 == call;
        self.cover("scripted faults", u64::from(is_now));
        is_now.then_some(then)
    }

    /// Whether an event may be poison. Where nothing else kills there are few: each kills twice before it is
    /// suspected, and takes its neighbours' count up with it.
    pub(super) fn may_poison(&self) -> bool {
        let poisons = self.poisons.load(Ordering::Relaxed);
        self.options.has_poison && (poisons < FEW_POISONS || !self.options.only_poison_kills())
    }

    pub(super) fn poisoned(&self) {
        self.poisons.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a delivery of `event_id` that begins, and returns how many there were before.
    pub(super) fn begin(&self, event_id: &str) -> u64 {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = calls.entry(event_id.to_owned()).or_default();
        *calls += 1;
        *calls - 1
    }

    /// Adds a line to the trace.
    pub(super) fn note(&self, line: fmt::Arguments<'_>) {
        let line = format!("{:>10.3} {line}", self.clock.now().as_secs_f64());
        let mut records = self.records();
        for byte in line.bytes() {
            records.trace.hash = (records.trace.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(lines) = &mut records.trace.lines {
            lines.push(line);
        }
    }

    /// Something happened that must not.
    pub(super) fn violation(&self, what: String) {
        self.note(format_args!("VIOLATION: {what}"));
        self.records().violations.push(what);
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.records().violations.is_empty()
    }

    /// Counts that something worth covering happened.
    pub(super) fn cover(&self, what: &'static str, times: u64) {
        if times > 0 {
            *self.records().coverage.entry(what).or_default() += times;
        }
    }

    pub(super) fn tenancy(&self) -> MutexGuard<'_, Tenancy> {
        self.tenancy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn standings(&self) -> MutexGuard<'_, Standings> {
        self.standings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parked(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resumed_keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.resumed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn discarded(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.discarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The highest number that was committed so far.
    pub(super) fn highest_commit(&self) -> i64 {
        self.highest_commit.load(Ordering::Relaxed)
    }

    pub(super) fn note_highest_commit(&self, seq: i64) {
        self.highest_commit.store(seq, Ordering::Relaxed);
    }

    /// A call that is made among faults will take this time.
    pub(super) fn note_call(&self, time: Duration) {
        let end = (self.clock.now() + time).as_millis() as u64 + 1;
        self.calls_end.fetch_max(end, Ordering::Relaxed);
    }

    /// Whether somebody may still suffer from a fault: a call is under way that was made among faults, or what it lost
    /// has not been found out by a heartbeat.
    pub(super) fn has_aftermath(&self) -> bool {
        let end = Duration::from_millis(self.calls_end.load(Ordering::Relaxed));
        self.clock.now() <= end + LONGEST_BEAT * 2
    }

    pub(super) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Violations, coverage, the hash of the trace and its lines.
    pub(super) fn close_books(&self) -> (Vec<String>, BTreeMap<&'static str, u64>, u64, Vec<String>) {
        let records = std::mem::take(&mut *self.records());
        let lines = records.trace.lines.unwrap_or_default();
        (records.violations, records.coverage, records.trace.hash, lines)
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
