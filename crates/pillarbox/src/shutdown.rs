//! The two steps of stopping: first nothing new is begun, then what still runs is cut off.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const DRAINING: u8 = 1;
const OVER: u8 = 2;

/// Why an outbox has stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Another instance was started under its name.
    #[error("another instance was started under this name; give every instance its own")]
    Superseded,
    /// It may not take part, for this reason; instances that take work in another mode are alive, for example.
    #[error("{0}")]
    Refused(String),
}

/// Tells all tasks of an outbox when to stop.
///
/// Not a `watch` channel: that wakes those who wait in a random order, and a simulation must repeat.
#[derive(Default)]
pub(crate) struct Shutdown {
    phase: AtomicU8,
    raised: Notify,
    reason: OnceLock<Stopped>,
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// From now on nothing new is begun.
    pub(crate) fn drain(&self) {
        self.raise(DRAINING);
    }

    /// Nothing new is begun, for a reason that is the instance's own.
    pub(crate) fn stop(&self, reason: Stopped) {
        // The first reason counts.
        let _ = self.reason.set(reason);
        self.drain();
    }

    /// Why the instance stopped by itself, if it did.
    pub(crate) fn reason(&self) -> Option<&Stopped> {
        self.reason.get()
    }

    /// What still runs is cut off.
    pub(crate) fn cut(&self) {
        self.raise(OVER);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.has_reached(DRAINING)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.has_reached(OVER)
    }

    /// Completes when nothing new is to be begun.
    pub(crate) async fn draining(&self) {
        self.reached(DRAINING).await;
    }

    /// Completes when what still runs is to be cut off.
    pub(crate) async fn over(&self) {
        self.reached(OVER).await;
    }

    async fn reached(&self, phase: u8) {
        loop {
            let mut raised = std::pin::pin!(self.raised.notified());
            // Before the look at the phase, so that no change falls between the two.
            raised.as_mut().enable();
            if self.has_reached(phase) {
                return;
            }
            raised.await;
        }
    }

    fn has_reached(&self, phase: u8) -> bool {
        self.phase.load(Ordering::Acquire) >= phase
    }

    fn raise(&self, phase: u8) {
        if self.phase.fetch_max(phase, Ordering::AcqRel) < phase {
            self.raised.notify_waiters();
        }
    }
}
