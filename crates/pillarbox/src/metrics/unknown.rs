//! Handlers that events are owed to, and that are not registered here.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most ids that are told apart: a table that somebody else wrote could have any number of them.
const MOST: usize = 100;

/// A handler that events are owed to, and that is not registered in this outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownHandler {
    /// Its id.
    pub id: String,
    /// How often an event was looked at that is owed to it: each is looked at every minute.
    pub met: u64,
    /// How long ago that was last.
    pub last_met_ago: Duration,
}

/// All of them, with how often and when they were met last by the local clock.
#[derive(Default)]
pub(crate) struct Unknown(Mutex<BTreeMap<String, (u64, Duration)>>);

impl Unknown {
    /// Counts one, and returns whether it is new.
    pub(crate) fn meet(&self, id: &str, now: Duration) -> bool {
        let mut all = self.lock();
        if let Some((met, last)) = all.get_mut(id) {
            *met += 1;
            *last = now;
            return false;
        }
        let has_room = all.len() < MOST;
        if has_room {
            all.insert(id.to_owned(), (1, now));
        }
        has_room
    }

    pub(crate) fn all(&self, now: Duration) -> Vec<UnknownHandler> {
        let all = self.lock();
        let told = all.iter().map(|(id, (met, last))| UnknownHandler {
            id: id.clone(),
            met: *met,
            last_met_ago: now.saturating_sub(*last),
        });
        told.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (u64, Duration)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// L3: the ids that are told apart are bounded, and those that are there go on counting.
    #[test]
    fn ids_are_bounded() {
        let unknown = Unknown::default();
        for number in 0..2 * MOST {
            assert_eq!(unknown.meet(&format!("search-{number}"), Duration::ZERO), number < MOST);
        }

        unknown.meet("search-1", Duration::from_secs(7));

        let all = unknown.all(Duration::from_secs(9));
        let search = all.iter().find(|handler| handler.id == "search-1").unwrap();
        assert_eq!((all.len(), search.met, search.last_met_ago), (MOST, 2, Duration::from_secs(2)));
    }
}
