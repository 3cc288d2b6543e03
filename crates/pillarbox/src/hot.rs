//! The hot path: from a commit to the workers, without waiting for a poll.
//!
//! An `Ok` from COMMIT proves nothing, so nothing goes out from memory before its row was read back: one
//! statement for all events that wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::announcer::Announcer;
use crate::dispatcher::Dispatcher;
use crate::listener::Source;
use crate::metrics::add;
use crate::poller::Wake;
use crate::store::{Found, Lease, Outcome, Settlement, Token};
use crate::{Event, PartitionSet};

/// The most ids in one read.
const MAX_READ: usize = 500;
/// The most events that wait to be given back; beyond that their leases simply end.
const MAX_OVERFLOW: usize = 10_000;
/// Pause after a read that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// An event that was written with a lease for this instance.
#[derive(Clone)]
pub(crate) struct Born {
    pub(crate) event: Event,
    /// When its lease ends at the earliest, by the local clock.
    pub(crate) deadline: Duration,
}

/// Committed events on their way to the hot queue.
pub(crate) struct HotPath {
    dispatcher: Arc<Dispatcher>,
    token: Token,
    wake: Arc<Wake>,
    announcer: Arc<Announcer>,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    /// With a place in the hot queue.
    promised: Vec<Born>,
    /// Without one: to be given back.
    overflow: Vec<Born>,
    closed: bool,
}

