//! Counts what was written and what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
}

#[derive(Default)]
struct Entry {
    ending: Option<Ending>,
    key: Option<String>,
    /// How often it was delivered.
    deliveries: u32,
    /// How often a listener returned success, or a broker acknowledged.
    successes: u32,
    failures: u32,
    /// Why it may be delivered again, noted since the last delivery.
    causes: BTreeSet<Cause>,
    /// How many deliveries beyond the first are explained.
    explained: u32,
    /// When it was first delivered, as a position among all deliveries.
    first_delivery: Option<usize>,
    is_done: bool,
    false_done: bool,
    is_dead: bool,
    ghost: bool,
}

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
    deliveries: usize,
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
        let position = book.deliveries;
        book.deliveries += 1;
        let entry = book.entry(event_id);
        entry.first_delivery.get_or_insert(position);
        entry.ghost |= !is_committed;
        entry.deliveries += 1;
        entry.causes.clear();
    }

    /// The receiver of an event said that it succeeded.
    pub fn succeeded(&self, event_id: &str) {
        self.lock().entry(event_id).successes += 1;
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
        entry.false_done |= entry.successes == 0;
    }

    /// Whether the event was recorded as done.
    pub fn is_done(&self, event_id: &str) -> bool {
        self.lock().entries.get(event_id).is_some_and(|entry| entry.is_done)
    }

    /// The event was recorded as dead, or, if not `is_dead`, brought back by an operator.
    pub fn dead(&self, event_id: &str, is_dead: bool) {
        self.lock().entry(event_id).is_dead = is_dead;
    }

    /// Every event that was written, in order.
    pub fn events(&self) -> Vec<String> {
        self.lock().order.clone()
    }

    /// Adds up. Lost is what was committed and is neither done nor dead.
    pub fn balance(&self) -> Balance {
        let book = self.lock();
        let mut balance = Balance::default();
        let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
        for id in &book.order {
            let entry = &book.entries[id];
            balance.written += 1;
            match entry.ending {
                Some(Ending::Committed) => balance.committed += 1,
                Some(Ending::RolledBack) => balance.rolled_back += 1,
                Some(Ending::Unknown) | None => balance.unknown += 1,
            }
            if let (Some(key), Some(position)) = (&entry.key, entry.first_delivery) {
                let last = keys.entry(key).or_insert(position);
                balance.out_of_order += u64::from(position < *last);
                *last = position.max(*last);
            }
        }
        for (id, entry) in &book.entries {
            balance.delivered += u64::from(entry.deliveries > 0);
            balance.done += u64::from(entry.is_done);
            balance.dead += u64::from(entry.is_dead);
            let duplicates = entry.deliveries.saturating_sub(1);
            balance.duplicates += u64::from(duplicates);
            let is_lost = entry.ending == Some(Ending::Committed) && !entry.is_done && !entry.is_dead;
            let is_ghost = entry.ghost || entry.ending == Some(Ending::RolledBack) && entry.deliveries > 0;
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
    fn entry(&mut self, event_id: &str) -> &mut Entry {
        if !self.entries.contains_key(event_id) {
            self.entries.insert(event_id.to_owned(), Entry::default());
        }
        self.entries.get_mut(event_id).expect("it was just entered")
    }
}

/// What a [`Ledger`] adds up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Events written.
    pub written: u64,
    /// Of those, in transactions that were committed.
    pub committed: u64,
    /// In transactions that were rolled back.
    pub rolled_back: u64,
    /// In transactions of which nobody knows.
    pub unknown: u64,
    /// Events delivered at least once.
    pub delivered: u64,
    /// Events recorded as done.
    pub done: u64,
    /// Events recorded as dead.
    pub dead: u64,
    /// Deliveries beyond the first of an event.
    pub duplicates: u64,
    /// Events whose first delivery came before that of an event of the same key written earlier.
    pub out_of_order: u64,
    /// Events delivered again without a cause.
    pub unexplained: Vec<String>,
    /// Events that were committed and are neither done nor dead.
    pub lost: Vec<String>,
    /// Events delivered although they were rolled back or not yet committed.
    pub ghosts: Vec<String>,
    /// Events recorded as done that no receiver has taken.
    pub false_done: Vec<String>,
}

impl Balance {
    /// Whether nothing was lost, falsely done, delivered for nothing or twice without a cause.
    pub fn is_even(&self) -> bool {
        let Self { unexplained, lost, ghosts, false_done, .. } = self;
        [unexplained, lost, ghosts, false_done].iter().all(|list| list.is_empty())
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [
            ("written", self.written),
            ("committed", self.committed),
            ("rolled back", self.rolled_back),
            ("unknown", self.unknown),
            ("delivered", self.delivered),
            ("done", self.done),
            ("dead", self.dead),
            ("duplicates", self.duplicates),
            ("out of order", self.out_of_order),
        ] {
            writeln!(f, "{name:<22}{count:>8}")?;
        }
        for (name, ids) in [
            ("unexplained duplicates", &self.unexplained),
            ("lost", &self.lost),
            ("ghosts", &self.ghosts),
            ("false done", &self.false_done),
        ] {
            writeln!(f, "{name:<22}{:>8}  {}", ids.len(), ids.join(" "))?;
        }
        Ok(())
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
        assert_eq!(balance.out_of_order, 1);
        assert!(balance.to_string().contains("lost                         1  order-2"), "{balance}");
    }
}
