//! The two steps of stopping: first nothing new is begun, then what still runs is cut off.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Draining,
    Over,
}

/// Tells all tasks of an outbox when to stop.
pub(crate) struct Shutdown(watch::Sender<Phase>);

impl Shutdown {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Phase::Running))
    }

    /// From now on nothing new is begun.
    pub(crate) fn drain(&self) {
        self.raise(Phase::Draining);
    }

    /// What still runs is cut off.
    pub(crate) fn cut(&self) {
        self.raise(Phase::Over);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    pub(crate) fn is_over(&self) -> bool {
        *self.0.borrow() >= Phase::Over
    }

    /// Completes when nothing new is to be begun.
    pub(crate) async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Completes when what still runs is to be cut off.
    pub(crate) async fn over(&self) {
        self.reached(Phase::Over).await;
    }

    async fn reached(&self, phase: Phase) {
        // Cannot fail: the sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|now| *now >= phase).await;
    }

    fn raise(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let higher = *now < phase;
            if higher {
                *now = phase;
            }
            higher
        });
    }
}
