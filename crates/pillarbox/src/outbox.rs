//! The outbox: writes events inside transactions and delivers them after.

mod builder;
mod configured;
mod gate;
mod lifecycle;
mod parts;

use std::future::Future;
use std::sync::Arc;

pub use builder::OutboxBuilder;

use gate::Gate;
use lifecycle::Engine;

use crate::ambient::{self, CurrentTx, NoTransaction, TransactionError};
use crate::context::Providers;
use crate::hot::Born;
use crate::metrics::{Counts, UnknownHandler};
use crate::mutant::mutant;
use crate::poller::Leased;
use crate::shutdown::Stopped;
use crate::store::{
    Administration, Birth, Census, Floor, HandlerCensus, InsertError, Ownership, StoreError, TxStore, WakeUp,
};
use crate::subscriber::Subscribers;
use crate::trace::Traces;
use crate::tx::{AfterCommit, Spoiled, Tx, Written};
use crate::{Event, EventError, EventType, IntoEvent, ListenerError, PartitionSet};

/// A store that can serve a whole outbox: all five contracts of [`store`](crate::store).
pub trait Store: TxStore + Ownership + Administration + WakeUp {}

impl<S: TxStore + Ownership + Administration + WakeUp> Store for S {}

/// The most events whose handlers are counted.
const HANDLERS_COUNTED: usize = 10_000;

/// An event could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The event itself is wrong.
    #[error(transparent)]
    Event(EventError),
    /// An event with this id exists already.
    #[error("an event with the id `{id}` exists already; give every event its own id")]
    DuplicateId {
        /// The repeated id.
        id: String,
    },
    /// No transaction is active.
    #[error(transparent)]
    NoTransaction(NoTransaction),
    /// An earlier write on this transaction was cancelled half-way, or failed in a subscriber.
    #[error("an earlier write on this transaction was cancelled half-way or failed; begin a new transaction")]
    Cancelled,
    /// A [subscriber](OutboxBuilder::subscribe) in this process failed: the transaction can no longer be committed.
    #[error("a subscriber failed, and with it the transaction: {0}")]
    Subscriber(ListenerError),
    /// The outbox is [disabled](OutboxBuilder::enabled).
    #[error(
        "the outbox is disabled (`enabled = false`); enable it, or throw its events away with `discard_when_disabled`"
    )]
    Disabled,
    /// The database did not take it.
    #[error("the event could not be written")]
    Store(#[source] StoreError),
}

impl From<EventError> for WriteError {
    fn from(error: EventError) -> Self {
        Self::Event(error)
    }
}

impl From<InsertError> for WriteError {
    fn from(error: InsertError) -> Self {
        match error {
            InsertError::DuplicateId { id } => Self::DuplicateId { id },
            InsertError::Store(error) => Self::Store(error),
        }
    }
}

/// An outbox on a store. Cheap to clone; all clones are one outbox.
///
/// Stop it with [`close`](Outbox::close). When the last clone is dropped without that, it stops as well, but
/// nobody waits for what still runs.
pub struct Outbox<S: Store> {
    pub(crate) shared: Arc<Shared<S>>,
}

pub(crate) struct Shared<S: Store> {
    store: Arc<S>,
    providers: Providers,
    traces: Traces,
    subscribers: Subscribers<S>,
    gate: Gate,
    after: Arc<AfterCommit>,
    pub(crate) engine: Engine,
}

impl<S: Store> Shared<S> {
    /// Tells subscribers in this process of events that are being written.
    async fn tell(&self, events: &[Event], connection: &mut S::Connection) -> Result<(), ListenerError> {
        if self.engine.config.publish_after_save {
            self.subscribers.hand_to(events, connection).await
        } else {
            Ok(())
        }
    }
}

