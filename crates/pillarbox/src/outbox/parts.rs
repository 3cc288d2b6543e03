//! The parts of an outbox, and how a topology puts them together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::{Mutex, RwLock, mpsc, oneshot};

use super::gate::Gate;
use super::lifecycle::{self, Engine, Member};
use super::{Outbox, Shared, Store};
use crate::announcer::Announcer;
use crate::config::Config;
use crate::context::Providers;
use crate::destination::Destinations;
use crate::dispatcher::{Dispatcher, InFlight, Queues};
use crate::handler::Remembered;
use crate::hot::HotPath;
use crate::interceptor::SharedInterceptor;
use crate::metrics::Meter;
use crate::mutant::mutant;
use crate::namesake::Namesake;
use crate::partitions::{Course, Hints, Mailbox, Membership, Message, Reader, ReaderParts, Tenure, listen};
use crate::poller::{Hands, Poller, PollerHandler, Wake};
use crate::purge;
use crate::registry::Registry;
use crate::retry::RetryPolicy;
use crate::runtime::{BoxFuture, Runtime};
use crate::settler::{Settler, SettlerHandle};
use crate::shutdown::Shutdown;
use crate::store::{Instance, Owner, Token};
use crate::subscriber::Subscribers;
use crate::trace::Traces;
use crate::tx::{AfterCommit, AfterCommitHook, Owned};

/// Which tasks run behind an outbox.
pub(super) enum Topology {
    Full,
    PollerOnly,
    OwnHandler(Arc<dyn PollerHandler>),
    WriterOnly,
    /// Nothing runs, and nothing is written.
    Disabled,
}

/// What every topology shares.
pub(super) struct Parts<S: Store> {
    pub(super) store: Arc<S>,
    pub(super) providers: Providers,
    pub(super) subscribers: Subscribers<S>,
    pub(super) runtime: Runtime,
    pub(super) config: Config,
    pub(super) owner: Owner,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) destinations: Destinations,
    pub(super) retry: Arc<dyn RetryPolicy>,
    pub(super) interceptors: Vec<SharedInterceptor>,
    pub(super) traces: Traces,
    pub(super) meter: Arc<Meter>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) remembered: Arc<Remembered>,
    pub(super) shutdown: Arc<Shutdown>,
    pub(super) wake: Arc<Wake>,
    /// Present if partitions are owned.
    pub(super) tenure: Option<Arc<Tenure>>,
    /// Where the reader is told something; taken when it is started.
    pub(super) mailbox: Option<(Mailbox, mpsc::UnboundedReceiver<Message>)>,
}

impl<S: Store> Parts<S> {
    /// Starts the tasks of a topology.
    pub(super) fn assemble(
        mut self,
        topology: Topology,
        hook: Option<Arc<dyn AfterCommitHook>>,
    ) -> Outbox<S> {
        let (alive, tasks) = mpsc::channel(1);
        let namesake = self.config.name.is_some().then(|| self.namesake());
        let settler = (!matches!(topology, Topology::WriterOnly | Topology::Disabled))
            .then(|| self.start_settler(namesake.clone()));
        let dispatcher = match (&topology, &settler) {
            (Topology::Full | Topology::PollerOnly, Some(settler)) => Some(self.dispatcher(settler)),
            _ => None,
        };
        let announcer = Arc::new(Announcer::new(self.runtime.clone(), self.store.clone()));
        let is_owned = self.tenure.is_some();
        let is_hot = matches!(topology, Topology::Full) && (!is_owned || mutant!(HotPathPastTheOwner));
        let hot = dispatcher.clone().filter(|_| is_hot).map(|dispatcher| {
            let token = Token::from_bits(self.runtime.random.next_u64());
            Arc::new(HotPath::new(dispatcher, token, self.wake.clone(), announcer.clone()))
        });
        let hands = match topology {
            Topology::OwnHandler(handler) => Some(Hands::Own(handler)),
            _ => dispatcher.clone().map(Hands::Dispatcher),
        };
        let hands = hands.filter(|_| !is_owned);
        let poller = hands.zip(settler.clone()).map(|(hands, settler)| Arc::new(self.poller(hands, settler)));
        let hints = Arc::<Hints>::default();
        let (member, reader) = match &settler {
            Some(settler) => self.join(dispatcher.as_ref(), settler, namesake, &hints, &alive),
            None => (None, None),
        };

        if let Some(dispatcher) = &dispatcher {
            dispatcher.start(&alive);
        }
        if let Some(dispatcher) = dispatcher.clone() {
            let task = lifecycle::stop_when_told(dispatcher, announcer.clone());
            self.runtime.spawner.spawn("stop", Box::pin(task));
        }
        if let Some(hot) = &hot {
            self.spawn("hot path", &alive, Box::pin(hot.clone().run()));
        }
        if let Some(poller) = &poller {
            self.spawn("poller", &alive, Box::pin(poller.clone().run()));
            self.spawn("wake-up", &alive, Box::pin(poller.clone().listen(self.store.clone())));
        }
        if let Some(keep_for) = self.config.keep_done_for.filter(|_| self.config.enabled) {
            let task = purge::run(self.store.clone(), self.runtime.clone(), self.shutdown.clone(), keep_for);
            self.spawn("purge", &alive, Box::pin(task));
        }
        let wake = poller.as_ref().map(|_| self.wake.clone());
        let owned = self.tenure.clone().map(|tenure| Owned { tenure, hints });
        let (runtime, announcing) = (self.runtime.clone(), announcer.clone());
        let after = AfterCommit { runtime, hot: hot.clone(), wake, owned, announcer: announcing, hook };
        let engine = Engine {
            runtime: self.runtime,
            config: self.config,
            owner: self.owner,
            meter: self.meter,
            shutdown: self.shutdown,
            announcer,
            settler,
            dispatcher,
            hot,
            poller,
            reader,
            tenure: self.tenure,
            member: Mutex::new(member),
            tasks: Mutex::new(tasks),
        };
        let Self { store, providers, traces, subscribers, .. } = self;
        let after = Arc::new(after);
        let gate = Gate::new(&engine.config);
        Outbox { shared: Arc::new(Shared { store, providers, traces, subscribers, gate, after, engine }) }
    }

