//! Failovers of the database to a replica that lags behind: commits are taken back, and sessions cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::store::{Administration, Epoch, Holding, TxStore};
use pillarbox::{Clock, Event, Replica};

use super::judge::at_once;
use super::model::Model;
use super::rng::Rng;
use super::standings::Standings;
use super::tenancy::Partitions;
use super::world::World;
use crate::ledger::{Ending, Marks};
use crate::paused::NOON;

/// After this time nobody delivers any more what was read before a failover: a heartbeat, and the longest delivery of
/// what was queued.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// For so long a process may meet the failover by a call that fails.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// How many of the events that were taken back are written again at most.
const MOST_WRITTEN_AGAIN: usize = 20;

/// The failovers of a run.
pub(super) struct Failovers {
    rng: Rng,
    count: AtomicU64,
    /// When the last of them was, in milliseconds.
    last: AtomicU64,
    /// Whether the events alone went back once, so that floors may lie above numbers that are given again.
    were_events_restored: AtomicBool,
    /// What each process knows by the last answer to a heartbeat.
    heard: Mutex<BTreeMap<u32, Heard>>,
    /// The latest epoch that each partition has ever had.
    epochs: Mutex<BTreeMap<u8, Epoch>>,
    /// Who has had each number, and who has it now.
    numbers: Mutex<BTreeMap<i64, String>>,
}

/// What a process knows of failovers.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// How many there had been.
    count: u64,
    /// Since when all of its tasks may know it, in simulated time.
    since: Duration,
}

