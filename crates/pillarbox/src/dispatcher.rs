//! From the queues to the listeners: workers, and what they share.

mod in_flight;
mod panic;
mod pass;
mod queues;
mod run;
mod worker;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use in_flight::InFlight;
pub(crate) use panic::{CatchPanic, caught, quietly, shown};
pub(crate) use queues::{Item, Queues, Stored};
pub(crate) use worker::Fault;

use tokio::sync::RwLock;

use crate::config::Config;
use crate::destination::{Admission, Destinations};
use crate::handler::Remembered;
use crate::interceptor::SharedInterceptor;
use crate::listener::Source;
use crate::metrics::{Meter, add};
use crate::mutant::mutant;
use crate::partitions::Tenure;
use crate::registry::{Registry, Target};
use crate::retry::RetryPolicy;
use crate::runtime::Runtime;
use crate::settler::SettlerHandle;
use crate::shutdown::Shutdown;
use crate::store::{EventStore, Lease, Outcome, Settlement, Taken};
use crate::trace::Traces;
use crate::{Delivery, Event, ListenerError, Timestamp};

/// What the workers share: queues in front of them, routes, policies, and the settler behind them.
pub(crate) struct Dispatcher {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) runtime: Runtime,
    pub(crate) config: Config,
    pub(crate) registry: Arc<dyn Registry>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) interceptors: Vec<SharedInterceptor>,
    pub(crate) traces: Traces,
    pub(crate) queues: Queues,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) remembered: Arc<Remembered>,
    pub(crate) settler: SettlerHandle,
    pub(crate) meter: Arc<Meter>,
    pub(crate) shutdown: Arc<Shutdown>,
    /// For how long what is read from owned partitions may be delivered.
    pub(crate) tenure: Option<Arc<Tenure>>,
    /// When each worker began the delivery that it is busy with, by the local clock.
    pub(crate) busy_since: Vec<Mutex<Option<Duration>>>,
    /// All destinations, if there are no other receivers.
    pub(crate) destinations: Destinations,
    /// Deliveries share it; a suspect has it alone.
    pub(crate) floor: RwLock<()>,
    /// Suspects that are queued or running.
    pub(crate) suspects: AtomicUsize,
}

impl Dispatcher {
    /// Starts the workers; each holds `alive` while it runs.
    pub(crate) fn start(self: &Arc<Self>, alive: &tokio::sync::mpsc::Sender<()>) {
        for number in 0..self.config.workers {
            let (dispatcher, alive) = (self.clone(), alive.clone());
            let worker = async move {
                dispatcher.work(number).await;
                drop(alive);
            };
            self.runtime.spawner.spawn("worker", Box::pin(worker));
        }
    }

    /// An item for the queues, routed.
    pub(crate) fn item(
        &self,
        event: Event,
        lease: Lease,
        created_at: Timestamp,
        source: Source,
        deadline: Duration,
        stored: Option<Box<Stored>>,
    ) -> Item {
        let target = self.route(&event);
        let delivery = Delivery::new(event, lease.attempts.saturating_add(1), created_at, source);
        Item { delivery, lease, deadline, target, runs_alone: lease.starts >= 2, stored }
    }

    /// The receiver of an event. If the registry panics, the attempt fails as if a listener had.
    fn route(&self, event: &Event) -> Option<Target> {
        caught(|| self.registry.route(event)).unwrap_or_else(|panic| {
            let text = format!("the registry panicked: {panic}");
            let failing = move |_| std::future::ready(Err(ListenerError::new(text.clone())));
            Some(Target::listener(failing))
        })
    }

    /// Queues an event from the table; false when the cold queue is full or closed.
    pub(crate) fn enqueue_cold(
        &self,
        event: &Event,
        lease: Lease,
        created_at: Timestamp,
        deadline: Duration,
        stored: Option<Box<Stored>>,
    ) -> bool {
        if !self.in_flight.admit(lease, stored.as_deref(), self.runtime.clock.now()) {
            return true;
        }
        let item = self.item(event.clone(), lease, created_at, Source::Cold, deadline, stored);
        let suspect = item.runs_alone;
        let queued = self.queues.push_cold(item).is_ok();
        if queued {
            self.suspects.fetch_add(usize::from(suspect), Ordering::Relaxed);
            add(&self.meter.cold_enqueued, 1);
            self.meter.exporter().increment_cold_enqueued();
        } else {
            self.in_flight.leave(lease.seq);
        }
        queued
    }

    /// Queues an event from an owned partition; false when the cold queue is full or closed.
    pub(crate) fn enqueue_owned(&self, event: &Event, taken: &Taken, runs_alone: bool) -> bool {
        // It may be delivered for as long as its partition is held, which is looked at when it is its turn.
        let stored = Stored::of(taken, &*self.runtime.clock);
        let item =
            self.item(event.clone(), taken.lease, taken.created_at, Source::Cold, Duration::MAX, stored);
        let queued = self.queues.push_cold(Item { runs_alone, ..item }).is_ok();
        if queued {
            self.suspects.fetch_add(usize::from(runs_alone), Ordering::Relaxed);
            add(&self.meter.cold_enqueued, 1);
            self.meter.exporter().increment_cold_enqueued();
        }
        queued
    }

    /// Whether a delivery has not ended though its time, and a margin, is over.
    pub(crate) fn hangs(&self) -> bool {
        let is_in_the_way = mutant!(HeartbeatOnTheDeliveryTask);
        let longest = if is_in_the_way { Duration::ZERO } else { self.config.needed_lease() };
        let now = self.runtime.clock.now();
        self.busy_since.iter().any(|since| {
            let since = since.lock().unwrap_or_else(PoisonError::into_inner);
            since.is_some_and(|since| now.saturating_sub(since) > longest)
        })
    }

    /// Completes when what was read from owned partitions must not be delivered any more; never for other events.
    pub(crate) async fn tenure_ended(&self, lease: Lease) {
        match self.tenure.as_ref().filter(|_| lease.token.partition().is_some()) {
            Some(tenure) => tenure.ended().await,
            None => std::future::pending().await,
        }
    }

    /// How many events are worth taking beside those that wait here, and how long until any is.
    pub(crate) fn admitted(&self) -> Admission {
        let admitted = self.destinations.room(self.runtime.clock.now());
        if admitted == Admission::ALL {
            return admitted;
        }
        let (hot, cold) = self.queues.depths();
        Admission { events: admitted.events.saturating_sub(hot + cold), ..admitted }
    }

    /// Whether a suspect may be taken: no other is here, and nothing waits that would die with it.
    pub(crate) fn has_room_for_suspect(&self) -> bool {
        self.suspects.load(Ordering::Relaxed) == 0 && self.queues.depths().1 == 0
    }

    /// Closes the queues and gives back, unspent, what was not begun.
    pub(crate) async fn release_queued(&self) {
        for item in self.queues.close() {
            if mutant!(ReleaseForgotten) {
                continue;
            }
            self.settle(&item, Outcome::Released).await;
        }
    }

    pub(crate) async fn settle(&self, item: &Item, outcome: Outcome) {
        self.settler.settle(Settlement::new(item.delivery.id(), item.lease, outcome)).await;
    }
}
