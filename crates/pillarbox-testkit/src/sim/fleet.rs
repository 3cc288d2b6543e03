//! Several instances that own partitions: they come, go, die and freeze.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::{Administration, Floor, Ownership};
use pillarbox::{Clock, PARTITIONS};
use tokio::task::JoinHandle;

use super::brokers::trouble;
use super::failover::failovers;
use super::instance::Instance;
use super::judge::at_once;
use super::operator::{steps, weather};
use super::options::Owned;
use super::supervisor::check_books;
use super::world::World;

/// Within this time everything must end done or dead, or wait for a parked key, once the faults are over.
const DRAIN_WITHIN: Duration = Duration::from_secs(1_800);
/// The same after the clock has jumped: what was due looks delayed for as far as it went back.
const DRAIN_AFTER_JUMP_WITHIN: Duration = Duration::from_secs(3 * 3_600);
/// The same after the events alone were restored: what lies below floors since then is found by the slow look only. Who
/// has a queue for one looks for one event of one partition every ten seconds, so a round takes 43 minutes.
const DRAIN_AFTER_RESTORE_WITHIN: Duration = Duration::from_secs(12 * 3_600);
/// Within this time everybody has looked at all of his partitions, and set aside what waits for a parked key. Who has a
/// queue for one does that one by one, with a poll between two of them.
const LOOK_WITHIN: Duration = Duration::from_secs(600);
/// After this time the dead are struck off.
const LONGEST_SILENCE: Duration = Duration::from_secs(12);
/// Within this time shares are even then.
const EVEN_WITHIN: Duration = Duration::from_secs(60);
/// For so long nothing moves then.
const STABLE_FOR: Duration = Duration::from_secs(10);

const NAMES: [&str; 6] = ["shop-1", "shop-2", "shop-3", "shop-4", "shop-5", "shop-6"];

pub(super) async fn supervise(world: &Arc<World>) {
    let Some(owned) = world.options.owned else { return };
    let mut fleet = Fleet { world: world.clone(), owned, started: 0, instances: Vec::new() };
    fleet.let_things_go_wrong().await;

    world.is_faulty.store(false, Ordering::Relaxed);
    world.is_quiet.store(true, Ordering::Relaxed);
    if world.clock.has_jumped() {
        world.clock.catch_up();
    }
    world.note(format_args!("the faults end"));
    world.resume_all();
    fleet.end_the_silent().await;
    fleet.drain().await;
    if !world.has_failed() {
        fleet.close_in_the_middle().await;
        fleet.drain().await;
        fleet.close_all().await;
    }
    // What is cut short has no balance.
    if !world.has_failed() {
        check_books(world).await;
    }
}

struct Fleet {
    world: Arc<World>,
    owned: Owned,
    started: u32,
    instances: Vec<Instance>,
}

impl Fleet {
    async fn let_things_go_wrong(&mut self) {
        let world = self.world.clone();
        let weather = [
            world.spawn("weather", weather(world.clone())),
            world.spawn("steps", steps(world.clone())),
            world.spawn("failovers", failovers(world.clone())),
        ];
        let trouble = trouble(&world);
        for _ in 0..world.rng.between(1, self.owned.instances.max(1)) {
            self.start_and_write();
        }
        for _ in 0..self.owned.changes {
            tokio::time::sleep(world.rng.millis(100, 5_000)).await;
            if world.has_failed() {
                break;
            }
            self.change().await;
        }
        tokio::time::sleep(world.rng.millis(1, 3_000)).await;
        weather.iter().chain(&trouble).for_each(JoinHandle::abort);
    }

    /// One instance comes, goes, dies, freezes or is started again.
    async fn change(&mut self) {
        self.reap();
        let (has_faults, world) = (self.world.options.has_faults, self.world.clone());
        let is_full = self.instances.len() as u64 >= self.owned.instances;
        match world.rng.below(10) {
            0..3 if !is_full => self.start_and_write(),
            3 | 4 => {
                if let Some(instance) = self.pick() {
                    self.stop(instance).await;
                }
            }
            5 if has_faults => {
                if let Some(instance) = self.pick() {
                    instance.process.kill("death by kill");
                    instance.end();
                }
            }
            6 | 7 if self.owned.has_freezes => self.freeze(),
            8 => {
                let Some(instance) = self.pick() else { return };
                let name = instance.settings.name;
                if has_faults && world.rng.chance(500) {
                    instance.process.kill("death by kill");
                    instance.end();
                } else {
                    self.stop(instance).await;
                }
                self.start(name, u64::MAX);
            }
            _ => {
                let transactions = world.options.transactions;
                if let Some(instance) = self.instances.first() {
                    instance.write(1, transactions);
                }
            }
        }
    }

