//! Successes that could not be recorded: while the process lives nobody runs again who has succeeded.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::progress::Succeeded;
use crate::mutant::mutant;
use crate::store::Settlement;

/// The most events that are remembered; the oldest is forgotten first.
const MOST: usize = 10_000;

/// Who has succeeded with which event, though that is not recorded.
#[derive(Default)]
pub(crate) struct Remembered {
    events: Mutex<Events>,
    /// So that nobody waits for the lock while there is nothing to remember.
    count: AtomicUsize,
}

#[derive(Default)]
struct Events {
    by_number: HashMap<i64, Note>,
    /// Numbers in the order in which they came, each with the count of its note, among them such as are forgotten by now.
    in_order: VecDeque<(i64, u64)>,
    /// How many notes there were.
    notes: u64,
}

struct Note {
    count: u64,
    /// After a failover a number may be another's.
    event_id: String,
    succeeded: Succeeded,
}

impl Remembered {
    /// A settlement was not recorded, or nobody knows, or its lease was lost.
    pub(crate) fn note(&self, settlement: &Settlement) {
        let succeeded = Succeeded::of(&settlement.outcome, settlement.handlers.as_deref());
        let Some(succeeded) = succeeded.filter(|_| !mutant!(SuccessForgotten)) else { return };
        let number = settlement.lease.seq;
        let mut events = self.lock();
        events.notes += 1;
        let note = Note { count: events.notes, event_id: settlement.event_id.clone(), succeeded };
        events.in_order.push_back((number, note.count));
        events.by_number.insert(number, note);
        while events.by_number.len() > MOST || events.in_order.len() > 2 * MOST {
            let Some((oldest, count)) = events.in_order.pop_front() else { break };
            if events.by_number.get(&oldest).is_some_and(|note| note.count == count) {
                events.by_number.remove(&oldest);
            }
        }
        self.count.store(events.by_number.len(), Ordering::Relaxed);
    }

    /// A settlement was recorded. If it says who has succeeded, nobody needs to remember it.
    pub(crate) fn recorded(&self, settlement: &Settlement) {
        let says_it = settlement.outcome.is_done() || settlement.handlers.is_some();
        if !says_it || self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut events = self.lock();
        events.by_number.remove(&settlement.lease.seq);
        self.count.store(events.by_number.len(), Ordering::Relaxed);
    }

    /// Who has succeeded with the event of this number and id.
    pub(crate) fn of(&self, number: i64, event_id: &str) -> Option<Succeeded> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let events = self.lock();
        let note = events.by_number.get(&number).filter(|note| note.event_id == event_id)?;
        Some(note.succeeded.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Lease, Outcome, Token};

    fn settlement(number: i64, outcome: Outcome) -> Settlement {
        let lease = Lease { seq: number, token: Token(1), attempts: 0, starts: 0 };
        Settlement::new(format!("order-{number}"), lease, outcome)
    }

    /// L4: successes are remembered until one is recorded that tells of them, and of the latest events only.
    #[test]
    fn successes_are_remembered_until_they_are_recorded() {
        let remembered = Remembered::default();
        remembered.note(&settlement(1, Outcome::Done));
        remembered.note(&settlement(2, Outcome::Released));
        assert!(remembered.of(1, "order-1").is_some() && remembered.of(2, "order-2").is_none());
        assert!(remembered.of(1, "order-17").is_none(), "its number is another's");

        remembered.recorded(&settlement(1, Outcome::Released));
        assert!(remembered.of(1, "order-1").is_some(), "that it was given back tells nothing");
        remembered.recorded(&settlement(1, Outcome::Done));
        assert!(remembered.of(1, "order-1").is_none());

        (0..=MOST as i64).for_each(|number| remembered.note(&settlement(number, Outcome::Done)));
        assert!(remembered.of(0, "order-0").is_none() && remembered.of(1, "order-1").is_some());
    }
}
