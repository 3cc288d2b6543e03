//! Telling other processes that there is something to take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::dispatcher::CatchPanic;
use crate::runtime::Runtime;
use crate::store::WakeUp;

/// Pause after an announcement: at the rate at which one client commits, one for each would cost every transaction as
/// much as a twentieth of its time (docs/decisions/0007-postgresql.md).
const PAUSE: Duration = Duration::from_millis(1);

/// Announces commits, as rarely as it can: the first at once, and all that happen until it has been made and a pause
/// has passed by exactly one more. It works on when the outbox is closed, for writing does too.
pub(crate) struct Announcer {
    runtime: Runtime,
    others: Arc<dyn WakeUp>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Quiet,
    /// An announcement is under way.
    Speaking,
    /// And something was committed since it began.
    AgainAfter,
}

impl Announcer {
    pub(crate) fn new(runtime: Runtime, others: Arc<dyn WakeUp>) -> Self {
        Self { runtime, others, state: Mutex::new(State::Quiet) }
    }

    /// Tells others soon that events were committed which they may take. Never waits.
    pub(crate) fn announce(self: &Arc<Self>) {
        let mut state = self.lock();
        if *state == State::Quiet {
            *state = State::Speaking;
            self.runtime.spawner.spawn("announce", Box::pin(self.clone().speak()));
        } else {
            *state = State::AgainAfter;
        }
    }

    /// Tells others, and waits for it.
    pub(crate) async fn tell(&self) {
        if let Err(panic) = CatchPanic(self.others.announce()).await {
            tracing::error!(panic, "the store panicked over an announcement");
        }
    }

    async fn speak(self: Arc<Self>) {
        loop {
            self.tell().await;
            self.runtime.clock.sleep(PAUSE).await;
            let mut state = self.lock();
            if *state == State::Speaking {
                *state = State::Quiet;
                return;
            }
            *state = State::Speaking;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
