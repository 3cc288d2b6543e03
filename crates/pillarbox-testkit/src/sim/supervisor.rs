//! Starts processes, ends them, and looks at what they leave behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::Clock;
use pillarbox::store::{Administration, Page, Selection};
use tokio::task::JoinHandle;

use super::brokers::trouble;
use super::instance::Instance;
use super::world::World;
use crate::ledger::{Cause, Ending};

/// Within this time everything must end done or dead once the faults are over.
const DRAIN_WITHIN: Duration = Duration::from_secs(1_800);

pub(super) async fn supervise(world: &Arc<World>) {
    let mut supervisor = Supervisor { world: world.clone(), started: 0, previous: None };
    supervisor.let_things_go_wrong().await;

    world.is_faulty.store(false, Ordering::Relaxed);
    world.is_quiet.store(true, Ordering::Relaxed);
    world.clock.catch_up();
    world.note(format_args!("the faults end"));
    world.resume_all();
    supervisor.drain().await;
    supervisor.close_in_the_middle().await;
    supervisor.drain().await;
    check_books(world).await;
}

struct Supervisor {
    world: Arc<World>,
    started: u32,
    /// An instance that still runs while its successor starts, as in a rolling deploy.
    previous: Option<Instance>,
}

impl Supervisor {
    async fn let_things_go_wrong(&mut self) {
        let world = self.world.clone();
        let weather = world.spawn("weather", weather(world.clone()));
        let trouble = trouble(&world);
        for incarnation in 0..world.options.incarnations {
            let dies_at = match world.script.death_at {
                Some(poll) if incarnation == 0 => poll,
                _ if world.options.has_faults && world.rng.chance(600) => self.draw_death(),
                _ => u64::MAX,
            };
            let instance = self.start(dies_at);
            instance.write(world.options.writers, world.options.transactions);
            tokio::select! {
                biased;
                () = instance.process.died() => {}
                () = tokio::time::sleep(world.rng.millis(100, 15_000)) => {}
            }
            if let Some(previous) = self.previous.take() {
                self.stop(previous).await;
            }
            if instance.process.is_alive() && world.rng.chance(300) {
                self.previous = Some(instance);
            } else {
                self.stop(instance).await;
            }
            tokio::time::sleep(world.rng.millis(1, 3_000)).await;
        }
        if let Some(previous) = self.previous.take() {
            self.stop(previous).await;
        }
        weather.abort();
        trouble.iter().for_each(JoinHandle::abort);
    }

    /// From the first poll on, and as likely early as late.
    fn draw_death(&self) -> u64 {
        let magnitude = self.world.rng.between(1, 11);
        self.world.rng.between(1, 1 << magnitude)
    }

    fn start(&mut self, dies_at: u64) -> Instance {
        self.started += 1;
        // Whoever sets a name promises that no two live instances have it.
        let name = match &self.previous {
            Some(_) => None,
            None => self.world.rng.pick(&[None, Some("shop"), Some("shop"), Some("shop-b")]),
        };
        Instance::start(&self.world, self.started, name, dies_at)
    }

