//! The parts of an outbox, and how a topology puts them together.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::{Mutex, RwLock, mpsc};

use super::lifecycle::{self, Engine};
use super::{Outbox, Shared, Store};
use crate::announcer::Announcer;
use crate::config::Config;
use crate::dispatcher::{Dispatcher, InFlight, Queues};
use crate::hot::HotPath;
use crate::interceptor::SharedInterceptor;
use crate::metrics::Meter;
use crate::namesake::Namesake;
use crate::poller::{Hands, Poller, PollerHandler, Wake};
use crate::purge;
use crate::registry::Registry;
use crate::retry::RetryPolicy;
use crate::runtime::{BoxFuture, Runtime};
use crate::settler::{Settler, SettlerHandle};
use crate::shutdown::Shutdown;
use crate::store::{Owner, Token};
use crate::tx::{AfterCommit, AfterCommitHook};

/// Which tasks run behind an outbox.
pub(super) enum Topology {
    Full,
    PollerOnly,
    OwnHandler(Arc<dyn PollerHandler>),
    WriterOnly,
}

/// What every topology shares.
pub(super) struct Parts<S: Store> {
    pub(super) store: Arc<S>,
    pub(super) runtime: Runtime,
    pub(super) config: Config,
    pub(super) owner: Owner,
    pub(super) registry: Arc<dyn Registry>,
    pub(super) retry: Arc<dyn RetryPolicy>,
    pub(super) interceptors: Vec<SharedInterceptor>,
    pub(super) meter: Arc<Meter>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) shutdown: Arc<Shutdown>,
    pub(super) wake: Arc<Wake>,
}

impl<S: Store> Parts<S> {
    /// Starts the tasks of a topology.
    pub(super) fn assemble(self, topology: Topology, hook: Option<Arc<dyn AfterCommitHook>>) -> Outbox<S> {
        let (alive, tasks) = mpsc::channel(1);
        let settler = (!matches!(topology, Topology::WriterOnly)).then(|| self.start_settler());
        let dispatcher = match (&topology, &settler) {
            (Topology::Full | Topology::PollerOnly, Some(settler)) => Some(self.dispatcher(settler)),
            _ => None,
        };
        let announcer = Arc::new(Announcer::new(self.runtime.clone(), self.store.clone()));
        let hot = dispatcher.clone().filter(|_| matches!(topology, Topology::Full)).map(|dispatcher| {
            let token = Token::from_bits(self.runtime.random.next_u64());
            Arc::new(HotPath::new(dispatcher, token, self.wake.clone(), announcer.clone()))
        });
        let hands = match topology {
            Topology::OwnHandler(handler) => Some(Hands::Own(handler)),
            _ => dispatcher.clone().map(Hands::Dispatcher),
        };
        let poller = hands.zip(settler.clone()).map(|(hands, settler)| Arc::new(self.poller(hands, settler)));

        if let Some(dispatcher) = &dispatcher {
            dispatcher.start(&alive);
        }
        if let Some(dispatcher) = dispatcher.clone().filter(|_| self.config.name.is_some()) {
            self.runtime
                .spawner
                .spawn("namesake", Box::pin(lifecycle::stop_when_superseded(dispatcher, announcer.clone())));
        }
        if let Some(hot) = &hot {
            self.spawn("hot path", &alive, Box::pin(hot.clone().run()));
        }
        if let Some(poller) = &poller {
            self.spawn("poller", &alive, Box::pin(poller.clone().run()));
            self.spawn("wake-up", &alive, Box::pin(poller.clone().listen(self.store.clone())));
        }
        if let Some(keep_for) = self.config.keep_done_for {
            let task = purge::run(self.store.clone(), self.runtime.clone(), self.shutdown.clone(), keep_for);
            self.spawn("purge", &alive, Box::pin(task));
        }
        let wake = poller.as_ref().map(|_| self.wake.clone());
        let (runtime, announcing) = (self.runtime.clone(), announcer.clone());
        let after = AfterCommit { runtime, hot: hot.clone(), wake, announcer: announcing, hook };
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
            tasks: Mutex::new(tasks),
        };
        Outbox { shared: Arc::new(Shared { store: self.store, after: Arc::new(after), engine }) }
    }

    fn start_settler(&self) -> SettlerHandle {
        let settler = Settler {
            store: self.store.clone(),
            runtime: self.runtime.clone(),
            meter: self.meter.clone(),
            in_flight: self.in_flight.clone(),
            shutdown: self.shutdown.clone(),
            wake: self.wake.clone(),
            done: self.config.done,
            namesake: self.config.name.is_some().then(|| self.namesake()),
        };
        settler.start(self.config.hot_queue.saturating_add(self.config.cold_queue).min(10_000))
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
            queues: Queues::new(&self.config),
            in_flight: self.in_flight.clone(),
            settler: settler.clone(),
            meter: self.meter.clone(),
            shutdown: self.shutdown.clone(),
            floor: RwLock::new(()),
            suspects: AtomicUsize::new(0),
        })
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
