//! Recording what became of taken events.

use super::refused;
use super::row::{NEVER, Row};
use super::table::Table;
use crate::Timestamp;
use crate::mutant::mutant;
use crate::store::{DELAYED, DoneRows, Outcome, REPLAYED, Settlement, Status, StoreError, cut_error};

impl Table {
    pub(super) fn settle(
        &mut self,
        settlements: &[Settlement],
        done: DoneRows,
        now: Timestamp,
    ) -> Result<Vec<i64>, StoreError> {
        if let Some(reason) = settlements.iter().find_map(|settlement| self.refusal(settlement)) {
            return Err(refused(reason));
        }
        let mut lost = Vec::new();
        for settlement in settlements {
            if !self.apply(settlement, done, now) {
                lost.push(settlement.lease.seq);
            }
        }
        if mutant!(AttemptsForWholeBatch) && settlements.iter().any(|settlement| settlement.outcome.spends())
        {
            for Settlement { lease, .. } in settlements {
                self.change(lease.seq, |row| row.attempts = row.attempts.max(lease.attempts + 1));
            }
        }
        Ok(lost)
    }

    /// Why a settlement is refused, if it is.
    fn refusal(&self, Settlement { event_id, lease, outcome, .. }: &Settlement) -> Option<&'static str> {
        if outcome.needs_owner() && lease.token.partition().is_none() {
            return Some("only the owner of a partition sets aside without an end, or parks a key");
        }
        let Outcome::Aside { until: None, reason } = outcome else { return None };
        let is_other = |row: &Row| row.event.id() != event_id;
        let has_key = self.row(lease.seq).is_none_or(|row| is_other(row) || row.event.key().is_some());
        let stands_apart = matches!(reason.as_str(), DELAYED | REPLAYED);
        (!has_key || stands_apart)
            .then_some("an event that does not wait for its key is set aside with an end")
    }

    fn apply(&mut self, settlement: &Settlement, done: DoneRows, now: Timestamp) -> bool {
        let Settlement { event_id, lease, outcome, .. } = settlement;
        let must_count = outcome.spends() && !outcome.is_done();
        let is_counted = must_count && self.row(lease.seq).is_some_and(|row| row.attempts != lease.attempts);
        let is_stale_dead = mutant!(StaleDeadAfterTakeOver)
            && matches!(outcome, Outcome::Dead { .. } | Outcome::Parked { .. })
            && self.row(lease.seq).is_some_and(|row| row.status.is_pending());
        let is_revised = self.row(lease.seq).is_some_and(|row| row.is_revised(settlement));
        if !self.holds(lease, event_id) && !is_stale_dead || is_counted || is_revised {
            return false;
        }
        if outcome.is_done() && done == DoneRows::Delete {
            self.remove(lease.seq);
        } else {
            self.change(lease.seq, |row| row.settle(settlement, now));
        }
        if matches!(outcome, Outcome::Parked { .. }) {
            self.park(lease.seq);
        }
        true
    }
}

impl Row {
    /// Whether an operator has changed what is stored of handlers since the owner of the partition read it. Who repeats an
    /// outcome finds its own earlier write.
    fn is_revised(&self, Settlement { lease, handlers, handlers_before, .. }: &Settlement) -> bool {
        let says_more = handlers.is_some() && lease.token.partition().is_some();
        says_more && self.handlers != *handlers_before && self.handlers != *handlers
    }

    fn settle(&mut self, Settlement { lease, outcome, handlers, .. }: &Settlement, now: Timestamp) {
        self.lock = None;
        if outcome.is_done() {
            self.handlers = None;
        } else if handlers.is_some() {
            self.handlers.clone_from(handlers);
        }
        if outcome.spends() && self.attempts == lease.attempts {
            self.attempts = lease.attempts + 1;
        }
        if !outcome.is_done() {
            self.starts = lease.starts;
        }
        match outcome {
            Outcome::Done => self.end(now),
            Outcome::FellBack { error } => {
                self.end(now);
                self.note_error(error);
            }
            Outcome::Retry { after, error, .. } => {
                self.status = Status::Retry;
                self.due_at = now.saturating_add(*after);
                self.available_at = if mutant!(RetryBeforeItsTime) { now } else { self.due_at };
                self.note_error(error);
                self.reason = None;
            }
            Outcome::Aside { until, reason } => {
                self.status = Status::Retry;
                self.available_at = until.map_or(NEVER, |until| now.saturating_add(until));
                self.reason = Some(reason.clone());
            }
            Outcome::Dead { error, .. } | Outcome::Parked { error, .. } => {
                self.status = Status::Dead;
                self.note_error(error);
                self.reason = None;
            }
            // Reading from a partition has changed nothing that could be given back.
            Outcome::Released if lease.token.partition().is_some() => {}
            Outcome::Released => self.available_at = self.due_at,
        }
    }

    fn end(&mut self, now: Timestamp) {
        self.status = Status::Done;
        self.done_at = Some(now);
        self.reason = None;
    }

    /// Keeps why a delivery failed; an empty reason leaves the one before.
    fn note_error(&mut self, error: &str) {
        if !error.is_empty() {
            self.last_error = Some(cut_error(error));
        }
    }
}