    async fn stop(&self, instance: Instance) {
        let may_be_killed = self.world.options.has_faults;
        if instance.process.is_alive() && !(may_be_killed && self.world.rng.chance(400)) {
            instance.close().await;
        }
        instance.end();
        // Lets the dropped tasks go.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Runs instances without faults until nothing is pending; only poison kills them now.
    async fn drain(&mut self) {
        let begun = self.world.clock.now();
        while self.world.clock.now() - begun < DRAIN_WITHIN && !self.world.has_failed() {
            let instance = self.start(u64::MAX);
            while instance.process.is_alive() && self.world.clock.now() - begun < DRAIN_WITHIN {
                if self.pending().await == 0 {
                    let took = self.world.clock.now() - begun;
                    self.world.note(format_args!("drained in {took:?}"));
                    return self.stop_cleanly(instance).await;
                }
                tokio::select! {
                    biased;
                    () = instance.process.died() => {}
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                }
            }
            instance.end();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if self.world.has_failed() {
            return;
        }
        self.world.violation(format!("{} events still pend after {DRAIN_WITHIN:?}", self.pending().await));
    }

    /// Shutdown is not a failure: what was not begun is given back at once, with nothing spent.
    async fn close_in_the_middle(&mut self) {
        let instance = self.start(u64::MAX);
        instance.write(2, 2);
        tokio::time::sleep(self.world.rng.millis(10, 1_500)).await;
        self.stop_cleanly(instance).await;
    }

    async fn stop_cleanly(&self, instance: Instance) {
        if instance.process.is_alive() {
            instance.close().await;
        }
        if instance.process.is_alive() {
            // Writers may still write; what they write from now on is not leased.
            self.check_released(&instance).await;
        }
        instance.end();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn check_released(&self, instance: &Instance) {
        let held = self.world.model().held_by(instance.process.number);
        let mut visible = Vec::new();
        for id in held {
            if matches!(self.world.db.find(&id).await, Ok(Some(_))) {
                visible.push(id);
            }
        }
        // Who commits at this very moment gives his events back in the next.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let still_held = self.world.model().held_by(instance.process.number);
        for id in visible.into_iter().filter(|id| still_held.contains(id)) {
            let row = self.world.db.find(&id).await.ok().flatten();
            if row.is_some_and(|row| row.locked_by.is_some()) {
                self.world.violation(format!("{id} is still leased after a clean close"));
            }
        }
    }

    async fn pending(&self) -> u64 {
        self.world.db.stats().await.map_or(u64::MAX, |stats| stats.pending())
    }
}

/// Clocks jump, and operators replay.
async fn weather(world: Arc<World>) {
    let rng = world.rng.fork();
    if !world.options.has_faults {
        return;
    }
    loop {
        tokio::time::sleep(rng.millis(200, 6_000)).await;
        if rng.chance(150) {
            let far = if rng.chance(100) { 2 * 3_600_000 } else { 8_000 };
            let millis = rng.below(2 * far) as i64 - far as i64;
            world.note(format_args!("the database's clock jumps by {millis} ms"));
            world.cover("clock jumps", 1);
            world.clock.jump(millis);
        }
        if rng.chance(150) {
            replay(&world).await;
        }
    }
}

async fn replay(world: &World) {
    let Ok(dead) = world.db.dead(Page { after: 0, limit: 2 }).await else { return };
    for row in dead {
        world.note(format_args!("an operator replays {}", row.event_id));
        world.cover("replays", 1);
        world.ledger.explain(&row.event_id, Cause::Replayed);
        world.ledger.dead(&row.event_id, false);
        world.model().replayed(&row.event_id, world.clock.wall());
        world.note_replay(&row.event_id);
        // The memory store cannot fail.
        let _ = world.db.replay(&Selection::Ids(vec![row.event_id])).await;
    }
}

/// Nothing is lost, falsely done, delivered for nothing or twice without a cause.
pub(super) async fn check_books(world: &World) {
    check_rows(world).await;
    let balance = world.ledger.balance();
    world.cover("duplicates with a cause", balance.duplicates);
    if !balance.is_even() {
        world.violation(format!("the ledger does not balance:\n{balance}"));
    }
}

/// Nothing committed is lost, nothing rolled back is there, and the counts are right.
async fn check_rows(world: &World) {
    for id in world.ledger.events() {
        let row = world.db.find(&id).await.ok().flatten();
        let ending = world.ledger.ending(&id);
        if row.is_none() && world.ledger.is_taken_back(&id) {
            continue;
        }
        let is_over = world.ledger.is_done(&id) || world.discarded().contains(&id);
        if ending == Some(Ending::Unknown) {
            let is_there = row.is_some() || is_over;
            world.cover(if is_there { "unknown and committed" } else { "unknown and rolled back" }, 1);
        }
        match (&row, ending) {
            (None, Some(Ending::Committed)) if !is_over => {
                world.violation(format!("{id} was committed and is gone"))
            }
            (Some(_), Some(Ending::RolledBack)) => {
                world.violation(format!("{id} was rolled back and is there"));
            }
            (Some(row), _) => {
                world.ledger.ended(&id, Ending::Committed);
                let counts = (row.attempts, row.starts);
                if world.model().counts(&id) != Some(counts) {
                    world.violation(format!("{id} ends with attempts and starts {counts:?}"));
                }
            }
            (None, Some(Ending::Committed)) => {}
            (None, _) if is_over => world.ledger.ended(&id, Ending::Committed),
            (None, _) => world.ledger.ended(&id, Ending::RolledBack),
        }
    }
}
