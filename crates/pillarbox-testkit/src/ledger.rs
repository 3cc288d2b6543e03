//! Counts what was written and what became of it.

mod balance;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use balance::Balance;

/// How the transaction of an event ended, as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was committed.
    Committed,
    /// It was rolled back, as a whole or to a savepoint before the event.
    RolledBack,
    /// Nobody knows: the answer was lost, or the writer died.
    Unknown,
}

/// Why an event may be delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The process died after the delivery and before it was recorded.
    Crash,
    /// The listener exceeded its time limit after it had done its work.
    TimedOut,
    /// The listener was cut off by the drain timeout after it had done its work.
    CutOff,
    /// The lease ended before the delivery was recorded, and another took the event.
    LeaseExpired,
    /// The answer of the broker, or of the database to the bookkeeping, was lost.
    LostAnswer,
    /// An operator replayed it.
    Replayed,
    /// A failover of the database took back what was recorded of it.
    Failover,
}

#[derive(Default)]
struct Entry {
    ending: Option<Ending>,
    key: Option<String>,
    /// When it was inserted and committed, as positions among all that was.
    inserted: Option<u64>,
    committed: Option<u64>,
    /// Neither waits for its key nor holds it.
    stands_apart: bool,
    /// Was the first of its key, and has waited for a time of its own since.
    is_first_of_key: bool,
    /// Those that follow it in its key need not wait for it any more.
    is_through: bool,
    /// How often it was delivered.
    deliveries: u32,
    /// How often a listener returned success, or a broker acknowledged.
    successes: u32,
    failures: u32,
    /// Why it may be delivered again, noted since the last delivery.
    causes: BTreeSet<Cause>,
    /// How many deliveries beyond the first are explained.
    explained: u32,
    has_begun: bool,
    is_done: bool,
    false_done: bool,
    is_dead: bool,
    ghost: bool,
    /// A failover of the database took its commit back.
    is_taken_back: bool,
}

/// What is recorded of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    is_done: bool,
    is_dead: bool,
    stands_apart: bool,
}

/// What is recorded of all that is committed, at some moment.
#[derive(Clone, Debug, Default)]
pub struct Marks(BTreeMap<String, Mark>);

/// A book of events: what was written, delivered, duplicated and lost.
///
/// Whoever writes, delivers or records tells it at once; [`balance`](Ledger::balance) adds up.
#[derive(Default)]
pub struct Ledger {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    entries: BTreeMap<String, Entry>,
    /// In the order in which they were written.
    order: Vec<String>,
    of_key: BTreeMap<String, Vec<String>>,
    /// How often something was inserted or committed.
    steps: u64,
    out_of_order: u64,
}

impl Ledger {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// An event was written; how its transaction ends is not known yet.
    pub fn written(&self, event_id: &str, key: Option<&str>) {
        let mut book = self.lock();
        book.order.push(event_id.to_owned());
        book.entry(event_id).key = key.map(str::to_owned);
        if let Some(key) = key {
            book.of_key.entry(key.to_owned()).or_default().push(event_id.to_owned());
        }
    }

    /// An event was inserted, in a transaction that is open. A delayed one stands apart from its key.
    pub fn inserted(&self, event_id: &str, is_delayed: bool) {
        let mut book = self.lock();
        book.steps += 1;
        let step = book.steps;
        let entry = book.entry(event_id);
        entry.inserted = Some(step);
        entry.stands_apart |= is_delayed;
    }

    /// An event was committed, whether its writer knows or not.
    pub fn committed(&self, event_id: &str) {
        let mut book = self.lock();
        book.steps += 1;
        let step = book.steps;
        book.entry(event_id).committed.get_or_insert(step);
    }

    /// Events that were inserted, of which nobody has seen yet that they were committed or not.
    pub fn open(&self) -> Vec<String> {
        let book = self.lock();
        let is_open = |entry: &Entry| {
            entry.inserted.is_some() && entry.committed.is_none() && entry.ending != Some(Ending::RolledBack)
        };
        book.entries.iter().filter(|(_, entry)| is_open(entry)).map(|(id, _)| id.clone()).collect()
    }

