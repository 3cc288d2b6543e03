//! One incarnation: a process with the real engine in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use pillarbox::store::{Floor, Mode};
use pillarbox::{Clock, DeadHead, Outbox, OutboxBuilder, Retry, Runtime, Target};

use super::application::{Kind, SimStore, Writer};
use super::cold_queue::ColdQueue;
use super::handlers::Crew;
use super::line::SimLine;
use super::options::{Options, Order, Settings};
use super::pauses::Relay;
use super::process::{Mortals, Process};
use super::receivers::Receivers;
use super::rng::Rng;
use super::sinks::routing;
use super::world::World;
use crate::faulty::FaultyStore;

/// How long a sink that is down is left alone at first.
const FIRST_SINK_PAUSE: Duration = Duration::from_millis(200);
/// More bytes than any run has.
const RUN_BYTES: usize = 1 << 20;

/// A running instance of the application.
pub(super) struct Instance {
    pub(super) process: Arc<Process>,
    pub(super) settings: Settings,
    outbox: Outbox<SimStore>,
    rng: Rng,
}

impl Instance {
    /// Starts an incarnation that dies at poll number `dies_at` of its tasks.
    pub(super) fn start(world: &Arc<World>, number: u32, name: Option<&'static str>, dies_at: u64) -> Self {
        let rng = world.rng.fork();
        let settings = match world.options.owned {
            Some(_) => Settings::draw_owned(&rng, name),
            None => Settings::draw(&rng, name),
        };
        let settings = settings.with_latest(&world.brokers.rng, &world.options);
        world.note(format_args!("process {number} starts, dies at poll {dies_at}: {settings:?}"));
        let process = Process::new(world, number, dies_at);
        let caller = Arc::downgrade(&process);
        let line = SimLine {
            world: world.clone(),
            process: number,
            caller,
            rng: rng.fork(),
            met: AtomicU64::new(world.failovers.count()),
            looks_anew: AtomicBool::new(false),
        };
        let store = FaultyStore::new(world.db.clone(), Arc::new(line));
        process.holds(store.cutter());
        let outbox = start_outbox(store, &process, &settings, &rng);
        Self { process, settings, outbox, rng }
    }

    /// Lets writers write.
    pub(super) fn write(&self, writers: u64, transactions: u64) {
        for _ in 0..writers {
            let writer =
                Writer { process: self.process.clone(), outbox: self.outbox.clone(), rng: self.rng.fork() };
            drop(self.process.run(writer.run(transactions)));
        }
    }

    /// Closes in the middle of whatever goes on; it must not take longer than promised.
    pub(super) async fn close(&self) {
        let (world, outbox) = (&self.process.world, self.outbox.clone());
        world.note(format_args!("process {} closes", self.process.number));
        self.process.is_closing.store(true, Ordering::Relaxed);
        let is_at_work = !world.model().held_by(self.process.number).is_empty()
            || world.tenancy().is_delivering(self.process.number);
        world.cover("closes in the middle of work", u64::from(is_at_work));
        let begun = world.clock.now();
        let closed = self.process.run(async move { outbox.close().await });
        let limit = self.settings.shutdown_timeout();
        tokio::select! {
            biased;
            _ = closed => {}
            () = self.process.died() => return,
            () = tokio::time::sleep(limit + Duration::from_secs(1)) => {
                world.violation(format!("closing took longer than {limit:?}"));
            }
        }
        let took = world.clock.now().saturating_sub(begun);
        world.note(format_args!("process {} closed in {took:?}", self.process.number));
        world.cover("closes", 1);
    }

    /// Ends the process, and reads its numbers off.
    pub(super) fn end(&self) {
        self.process.kill("killed at the end");
        let (world, counts) = (&self.process.world, self.outbox.counts());
        world.note(format_args!("process {} ends: {counts:?}", self.process.number));
        world.cover("ghosts prevented by the read-back", counts.hot_missing);
        world.cover("hot overflow", counts.hot_dropped);
        world.cover("lost leases", counts.lost_leases);
        // Until its next heartbeat whoever meets a failover goes by floors from before.
        let may_be_below = world.failovers.count() > 0;
        if counts.below_floor > 0 && !may_be_below || counts.misplaced > 0 {
            world.violation(format!("events below the floor or in a wrong partition: {counts:?}"));
        }
    }

