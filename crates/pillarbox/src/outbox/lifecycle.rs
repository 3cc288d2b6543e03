//! The tasks of an outbox, from start to close.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};

use crate::Event;
use crate::announcer::Announcer;
use crate::config::Config;
use crate::dispatcher::Dispatcher;
use crate::hot::{Born, HotPath};
use crate::metrics::{Counts, Meter};
use crate::poller::{Leased, Poller};
use crate::runtime::Runtime;
use crate::settler::SettlerHandle;
use crate::shutdown::Shutdown;
use crate::store::{Birth, Owner, StoreError};

/// Everything that runs behind an outbox; which parts there are depends on its topology.
pub(super) struct Engine {
    pub(super) runtime: Runtime,
    pub(super) config: Config,
    pub(super) owner: Owner,
    pub(super) meter: Arc<Meter>,
    pub(super) shutdown: Arc<Shutdown>,
    pub(super) announcer: Arc<Announcer>,
    pub(super) settler: Option<SettlerHandle>,
    pub(super) dispatcher: Option<Arc<Dispatcher>>,
    pub(super) hot: Option<Arc<HotPath>>,
    pub(super) poller: Option<Arc<Poller>>,
    /// Closed when all tasks that hold the other end have ended.
    pub(super) tasks: Mutex<mpsc::Receiver<()>>,
}

impl Engine {
    /// The lease that rows are born with, while there is a hot queue behind them.
    pub(super) fn birth(&self) -> Option<Birth> {
        let hot = self.hot.as_ref().filter(|hot| hot.is_open())?;
        Some(Birth { owner: self.owner.clone(), token: hot.token(), lease_for: self.config.birth_lease() })
    }

    /// When a lease given at birth now ends at the earliest, by the local clock.
    pub(super) fn birth_deadline(&self) -> Duration {
        self.runtime.clock.now() + self.config.birth_lease()
    }

    pub(super) fn enqueue_hot(&self, event: Event) -> bool {
        // How much of its lease is left is not known, so it is renewed before it is delivered.
        let deadline = self.runtime.clock.now();
        self.hot.as_ref().is_some_and(|hot| hot.offer(Born { event, deadline }))
    }

    pub(super) fn enqueue_cold(&self, leased: &Leased) -> bool {
        let (lease, deadline) = leased.lease();
        self.dispatcher.as_ref().is_some_and(|dispatcher| {
            dispatcher.enqueue_cold(leased.event(), lease, leased.created_at(), deadline)
        })
    }

    pub(super) fn has_cold_capacity(&self) -> bool {
        self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.queues.cold_room() > 0)
    }

    pub(super) fn counts(&self) -> Counts {
        self.meter.counts()
    }

    pub(super) async fn poll(&self) -> Result<(), StoreError> {
        let Some(poller) = self.poller.clone() else { return Ok(()) };
        let polled = self.runtime.to_its_end("poll", async move { poller.poll().await }).await;
        polled.unwrap_or(Ok(()))
    }

    /// Stops in order: intake, queues, what runs, outcomes.
    pub(super) async fn close(&self) {
        self.shutdown.drain();
        let released = self.counts().released;
        let drained = async {
            if let Some(dispatcher) = &self.dispatcher {
                dispatcher.release_queued().await;
            }
            self.all_ended().await;
        };
        let limit = self.config.drain_timeout;
        if self.runtime.timeout(limit, drained).await.is_none() {
            tracing::warn!(
                ?limit,
                "the drain timeout passed; what still runs is cut off and will come again"
            );
        }
        self.shutdown.cut();
        let last_words = async {
            self.all_ended().await;
            if let Some(settler) = &self.settler {
                settler.flush().await;
            }
            // Who waits for the next poll would leave these events lying until then.
            if self.counts().released > released {
                self.announcer.tell().await;
            }
        };
        // Outcomes that cannot be recorded now are abandoned by the settler; this is only the last resort.
        if self.runtime.timeout(limit.max(self.config.margin), last_words).await.is_none() {
            tracing::error!("closing took too long; leases that are left will end by themselves");
        }
    }

    async fn all_ended(&self) {
        // Nothing is ever sent: the channel ends when the last task does.
        self.tasks.lock().await.recv().await;
    }
}

/// Stops by itself once another instance bears this one's name.
pub(super) async fn stop_when_superseded(dispatcher: Arc<Dispatcher>, announcer: Arc<Announcer>) {
    dispatcher.shutdown.draining().await;
    if dispatcher.shutdown.is_superseded() {
        dispatcher.release_queued().await;
        dispatcher.settler.flush().await;
        announcer.announce();
        drain(dispatcher).await;
    }
}

/// Gives back what was not begun, and cuts off what takes longer than the drain timeout.
async fn drain(dispatcher: Arc<Dispatcher>) {
    dispatcher.release_queued().await;
    dispatcher.runtime.clock.sleep(dispatcher.config.drain_timeout).await;
    dispatcher.shutdown.cut();
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown.drain();
        if let Some(dispatcher) = self.dispatcher.take().filter(|_| !self.shutdown.is_over()) {
            self.runtime.spawner.spawn("drain", Box::pin(drain(dispatcher)));
        }
    }
}
