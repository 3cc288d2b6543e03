//! Puts an outbox together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::parts::{Parts, Topology};
use super::{Outbox, Store};
use crate::config::{Config, ConfigError, DeadHead, Plan, Unroutable};
use crate::context::{ContextProvider, Providers};
use crate::destination::Destinations;
use crate::dispatcher::InFlight;
use crate::handler::{Handlers, HandlersError};
use crate::interceptor::{Interceptor, SharedInterceptor};
use crate::metrics::{Meter, MetricsExporter, NoMetrics};
use crate::partitions::{Mailbox, Tenure};
use crate::poller::PollerHandler;
use crate::registry::{AlreadyRegistered, Listeners, Registry, Target};
use crate::retry::{Kinds, Retry, RetryError, RetryPolicy};
use crate::routing::Routing;
use crate::runtime::{BoxFuture, Runtime};
use crate::settings::Settings;
use crate::shutdown::Shutdown;
use crate::store::{DoneRows, Mode, Owner};
use crate::subscriber::Subscribers;
use crate::trace::{Traces, Tracing};
use crate::tx::AfterCommitHook;
use crate::{AggregateType, DomainEvent, EventType, Listener, ListenerError, Sink};

/// Builds an [`Outbox`]; made by [`Outbox::builder`].
///
/// | option | default | |
/// |---|---|---|
/// | [`on`](Self::on), [`on_aggregate`](Self::on_aggregate), [`handlers`](Self::handlers), [`routing`](Self::routing), [`registry`](Self::registry) | – | who gets which events |
/// | [`workers`](Self::workers) | 4 | listeners that run at once |
/// | [`hot_queue`](Self::hot_queue), [`cold_queue`](Self::cold_queue) | 1,000 each | events that wait in memory |
/// | [`retry`](Self::retry) | 10 attempts, 200 ms … 60 s | what follows a failure |
/// | [`delivery_timeout`](Self::delivery_timeout) | 30 s | how long a listener may take |
/// | [`drain_timeout`](Self::drain_timeout), [`shutdown_timeout`](Self::shutdown_timeout) | 5 s, 15 s | how long `close` waits for listeners, and how long it takes at most |
/// | [`poll_every`](Self::poll_every) | 5 s | the safety net when nothing wakes the poller |
/// | [`batch_size`](Self::batch_size) | 50 | the first take; it grows with a backlog |
/// | [`lease_for`](Self::lease_for) | 5 min | how long taken events belong to an instance |
/// | [`context`](Self::context) | none | what is captured when an event is written |
/// | [`tracing`](Self::tracing) | nothing | which trace a delivery belongs to |
/// | [`subscribe`](Self::subscribe), [`publish_after_save`](Self::publish_after_save), [`store_events`](Self::store_events) | nobody, true, true | who is told inside the transaction |
/// | [`name`](Self::name) | generated | with a name, a restart takes over its own leases at once |
/// | [`ordered`](Self::ordered), [`mode`](Self::mode) | no order, by claims | order by key; how work is taken |
/// | [`settings`](Self::settings) | none | options from a file and from the environment |
/// | [`enabled`](Self::enabled), [`discard_when_disabled`](Self::discard_when_disabled) | true, false | whether it does anything |
/// | [`delete_done`](Self::delete_done), [`keep_done_for`](Self::keep_done_for) | keep for ever | what becomes of done events |
///
/// It delivers from memory after a commit and from the table by polling, unless one of
/// [`poller_only`](Self::poller_only), [`poller_handler`](Self::poller_handler) and
/// [`writer_only`](Self::writer_only) says otherwise.
#[must_use = "nothing happens before `start`"]
pub struct OutboxBuilder<S: Store> {
    store: S,
    pub(crate) config: Config,
    /// The options that the program set itself.
    pub(crate) by_program: BTreeSet<&'static str>,
    pub(super) settings: Settings,
    /// In place of the dispatcher.
    own_handler: Option<Arc<dyn PollerHandler>>,
    listeners: Listeners,
    registry: Option<Arc<dyn Registry>>,
    destinations: Option<Destinations>,
    /// The options that gave a registry.
    routed_by: Vec<&'static str>,
    bad_handlers: Option<HandlersError>,
    twice: Option<AlreadyRegistered>,
    pub(super) retry: Option<Arc<dyn RetryPolicy>>,
    pub(super) kinds: Kinds,
    bad_retry: Option<RetryError>,
    interceptors: Vec<SharedInterceptor>,
    metrics: Arc<dyn MetricsExporter>,
    hook: Option<Arc<dyn AfterCommitHook>>,
    providers: Providers,
    traces: Traces,
    subscribers: Subscribers<S>,
    pub(crate) runtime: Option<Runtime>,
    /// Stands between the dispatcher and the routes, to see what is delivered.
    pub(crate) observer: Option<Observer>,
}

