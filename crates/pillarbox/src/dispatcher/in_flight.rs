//! Which events this instance is busy with.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Stored;
use crate::store::{Lease, Token};

/// The events that are queued, running or being settled here, so that none of them is queued twice.
pub(crate) struct InFlight {
    state: Mutex<State>,
    /// How many of them were taken more than once, so that nobody waits for the lock to learn that none was.
    anew: AtomicUsize,
    ttl: Option<Duration>,
}

#[derive(Default)]
struct State {
    entries: HashMap<i64, Entry>,
    /// How often the hot path is reading rows back, and what came from the table meanwhile.
    reads: usize,
    taken: HashSet<i64>,
}

/// Rows are being read back, until this is dropped.
pub(crate) struct ReadingBack<'a>(&'a InFlight);

struct Entry {
    lease: Lease,
    since: Duration,
    /// Somebody may have an older lease of it.
    is_anew: bool,
    /// What the table said of its handlers when it was taken anew while it was here.
    stored: Option<Box<Stored>>,
}

impl InFlight {
    pub(crate) fn new(ttl: Option<Duration>) -> Self {
        Self { state: Mutex::default(), anew: AtomicUsize::new(0), ttl }
    }

    /// Enters an event that was just taken; false if it is here already.
    ///
    /// Then the running delivery goes on under the newer lease, for the older one can no longer settle.
    pub(crate) fn admit(&self, lease: Lease, stored: Option<&Stored>, now: Duration) -> bool {
        let mut state = self.lock();
        if state.reads > 0 {
            state.taken.insert(lease.seq);
        }
        match state.entries.get_mut(&lease.seq) {
            Some(entry) if self.remembers(entry, now) => {
                self.take_anew(entry, lease, stored);
                false
            }
            Some(entry) => {
                self.take_anew(entry, lease, None);
                entry.since = now;
                true
            }
            None => {
                state.entries.insert(lease.seq, Entry::new(lease, now));
                true
            }
        }
    }

    /// Lets an event that is here go on under the lease that it was just taken with; false if it is not here.
    pub(crate) fn take_over(&self, lease: Lease, stored: Option<&Stored>, now: Duration) -> bool {
        let mut state = self.lock();
        let entry = state.entries.get_mut(&lease.seq).filter(|entry| self.remembers(entry, now));
        entry.map(|entry| self.take_anew(entry, lease, stored)).is_some()
    }

    /// Whether an event that entered is still regarded as here.
    fn remembers(&self, entry: &Entry, now: Duration) -> bool {
        self.ttl.is_none_or(|ttl| now.saturating_sub(entry.since) < ttl)
    }

    fn take_anew(&self, entry: &mut Entry, lease: Lease, stored: Option<&Stored>) {
        self.anew.fetch_add(usize::from(!entry.is_anew), Ordering::Relaxed);
        entry.is_anew = true;
        entry.lease = lease;
        entry.stored = stored.cloned().map(Box::new);
    }

    /// Notes from now on what is taken from the table.
    pub(crate) fn reading_back(&self) -> ReadingBack<'_> {
        self.lock().reads += 1;
        ReadingBack(self)
    }

    /// Enters an event of the hot path; false if it is here already, or was while its row was read back: then its lease had
    /// ended early, by a jump of the database's clock, and it may be delivered and settled by now.
    ///
    /// Its lease is the first that the row ever had, so it never replaces another.
    pub(crate) fn admit_born(&self, lease: Lease, now: Duration) -> bool {
        let mut state = self.lock();
        let is_free = !state.entries.contains_key(&lease.seq) && !state.taken.contains(&lease.seq);
        if is_free {
            state.entries.insert(lease.seq, Entry::new(lease, now));
        }
        is_free
    }

    /// The lease under which an event is to be settled: the newest one.
    pub(crate) fn newest(&self, lease: Lease) -> Lease {
        if self.is_none_anew() {
            return lease;
        }
        // Attempts and starts are those of the delivery; only the token may have been replaced.
        self.lock().entries.get(&lease.seq).map_or(lease, |entry| Lease { token: entry.lease.token, ..lease })
    }

    /// The lease under which an event was taken anew since it was taken under `lease`, and what the table said of its
    /// handlers then.
    pub(crate) fn taken_anew(&self, lease: Lease) -> Option<(Lease, Option<Box<Stored>>)> {
        if self.is_none_anew() {
            return None;
        }
        let state = self.lock();
        let entry = state.entries.get(&lease.seq).filter(|entry| entry.lease.token != lease.token)?;
        Some((entry.lease, entry.stored.clone()))
    }

    /// The lease under which an event that is here was last taken.
    pub(crate) fn last_taken(&self, seq: i64) -> Option<Lease> {
        self.lock().entries.get(&seq).map(|entry| entry.lease)
    }

    /// Forgets an event that is done with under `token`. If this instance has taken it anew meanwhile, it stays,
    /// and the newer lease comes back.
    pub(crate) fn leave_under(&self, seq: i64, token: Token) -> Option<Lease> {
        let mut state = self.lock();
        let newer = state.entries.get(&seq).map(|entry| entry.lease).filter(|lease| lease.token != token);
        if newer.is_none() {
            let left = state.entries.remove(&seq);
            self.forget(left);
        }
        newer
    }

    /// Forgets an event: its outcome is recorded, or no longer ours to record.
    pub(crate) fn leave(&self, seq: i64) {
        let left = self.lock().entries.remove(&seq);
        self.forget(left);
    }

    fn forget(&self, entry: Option<Entry>) {
        let was_anew = entry.is_some_and(|entry| entry.is_anew);
        self.anew.fetch_sub(usize::from(was_anew), Ordering::Relaxed);
    }

    fn is_none_anew(&self) -> bool {
        self.anew.load(Ordering::Relaxed) == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReadingBack<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.reads -= 1;
        if state.reads == 0 {
            state.taken = HashSet::new();
        }
    }
}

impl Entry {
    fn new(lease: Lease, now: Duration) -> Self {
        Self { lease, since: now, is_anew: false, stored: None }
    }
}
