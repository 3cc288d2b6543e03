//! The brokers that named sinks lead to: each is down for a while now and then, for all processes alike.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::Clock;
use tokio::task::JoinHandle;

use super::pauses::administrator;
use super::rng::Rng;
use super::sinks::SINKS;
use super::world::World;

/// The brokers of a run.
pub(super) struct Brokers {
    pub(super) rng: Rng,
    /// Until when each is down, and how.
    outages: Mutex<BTreeMap<&'static str, Outage>>,
}

/// A time in which a broker is down.
#[derive(Clone, Copy)]
struct Outage {
    until: Duration,
    manner: Absence,
}

/// How a broker that is down takes what is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It refuses the connection.
    Refuses,
    /// It asks to be left alone for a while.
    Asks,
    /// It never answers.
    Silent,
}

impl Brokers {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, outages: Mutex::default() }
    }

    fn outages(&self) -> MutexGuard<'_, BTreeMap<&'static str, Outage>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// How the broker of a sink is absent, if it is.
    pub(super) fn absence_of(&self, sink: &str) -> Option<Absence> {
        if self.is_quiet.load(Ordering::Relaxed) {
            return None;
        }
        let outage = self.brokers.outages().get(sink).copied();
        outage.filter(|outage| self.clock.now() < outage.until).map(|outage| outage.manner)
    }

    /// Whether all brokers are absent.
    pub(super) fn has_no_broker(&self) -> bool {
        SINKS.iter().all(|sink| self.absence_of(sink).is_some())
    }
}

/// Lets brokers go down and routes be paused, where there are any: a task that has nothing to do would change the order of
/// the others.
pub(super) fn trouble(world: &Arc<World>) -> Vec<JoinHandle<()>> {
    let outages = world.options.has_routes.then(|| world.spawn("outages", outages(world.clone())));
    let has_pauses = world.options.has_routes && world.options.has_pauses;
    let pauses = has_pauses.then(|| world.spawn("administrator", administrator(world.clone())));
    outages.into_iter().chain(pauses).collect()
}

/// Brokers go down and come back, one of them or all, for as long as it is awaited.
async fn outages(world: Arc<World>) {
    let rng = world.brokers.rng.fork();
    loop {
        tokio::time::sleep(rng.millis(0, 3_000)).await;
        let is_total = rng.chance(250);
        let one = rng.pick(&SINKS);
        let until = world.clock.now() + rng.millis(100, 6_000);
        let manner = match rng.below(6) {
            0..3 => Absence::Refuses,
            3 | 4 => Absence::Asks,
            _ => Absence::Silent,
        };
        world.note(format_args!("{} down: {manner:?}", if is_total { "all brokers are" } else { one }));
        for sink in SINKS.into_iter().filter(|sink| is_total || *sink == one) {
            world.brokers.outages().insert(sink, Outage { until, manner });
        }
        world.cover("all brokers down", u64::from(world.has_no_broker()));
    }
}
