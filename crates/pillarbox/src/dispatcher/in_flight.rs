//! Which events this instance is busy with.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Stored;
use crate::store::{Lease, Token};

/// The events that are queued, running or being settled here, so that none of them is queued twice.
pub(crate) struct InFlight {
    entries: Mutex<HashMap<i64, Entry>>,
    ttl: Option<Duration>,
}

struct Entry {
    lease: Lease,
    since: Duration,
    /// What the table said of its handlers when it was taken anew while it was here.
    stored: Option<Box<Stored>>,
}

impl InFlight {
    pub(crate) fn new(ttl: Option<Duration>) -> Self {
        Self { entries: Mutex::default(), ttl }
    }

    /// Enters an event that was just taken; false if it is here already.
    ///
    /// Then the running delivery goes on under the newer lease, for the older one can no longer settle.
    pub(crate) fn admit(&self, lease: Lease, stored: Option<&Stored>, now: Duration) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        match entries.get_mut(&lease.seq) {
            Some(entry) if self.remembers(entry, now) => {
                entry.take_anew(lease, stored);
                false
            }
            _ => {
                entries.insert(lease.seq, Entry { lease, since: now, stored: None });
                true
            }
        }
    }

    /// Lets an event that is here go on under the lease that it was just taken with; false if it is not here.
    pub(crate) fn take_over(&self, lease: Lease, stored: Option<&Stored>, now: Duration) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get_mut(&lease.seq).filter(|entry| self.remembers(entry, now));
        entry.map(|entry| entry.take_anew(lease, stored)).is_some()
    }

    /// Whether an event that entered is still regarded as here.
    fn remembers(&self, entry: &Entry, now: Duration) -> bool {
        self.ttl.is_none_or(|ttl| now.saturating_sub(entry.since) < ttl)
    }

    /// Enters an event of the hot path; false if it is here already.
    ///
    /// Its lease is the first that the row ever had, so it never replaces another.
    pub(crate) fn admit_born(&self, lease: Lease, now: Duration) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = !entries.contains_key(&lease.seq);
        if is_free {
            entries.insert(lease.seq, Entry { lease, since: now, stored: None });
        }
        is_free
    }

    /// The lease under which an event is to be settled: the newest one.
    pub(crate) fn newest(&self, lease: Lease) -> Lease {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Attempts and starts are those of the delivery; only the token may have been replaced.
        entries.get(&lease.seq).map_or(lease, |entry| Lease { token: entry.lease.token, ..lease })
    }

    /// The lease under which an event was taken anew since it was taken under `lease`, and what the table said of its
    /// handlers then.
    pub(crate) fn taken_anew(&self, lease: Lease) -> Option<(Lease, Option<Box<Stored>>)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(&lease.seq).filter(|entry| entry.lease.token != lease.token)?;
        Some((entry.lease, entry.stored.clone()))
    }

    /// The lease under which an event that is here was last taken.
    pub(crate) fn last_taken(&self, seq: i64) -> Option<Lease> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(&seq).map(|entry| entry.lease)
    }

    /// Forgets an event that is done with under `token`. If this instance has taken it anew meanwhile, it stays,
    /// and the newer lease comes back.
    pub(crate) fn leave_under(&self, seq: i64, token: Token) -> Option<Lease> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = entries.get(&seq).map(|entry| entry.lease).filter(|lease| lease.token != token);
        if newer.is_none() {
            entries.remove(&seq);
        }
        newer
    }

    /// Forgets an event: its outcome is recorded, or no longer ours to record.
    pub(crate) fn leave(&self, seq: i64) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(&seq);
    }
}

impl Entry {
    fn take_anew(&mut self, lease: Lease, stored: Option<&Stored>) {
        self.lease = lease;
        self.stored = stored.cloned().map(Box::new);
    }
}
