//! Routes that are paused, and what waits for them.

use super::row::{NEVER, Row};
use super::table::Table;
use crate::Timestamp;
use crate::store::{Outline, PausedRoute};

impl Table {
    pub(super) fn paused_routes(&self) -> Vec<PausedRoute> {
        let paused =
            |(name, since): (&String, &Timestamp)| PausedRoute { name: name.clone(), since: Some(*since) };
        self.paused.iter().map(paused).collect()
    }

    /// Pauses a route; one that is paused stays so since it is.
    pub(super) fn pause_route(&mut self, route: &str, now: Timestamp) -> bool {
        let is_new = !self.paused.contains_key(route);
        self.paused.entry(route.to_owned()).or_insert(now);
        is_new
    }

    pub(super) fn recall(&mut self, reason: &str, limit: usize, now: Timestamp) -> u64 {
        let waits = |row: &&Row| {
            row.reason.as_deref() == Some(reason)
                && row.lock.is_none()
                && row.available_at > now
                && row.available_at != NEVER
        };
        let waiting: Vec<i64> = self.pending().filter(waits).map(|row| row.seq).take(limit).collect();
        for seq in &waiting {
            self.change(*seq, |row| {
                row.available_at = row.due_at;
                row.reason = None;
            });
        }
        waiting.len() as u64
    }
}

impl Row {
    pub(super) fn outline(&self) -> Outline {
        Outline {
            seq: self.seq,
            event_id: self.event.id().to_owned(),
            event_type: self.event.event_type().to_owned(),
            aggregate_id: self.event.aggregate_id().map(str::to_owned),
            key: self.event.key().map(str::to_owned),
            status: Ok(self.status),
            attempts: self.attempts,
            created_at: self.created_at,
            done_at: self.done_at,
            last_error: self.last_error.clone(),
            reason: self.reason.clone(),
        }
    }
}
