//! One row of the memory store.

use std::time::Duration;

use crate::mutant::mutant;
use crate::store::{Birth, DELAYED, Owner, REPLAYED, Status, StoredEvent, Taken, Token};
use crate::{Event, Schedule, Timestamp};

/// When a row is available that waits for nothing but its key.
pub(super) const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// One row, as the table of a database has it.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) partition: u8,
    pub(super) event: Event,
    /// Why the row cannot be decoded, if a test made it so.
    pub(super) unreadable: Option<String>,
    pub(super) status: Status,
    pub(super) attempts: u32,
    pub(super) starts: u32,
    pub(super) created_at: Timestamp,
    pub(super) due_at: Timestamp,
    pub(super) available_at: Timestamp,
    pub(super) done_at: Option<Timestamp>,
    pub(super) lock: Option<Lock>,
    pub(super) last_error: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) handlers: Option<String>,
}

/// Who holds a row, and the mark of the take.
#[derive(Clone)]
pub(super) struct Lock {
    pub(super) owner: Owner,
    pub(super) token: Token,
}

impl Row {
    /// The row that an INSERT at `now` makes.
    pub(super) fn insert(seq: i64, event: &Event, birth: Option<&Birth>, now: Timestamp) -> Self {
        let due_at = match event.schedule() {
            Schedule::Now => now,
            Schedule::After(delay) => now.saturating_add(delay),
            Schedule::At(at) => at,
        };
        let delayed = event.schedule() != Schedule::Now;
        let birth = birth.filter(|_| !delayed);
        Self {
            seq,
            partition: event.partition(),
            // A schedule is an order to the store and does not come back from a table.
            event: if delayed { Event::restore(event.parts().clone()) } else { event.clone() },
            unreadable: None,
            status: Status::New,
            attempts: 0,
            starts: u32::from(birth.is_some()),
            created_at: now,
            due_at,
            available_at: birth.map_or(due_at, |birth| now.saturating_add(birth.lease_for)),
            done_at: None,
            lock: birth
                .map(|birth| Lock { owner: birth.owner.clone(), token: birth.token.of_event(event.id()) }),
            last_error: None,
            reason: None,
            handlers: None,
        }
    }

    /// Whether the row is pending under `token`.
    pub(super) fn is_held_under(&self, token: Token) -> bool {
        self.status.is_pending() && self.lock.as_ref().is_some_and(|lock| lock.token == token)
    }

    /// The key that the row holds or waits for while it is set aside.
    pub(super) fn ordered_key(&self) -> Option<&str> {
        let stands_apart = matches!(self.reason.as_deref(), Some(DELAYED | REPLAYED));
        self.event.key().filter(|_| !stands_apart)
    }

    /// How long the row has to wait for a time of its own.
    pub(super) fn ready_in(&self, now: Timestamp) -> Duration {
        let ready_at = match self.status {
            Status::Retry if self.available_at == NEVER => now,
            Status::Retry => self.available_at,
            // The clock may have gone back since.
            Status::New if self.due_at <= self.created_at && !mutant!(DelayByTheClock) => now,
            // A lease that is left from the other mode means nothing.
            Status::New | Status::Done | Status::Dead => self.due_at,
        };
        ready_at.saturating_since(now)
    }

    /// The row as it is handed out, with the lease's values.
    pub(super) fn taken(&self, lease: crate::store::Lease, now: Timestamp) -> Taken {
        Taken {
            lease,
            event_id: self.event.id().to_owned(),
            created_at: self.created_at,
            due_for: now.saturating_since(self.due_at),
            handlers: self.handlers.clone(),
            event: self.decoded(),
        }
    }

    /// The row as an operator sees it.
    pub(super) fn stored(&self) -> StoredEvent {
        StoredEvent {
            seq: self.seq,
            event_id: self.event.id().to_owned(),
            status: Ok(self.status),
            attempts: self.attempts,
            starts: self.starts,
            created_at: self.created_at,
            due_at: self.due_at,
            available_at: self.available_at,
            done_at: self.done_at,
            locked_by: self.lock.as_ref().map(|lock| lock.owner.to_string()),
            last_error: self.last_error.clone(),
            reason: self.reason.clone(),
            handlers: self.handlers.clone(),
            event: self.decoded(),
        }
    }

    fn decoded(&self) -> Result<Event, String> {
        self.unreadable.clone().map_or_else(|| Ok(self.event.clone()), Err)
    }
}
