//! A key that has more events than memory has for it, and whether others wait behind it.

use std::sync::Arc;

use crate::store::{Fetched, Numbers};

/// A key that has too many events, and how far its partition was looked through for others.
///
/// A look reads what is fresh, a stretch at a time, and keeps nothing of it. What can be seen of others above the events
/// in flight waits behind the crowd; what was not there to be seen is for the next look, which begins where nobody can
/// appear any more.
#[derive(Debug)]
pub(super) struct Crowd {
    pub(super) key: Arc<str>,
    /// Up to this nothing is in the table but what is in flight or of the key, and nothing can appear.
    clear: i64,
    look: Option<Look>,
}

/// A look that has begun.
#[derive(Debug)]
struct Look {
    /// The closed number that was known before.
    closed: i64,
    /// How far it has come.
    position: i64,
    /// Something above this went back to the table since its last stretch began.
    fallen: i64,
}

impl Crowd {
    pub(super) fn of(key: Arc<str>) -> Self {
        Self { key, clear: i64::MIN, look: None }
    }

    /// Whether a look has begun and has not come to its end.
    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }

    /// Where the next stretch begins, if so much is passed and these are the numbers now.
    pub(super) fn begin(&mut self, passed: i64, numbers: Numbers) -> i64 {
        let clear = self.clear;
        let begun = || Look { closed: numbers.closed, position: clear, fallen: i64::MAX };
        let look = self.look.get_or_insert_with(begun);
        look.position = look.position.min(look.fallen).max(passed);
        look.fallen = i64::MAX;
        look.position
    }

    /// Takes in a stretch, where `limit` was the most of it; true if somebody else is in it.
    pub(super) fn has_others(&mut self, events: &[Fetched], limit: usize) -> bool {
        let Some(look) = &mut self.look else { return false };
        // One that waits for its time is in the way of nobody of its key, and would be late.
        let is_other =
            |fetched: &Fetched| fetched.key.as_deref() != Some(&*self.key) || !fetched.ready_in.is_zero();
        if events.iter().any(is_other) {
            return true;
        }
        let last = events.last().filter(|_| events.len() >= limit).map(|fetched| fetched.taken.lease.seq);
        look.position = last.unwrap_or(i64::MAX).min(look.fallen);
        self.clear = self.clear.max(look.position.min(look.closed));
        if look.position == i64::MAX {
            self.look = None;
        }
        false
    }

    /// Something above this number went back to the table.
    pub(super) fn fall(&mut self, position: i64) {
        self.clear = self.clear.min(position);
        if let Some(look) = &mut self.look {
            look.fallen = look.fallen.min(position);
        }
    }

    /// A stretch has brought nothing: the look begins anew.
    pub(super) fn fail(&mut self) {
        self.look = None;
    }
}