    /// Whether it has stopped by itself.
    pub(super) fn has_stopped(&self) -> bool {
        let stopped = std::pin::pin!(self.outbox.stopped());
        let is_ready = stopped.poll(&mut Context::from_waker(Waker::noop())).is_ready();
        self.process.world.cover("stopped as replaced after a failover", u64::from(is_ready));
        is_ready
    }

    /// How far it has come in the partitions that it reads.
    pub(super) fn floors(&self) -> Vec<Floor> {
        self.outbox.partitions()
    }
}

fn start_outbox(store: SimStore, process: &Arc<Process>, settings: &Settings, rng: &Rng) -> Outbox<SimStore> {
    let options = &process.world.options;
    let receivers = Receivers {
        process: process.clone(),
        rng: Arc::new(rng.fork()),
        time_limit: settings.delivery_timeout,
    };
    let runtime = Runtime {
        clock: process.world.clock.clone(),
        random: Arc::new(rng.fork()),
        spawner: Arc::new(Mortals(process.clone())),
    };
    let mut builder = Outbox::builder(store)
        .runtime(runtime)
        .metrics(ColdQueue::new(&process.world, settings.cold_queue))
        .workers(settings.workers)
        .hot_queue(settings.hot_queue)
        .cold_queue(settings.cold_queue)
        .batch_size(settings.batch_size)
        .delivery_timeout(settings.delivery_timeout)
        .margin(settings.margin)
        .lease_for(settings.lease_for)
        .poll_every(settings.poll_every)
        .drain_timeout(settings.drain_timeout)
        .shutdown_timeout(settings.shutdown_timeout())
        .max_starts(options.max_starts)
        .sink_pauses(FIRST_SINK_PAUSE, settings.longest_sink_pause)
        .retry(Retry::exponential().initial(settings.first_retry).max_attempts(options.max_attempts));
    builder = owning(builder, options, settings);
    if let Some(name) = settings.name {
        builder = builder.name(name);
    }
    if settings.delete_done {
        builder = builder.delete_done();
    }
    if settings.poller_only {
        builder = builder.poller_only();
    }
    if let Some(run_events) = settings.run_events {
        builder = builder.run_limits(run_events, RUN_BYTES);
    }
    if options.has_routes {
        let routing = routing(&receivers);
        let relay = Relay::new(process, &routing);
        let outbox = started(builder.routing(&routing));
        drop(process.run(relay.follow(outbox.clone())));
        return outbox;
    }
    if options.has_handlers {
        let crew = Crew(receivers);
        return started(builder.handlers(crew.handlers(settings.first_retry)));
    }
    let (sink, listener) = (Target::sink(receivers.clone()), Target::listener(receivers));
    for (kind, event_type) in Kind::ALL {
        builder = match kind {
            Kind::Stray | Kind::Placed | Kind::Paid => builder,
            Kind::Published => builder.route(pillarbox::GLOBAL, event_type, sink.clone()),
            _ => builder.route(pillarbox::GLOBAL, event_type, listener.clone()),
        };
    }
    started(builder)
}

/// The same outbox as an owner of partitions, where there are any.
fn owning(
    builder: OutboxBuilder<SimStore>,
    options: &Options,
    settings: &Settings,
) -> OutboxBuilder<SimStore> {
    let Some((owned, beats)) = options.owned.zip(settings.beats.as_ref()) else { return builder };
    let builder = builder
        .heartbeat_every(beats.every)
        .silent_after(beats.silent_after)
        .rebalance_every(beats.rebalance_every);
    match owned.order {
        Order::None => builder.mode(Mode::Ownership),
        Order::GoOn => builder.ordered().stop_on_first_failure(false),
        Order::Release => builder.ordered(),
        Order::Park => builder.ordered().on_dead_head(DeadHead::Park),
    }
}

fn started(builder: OutboxBuilder<SimStore>) -> Outbox<SimStore> {
    builder.start().expect("the settings are valid")
}
