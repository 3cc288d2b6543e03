//! Events for a handler of the user's own.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::dispatcher::Stored;
use crate::listener::Source;
use crate::runtime::Clock;
use crate::settler::SettlerHandle;
use crate::store::{Lease, Outcome, Settlement, Taken};
use crate::{Delivery, Event};

/// Gets what the poller takes, in place of the dispatcher.
///
/// # Contract
/// - [`capacity`](PollerHandler::capacity) is how many events can be handled now; 0 skips the cycle. Never
///   more than that are taken.
/// - [`handle`](PollerHandler::handle) answers `true` if it took the event over; then it settles it by the
///   [`Leased`] that it got. `false` ends the cycle, and what was taken goes back unspent.
/// - Both are called on the poller's task: they must be quick and must not block.
pub trait PollerHandler: Send + Sync + 'static {
    /// How many events can be handled now.
    fn capacity(&self) -> usize;

    /// Takes over one event, or refuses it.
    fn handle(&self, event: Leased) -> bool;
}

/// An event with the right to settle it.
///
/// If it is dropped unsettled, the lease ends after its time and the event comes again.
#[must_use = "an event that is not settled comes again when its lease ends"]
pub struct Leased {
    delivery: Delivery,
    /// In a box, for whoever is refused a `Leased` gets it back.
    held: Box<Held>,
    settler: SettlerHandle,
    settled: Arc<Notify>,
}

/// The right to an event, and what the table knows of it.
struct Held {
    lease: Lease,
    deadline: Duration,
    stored: Option<Box<Stored>>,
}

impl Leased {
    pub(super) fn new(
        taken: &Taken,
        event: &Event,
        deadline: Duration,
        clock: &dyn Clock,
        (settler, settled): (SettlerHandle, Arc<Notify>),
    ) -> Self {
        let attempt = taken.lease.attempts.saturating_add(1);
        let delivery = Delivery::new(event.clone(), attempt, taken.created_at, Source::Cold);
        let held = Held { lease: taken.lease, deadline, stored: Stored::of(taken, clock) };
        Self { delivery, held: Box::new(held), settler, settled }
    }

    /// The lease, and when it ends at the earliest by the local clock.
    pub(crate) fn lease(&self) -> (Lease, Duration) {
        (self.held.lease, self.held.deadline)
    }

    pub(crate) fn stored(&self) -> Option<Box<Stored>> {
        self.held.stored.clone()
    }

    /// It was delivered.
    pub async fn done(self) {
        self.settle(Outcome::Done).await;
    }

    /// It failed: try again after `delay`, with an attempt spent.
    pub async fn retry(self, delay: Duration, error: impl Into<String>) {
        self.settle(Outcome::Retry { after: delay, error: error.into(), spent: true }).await;
    }

    /// It failed for good.
    pub async fn dead(self, error: impl Into<String>) {
        self.settle(Outcome::Dead { error: error.into(), spent: true }).await;
    }

    /// It was not tried; give it back.
    pub async fn release(self) {
        self.settle(Outcome::Released).await;
    }

    async fn settle(self, outcome: Outcome) {
        self.settler.settle(Settlement::new(self.delivery.id(), self.held.lease, outcome)).await;
        self.settled.notify_one();
    }
}

impl Deref for Leased {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.delivery
    }
}

impl std::fmt::Debug for Leased {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leased").field("delivery", &self.delivery).finish_non_exhaustive()
    }
}