impl Failovers {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            count: AtomicU64::new(0),
            last: AtomicU64::new(0),
            were_events_restored: AtomicBool::new(false),
            heard: Mutex::default(),
            epochs: Mutex::default(),
            numbers: Mutex::default(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn were_events_restored(&self) -> bool {
        self.were_events_restored.load(Ordering::Relaxed)
    }

    /// A heartbeat of a process was answered.
    pub(super) fn answered(&self, process: u32, now: Duration) {
        let count = self.count();
        let mut heard = self.heard();
        // What is known already is not known any later.
        if heard.get(&process).is_none_or(|heard| heard.count != count) {
            heard.insert(process, Heard { count, since: now });
        }
    }

    /// A process goes on after a freeze: what it was told before may not have reached all of its tasks.
    pub(super) fn thawed(&self, process: u32, now: Duration) {
        if let Some(heard) = self.heard().get_mut(&process) {
            heard.since = now;
        }
    }

    /// Whether a heartbeat of a process was answered since the last failover, so that it knows what it owns.
    pub(super) fn has_heard(&self, process: u32) -> bool {
        self.heard_by(process).count == self.count()
    }

    /// Whether what a process asks now is asked by what it was told since the last failover. Its tasks hear of that one
    /// after the other, but before time goes on.
    pub(super) fn asks_anew(&self, process: u32, now: Duration) -> bool {
        self.count() == 0 || self.has_heard(process) && self.heard_by(process).since < now
    }

    fn heard_by(&self, process: u32) -> Heard {
        self.heard().get(&process).copied().unwrap_or_default()
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<u32, Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing that was read before the last failover is delivered any more.
    pub(super) fn are_over(&self, now: Duration) -> bool {
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        self.count() == 0 || !self.were_events_restored() && now > last + SETTLED_WITHIN
    }

    fn numbers(&self) -> MutexGuard<'_, BTreeMap<i64, String>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that a failover takes the world back to.
struct Earlier {
    replica: Replica,
    model: Model,
    partitions: Partitions,
    marks: Marks,
    standings: Standings,
    parked: BTreeMap<String, String>,
    resumed: BTreeSet<String>,
    discarded: BTreeSet<String>,
    highest_commit: i64,
}

/// The database fails over now and then, for as long as it is awaited.
pub(super) async fn failovers(world: Arc<World>) {
    while world.options.owned.is_some_and(|owned| owned.has_failovers) {
        let rng = &world.failovers.rng;
        tokio::time::sleep(rng.millis(100, 5_000)).await;
        let earlier = world.earlier();
        tokio::time::sleep(rng.millis(0, 2_500)).await;
        world.fail_over(earlier, rng.chance(150));
        if rng.chance(700) {
            tokio::time::sleep(rng.dawdle()).await;
            world.write_again();
        }
    }
}

impl World {
    fn earlier(&self) -> Earlier {
        Earlier {
            replica: self.db.replica(),
            model: self.model().clone(),
            partitions: self.tenancy().partitions(),
            marks: self.ledger.marks(),
            standings: self.standings().clone(),
            parked: self.parked().clone(),
            resumed: self.resumed_keys().clone(),
            discarded: self.discarded().clone(),
            highest_commit: self.highest_commit(),
        }
    }

    /// Goes back to what was; only the events do, if they are restored alone.
    fn fail_over(&self, earlier: Earlier, of_events_alone: bool) {
        self.note(format_args!("the database fails over; of the events alone: {of_events_alone}"));
        self.cover("failovers", 1);
        if of_events_alone {
            self.db.restore_events(earlier.replica);
            self.failovers.were_events_restored.store(true, Ordering::Relaxed);
        } else {
            self.db.fail_over(earlier.replica);
        }
        self.tenancy().fail_over((!of_events_alone).then_some(earlier.partitions));
        let is_there = |id: &str| matches!(at_once(self.db.find(id)), Ok(Some(_)));
        self.model().fail_over(earlier.model, is_there);
        self.cover("commits taken back", self.ledger.fail_over(&earlier.marks));
        self.standings().fail_over(earlier.standings);
        *self.parked() = earlier.parked;
        *self.resumed_keys() = earlier.resumed;
        *self.discarded() = earlier.discarded;
        self.note_highest_commit(earlier.highest_commit);
        self.failovers.count.fetch_add(1, Ordering::Relaxed);
        self.failovers.last.store(self.clock.now().as_millis() as u64, Ordering::Relaxed);
        self.note_call(NOTICED_WITHIN);
    }

    /// The application does again what was taken back: the numbers are given to other events of the same keys.
    fn write_again(&self) {
        let first = at_once(self.db.highest()).unwrap_or_default() + 1;
        let last = self.failovers.numbers().last_key_value().map_or(0, |(last, _)| *last);
        let mut tx = self.db.open();
        let mut ids = Vec::new();
        for seq in (first..=last).take(MOST_WRITTEN_AGAIN) {
            let former = self.failovers.numbers().get(&seq).cloned();
            let key = former.and_then(|former| self.ledger.key_of(&former));
            let id = format!("fine-{}", self.next_event());
            let event = Event::builder("fine").id(&id).occurred_at(NOON).json_text("{}");
            let event = if let Some(key) = &key { event.key(key) } else { event };
            let event = event.build().expect("the event is valid");
            self.ledger.written(&id, key.as_deref());
            // Nothing fails between these, and the memory store never waits.
            let _ = at_once(self.db.insert(tx.connection(), std::slice::from_ref(&event), None));
            self.model().inserted(0, &event, None, self.clock.wall());
            self.ledger.inserted(&id, false);
            ids.push(id);
        }
        let _ = tx.commit();
        self.note(format_args!("the application writes {} events again", ids.len()));
        self.note_commits();
        ids.iter().for_each(|id| self.ledger.ended(id, Ending::Committed));
    }

    /// Whether an event may be delivered though it is not in the table: it was when it was read.
    pub(super) fn may_be_gone(&self, event_id: &str) -> bool {
        let is_discarded = self.failovers.count() > 0 && self.discarded().contains(event_id);
        self.ledger.is_taken_back(event_id) || is_discarded
    }

    /// An event was committed under a number.
    pub(super) fn note_number(&self, seq: i64, event_id: &str) {
        let former = self.failovers.numbers().insert(seq, event_id.to_owned());
        self.cover("numbers given a second time", u64::from(former.is_some_and(|former| former != event_id)));
    }

    /// Whether another event of the same partition has the number that this one had.
    pub(super) fn has_passed_on(&self, seq: i64, event_id: &str, partition: u8) -> bool {
        let now = self.failovers.numbers().get(&seq).cloned();
        let is_another = |now: &String| *now != event_id && self.model().partition_of(now) == Some(partition);
        now.as_ref().is_some_and(is_another) && self.ledger.is_taken_back(event_id)
    }

    /// Counts epochs that are given though their partitions have had them before.
    pub(super) fn note_epochs(&self, given: &[Holding]) {
        let mut epochs = self.failovers.epochs.lock().unwrap_or_else(PoisonError::into_inner);
        let tenancy = self.tenancy();
        let mut again = 0;
        for Holding { partition, epoch, .. } in given {
            let latest = epochs.entry(*partition).or_default();
            again += u64::from(tenancy.epoch_of(*partition) < *epoch && *epoch <= *latest);
            *latest = (*latest).max(*epoch);
        }
        drop(tenancy);
        self.cover("epochs given a second time", again);
    }

    /// Counts floors that lay above all numbers, and are forgotten.
    pub(super) fn note_reset_floors(&self, given: &[Holding]) {
        if !self.failovers.were_events_restored() {
            return;
        }
        let highest = at_once(self.db.highest()).unwrap_or_default();
        let is_reset = |held: &&Holding| held.floor == 0 && self.tenancy().floor_of(held.partition) > highest;
        let reset = given.iter().filter(is_reset).count();
        self.cover("floors above the highest number reset", reset as u64);
    }
}