impl<S: Store> Clone for Outbox<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S: Store> Outbox<S> {
    /// Starts building an outbox on `store`; see [`OutboxBuilder`].
    pub fn builder(store: S) -> OutboxBuilder<S> {
        OutboxBuilder::new(store)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// Begins a transaction. Cancelling the returned future leaves no open transaction behind.
    pub async fn begin(&self) -> Result<Tx<S>, StoreError> {
        let (begin, after) = (self.shared.store.begin(), self.shared.after.clone());
        // The handle is made inside the step: if the caller is gone, dropping it rolls back.
        let step = async move { begin.await.map(|open| Tx::new(open, after)) };
        let begun = self.shared.after.runtime.to_its_end("begin", step).await;
        begun.unwrap_or_else(|| Err(StoreError::unavailable("beginning a transaction panicked")))
    }

    /// Writes one event inside `tx`, and returns its id.
    ///
    /// It costs one INSERT on the transaction's connection. If the future is cancelled half-way, the
    /// transaction can no longer be committed.
    ///
    /// ```
    /// # use pillarbox::{Event, MemoryStore, Outbox};
    /// # async fn place(outbox: Outbox<MemoryStore>, placed: Event) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = outbox.begin().await?;
    /// outbox.write(&mut tx, placed).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Without a transaction it does not compile, nor with one that has ended:
    ///
    /// ```compile_fail,E0061
    /// # // W3
    /// # use pillarbox::{Event, MemoryStore, Outbox};
    /// # async fn place(outbox: Outbox<MemoryStore>, placed: Event) -> Result<(), Box<dyn std::error::Error>> {
    /// outbox.write(placed).await?;
    /// # Ok(())
    /// # }
    /// ```
    /// ```compile_fail,E0382
    /// # // W3, W5
    /// # use pillarbox::{Event, MemoryStore, Outbox};
    /// # async fn place(outbox: Outbox<MemoryStore>, placed: Event) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = outbox.begin().await?;
    /// tx.commit().await?;
    /// outbox.write(&mut tx, placed).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn write(&self, tx: &mut Tx<S>, event: impl IntoEvent) -> Result<String, WriteError> {
        let event = event.into_event()?;
        let id = event.id().to_owned();
        self.insert(tx, vec![event]).await?;
        Ok(id)
    }

    /// Writes one event with a JSON payload inside `tx`, and returns its id.
    pub async fn write_json(
        &self,
        tx: &mut Tx<S>,
        event_type: impl EventType,
        json: impl Into<String>,
    ) -> Result<String, WriteError> {
        let event = Event::of_json(event_type, json)?;
        self.write(tx, event).await
    }