impl HotPath {
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        token: Token,
        wake: Arc<Wake>,
        announcer: Arc<Announcer>,
    ) -> Self {
        Self { dispatcher, token, wake, announcer, waiting: Mutex::default(), arrived: Notify::new() }
    }

    /// What the marks on rows that are claimed at birth are made of.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Whether events may be claimed at birth.
    pub(crate) fn is_open(&self) -> bool {
        !self.lock().closed
    }

    /// Takes in what a commit has made visible. Never waits, never fails: what finds no place is given back
    /// for the poller, and if not even that is possible, its lease ends.
    pub(crate) fn committed(self: &Arc<Self>, born: Vec<Born>) {
        let meter = &self.dispatcher.meter;
        let mut dropped = 0;
        let mut waiting = self.lock();
        for event in born {
            if let Err(event) = self.accept(&mut waiting, event) {
                dropped += 1;
                add(&meter.hot_dropped, 1);
                meter.exporter().increment_hot_dropped();
                if waiting.overflow.len() < MAX_OVERFLOW {
                    waiting.overflow.push(event);
                }
            }
        }
        let closed = waiting.closed;
        drop(waiting);
        if dropped > 0 {
            tracing::warn!(events = dropped, "the hot queue is full or closed; the poller will deliver them");
        }
        if closed {
            let hot = self.clone();
            let last_step = async move { hot.confirm_waiting().await };
            self.dispatcher.runtime.spawner.spawn("release", Box::pin(last_step));
        } else {
            self.arrived.notify_one();
        }
    }

    /// Takes in one event if there is a place for it.
    pub(crate) fn offer(&self, born: Born) -> bool {
        let accepted = self.accept(&mut self.lock(), born).is_ok();
        if accepted {
            self.arrived.notify_one();
        }
        accepted
    }

    /// Gives an event a place in the hot queue; gives it back when there is none.
    fn accept(&self, waiting: &mut Waiting, born: Born) -> Result<(), Born> {
        if waiting.closed || !self.dispatcher.queues.promise_hot() {
            return Err(born);
        }
        add(&self.dispatcher.meter.hot_enqueued, 1);
        self.dispatcher.meter.exporter().increment_hot_enqueued();
        waiting.promised.push(born);
        Ok(())
    }

    /// Reads back what arrives, until the shutdown begins.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            tokio::select! {
                biased;
                () = self.dispatcher.shutdown.draining() => break,
                () = self.arrived.notified() => {}
            }
            self.confirm_waiting().await;
        }
        self.lock().closed = true;
        self.confirm_waiting().await;
    }

    /// One read for all that wait, and again while more has come.
    async fn confirm_waiting(&self) {
        loop {
            let (promised, overflow) = self.next_waiting();
            if promised.is_empty() && overflow.is_empty() {
                return;
            }
            let ids: Vec<String> =
                promised.iter().chain(&overflow).map(|born| born.event.id().to_owned()).collect();
            add(&self.dispatcher.meter.read_backs, 1);
            let _reading_back = self.dispatcher.in_flight.reading_back();
            match self.dispatcher.store.read_back(self.token, &ids).await {
                Ok(found) => {
                    #[cfg(pillarbox_mutant)]
                    let found = self.with_invented(&ids, found);
                    self.confirmed(promised, overflow, found).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "committed events could not be read back; trying again");
                    self.try_again(promised, overflow).await;
                }
            }
        }
    }

    /// Rows for all of `ids`, whether they were found or not.
    #[cfg(pillarbox_mutant)]
    fn with_invented(&self, ids: &[String], found: Vec<Found>) -> Vec<Found> {
        use crate::mutant::mutant;
        if !(mutant!(HotWithoutReadBack) || mutant!(HotBeforeCommit)) {
            return found;
        }
        let created_at = self.dispatcher.runtime.clock.wall();
        let missing = ids.iter().filter(|id| !found.iter().any(|row| row.event_id == **id));
        let invented = missing.map(|id| Found { event_id: id.clone(), seq: -1, created_at });
        let invented: Vec<Found> = invented.collect();
        found.into_iter().chain(invented).collect()
    }

    fn next_waiting(&self) -> (Vec<Born>, Vec<Born>) {
        let mut waiting = self.lock();
        let count = waiting.promised.len().min(MAX_READ);
        let promised = waiting.promised.drain(..count).collect();
        let count = waiting.overflow.len().min(MAX_READ - count);
        (promised, waiting.overflow.drain(..count).collect())
    }

    /// Puts events back that could not be read, as long as their leases let them be delivered from memory.
    async fn try_again(&self, mut promised: Vec<Born>, mut overflow: Vec<Born>) {
        let over = self.dispatcher.shutdown.is_draining();
        let now = self.dispatcher.runtime.clock.now();
        let given = promised.len();
        promised.retain(|born| !over && born.deadline > now);
        overflow.retain(|born| !over && born.deadline > now);
        self.dispatcher.queues.forgo_hot(given - promised.len());
        {
            let mut waiting = self.lock();
            waiting.promised.splice(0..0, promised);
            waiting.overflow.splice(0..0, overflow);
        }
        if !over {
            self.dispatcher.runtime.clock.sleep(PAUSE).await;
        }
    }

    async fn confirmed(&self, promised: Vec<Born>, overflow: Vec<Born>, found: Vec<Found>) {
        let mut found: std::collections::HashMap<String, Found> =
            found.into_iter().map(|found| (found.event_id.clone(), found)).collect();
        for born in promised {
            match found.remove(born.event.id()) {
                Some(row) => self.enqueue(born, &row).await,
                None => self.missing(&born),
            }
        }
        let release = overflow.iter().any(|born| found.contains_key(born.event.id()));
        for born in overflow {
            if let Some(row) = found.remove(born.event.id()) {
                let lease = self.lease(&row);
                // In flight until it is recorded, so that a repeated release cannot hit a later take.
                if self.dispatcher.in_flight.admit_born(lease, self.dispatcher.runtime.clock.now()) {
                    self.give_back(born.event.id(), lease).await;
                }
            }
        }
        if release {
            self.wake_when_settled();
        }
    }

    /// Wakes the pollers once what was given back can be taken; the hot path does not wait for that.
    fn wake_when_settled(&self) {
        let (settler, wake) = (self.dispatcher.settler.clone(), self.wake.clone());
        let announcer = self.announcer.clone();
        let wake_later = async move {
            settler.flush().await;
            wake.wake();
            announcer.announce(PartitionSet::ALL);
        };
        self.dispatcher.runtime.spawner.spawn("wake", Box::pin(wake_later));
    }

    async fn enqueue(&self, born: Born, row: &Found) {
        let lease = self.lease(row);
        let dispatcher = &self.dispatcher;
        if !dispatcher.in_flight.admit_born(lease, dispatcher.runtime.clock.now()) {
            return dispatcher.queues.forgo_hot(1);
        }
        let id = born.event.id().to_owned();
        let item = dispatcher.item(born.event, lease, row.created_at, Source::Hot, born.deadline, None);
        if dispatcher.queues.push_hot(item).is_err() {
            self.give_back(&id, lease).await;
        }
    }

    async fn give_back(&self, event_id: &str, lease: Lease) {
        self.dispatcher.settler.settle(Settlement::new(event_id, lease, Outcome::Released)).await;
    }

    fn missing(&self, born: &Born) {
        self.dispatcher.queues.forgo_hot(1);
        add(&self.dispatcher.meter.hot_missing, 1);
        tracing::info!(
            event_id = born.event.id(),
            "not delivered from memory: its row was rolled back or has passed to another instance"
        );
    }

    /// The lease that a row is born with.
    fn lease(&self, row: &Found) -> Lease {
        Lease { seq: row.seq, token: self.token.of_event(&row.event_id), attempts: 0, starts: 0 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
