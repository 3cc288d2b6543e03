//! The tasks of an outbox, from start to close.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::announcer::Announcer;
use crate::config::Config;
use crate::dispatcher::{CatchPanic, Dispatcher};
use crate::hot::{Born, HotPath};
use crate::metrics::{Counts, Meter};
use crate::partitions::{Mailbox, Message, Tenure};
use crate::poller::{Leased, Poller};
use crate::runtime::Runtime;
use crate::settler::SettlerHandle;
use crate::shutdown::Shutdown;
use crate::store::{Birth, Owner, StoreError};
use crate::{Event, PartitionSet};

/// Everything that runs behind an outbox; which parts there are depends on its topology.
pub(crate) struct Engine {
    pub(super) runtime: Runtime,
    pub(super) config: Config,
    pub(super) owner: Owner,
    pub(super) meter: Arc<Meter>,
    pub(super) shutdown: Arc<Shutdown>,
    pub(super) announcer: Arc<Announcer>,
    pub(crate) settler: Option<SettlerHandle>,
    pub(crate) dispatcher: Option<Arc<Dispatcher>>,
    pub(super) hot: Option<Arc<HotPath>>,
    pub(super) poller: Option<Arc<Poller>>,
    /// Present in place of the poller if partitions are owned.
    pub(super) reader: Option<Mailbox>,
    pub(super) tenure: Option<Arc<Tenure>>,
    /// Present while the instance is a member.
    pub(super) member: Mutex<Option<Member>>,
    /// Closed when all tasks that hold the other end have ended.
    pub(super) tasks: Mutex<mpsc::Receiver<()>>,
}

impl Engine {
    /// The lease that rows are born with, while there is a hot queue behind them.
    pub(super) fn birth(&self) -> Option<Birth> {
        let hot = self.hot.as_ref().filter(|hot| hot.is_open())?;
        Some(Birth { owner: self.owner.clone(), token: hot.token(), lease_for: self.config.birth_lease() })
    }

    /// Events without a key, in partitions that are read here: then the commit wakes nobody else.
    pub(super) fn placed(&self, mut events: Vec<Event>) -> Vec<Event> {
        if let Some(tenure) = &self.tenure {
            for event in events.iter_mut().filter(|event| event.key().is_none()) {
                if let Some(partition) = tenure.next_partition() {
                    event.place_in(partition);
                }
            }
        }
        events
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
            dispatcher.enqueue_cold(leased.event(), lease, leased.created_at(), deadline, leased.stored())
        })
    }

    pub(super) fn has_cold_capacity(&self) -> bool {
        self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.queues.cold_room() > 0)
    }

    pub(super) fn counts(&self) -> Counts {
        self.meter.counts()
    }

    pub(super) async fn poll(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        if let Some(reader) = &self.reader {
            reader.tell(Message::Poll(reply));
        } else if let Some(poller) = self.poller.clone() {
            // In a task of its own: a caller who holds the future without polling it must hold nobody up.
            let cycle = async move {
                let polled = CatchPanic(Box::pin(poller.poll())).await;
                let _ = reply.send(polled.unwrap_or_else(|panic| Err(StoreError::unavailable(panic))));
            };
            self.runtime.spawner.spawn("poll", Box::pin(cycle));
        } else {
            return Ok(());
        }
        // Whoever stops has nothing more to look for.
        answer.await.unwrap_or(Ok(()))
    }

    /// Stops in order: intake, queues, what runs, outcomes.
    pub(super) async fn close(&self) {
        self.shutdown.drain();
        let end = self.runtime.clock.now() + self.config.shutdown_timeout();
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
            if let Some(member) = self.member.lock().await.take() {
                member.leave().await;
            }
            // Who waits for the next poll would leave these events lying until then.
            if self.counts().released > released {
                self.announcer.tell(PartitionSet::ALL).await;
            }
        };
        // Outcomes that cannot be recorded now are abandoned by the settler; this is only the last resort.
        let left = end.saturating_sub(self.runtime.clock.now());
        if self.runtime.timeout(left, last_words).await.is_none() {
            tracing::error!("closing took too long; leases that are left will end by themselves");
        }
    }

    async fn all_ended(&self) {
        // Nothing is ever sent: the channel ends when the last task does.
        self.tasks.lock().await.recv().await;
    }
}

/// The task that keeps this instance a member, as the engine sees it.
pub(super) struct Member {
    /// Lets it end; dropped, too.
    pub(super) finish: oneshot::Sender<()>,
    /// Completes when it has ended.
    pub(super) ended: oneshot::Receiver<()>,
}

impl Member {
    async fn leave(self) {
        let _ = self.finish.send(());
        let _ = self.ended.await;
    }
}

/// Stops by itself once this instance has no right to go on.
pub(super) async fn stop_when_told(dispatcher: Arc<Dispatcher>, announcer: Arc<Announcer>) {
    dispatcher.shutdown.draining().await;
    if dispatcher.shutdown.reason().is_some() {
        dispatcher.release_queued().await;
        dispatcher.settler.flush().await;
        announcer.announce(PartitionSet::ALL);
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
        // Who owns partitions gives them back first, and leaves then; who claims rows stays until nothing runs any more.
        let member = self.member.get_mut().take().filter(|_| self.tenure.is_none());
        if let Some(dispatcher) = self.dispatcher.take().filter(|_| !self.shutdown.is_over()) {
            let drained = async move {
                drain(dispatcher).await;
                drop(member);
            };
            self.runtime.spawner.spawn("drain", Box::pin(drained));
        }
    }
}