    /// Writes many events inside `tx`, and returns their ids in the same order.
    ///
    /// It costs one INSERT for every 500 events or 4 MiB. All events are checked before the first is written.
    pub async fn write_all<E: IntoEvent>(
        &self,
        tx: &mut Tx<S>,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Vec<String>, WriteError> {
        let events: Vec<Event> = events.into_iter().map(IntoEvent::into_event).collect::<Result<_, _>>()?;
        let ids = events.iter().map(|event| event.id().to_owned()).collect();
        if !events.is_empty() {
            self.insert(tx, events).await?;
        }
        Ok(ids)
    }

    async fn insert(&self, tx: &mut Tx<S>, mut events: Vec<Event>) -> Result<(), WriteError> {
        if !tx.is_active() {
            return Err(WriteError::Cancelled);
        }
        let is_stored = self.shared.gate.is_stored()?;
        self.shared.providers.capture(&mut events)?;
        self.shared.traces.capture(&mut events);
        let events = self.shared.engine.placed(events);
        let birth = self.shared.engine.birth();
        // Before the statement is sent, so that the deadline lies before the lease's end.
        let deadline = self.shared.engine.birth_deadline();
        tx.spoiled = Some(Spoiled::Cut);
        if is_stored {
            let inserted = self.shared.store.insert(&mut *tx, &events, birth.as_ref()).await;
            tx.spoiled = inserted.is_ok().then_some(Spoiled::Cut);
            inserted?;
        }
        let handed = self.shared.tell(&events, &mut *tx).await;
        tx.spoiled = handed.is_err().then_some(Spoiled::BySubscriber);
        handed.map_err(WriteError::Subscriber)?;
        if is_stored {
            note(&mut tx.written, events, birth.as_ref(), deadline);
        }
        if mutant!(HotBeforeCommit) {
            self.shared.after.committed(std::mem::take(&mut tx.written));
        }
        Ok(())
    }

    /// Writes events inside a transaction that you opened with the driver itself.
    ///
    /// Hand the [`Receipt`] back with [`committed`](Outbox::committed) after your commit, and the poller
    /// delivers at once; forget it, and the event is delivered by the next poll. If the future is cancelled
    /// half-way, or a subscriber fails, roll the transaction back.
    pub async fn write_in<E: IntoEvent>(
        &self,
        tx: &mut S::Foreign<'_>,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt, WriteError> {
        let mut events: Vec<Event> =
            events.into_iter().map(IntoEvent::into_event).collect::<Result<_, _>>()?;
        let is_stored = self.shared.gate.is_stored()?;
        self.shared.providers.capture(&mut events)?;
        self.shared.traces.capture(&mut events);
        let mut events = self.shared.engine.placed(events);
        let connection = S::foreign_connection(tx);
        if !events.is_empty() && is_stored {
            self.shared.store.insert(connection, &events, None).await?;
        }
        self.shared.tell(&events, connection).await.map_err(WriteError::Subscriber)?;
        events.retain(|_| is_stored);
        Ok(Receipt::of_events(&events))
    }

    /// Whether it is [enabled](OutboxBuilder::enabled); for adapters that write by means of their own.
    pub fn is_enabled(&self) -> bool {
        self.shared.engine.config.enabled
    }

    /// Whether what is written gets into the table ([`store_events`](OutboxBuilder::store_events)); for adapters that write
    /// by means of their own.
    ///
    /// While the outbox is disabled it fails with [`WriteError::Disabled`], or warns once if
    /// [events are discarded](OutboxBuilder::discard_when_disabled) then.
    pub fn stores(&self) -> Result<bool, WriteError> {
        self.shared.gate.is_stored()
    }

    /// Says that the transaction of a receipt has been committed, so that its events are delivered at once.
    pub fn committed(&self, receipt: Receipt) {
        if !receipt.ids.is_empty() && self.is_enabled() {
            self.shared.after.wake(receipt.partitions);
        }
    }

    /// Runs `body` in a transaction that [`current`](Outbox::current) finds from anywhere inside it.
    ///
    /// `Ok` commits, `Err` rolls back, and so does cancelling. The transaction belongs to the task: it is
    /// not seen by tasks that `body` spawns. A [`CurrentTx`] must not be kept beyond the end of `body`.
    pub async fn transaction<T, E>(
        &self,
        body: impl Future<Output = Result<T, E>>,
    ) -> Result<T, TransactionError<E>> {
        let tx = self.begin().await.map_err(TransactionError::Begin)?;
        ambient::within(self.address(), tx, body).await
    }

    /// The transaction that the current task runs in; an error if there is none.
    ///
    /// Who asks while another [`CurrentTx`] lives waits for it: drop yours before you call code that asks too,
    /// or hand it on as `&mut tx`.
    pub async fn current(&self) -> Result<CurrentTx<S>, NoTransaction> {
        ambient::current(self.address()).await
    }

    /// Whether the current task runs in a transaction of this outbox.
    pub fn in_transaction(&self) -> bool {
        ambient::is_active(self.address())
    }

    /// Writes one event inside the transaction that the current task runs in.
    pub async fn write_current(&self, event: impl IntoEvent) -> Result<String, WriteError> {
        let mut tx = self.current().await.map_err(WriteError::NoTransaction)?;
        self.write(&mut tx, event).await
    }

    /// Offers a committed event to the hot queue, as a commit does; false when it is full, closed or absent.
    ///
    /// It is delivered from memory only if its row is found under a lease that this outbox gave it at birth.
    pub fn enqueue_hot(&self, event: Event) -> bool {
        self.shared.engine.enqueue_hot(event)
    }

    /// Hands an event that a [`PollerHandler`](crate::PollerHandler) got to the workers of this outbox, which
    /// settle it in its stead; gives it back when the cold queue is full, closed or absent.
    ///
    /// The handler's outbox must be on the same table as this one: events are settled by their number.
    pub fn enqueue_cold(&self, event: Leased) -> Result<(), Leased> {
        if self.shared.engine.enqueue_cold(&event) { Ok(()) } else { Err(event) }
    }

    /// Whether the cold queue can take an event.
    pub fn has_cold_capacity(&self) -> bool {
        self.shared.engine.has_cold_capacity()
    }

    /// The partitions that this instance reads now, in their order, with how far it has come in each; none with
    /// [`Mode::Claims`](crate::store::Mode::Claims).
    pub fn partitions(&self) -> Vec<Floor> {
        self.shared.engine.tenure.as_ref().map(|tenure| tenure.floors()).unwrap_or_default()
    }

    /// Who takes part, who owns which partition, what waits in each, and how many keys are blocked or parked, of all
    /// instances together.
    ///
    /// Where partitions are owned it reads pending events by indexes, those that were set aside twice, as
    /// [`stats`](crate::store::Administration::stats) does: ask every minute or so, and not with every scrape. The
    /// [metrics](crate::MetricsExporter::record_census) hear the answer too. A role that only writes is refused.
    ///
    /// ```
    /// # use pillarbox::{MemoryStore, Outbox};
    /// # async fn look(outbox: Outbox<MemoryStore>) -> Result<(), Box<dyn std::error::Error>> {
    /// let census = outbox.census().await?;
    /// for instance in census.alive() {
    ///     let (held, joined_ago) = (census.held_by(&instance.owner).count(), instance.joined_ago);
    ///     println!("{}: {held} partitions, here for {joined_ago:?}", instance.owner.name());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn census(&self) -> Result<Census, StoreError> {
        let census = self.shared.store.census().await;
        self.shared.engine.meter.exporter().record_census(census.as_ref().ok());
        census
    }