    fn start_settler(&self, namesake: Option<Arc<Namesake>>) -> SettlerHandle {
        let settler = Settler {
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            meter: self.meter.clone(),
            in_flight: self.in_flight.clone(),
            remembered: self.remembered.clone(),
            shutdown: self.shutdown.clone(),
            wake: self.wake.clone(),
            done: self.config.done,
            most: self.config.most_settled(),
            namesake,
            reader: self.mailbox.as_ref().map(|(mailbox, _)| mailbox.clone()),
            tenure: self.tenure.clone(),
        };
        settler.start(self.config.outcomes())
    }

    fn namesake(&self) -> Arc<Namesake> {
        let (store, runtime) = (self.store.clone(), self.runtime.clone());
        Namesake::new(store, runtime, self.shutdown.clone(), self.owner.clone())
    }

    fn dispatcher(&self, settler: &SettlerHandle) -> Arc<Dispatcher> {
        Arc::new(Dispatcher {
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            config: self.config.clone(),
            registry: self.registry.clone(),
            retry: self.retry.clone(),
            interceptors: self.interceptors.clone(),
            traces: self.traces.clone(),
            queues: Queues::new(&self.config),
            in_flight: self.in_flight.clone(),
            remembered: self.remembered.clone(),
            settler: settler.clone(),
            meter: self.meter.clone(),
            shutdown: self.shutdown.clone(),
            tenure: self.tenure.clone(),
            busy_since: (0..self.config.workers).map(|_| Default::default()).collect(),
            destinations: self.destinations.clone(),
            floor: RwLock::new(()),
            suspects: AtomicUsize::new(0),
        })
    }

    /// Makes the instance a member and, if partitions are owned, starts their reader.
    fn join(
        &mut self,
        dispatcher: Option<&Arc<Dispatcher>>,
        settler: &SettlerHandle,
        namesake: Option<Arc<Namesake>>,
        hints: &Arc<Hints>,
        alive: &mpsc::Sender<()>,
    ) -> (Option<Member>, Option<Mailbox>) {
        let (reports, reported) = mpsc::unbounded_channel();
        let mailbox = self.mailbox.take();
        let reader = mailbox.as_ref().map(|(mailbox, _)| mailbox.clone());
        let tenure = self.tenure.clone().unwrap_or_else(|| Arc::new(Tenure::new(self.runtime.clone())));
        if let Some((mailbox, dispatcher)) = mailbox.zip(dispatcher) {
            let parts = ReaderParts {
                store: self.store.clone(),
                runtime: self.runtime.clone(),
                config: self.config.clone(),
                dispatcher: dispatcher.clone(),
                settler: settler.clone(),
                meter: self.meter.clone(),
                shutdown: self.shutdown.clone(),
                tenure: tenure.clone(),
                hints: hints.clone(),
                reports,
            };
            let reader = Reader::new(parts, self.config.order(), mailbox);
            self.spawn("reader", alive, Box::pin(reader.run()));
            let listening = listen(self.store.clone(), hints.clone(), self.shutdown.clone());
            self.spawn("wake-up", alive, Box::pin(listening));
        }
        let (finish, finished) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let membership = Membership {
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            instance: self.instance(),
            heartbeat_every: self.config.heartbeat_every,
            rebalance_every: self.config.rebalance_every,
            tenure,
            meter: self.meter.clone(),
            shutdown: self.shutdown.clone(),
            namesake,
            dispatcher: dispatcher.cloned(),
            reader: reader.clone(),
            reports: reported,
            finished,
            held: BTreeMap::new(),
            course: Course::default(),
        };
        let task = async move {
            membership.run().await;
            drop(ending);
        };
        self.runtime.spawner.spawn("heartbeat", Box::pin(task));
        (Some(Member { finish, ended }), reader)
    }

    fn instance(&self) -> Instance {
        Instance {
            owner: self.owner.clone(),
            is_named: self.config.name.is_some(),
            mode: self.config.mode(),
            live_for: self.config.silent_after,
        }
    }

    fn poller(&self, hands: Hands, settler: SettlerHandle) -> Poller {
        Poller {
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            config: self.config.clone(),
            owner: self.owner.clone(),
            hands,
            settler,
            meter: self.meter.clone(),
            shutdown: self.shutdown.clone(),
            wake: self.wake.clone(),
            settled: Arc::default(),
            cycle: Mutex::default(),
        }
    }

    /// Runs a task that holds `alive` until it ends.
    fn spawn(&self, name: &'static str, alive: &mpsc::Sender<()>, task: BoxFuture<'static, ()>) {
        let alive = alive.clone();
        let task = async move {
            task.await;
            drop(alive);
        };
        self.runtime.spawner.spawn(name, Box::pin(task));
    }
}