    /// A delivery of an event begins. Returns the events of its key that it overtakes by that: they were committed
    /// before it was inserted, and are not through. Only the first delivery can overtake.
    pub fn begun(&self, event_id: &str) -> Vec<String> {
        let mut book = self.lock();
        let is_first = !std::mem::replace(&mut book.entry(event_id).has_begun, true);
        let overtaken = if is_first { book.ahead_of(event_id) } else { Vec::new() };
        book.out_of_order += overtaken.len() as u64;
        overtaken
    }

    /// The events of its key that an event must wait for: they were committed before it was inserted, and are not
    /// through.
    pub fn ahead_of(&self, event_id: &str) -> Vec<String> {
        self.lock().ahead_of(event_id)
    }

    /// Whether a delivery of the event has begun.
    pub fn has_begun(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.has_begun)
    }

    /// The key of an event.
    pub fn key_of(&self, event_id: &str) -> Option<String> {
        self.lock().entries.get(event_id)?.key.clone()
    }

    /// Whether an event neither waits for its key nor holds it.
    pub fn stands_apart(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.stands_apart)
    }

    /// The first of its key waits for a time of its own, though no delivery of it has begun: its sink is down.
    pub fn waits_first(&self, event_id: &str) {
        self.lock().entry(event_id).is_first_of_key = true;
    }

    /// Whether an event came to be the first of its key before it was delivered: what its key is parked for later does not
    /// hold it.
    pub fn is_first_of_key(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.is_first_of_key)
    }

    /// Those that follow an event in its key need not wait for it any more, though it is not recorded yet.
    pub fn is_through(&self, event_id: &str) {
        self.lock().entry(event_id).is_through = true;
    }

    /// A dead event was brought back by an operator; it stands apart from its key unless that was parked for it.
    pub fn replayed(&self, event_id: &str, holds_its_key: bool) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        entry.is_dead = false;
        entry.is_through = !holds_its_key;
        entry.stands_apart |= !holds_its_key;
    }

    /// The transaction of an event ended.
    pub fn ended(&self, event_id: &str, ending: Ending) {
        self.lock().entry(event_id).ending = Some(ending);
    }

    /// How the transaction of an event ended, if its writer lived to tell.
    pub fn ending(&self, event_id: &str) -> Option<Ending> {
        self.lock().entries.get(event_id)?.ending
    }

    /// An event reached its receiver. `is_committed` says whether its row was in the table at that moment.
    pub fn delivered(&self, event_id: &str, is_committed: bool) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        entry.ghost |= !is_committed;
        entry.deliveries += 1;
        entry.causes.clear();
    }

    /// Whether an event has reached its receiver.
    pub fn is_delivered(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.deliveries > 0)
    }

    /// The receiver of an event said that it succeeded.
    pub fn succeeded(&self, event_id: &str) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        entry.successes += 1;
        entry.is_through = true;
    }

    /// A delivery ended in an error, a time-out or a panic.
    pub fn failed(&self, event_id: &str) {
        self.lock().entry(event_id).failures += 1;
    }

    /// How many deliveries of an event failed.
    pub fn failures(&self, event_id: &str) -> u32 {
        self.lock().entries.get(event_id).map_or(0, |entry| entry.failures)
    }

    /// Notes why an event may be delivered once more. The same cause counts once between two deliveries.
    pub fn explain(&self, event_id: &str, cause: Cause) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        // Not cleared by use: two who hold an event may deliver it in either order.
        entry.explained += u32::from(entry.causes.insert(cause));
    }

    /// The event was recorded as done.
    pub fn done(&self, event_id: &str) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        entry.is_done = true;
        entry.is_through = true;
        entry.false_done |= entry.successes == 0;
    }

    /// Whether the event was recorded as done.
    pub fn is_done(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.is_done)
    }

    /// The event was recorded as dead, or, if not `is_dead`, brought back by an operator.
    pub fn dead(&self, event_id: &str, is_dead: bool) {
        let mut book = self.lock();
        let entry = book.entry(event_id);
        entry.is_dead = is_dead;
        entry.is_through |= is_dead;
    }

    /// What is recorded by now.
    pub fn marks(&self) -> Marks {
        let book = self.lock();
        let committed = book.entries.iter().filter(|(_, entry)| entry.committed.is_some());
        let mark = |entry: &Entry| Mark {
            is_done: entry.is_done,
            is_dead: entry.is_dead,
            stands_apart: entry.stands_apart,
        };
        Marks(committed.map(|(id, entry)| (id.clone(), mark(entry))).collect())
    }

    /// The database has gone back to where these marks were made. What was committed since is gone, and nobody's loss;
    /// what was recorded since comes again. Returns how many commits were taken back.
    pub fn fail_over(&self, marks: &Marks) -> u64 {
        let mut taken_back = 0;
        for (id, entry) in &mut self.lock().entries {
            let Some(mark) = marks.0.get(id) else {
                let is_gone = entry.committed.is_some() && !entry.is_taken_back;
                taken_back += u64::from(is_gone);
                entry.is_taken_back |= is_gone;
                (entry.is_done, entry.is_dead) = (false, false);
                // Nobody waits for it.
                entry.is_through |= is_gone;
                continue;
            };
            (entry.is_done, entry.is_dead) = (mark.is_done, mark.is_dead);
            // A replay may have been taken back: then it is as dead as before, and nobody waits for it.
            entry.is_through |= mark.is_done || mark.is_dead;
            entry.stands_apart = mark.stands_apart;
            if !mark.is_done {
                entry.causes = BTreeSet::from([Cause::Failover]);
                entry.explained += 1;
            }
        }
        taken_back
    }

    /// Whether a failover has taken the commit of an event back.
    pub fn is_taken_back(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.is_taken_back)
    }

    /// Every event that was written, in order.
    pub fn events(&self) -> Vec<String> {
        self.lock().order.clone()
    }

    /// Adds up. Lost is what was committed and is neither done nor dead.
    pub fn balance(&self) -> Balance {
        let book = self.lock();
        let mut balance = Balance { out_of_order: book.out_of_order, ..Balance::default() };
        for id in &book.order {
            let entry = &book.entries[id];
            balance.written += 1;
            match entry.ending {
                Some(Ending::Committed) => balance.committed += 1,
                Some(Ending::RolledBack) => balance.rolled_back += 1,
                Some(Ending::Unknown) | None => balance.unknown += 1,
            }
        }
        for (id, entry) in &book.entries {
            balance.delivered += u64::from(entry.deliveries > 0);
            balance.done += u64::from(entry.is_done);
            balance.dead += u64::from(entry.is_dead);
            let duplicates = entry.deliveries.saturating_sub(1);
            balance.duplicates += u64::from(duplicates);
            let is_over = entry.is_done || entry.is_dead || entry.is_taken_back;
            let is_lost = entry.ending == Some(Ending::Committed) && !is_over;
            let is_unwritten = entry.ending == Some(Ending::RolledBack) && !entry.is_taken_back;
            let is_ghost = entry.ghost || is_unwritten && entry.deliveries > 0;
            for (list, holds) in [
                (&mut balance.unexplained, duplicates > entry.explained),
                (&mut balance.lost, is_lost),
                (&mut balance.ghosts, is_ghost),
                (&mut balance.false_done, entry.false_done),
            ] {
                list.extend(holds.then(|| id.clone()));
            }
        }
        balance
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn ahead_of(&self, event_id: &str) -> Vec<String> {
        let waiting = self.entries.get(event_id).filter(|entry| !entry.stands_apart);
        let Some((key, inserted)) = waiting.and_then(|entry| entry.key.as_ref().zip(entry.inserted)) else {
            return Vec::new();
        };
        let is_ahead = |id: &&String| {
            let other = &self.entries[*id];
            let is_before = other.committed.is_some_and(|committed| committed < inserted);
            is_before && !other.is_through && !other.stands_apart
        };
        self.of_key[key].iter().filter(is_ahead).cloned().collect()
    }

    fn entry(&mut self, event_id: &str) -> &mut Entry {
        if !self.entries.contains_key(event_id) {
            self.entries.insert(event_id.to_owned(), Entry::default());
        }
        self.entries.get_mut(event_id).expect("it was just entered")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q3: a duplicate needs a cause of its own.
    #[test]
    fn cause_explains_one_duplicate_only() {
        let ledger = Ledger::new();
        ledger.written("order-17", None);
        ledger.ended("order-17", Ending::Committed);
        ledger.delivered("order-17", true);
        ledger.explain("order-17", Cause::Crash);
        ledger.delivered("order-17", true);
        ledger.succeeded("order-17");
        ledger.done("order-17");
        assert!(ledger.balance().is_even());

        ledger.delivered("order-17", true);

        let balance = ledger.balance();
        assert_eq!((balance.duplicates, balance.unexplained), (2, vec!["order-17".to_owned()]));
    }

    #[test]
    fn rolled_back_event_must_not_arrive_and_done_needs_a_success() {
        let ledger = Ledger::new();
        for id in ["order-1", "order-2", "order-3"] {
            ledger.written(id, Some("customer-9"));
            ledger.inserted(id, false);
        }
        ledger.ended("order-1", Ending::RolledBack);
        ledger.ended("order-2", Ending::Committed);
        ledger.ended("order-3", Ending::Committed);
        ledger.delivered("order-3", true);
        ledger.delivered("order-1", true);
        ledger.done("order-3");

        let balance = ledger.balance();

        assert_eq!(balance.ghosts, ["order-1"]);
        assert_eq!(balance.lost, ["order-2"]);
        assert_eq!(balance.false_done, ["order-3"]);
        assert!(balance.to_string().contains("lost                         1  order-2"), "{balance}");
    }

    /// Q3: what a failover takes back is neither lost nor a ghost; what it leaves must be done, and may be delivered
    /// once more.
    #[test]
    fn failover_takes_back_what_came_after_the_marks() {
        let ledger = Ledger::new();
        let commit = |id: &str| {
            ledger.written(id, None);
            ledger.inserted(id, false);
            ledger.committed(id);
            ledger.ended(id, Ending::Committed);
        };
        let deliver = |id: &str| {
            ledger.delivered(id, true);
            ledger.succeeded(id);
            ledger.done(id);
        };
        commit("order-1");
        let marks = ledger.marks();
        commit("order-2");
        deliver("order-1");
        deliver("order-2");

        assert_eq!(ledger.fail_over(&marks), 1);

        assert_eq!(ledger.balance().lost, ["order-1"]);
        deliver("order-1");
        assert!(ledger.balance().is_even(), "{}", ledger.balance());
        deliver("order-1");
        assert_eq!(ledger.balance().unexplained, ["order-1"]);
    }

    /// O6: a replay that a failover takes back leaves its event dead, and nobody waits for that.
    #[test]
    fn event_whose_replay_was_taken_back_is_not_overtaken() {
        let ledger = Ledger::new();
        let commit = |id: &str| {
            ledger.written(id, Some("customer-9"));
            ledger.inserted(id, false);
            ledger.committed(id);
        };
        commit("order-1");
        ledger.begun("order-1");
        ledger.dead("order-1", true);
        let marks = ledger.marks();
        ledger.replayed("order-1", true);

        ledger.fail_over(&marks);
        commit("order-2");

        assert!(ledger.begun("order-2").is_empty());
    }

    /// O1: order is that of commits and inserts. Of two that overlap each may be first.
    #[test]
    fn event_overtakes_what_was_committed_before_it_was_inserted() {
        let ledger = Ledger::new();
        for id in ["order-1", "order-2", "order-3"] {
            ledger.written(id, Some("customer-9"));
        }
        ledger.inserted("order-1", false);
        ledger.inserted("order-2", false);
        ledger.committed("order-2");
        ledger.committed("order-1");
        ledger.inserted("order-3", false);

        assert!(ledger.begun("order-2").is_empty());
        ledger.succeeded("order-2");

        assert_eq!(ledger.begun("order-3"), ["order-1"]);
        assert_eq!(ledger.balance().out_of_order, 1);
    }

    /// O2, V8: a failed event holds its key until it is through; one that stands apart holds nothing.
    #[test]
    fn event_waits_for_the_failed_and_not_for_the_delayed() {
        let ledger = Ledger::new();
        for (id, is_delayed) in [("order-1", true), ("order-2", false), ("order-3", false)] {
            ledger.written(id, Some("customer-9"));
            ledger.inserted(id, is_delayed);
            ledger.committed(id);
        }
        assert!(ledger.begun("order-2").is_empty());
        ledger.failed("order-2");

        assert_eq!(ledger.begun("order-3"), ["order-2"]);
    }
}
