//! Telling other processes that there is something to take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::PartitionSet;
use crate::dispatcher::CatchPanic;
use crate::runtime::Runtime;
use crate::store::WakeUp;

/// Pause after an announcement: at the rate at which one client commits, one for each would cost every transaction as
/// much as a twentieth of its time (docs/decisions/0007-postgresql.md).
const PAUSE: Duration = Duration::from_millis(1);

/// Announces commits, as rarely as it can: the first at once, and all that happen until it has been made and a pause
/// has passed by exactly one more, with the partitions of all. It works on when the outbox is closed, for writing does
/// too.
pub(crate) struct Announcer {
    runtime: Runtime,
    others: Arc<dyn WakeUp>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_speaking: bool,
    /// Where something was committed that is still to be told.
    untold: PartitionSet,
}

impl Announcer {
    pub(crate) fn new(runtime: Runtime, others: Arc<dyn WakeUp>) -> Self {
        Self { runtime, others, state: Mutex::default() }
    }

    /// Tells others soon that events of these partitions were committed which they may take. Never waits.
    pub(crate) fn announce(self: &Arc<Self>, partitions: PartitionSet) {
        let mut state = self.lock();
        state.untold |= partitions;
        if !state.is_speaking && !state.untold.is_empty() {
            state.is_speaking = true;
            self.runtime.spawner.spawn("announce", Box::pin(self.clone().speak()));
        }
    }

    /// Tells others, and waits for it.
    pub(crate) async fn tell(&self, partitions: PartitionSet) {
        if let Err(panic) = CatchPanic(self.others.announce(partitions)).await {
            tracing::error!(panic, "the store panicked over an announcement");
        }
    }

    async fn speak(self: Arc<Self>) {
        while let Some(partitions) = self.next() {
            self.tell(partitions).await;
            self.runtime.clock.sleep(PAUSE).await;
        }
    }

    /// What is to be told; if there is nothing, the next commit begins to speak again.
    fn next(&self) -> Option<PartitionSet> {
        let mut state = self.lock();
        let untold = std::mem::take(&mut state.untold);
        state.is_speaking = !untold.is_empty();
        state.is_speaking.then_some(untold)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
