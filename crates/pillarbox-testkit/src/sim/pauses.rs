//! An administrator who pauses routes and resumes them, and relays that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::store::{Administration, Outcome, PausedRoute};
use pillarbox::{Clock, Health, Outbox, Routing};

use super::application::{Kind, SimStore};
use super::judge::at_once;
use super::process::Process;
use super::rng::Rng;
use super::sinks::{ROUTES, route_of};
use super::world::World;

/// For so many looks a route that was resumed is recalled: others may have seen it later.
const LOOKS: u8 = 4;

/// An administrator pauses a route now and then, and resumes it, for as long as it is awaited.
pub(super) async fn administrator(world: Arc<World>) {
    let rng = world.brokers.rng.fork();
    loop {
        tokio::time::sleep(rng.millis(0, 4_000)).await;
        let route = rng.pick(&ROUTES);
        world.note(format_args!("an administrator pauses {route}"));
        world.cover("routes paused", 1);
        let _ = at_once(world.db.pause_route(route));
        tokio::time::sleep(rng.millis(500, 8_000)).await;
        world.resume(route);
    }
}

impl World {
    /// Resumes all routes that are paused.
    pub(super) fn resume_all(&self) {
        for route in paused(self) {
            self.resume(&route);
        }
    }

    fn resume(&self, route: &str) {
        self.note(format_args!("an administrator resumes {route}"));
        let _ = at_once(self.db.resume_route(route));
        self.recall(route);
    }

    /// Lets go what waits for a route that was resumed.
    fn recall(&self, route: &str) -> u64 {
        let recalled = at_once(Box::pin(PausedRoute::recall(&self.db, route))).unwrap_or_default();
        let by_model = self.model().recalled(&reason(route), self.clock.wall());
        if recalled != by_model {
            self.violation(format!("{recalled} events of {route} were recalled, not {by_model}"));
        }
        self.cover("events recalled", recalled);
        recalled
    }

    /// An outcome was recorded: only the route of an event has it wait for a pause.
    pub(super) fn check_pause(&self, id: &str, outcome: &Outcome) {
        let Outcome::Aside { until: Some(_), reason: told } = outcome else { return };
        self.cover("events held back by a breaker", u64::from(told.starts_with("breaker: ")));
        if !told.starts_with("paused: ") {
            return;
        }
        self.cover("events waiting for a paused route", 1);
        if *told != reason(route_of(Kind::of(id)).0) {
            self.violation(format!("{id} was set aside: {told}"));
        }
    }
}

fn reason(route: &str) -> String {
    format!("paused: route `{route}`")
}

fn paused(world: &World) -> BTreeSet<String> {
    let paused = at_once(world.db.paused_routes()).unwrap_or_default();
    paused.into_iter().map(|route| route.name).collect()
}

/// What a process knows of paused routes, and of how its sinks are doing.
pub(super) struct Relay {
    process: Arc<Process>,
    routing: Routing,
    rng: Rng,
    /// Routes that were resumed, and for how many looks they are recalled.
    resumed: BTreeMap<String, u8>,
}

impl Relay {
    /// Looks before anything is delivered.
    pub(super) fn new(process: &Arc<Process>, routing: &Routing) -> Self {
        let rng = process.world.brokers.rng.fork();
        let mut relay =
            Self { process: process.clone(), routing: routing.clone(), rng, resumed: BTreeMap::new() };
        relay.look();
        relay
    }

    /// Follows the database for as long as something may change.
    pub(super) async fn follow(mut self, outbox: Outbox<SimStore>) {
        let world = self.process.world.clone();
        while !world.is_quiet.load(Ordering::Relaxed) || !self.is_up_to_date() {
            tokio::time::sleep(self.rng.millis(300, 2_000)).await;
            self.look();
            if self.recall() {
                let outbox = outbox.clone();
                drop(self.process.run(async move { outbox.poll().await }));
            }
            for sink in self.routing.health() {
                world.cover("breakers open", u64::from(sink.health == Health::Down));
                world.cover("breakers half open", u64::from(sink.health == Health::Trying));
            }
        }
    }

    fn is_up_to_date(&self) -> bool {
        self.resumed.is_empty() && self.routing.paused().is_empty()
    }

    fn look(&mut self) {
        let (world, process) = (&self.process.world, self.process.number);
        let before: BTreeSet<String> = self.routing.paused().into_iter().collect();
        let now = paused(world);
        for route in now.difference(&before) {
            world.note(format_args!("{process} sees that {route} is paused"));
            world.standings().paused(process, route);
            self.resumed.remove(route);
        }
        for route in before.difference(&now) {
            world.note(format_args!("{process} sees that {route} is resumed"));
            world.standings().resumed(process, route);
            self.resumed.insert(route.clone(), LOOKS);
        }
        self.routing.set_paused(now);
    }

    /// Lets go what waits for routes that were resumed; true if the outbox should look for it.
    fn recall(&mut self) -> bool {
        let mut is_worth_a_poll = false;
        self.resumed.retain(|route, looks| {
            is_worth_a_poll |= self.process.world.recall(route) > 0 || *looks == LOOKS;
            *looks -= 1;
            *looks > 0
        });
        is_worth_a_poll
    }
}
