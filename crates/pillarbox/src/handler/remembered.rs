//! Successes that could not be recorded: while the process lives nobody runs again who has succeeded.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::progress::Succeeded;
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
    by_id: HashMap<String, Succeeded>,
    in_order: VecDeque<String>,
}

impl Remembered {
    /// A settlement was not recorded, or its lease was lost.
    pub(crate) fn note(&self, settlement: &Settlement) {
        let Some(succeeded) = Succeeded::of(&settlement.outcome, settlement.handlers.as_deref()) else {
            return;
        };
        let mut events = self.lock();
        if events.by_id.insert(settlement.event_id.clone(), succeeded).is_none() {
            events.in_order.push_back(settlement.event_id.clone());
        }
        if events.by_id.len() > MOST
            && let Some(oldest) = events.in_order.pop_front()
        {
            events.by_id.remove(&oldest);
        }
        self.count.store(events.by_id.len(), Ordering::Relaxed);
    }

    /// A settlement was recorded.
    pub(crate) fn forget(&self, event_id: &str) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut events = self.lock();
        if events.by_id.remove(event_id).is_some() {
            events.in_order.retain(|id| id != event_id);
            self.count.store(events.by_id.len(), Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, event_id: &str) -> Option<Succeeded> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.lock().by_id.get(event_id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Lease, Outcome, Token};

    fn settlement(event_id: &str, outcome: Outcome) -> Settlement {
        let lease = Lease { seq: 17, token: Token(1), attempts: 0, starts: 0 };
        Settlement::new(event_id, lease, outcome)
    }

    /// L4: successes are remembered until they are recorded, and of the latest events only.
    #[test]
    fn successes_are_remembered_until_they_are_recorded() {
        let remembered = Remembered::default();
        remembered.note(&settlement("order-1", Outcome::Done));
        remembered.note(&settlement("order-2", Outcome::Released));
        assert!(remembered.of("order-1").is_some() && remembered.of("order-2").is_none());

        remembered.forget("order-1");
        assert!(remembered.of("order-1").is_none());

        (0..=MOST).for_each(|n| remembered.note(&settlement(&format!("order-{n}"), Outcome::Done)));
        assert!(remembered.of("order-0").is_none() && remembered.of("order-1").is_some());
    }
}