    /// The handlers that are named by events which are not done: how many of them owe each, and which of them nobody
    /// knew when they were last looked at.
    ///
    /// Reads pending and dead events by indexes, and counts the handlers of the first 10,000 of which something is stored:
    /// ask every minute or so, and not with every scrape. The [metrics](crate::MetricsExporter::record_handlers) hear the
    /// answer too.
    ///
    /// ```
    /// # use pillarbox::{MemoryStore, Outbox};
    /// # async fn look(outbox: Outbox<MemoryStore>) -> Result<(), Box<dyn std::error::Error>> {
    /// for handler in outbox.handlers().await?.unknown() {
    ///     println!("{} events wait for `{}`, which is gone", handler.unknown, handler.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn handlers(&self) -> Result<HandlerCensus, StoreError> {
        let handlers = HandlerCensus::take(&*self.shared.store, HANDLERS_COUNTED).await;
        self.shared.engine.meter.exporter().record_handlers(handlers.as_ref().ok());
        handlers
    }

    /// The handlers that events are owed to and that are not registered in this outbox, as far as it has met them since it
    /// was started, in the order of their ids; at most 100. They stay on the list when they are owed no more.
    pub fn unknown_handlers(&self) -> Vec<UnknownHandler> {
        let engine = &self.shared.engine;
        engine.meter.unknown.all(engine.runtime.clock.now())
    }

    /// What this outbox has counted since it was started.
    pub fn counts(&self) -> Counts {
        self.shared.engine.counts()
    }

    /// Runs one cycle of the poller now, and returns when it is over; it never overlaps with another.
    ///
    /// After an outage of the database it waits for three seconds, so that others can record first what they have
    /// delivered.
    ///
    /// Does nothing in an outbox that only writes.
    pub async fn poll(&self) -> Result<(), StoreError> {
        self.shared.engine.poll().await
    }

    /// Stops, even if the returned future is cancelled: takes nothing new, gives back what was not begun, waits for what runs up to the drain
    /// timeout, records the outcomes. Writing goes on working, and others deliver.
    pub async fn close(&self) {
        let shared = self.shared.clone();
        let closed = async move { shared.engine.close().await };
        if self.shared.engine.runtime.to_its_end("close", closed).await.is_none() {
            tracing::error!("closing panicked; leases that are left will end by themselves");
        }
    }

    /// Runs until `shutdown` completes, and then closes; an error if it has [stopped](Self::stopped) before.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), Stopped> {
        let ended = tokio::select! {
            biased;
            () = shutdown => Ok(()),
            reason = self.stopped() => Err(reason),
        };
        self.close().await;
        ended
    }

    /// Completes when the outbox has stopped by itself, with an ERROR in the log: another instance was started under
    /// the [name](OutboxBuilder::name) that was set for this one, it may not take part, or its SQLite file was replaced.
    /// Without that it never completes.
    ///
    /// An instance learns of another of its name when it next records outcomes, or by its next heartbeat. Writing goes
    /// on working, and others deliver; to a file that was replaced nothing is written.
    pub async fn stopped(&self) -> Stopped {
        let shutdown = &self.shared.engine.shutdown;
        shutdown.draining().await;
        match shutdown.reason() {
            Some(reason) => reason.clone(),
            None => std::future::pending().await,
        }
    }

    /// What distinguishes this outbox from others in the process.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.shared).addr()
    }
}

impl<S: Store> std::fmt::Debug for Outbox<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

/// Proof that events were written in a transaction of yours; see [`Outbox::write_in`].
///
/// It has the ids of the events and knows in which partitions they are, and nothing else: what is delivered comes from
/// the table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "hand it to `Outbox::committed` after your commit, or delivery waits for the next poll"]
pub struct Receipt {
    ids: Vec<String>,
    /// Where the events are; all if that is not known.
    partitions: PartitionSet,
}

impl Receipt {
    /// The receipt for these events, for adapters that write by means of their own.
    ///
    /// Handed to [`Outbox::committed`] without a commit, or with events that are not there, it makes the poller look
    /// and find nothing.
    pub fn of_events(events: &[Event]) -> Self {
        let partitions = events.iter().map(Event::partition).collect();
        Self { partitions, ..Self::of(events.iter().map(Event::id)) }
    }

    /// The receipt for events of which only the ids are known: where partitions are owned, all of them are looked at.
    pub fn of<I: Into<String>>(ids: impl IntoIterator<Item = I>) -> Self {
        Self { ids: ids.into_iter().map(Into::into).collect(), partitions: PartitionSet::ALL }
    }

    /// The ids of the events, in the order in which they were given.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }
}

/// Notes what a transaction wrote. Delayed events are never claimed at birth.
fn note(written: &mut Written, events: Vec<Event>, birth: Option<&Birth>, deadline: std::time::Duration) {
    for event in &events {
        if birth.is_some() && event.schedule() == crate::Schedule::Now {
            written.born.push(Born { event: event.clone(), deadline });
        } else {
            written.unclaimed = true;
        }
    }
    written.events.extend(events);
}
