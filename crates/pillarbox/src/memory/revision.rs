//! What operators change in the progress of handlers.

use super::row::{NEVER, Row};
use super::table::Table;
use crate::Timestamp;
use crate::store::{LONGEST_LEASE, Progress, Revision, Selection, Status, handler_needle};

impl Table {
    pub(super) fn progress(&self, handler: Option<&str>, limit: usize, now: Timestamp) -> Vec<Progress> {
        let needle = handler.map(handler_needle).unwrap_or_default();
        let dead = self.dead().iter().filter_map(|seq| self.row(*seq));
        let progress = self.pending().chain(dead).filter_map(|row| row.progress(now));
        progress.filter(|progress| progress.handlers.contains(&needle)).take(limit).collect()
    }

    pub(super) fn revise(&mut self, revisions: &[Revision], now: Timestamp) -> Vec<i64> {
        let mut revised = Vec::new();
        for revision in revisions {
            let is_free = |row: &Row| row.is_as_told(revision) && !row.is_leased(now);
            if !self.row(revision.seq).is_some_and(is_free) {
                continue;
            }
            self.change(revision.seq, |row| row.revise(&revision.to));
            if revision.replays {
                self.replay(&Selection::Ids(vec![revision.event_id.clone()]), now);
            }
            revised.push(revision.seq);
        }
        revised
    }
}

impl Row {
    fn progress(&self, now: Timestamp) -> Option<Progress> {
        Some(Progress {
            seq: self.seq,
            event_id: self.event.id().to_owned(),
            is_dead: self.status == Status::Dead,
            is_leased: self.is_leased(now),
            written_ago: now.saturating_since(self.created_at),
            handlers: self.handlers.clone()?,
        })
    }

    fn is_as_told(&self, Revision { event_id, from, .. }: &Revision) -> bool {
        self.event.id() == event_id
            && self.status != Status::Done
            && self.handlers.as_deref() == Some(from.as_str())
    }

    /// Whether somebody who took it holds it. A lease that ends implausibly late has ended.
    fn is_leased(&self, now: Timestamp) -> bool {
        let is_running = self.available_at > now && self.available_at <= now.saturating_add(LONGEST_LEASE);
        self.status.is_pending() && self.lock.is_some() && is_running
    }

    fn revise(&mut self, to: &str) {
        self.handlers = Some(to.to_owned());
        self.lock = None;
        if self.status == Status::Dead {
            return;
        }
        if self.available_at != NEVER {
            self.available_at = self.due_at;
        }
        // It said for whom the event waits. Any other reason is not about handlers.
        self.reason.take_if(|reason| reason.starts_with("hold: "));
    }
}