    fn start_and_write(&mut self) {
        let world = self.world.clone();
        let is_doomed = world.options.has_faults && world.rng.chance(250);
        let dies_at = match world.script.death_at {
            Some(poll) if self.started == 0 => poll,
            _ if is_doomed => world.rng.between(1, 1 << world.rng.between(4, 13)),
            _ => u64::MAX,
        };
        let name = world.rng.chance(600).then(|| world.rng.pick(&NAMES));
        self.start(name, dies_at);
        if let Some(instance) = self.instances.last() {
            instance.write(world.options.writers, world.options.transactions);
        }
    }

    /// Starts an instance; without the name if one that lives has it.
    fn start(&mut self, name: Option<&'static str>, dies_at: u64) {
        self.started += 1;
        let is_taken = self.instances.iter().any(|instance| instance.settings.name == name);
        let name = name.filter(|_| !is_taken);
        self.instances.push(Instance::start(&self.world, self.started, name, dies_at));
    }

    /// Takes any instance out.
    fn pick(&mut self) -> Option<Instance> {
        let count = self.instances.len() as u64;
        (count > 0).then(|| self.instances.swap_remove(self.world.rng.below(count) as usize))
    }

    fn freeze(&self) {
        let world = &self.world;
        let count = self.instances.len() as u64;
        let Some(instance) = self.instances.get(world.rng.below(count) as usize) else { return };
        if instance.process.is_frozen() || !instance.process.is_alive() {
            return;
        }
        let lease = instance.settings.beats.as_ref().map_or(Duration::ZERO, |beats| beats.silent_after);
        let time = world.rng.millis(100, 15_000);
        let process = instance.process.clone();
        world.note(format_args!("process {} freezes for {time:?}", process.number));
        world.cover("freezes", 1);
        world.cover("freezes past the lease", u64::from(time > lease));
        process.freeze();
        let thaw = async move {
            tokio::time::sleep(time).await;
            process.world.note(format_args!("process {} thaws", process.number));
            process.thaw();
        };
        drop(world.spawn("thaw", thaw));
    }

    /// Lets go of the dead, and of those who have stopped by themselves: a failover that takes a join back leaves an
    /// earlier incarnation of the name as the current one.
    fn reap(&mut self) {
        let may_stop = self.world.failovers.count() > 0;
        let is_over =
            |instance: &mut Instance| !instance.process.is_alive() || may_stop && instance.has_stopped();
        let over = self.instances.extract_if(.., is_over);
        over.for_each(|instance| instance.end());
    }

