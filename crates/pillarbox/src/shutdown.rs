//! The two steps of stopping: first nothing new is begun, then what still runs is cut off.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use tokio::sync::Notify;

const DRAINING: u8 = 1;
const OVER: u8 = 2;

/// Tells all tasks of an outbox when to stop.
///
/// Not a `watch` channel: that wakes those who wait in a random order, and a simulation must repeat.
#[derive(Default)]
pub(crate) struct Shutdown {
    phase: AtomicU8,
    raised: Notify,
    is_superseded: AtomicBool,
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// From now on nothing new is begun.
    pub(crate) fn drain(&self) {
        self.raise(DRAINING);
    }

    /// Nothing new is begun, because another instance bears this one's name.
    pub(crate) fn supersede(&self) {
        self.is_superseded.store(true, Ordering::Release);
        self.drain();
    }

    pub(crate) fn is_superseded(&self) -> bool {
        self.is_superseded.load(Ordering::Acquire)
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
