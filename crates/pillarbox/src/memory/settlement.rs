//! Recording what became of taken events.

use super::refused;
use super::row::Row;
use super::table::Table;
use crate::Timestamp;
use crate::mutant::mutant;
use crate::store::{DoneRows, Lease, Outcome, Settlement, Status, StoreError, cut_error};

impl Table {
    pub(super) fn settle(
        &mut self,
        settlements: &[Settlement],
        done: DoneRows,
        now: Timestamp,
    ) -> Result<Vec<i64>, StoreError> {
        let is_endless = |outcome: &Outcome| matches!(outcome, Outcome::Aside { until: None, .. });
        if settlements.iter().any(|settlement| is_endless(&settlement.outcome)) {
            return Err(refused("an event that is set aside needs an end, as claims have no owner"));
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

    fn apply(&mut self, settlement: &Settlement, done: DoneRows, now: Timestamp) -> bool {
        let Settlement { lease, outcome } = settlement;
        let is_counted =
            outcome.spends() && self.row(lease.seq).is_some_and(|row| row.attempts != lease.attempts);
        if !self.holds(lease) || is_counted {
            return false;
        }
        if *outcome == Outcome::Done && done == DoneRows::Delete {
            self.remove(lease.seq);
        } else {
            self.change(lease.seq, |row| row.settle(lease, outcome, now));
        }
        true
    }
}

impl Row {
    fn settle(&mut self, lease: &Lease, outcome: &Outcome, now: Timestamp) {
        self.lock = None;
        if outcome.spends() {
            self.attempts = lease.attempts + 1;
        }
        if *outcome != Outcome::Done {
            self.starts = lease.starts;
        }
        match outcome {
            Outcome::Done => {
                self.status = Status::Done;
                self.done_at = Some(now);
                self.reason = None;
            }
            Outcome::Retry { after, error, .. } => {
                self.status = Status::Retry;
                self.due_at = now.saturating_add(*after);
                self.available_at = if mutant!(RetryBeforeItsTime) { now } else { self.due_at };
                self.last_error = Some(cut_error(error));
                self.reason = None;
            }
            Outcome::Aside { until, reason } => {
                self.status = Status::Retry;
                self.available_at = now.saturating_add(until.unwrap_or_default());
                self.reason = Some(reason.clone());
            }
            Outcome::Dead { error, .. } => {
                self.status = Status::Dead;
                self.last_error = Some(cut_error(error));
                self.reason = None;
            }
            Outcome::Released => self.available_at = self.due_at,
        }
    }
}