    async fn stop(&self, instance: Instance) {
        instance.process.thaw();
        let is_calm = !self.world.options.has_faults || self.world.is_quiet.load(Ordering::Relaxed);
        let is_calm = is_calm && !self.world.has_aftermath();
        if instance.process.is_alive() {
            instance.close().await;
        }
        // Without a fault whoever closes leaves nothing behind.
        let held = self.world.tenancy().held_by(instance.process.number);
        if is_calm && held > 0 && instance.process.is_alive() {
            self.world.violation(format!("{held} partitions were not given back"));
        }
        instance.end();
        // Lets the dropped tasks go.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Ends those who wait for an answer that will never come, and lets the others go on.
    async fn end_the_silent(&mut self) {
        for instance in std::mem::take(&mut self.instances) {
            instance.process.thaw();
            if instance.process.is_silenced.load(Ordering::Relaxed) {
                instance.end();
            } else {
                self.instances.push(instance);
            }
        }
        self.reap();
    }

    /// Runs without faults until nothing is pending; an operator frees keys when there is nothing else left.
    async fn drain(&mut self) {
        let (begun, mut has_looked) = (self.world.clock.now(), false);
        while !self.world.has_failed() {
            self.reap();
            if self.instances.is_empty() {
                let name = self.world.rng.pick(&[None, Some(NAMES[0])]);
                self.start(name, u64::MAX);
            }
            let limit = self.drain_within();
            if self.world.clock.now() - begun > limit {
                let left = self.pending().await;
                return self.world.violation(format!("{left} events still pend after {limit:?}"));
            }
            if self.waits_for_operator() {
                if !has_looked && !self.check_floors().await {
                    continue;
                }
                has_looked = true;
                let is_parked = self.world.free_a_key(&self.world.rng).await;
                if !is_parked {
                    return self.world.note(format_args!("drained in {:?}", self.world.clock.now() - begun));
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    fn drain_within(&self) -> Duration {
        if self.world.failovers.were_events_restored() {
            DRAIN_AFTER_RESTORE_WITHIN
        } else if self.world.clock.has_jumped() {
            DRAIN_AFTER_JUMP_WITHIN
        } else {
            DRAIN_WITHIN
        }
    }

    async fn pending(&self) -> u64 {
        self.world.db.stats().await.map_or(u64::MAX, |stats| stats.pending())
    }

    /// Whether all that is pending waits for a parked key.
    fn waits_for_operator(&self) -> bool {
        let world = &self.world;
        if at_once(world.db.stats()).is_ok_and(|stats| stats.pending() == 0) {
            return true;
        }
        let parked = world.parked().clone();
        let waits = |id: &String| world.ledger.key_of(id).is_some_and(|key| parked.contains_key(&key));
        let is_pending = |id: &String| matches!(at_once(world.db.find(id)), Ok(Some(_)));
        !parked.is_empty() && world.model().unsettled().iter().filter(|id| is_pending(id)).all(waits)
    }

    /// Where nothing can run any more the floors rise to the last number, whatever is parked. False if somebody died
    /// meanwhile, of an event that its key does not hold: what a dead one remembers rises no more.
    async fn check_floors(&self) -> bool {
        let highest = at_once(self.world.db.highest()).unwrap_or_default();
        if at_once(self.world.db.numbers()).unwrap_or_default().closed < highest {
            return true;
        }
        let begun = self.world.clock.now();
        loop {
            if self.instances.iter().any(|instance| !instance.process.is_alive()) {
                return false;
            }
            let floors = self.instances.iter().flat_map(Instance::floors);
            let Some(low) = floors.into_iter().find(|floor| floor.floor < highest) else { break };
            if self.world.clock.now() - begun > LOOK_WITHIN {
                let Floor { partition, floor, .. } = low;
                self.world.violation(format!("the floor of {partition} stays at {floor} of {highest}"));
                return true;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.world
            .cover("floors looked at while a key was parked", u64::from(!self.world.parked().is_empty()));
        true
    }

    /// Shutdown is not a failure: all partitions are given back, and nothing is spent.
    async fn close_in_the_middle(&mut self) {
        if self.world.rng.chance(100) {
            self.check_shares().await;
        }
        for instance in &self.instances {
            instance.write(1, 2);
        }
        tokio::time::sleep(self.world.rng.millis(10, 1_500)).await;
        self.close_all().await;
    }

    async fn close_all(&mut self) {
        for instance in std::mem::take(&mut self.instances) {
            self.stop(instance).await;
        }
    }

    /// While nobody comes or goes shares differ by at most one, and nothing moves.
    async fn check_shares(&mut self) {
        while self.world.has_aftermath() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        tokio::time::sleep(LONGEST_SILENCE).await;
        let begun = self.world.clock.now();
        self.reap();
        while let Err(shares) = self.shares() {
            if self.world.clock.now() - begun > EVEN_WITHIN {
                return self.world.violation(format!("the shares are {shares:?}"));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.reap();
        }
        let epochs =
            || -> Vec<_> { (0..=u8::MAX).map(|number| self.world.tenancy().epoch_of(number)).collect() };
        let before = epochs();
        tokio::time::sleep(STABLE_FOR).await;
        if epochs() != before {
            self.world.violation("partitions moved while nobody came or went".to_owned());
        }
        self.world.cover("shares looked at", 1);
    }

    /// How much each has, if that is not even.
    fn shares(&self) -> Result<(), Vec<usize>> {
        let numbers = self.instances.iter().map(|instance| instance.process.number);
        let held: Vec<usize> = numbers.map(|number| self.world.tenancy().held_by(number)).collect();
        let (most, least) = (held.iter().max().copied(), held.iter().min().copied());
        let is_even = most.zip(least).is_none_or(|(most, least)| most - least <= 1);
        let is_whole = held.is_empty() || held.iter().sum::<usize>() == PARTITIONS;
        if is_even && is_whole { Ok(()) } else { Err(held) }
    }
}