pub(crate) type Observer = Box<dyn FnOnce(Arc<dyn Registry>) -> Arc<dyn Registry> + Send>;

impl<S: Store> OutboxBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self {
            store,
            config: Config::default(),
            by_program: BTreeSet::new(),
            settings: Settings::default(),
            own_handler: None,
            listeners: Listeners::new(),
            registry: None,
            destinations: None,
            routed_by: Vec::new(),
            bad_handlers: None,
            twice: None,
            retry: None,
            kinds: Kinds::default(),
            bad_retry: None,
            interceptors: Vec::new(),
            metrics: Arc::new(NoMetrics),
            hook: None,
            providers: Providers::default(),
            traces: Traces::default(),
            subscribers: Subscribers::default(),
            runtime: None,
            observer: None,
        }
    }

    /// Sends events of `event_type` that name no aggregate type to `listener`.
    pub fn on(self, event_type: impl EventType, listener: impl Listener) -> Self {
        self.route(crate::GLOBAL, event_type, Target::listener(listener))
    }

    /// Sends events of `aggregate_type` and `event_type` to `listener`.
    pub fn on_aggregate(
        self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        listener: impl Listener,
    ) -> Self {
        self.route(aggregate_type, event_type, Target::listener(listener))
    }

    /// Sends events of `aggregate_type` and `event_type` to `sink`, in runs.
    pub fn on_sink(
        self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: impl Sink,
    ) -> Self {
        self.route(aggregate_type, event_type, Target::sink(sink))
    }

    /// Sends events of `aggregate_type` and `event_type` to `target`; clone a target to use it again.
    pub fn route(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        target: Target,
    ) -> Self {
        if let Err(twice) = self.listeners.register_for(aggregate_type, event_type, target) {
            self.twice.get_or_insert(twice);
        }
        self
    }

    /// Sends events to handlers, several for each, of which each succeeds and retries on its own; in place of `on` and
    /// `route`.
    pub fn handlers(mut self, handlers: Handlers) -> Self {
        self.routed_by.push("handlers");
        match handlers.into_registry() {
            Ok(registry) => self.registry = Some(Arc::new(registry)),
            Err(error) => self.bad_handlers = Some(error),
        }
        self
    }

    /// Sends events to named sinks by rules, in place of `on` and `route`; a clone of the routing changes them while the
    /// outbox runs.
    pub fn routing(mut self, routing: &Routing) -> Self {
        self.routed_by.push("routing");
        self.destinations = Some(routing.destinations());
        self.registry = Some(Arc::new(routing.clone()));
        self
    }

    /// Routes by a registry of your own, for example [`FanOut`](crate::FanOut), in place of `on` and `route`.
    pub fn registry(mut self, registry: impl Registry) -> Self {
        self.routed_by.push("registry");
        self.registry = Some(Arc::new(registry));
        self
    }

    /// What becomes of events without a listener; the default is [`Unroutable::Dead`].
    pub fn unroutable(self, policy: Unroutable) -> Self {
        self.set("unroutable", |config| config.unroutable = policy)
    }

    /// The retry policy: the built-in [`Retry`], checked when the outbox is started.
    pub fn retry(self, retry: Retry) -> Self {
        self.retry_policy(retry)
    }

    /// A retry policy of your own, or one that is [filtered](crate::Filtered) by errors.
    pub fn retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.bad_retry = policy.check().err();
        self.retry = Some(Arc::new(policy));
        self
    }

    /// Adds an interceptor; those added first run first before a delivery, and last after it.
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Where numbers go; the default is nowhere.
    pub fn metrics(mut self, exporter: impl MetricsExporter) -> Self {
        self.metrics = Arc::new(exporter);
        self
    }

    /// Is called after every commit that contained events.
    pub fn after_commit(mut self, hook: impl AfterCommitHook) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Adds a [provider](ContextProvider) of context values, which are captured when an event is written; of several the
    /// last one wins.
    pub fn context(mut self, provider: impl ContextProvider) -> Self {
        self.providers.add(provider);
        self
    }

    /// Carries traces through the outbox: an event takes along where its writer is, in the headers `traceparent` and
    /// `tracestate`, and each of its deliveries has a span that is a child of that. By default there are neither spans
    /// nor such headers. An event that names a trace, in its headers or its context, keeps it.
    pub fn tracing(mut self, tracing: impl Tracing) -> Self {
        self.traces = Traces::by(tracing);
        self
    }

    /// Hands events of type `T` to `subscriber` as well, when they are written: in this process, inside the transaction and
    /// on its connection. If it fails, the write fails, and the transaction cannot be committed any more. It must not ask for
    /// the [current](Outbox::current) transaction, which its writer holds.
    ///
    /// ```
    /// # use pillarbox::{DomainEvent, Json, MemoryConnection, MemoryStore, Outbox};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct OrderPlaced { order_id: String }
    /// # impl DomainEvent for OrderPlaced {
    /// #     const EVENT_TYPE: &'static str = "OrderPlaced";
    /// #     type Codec = Json;
    /// # }
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = Outbox::builder(MemoryStore::new())
    ///     .subscribe(|order: OrderPlaced, _connection: &mut MemoryConnection| {
    ///         Box::pin(async move {
    ///             println!("{} is being placed", order.order_id);
    ///             Ok(())
    ///         })
    ///     })
    ///     .start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe<T, F>(mut self, subscriber: F) -> Self
    where
        T: DomainEvent,
        F: for<'a> Fn(T, &'a mut S::Connection) -> BoxFuture<'a, Result<(), ListenerError>>
            + Send
            + Sync
            + 'static,
    {
        self.subscribers.add(subscriber);
        self
    }

    /// Whether [subscribers](Self::subscribe) are called when an event is written; default true.
    pub fn publish_after_save(self, publish: bool) -> Self {
        self.set("publish_after_save", |config| config.publish_after_save = publish)
    }

    /// Whether events are stored; default true. If not, they are handed to [subscribers](Self::subscribe) only, and
    /// nothing is delivered.
    pub fn store_events(self, store: bool) -> Self {
        self.set("store_events", |config| config.store_events = store)
    }

    /// The name of this instance, unique by your promise: started again under it, the instance takes over
    /// its own leases at once. 1 to 100 characters without `/`. By default a name is generated, and leases of
    /// an instance that died end by themselves.
    ///
    /// If two live instances bear one name all the same, the older [stops](crate::Outbox::stopped).
    pub fn name(self, name: impl Into<String>) -> Self {
        self.set("name", |config| config.name = Some(name.into()))
    }

    /// How many listeners run at once; default 4.
    pub fn workers(self, workers: usize) -> Self {
        self.set("workers", |config| config.workers = workers)
    }

    /// How many events wait in the hot queue; default 1,000. Beyond that the poller delivers. With [`Mode::Ownership`]
    /// it stays empty.
    pub fn hot_queue(self, capacity: usize) -> Self {
        self.set("hot_queue", |config| config.hot_queue = capacity)
    }

    /// How many events wait in the cold queue; default 1,000. With [`Mode::Ownership`] as many are in memory at most,
    /// from when they are read until their outcomes are recorded.
    pub fn cold_queue(self, capacity: usize) -> Self {
        self.set("cold_queue", |config| config.cold_queue = capacity)
    }

    /// How long a listener may take before it is cancelled and counts as failed; default 30 s.
    pub fn delivery_timeout(self, limit: Duration) -> Self {
        self.set("delivery_timeout", |config| config.delivery_timeout = limit)
    }

    /// What a lease must exceed the delivery by, for the way to the worker and for settling; default 5 s.
    pub fn margin(self, margin: Duration) -> Self {
        self.set("margin", |config| config.margin = margin)
    }

    /// How long [`close`](Outbox::close) waits for listeners that run, before it cuts them off; default 5 s.
    pub fn drain_timeout(self, limit: Duration) -> Self {
        self.set("drain_timeout", |config| config.drain_timeout = limit)
    }

    /// How long [`close`](Outbox::close) takes at most, the [drain timeout](Self::drain_timeout) included; default 15 s, or
    /// ten seconds more than that if this is longer. What is left of it after draining is for recording outcomes,
    /// and for giving back events and partitions; all of it is needed only if the database does not answer. It must be
    /// longer than the drain timeout.
    pub fn shutdown_timeout(self, limit: Duration) -> Self {
        self.set("shutdown_timeout", |config| config.shutdown_timeout = Some(limit))
    }

    /// How many events the first take asks for; default 50. While takes come back full it doubles, up to the
    /// free room of the cold queue.
    pub fn batch_size(self, events: usize) -> Self {
        self.set("batch_size", |config| config.batch_size = events)
    }

    /// The most events in one take, however large the backlog is; by default the room of the cold queue.
    pub fn max_batch(self, events: usize) -> Self {
        self.set("max_batch", |config| config.max_batch = Some(events))
    }

    /// How long the poller sleeps when nothing is due and nothing wakes it; default 5 s.
    pub fn poll_every(self, interval: Duration) -> Self {
        self.set("poll_every", |config| config.poll_every = interval)
    }

    /// Leave events to others that were written less than this ago; default zero. Not with [`Mode::Ownership`].
    pub fn skip_recent(self, age: Duration) -> Self {
        self.set("skip_recent", |config| config.skip_recent = age)
    }

    /// How long taken events belong to this instance; default 5 minutes, at most an hour. It must exceed
    /// the delivery timeout and the margin. With [`Mode::Ownership`] heartbeats take its place.
    pub fn lease_for(self, lease: Duration) -> Self {
        self.set("lease_for", |config| config.lease_for = lease)
    }

    /// How often the process may die over an event before the event is dead; default 5.
    pub fn max_starts(self, starts: u32) -> Self {
        self.set("max_starts", |config| config.max_starts = starts)
    }

    /// The most events, and bytes of payload, in a run for a sink; default 500 and 4 MiB.
    pub fn run_limits(self, events: usize, bytes: usize) -> Self {
        self.set("run_events", |config| config.run_events = events)
            .set("run_bytes", |config| config.run_bytes = bytes)
    }

    /// Forget that an event is in flight after this time; by default never.
    pub fn in_flight_ttl(self, ttl: Duration) -> Self {
        self.set("in_flight_ttl", |config| config.in_flight_ttl = Some(ttl))
    }

    /// How long a sink that is down is left alone at first, and at the longest: twice as long each time that it is still
    /// down; default 200 ms and 30 s, each times 0.5 to 1.5 at random. Then it is tried with one event, and with more
    /// and more as these are acknowledged. No attempt is spent by that.
    pub fn sink_pauses(self, first: Duration, longest: Duration) -> Self {
        self.set("sink_pause", |config| config.sink_pause = first)
            .set("longest_sink_pause", |config| config.longest_sink_pause = longest)
    }

    /// Delete events when they are done; by default they are kept.
    pub fn delete_done(self) -> Self {
        self.set("delete_done", |config| config.done = DoneRows::Delete)
    }

    /// Delete done events after this time, by a task of this outbox; by default they are kept for ever.
    pub fn keep_done_for(self, retention: Duration) -> Self {
        self.set("keep_done_for", |config| config.keep_done_for = Some(retention))
    }

    /// How work is taken; default [`Mode::Claims`], or [`Mode::Ownership`] if it is [ordered](Self::ordered).
    ///
    /// All instances on one table take work in the same mode: who comes with the other one while any of them is alive
    /// is [refused](crate::Outbox::stopped), with their names; while none is, the mode of the table changes. With [`Mode::Ownership`] nothing is delivered from memory: a commit wakes
    /// the owner of the partition, who reads.
    pub fn mode(self, mode: Mode) -> Self {
        self.set("mode", |config| config.mode = Some(mode))
    }

    /// Deliver the events of one key one after the other, in the order in which they were committed; different keys do
    /// not wait for each other. It brings [`Mode::Ownership`] with it.
    pub fn ordered(self) -> Self {
        self.set("ordered", |config| config.is_ordered = true)
    }

    /// Whether events wait for one of their key that failed and is to be tried again; default true. If not, they pass
    /// it.
    pub fn stop_on_first_failure(self, stop: bool) -> Self {
        self.set("stop_on_first_failure", |config| config.stop_on_first_failure = stop)
    }

    /// What a dead event means for those of its key that follow it; default [`DeadHead::Release`].
    pub fn on_dead_head(self, policy: DeadHead) -> Self {
        self.set("on_dead_head", |config| config.dead_head = policy)
    }

    /// How often this instance says that it is alive, whatever its mode; default 5 s.
    pub fn heartbeat_every(self, interval: Duration) -> Self {
        self.set("heartbeat_every", |config| config.heartbeat_every = interval)
    }

    /// After which silence an instance counts as dead; default 30 s, at most an hour. Then others take its partitions, and
    /// it does not keep the mode of the table from being changed any more. It must be at least twice the heartbeat's
    /// interval, and with [`Mode::Ownership`] the margin more.
    pub fn silent_after(self, silence: Duration) -> Self {
        self.set("silent_after", |config| config.silent_after = silence)
    }

    /// How often an instance gives up partitions that are not in its share; default 10 s. Free ones are taken at each
    /// heartbeat.
    pub fn rebalance_every(self, interval: Duration) -> Self {
        self.set("rebalance_every", |config| config.rebalance_every = interval)
    }

    /// Deliver from the table only, never from memory.
    pub fn poller_only(self) -> Self {
        self.planned(Plan::PollerOnly)
    }

    /// Hand what the poller takes to `handler`, and run no dispatcher.
    pub fn poller_handler(self, handler: impl PollerHandler) -> Self {
        let mut builder = self.planned(Plan::PollerOnly);
        builder.own_handler = Some(Arc::new(handler));
        builder
    }

    /// Only write: another process delivers.
    pub fn writer_only(self) -> Self {
        self.planned(Plan::WriterOnly)
    }

    /// Time, randomness and tasks; by default those of the current tokio runtime.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The parts that are to run, and a handler of the user's own takes nobody's place any more.
    fn planned(mut self, plan: Plan) -> Self {
        self.own_handler = None;
        self.set("topology", |config| config.topology = plan)
    }

    fn topology(&self) -> Topology {
        match (&self.own_handler, self.config.topology) {
            (Some(handler), _) => Topology::OwnHandler(handler.clone()),
            (None, Plan::Full) => Topology::Full,
            (None, Plan::PollerOnly) => Topology::PollerOnly,
            (None, Plan::WriterOnly) => Topology::WriterOnly,
        }
    }

    /// Routes that nobody would follow are a mistake.
    fn check_routes(&self) -> Result<(), ConfigError> {
        let listeners = (!self.listeners.is_empty()).then_some("on");
        let given: Vec<&str> = self.routed_by.iter().copied().chain(listeners).collect();
        let Some(option) = given.last() else { return Ok(()) };
        let remedy = match self.topology() {
            Topology::WriterOnly => "an outbox that only writes calls no listener; leave one of the two out",
            Topology::OwnHandler(_) => {
                "with `poller_handler` no listener is called; leave one of the two out"
            }
            Topology::Full | Topology::PollerOnly | Topology::Disabled if given.len() > 1 => {
                "one `handlers`, `routing` or `registry` takes the place of `on` and `route`; leave the others out"
            }
            Topology::Full | Topology::PollerOnly | Topology::Disabled => return Ok(()),
        };
        Err(ConfigError::invalid(option, "set", remedy))
    }

    /// A handler of the user's own settles events one by one, and nobody would keep their order.
    fn check_topology(&self) -> Result<(), ConfigError> {
        if self.config.mode() == Mode::Claims || self.own_handler.is_none() {
            return Ok(());
        }
        let remedy = "with `Mode::Ownership` events go to listeners and sinks; leave one of the two out";
        Err(ConfigError::invalid("poller_handler", "set", remedy))
    }

    /// Checks the options and starts the outbox.
    ///
    /// # Panics
    /// If called outside a tokio runtime, unless [`runtime`](Self::runtime) gave another.
    pub fn start(mut self) -> Result<Outbox<S>, ConfigError> {
        let retry = self.resolve()?;
        if let Some(twice) = self.twice {
            return Err(twice.into());
        }
        if let Some(error) = self.bad_retry {
            return Err(error.into());
        }
        if let Some(error) = self.bad_handlers {
            return Err(error.into());
        }
        self.config = self.config.within_reach();
        let checked =
            self.config.check().and_then(|()| self.check_routes()).and_then(|()| self.check_topology());
        checked.map_err(|error| self.with_origins(error))?;
        let topology = if self.config.enabled { self.topology() } else { Topology::Disabled };
        let runtime = self.runtime.unwrap_or_else(Runtime::tokio);
        let incarnation = runtime.random.next_u64();
        let name = self.config.name.clone().unwrap_or_else(|| format!("{}-{incarnation:016x}", host()));
        let store = Arc::new(self.store);
        let destinations = match (&self.registry, self.destinations) {
            (Some(_), given) => given.unwrap_or_default(),
            (None, _) => self.listeners.destinations(),
        };
        let routes = self.registry.unwrap_or_else(|| Arc::new(self.listeners));
        let registry = match self.observer {
            Some(observe) => observe(routes),
            None => routes,
        };
        let is_owned = self.config.mode() == Mode::Ownership
            && !matches!(topology, Topology::WriterOnly | Topology::Disabled);
        let parts = Parts {
            tenure: is_owned.then(|| Arc::new(Tenure::new(runtime.clone()))),
            mailbox: is_owned.then(Mailbox::new),
            store,
            providers: self.providers,
            traces: self.traces,
            subscribers: self.subscribers,
            owner: Owner::new(name, incarnation),
            meter: Arc::new(Meter::new(self.metrics)),
            in_flight: Arc::new(InFlight::new(self.config.in_flight_ttl)),
            remembered: Arc::default(),
            shutdown: Arc::new(Shutdown::new()),
            wake: Arc::default(),
            registry,
            destinations,
            retry,
            interceptors: self.interceptors,
            config: self.config,
            runtime,
        };
        Ok(parts.assemble(topology, self.hook))
    }
}

impl<S: Store> std::fmt::Debug for OutboxBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutboxBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The name of this machine, for the generated names of instances.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().replace('/', "-");
    name.chars().take(64).collect()
}
