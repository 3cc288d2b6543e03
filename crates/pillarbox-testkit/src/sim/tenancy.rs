//! Who owns which partition, kept beside the store by much simpler rules.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::store::{Epoch, Floor, Holding, Instance, LONGEST_LEASE, Owner, Pulse};
use pillarbox::{PARTITIONS, Timestamp};

/// The partitions, and what is being delivered from them.
pub(super) struct Tenancy {
    partitions: Vec<Partition>,
    /// Deliveries that have begun and not ended, by their numbers.
    running: BTreeMap<u64, Running>,
    /// Events that were delivered and are not recorded as done, and by which process.
    unrecorded: BTreeSet<(String, u32)>,
    /// The partitions of which each process has settled something since it was last heard of.
    settled: BTreeSet<(u32, u8)>,
}

/// The partitions at some moment.
pub(super) struct Partitions(Vec<Partition>);

#[derive(Clone, Default)]
struct Partition {
    holder: Option<Holder>,
    epoch: Epoch,
    floor: i64,
}

#[derive(Clone)]
struct Holder {
    owner: Owner,
    process: u32,
    until: Timestamp,
}

/// A delivery that has begun.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) process: u32,
    pub(super) id: String,
    /// One of several sinks that it goes to.
    pub(super) sink: Option<&'static str>,
    pub(super) key: Option<String>,
    pub(super) partition: u8,
    /// The partition's epoch when it began.
    pub(super) epoch: Epoch,
}

/// A partition that has passed from one process to another without having been given back.
pub(super) struct Passed {
    pub(super) partition: u8,
    pub(super) from: u32,
}

impl Default for Tenancy {
    fn default() -> Self {
        Self {
            partitions: vec![Partition::default(); PARTITIONS],
            running: BTreeMap::new(),
            unrecorded: BTreeSet::new(),
            settled: BTreeSet::new(),
        }
    }
}

impl Tenancy {
    pub(super) fn epoch_of(&self, partition: u8) -> Epoch {
        self.partitions[usize::from(partition)].epoch
    }

    pub(super) fn partitions(&self) -> Partitions {
        Partitions(self.partitions.clone())
    }

    /// Goes back to an earlier state, if that is known.
    pub(super) fn fail_over(&mut self, earlier: Option<Partitions>) {
        // What is being delivered goes on; its epoch may be given again, to whoever delivers it too.
        self.running.values_mut().for_each(|running| running.epoch = Epoch(-1));
        if let Some(Partitions(partitions)) = earlier {
            self.partitions = partitions;
        }
    }

    pub(super) fn floor_of(&self, partition: u8) -> i64 {
        self.partitions[usize::from(partition)].floor
    }

    /// Whether a process owns a partition at this moment of the database's clock.
    pub(super) fn is_owner(&self, process: u32, partition: u8, now: Timestamp) -> bool {
        let holder = self.partitions[usize::from(partition)].holder.as_ref();
        holder.is_some_and(|holder| holder.process == process && holder.has_not_ended(now))
    }

    /// How many partitions a process owns, whether their leases have ended or not.
    pub(super) fn held_by(&self, process: u32) -> usize {
        let holders = self.partitions.iter().filter_map(|partition| partition.holder.as_ref());
        holders.filter(|holder| holder.process == process).count()
    }

    /// Partitions were given to an instance: by joining (`inherits`), or because they were free. Returns those that
    /// somebody has lost by that, or what is wrong.
    pub(super) fn given(
        &mut self,
        process: u32,
        instance: &Instance,
        given: &[Holding],
        inherits: bool,
        now: Timestamp,
    ) -> Result<Vec<Passed>, String> {
        let mut passed = Vec::new();
        for holding in given {
            let partition = &mut self.partitions[usize::from(holding.partition)];
            let before = partition.holder.take();
            let is_own = before.as_ref().is_some_and(|holder| holder.owner == instance.owner);
            let is_right =
                if is_own { holding.epoch == partition.epoch } else { holding.epoch > partition.epoch };
            if !is_right {
                return Err(format!("{holding:?} was given after {:?}", partition.epoch));
            }
            let is_inherited = |holder: &Holder| {
                inherits && instance.is_named && holder.owner.name() == instance.owner.name()
            };
            let is_taken = |holder: &&Holder| !is_own && holder.has_not_ended(now) && !is_inherited(holder);
            if let Some(holder) = before.as_ref().filter(is_taken) {
                return Err(format!("{holding:?} was given while {} owns it", holder.owner));
            }
            let lost = before.filter(|_| !is_own).map(|holder| holder.process);
            passed.extend(lost.map(|from| Passed { partition: holding.partition, from }));
            partition.epoch = holding.epoch;
            partition.floor = holding.floor;
            let until = now.saturating_add(instance.live_for);
            partition.holder = Some(Holder { owner: instance.owner.clone(), process, until });
        }
        Ok(passed)
    }

    /// An instance was heard of. Returns the floors that have risen, or what is wrong.
    pub(super) fn beaten(
        &mut self,
        process: u32,
        instance: &Instance,
        floors: &[Floor],
        pulse: &Pulse,
        now: Timestamp,
    ) -> Result<Vec<Floor>, String> {
        if pulse.is_replaced {
            return Ok(Vec::new());
        }
        let risen = self.raise(&instance.owner, floors);
        let mut all_told = [None; PARTITIONS];
        pulse.held.iter().for_each(|told| all_told[usize::from(told.partition)] = Some(told));
        for (number, partition) in (0..=u8::MAX).zip(&mut self.partitions) {
            let holder = partition.holder.as_mut().filter(|holder| holder.owner == instance.owner);
            let told = all_told[usize::from(number)];
            match (holder, told) {
                (None, None) => {}
                (Some(holder), Some(told)) if told.epoch == partition.epoch => {
                    holder.until = now.saturating_add(instance.live_for);
                }
                (holder, told) => {
                    let is_held = holder.is_some();
                    return Err(format!("partition {number} is held: {is_held}, but {told:?} was told"));
                }
            }
        }
        self.settled.retain(|(settler, _)| *settler != process);
        Ok(risen)
    }

    fn raise(&mut self, owner: &Owner, floors: &[Floor]) -> Vec<Floor> {
        let mut risen = Vec::new();
        for floor in floors {
            let partition = &mut self.partitions[usize::from(floor.partition)];
            let is_held = partition.holder.as_ref().is_some_and(|holder| holder.owner == *owner);
            if is_held && partition.epoch == floor.epoch && partition.floor < floor.floor {
                partition.floor = floor.floor;
                risen.push(*floor);
            }
        }
        risen
    }

    /// Partitions were given back. Returns the floors that have risen, and those whose events were settled since the
    /// instance was last heard of; or what is wrong. Nothing of them may still run, unless their epoch was given twice.
    pub(super) fn given_back(
        &mut self,
        process: u32,
        owner: &Owner,
        floors: &[Floor],
        may_run: bool,
    ) -> Result<(Vec<Floor>, u64), String> {
        let mut in_flight = 0;
        let risen = self.raise(owner, floors);
        for floor in floors {
            let partition = &mut self.partitions[usize::from(floor.partition)];
            let is_held = partition.holder.as_ref().is_some_and(|holder| holder.owner == *owner);
            if !is_held || partition.epoch != floor.epoch {
                continue;
            }
            partition.holder = None;
            in_flight += u64::from(self.settled.contains(&(process, floor.partition)));
            let is_of_it = |running: &&Running| {
                (running.process, running.partition, running.epoch) == (process, floor.partition, floor.epoch)
            };
            if let Some(running) = self.running.values().find(is_of_it).filter(|_| !may_run) {
                let Running { id, partition, .. } = running;
                return Err(format!("partition {partition} was given back while {id} was delivered"));
            }
        }
        Ok((risen, in_flight))
    }

    /// Notes a delivery that begins, and returns another of its key that runs under the same epoch; the same event to
    /// another sink is none.
    pub(super) fn begun(&mut self, number: u64, begun: Running) -> Option<Running> {
        let is_same = |running: &&Running| {
            let is_of_key = running.key.is_some() && running.key == begun.key;
            let is_other = running.id != begun.id || running.sink == begun.sink;
            is_of_key && is_other && (running.partition, running.epoch) == (begun.partition, begun.epoch)
        };
        let beside = self.running.values().find(is_same).cloned();
        self.running.insert(number, begun);
        beside
    }

    /// Notes that a delivery took effect; says whether its partition has passed to another meanwhile.
    pub(super) fn took_effect(&mut self, number: u64) -> bool {
        let Some(Running { id, process, partition, epoch, .. }) = self.running.get(&number).cloned() else {
            return false;
        };
        self.unrecorded.insert((id, process));
        self.epoch_of(partition) != epoch
    }

    pub(super) fn ended(&mut self, number: u64) {
        self.running.remove(&number);
    }

    /// Whether a process delivers something.
    pub(super) fn is_delivering(&self, process: u32) -> bool {
        self.running.values().any(|running| running.process == process)
    }

    /// How many deliveries of a process from a partition run.
    pub(super) fn running_in(&self, process: u32, partition: u8) -> usize {
        let is_there = |running: &&Running| running.process == process && running.partition == partition;
        self.running.values().filter(is_there).count()
    }

    /// Events that were delivered and are not recorded as done.
    pub(super) fn unrecorded(&self) -> impl Iterator<Item = (&str, u32)> {
        self.unrecorded.iter().map(|(id, process)| (id.as_str(), *process))
    }

    /// An outcome was recorded by a process.
    pub(super) fn settled(&mut self, process: u32, partition: u8, event_id: &str, is_done: bool) {
        self.settled.insert((process, partition));
        if is_done {
            self.unrecorded.retain(|(id, _)| id != event_id);
        }
    }

    /// A process has died; returns what it delivered and did not record.
    pub(super) fn died(&mut self, process: u32) -> Vec<String> {
        self.running.retain(|_, running| running.process != process);
        let theirs = self.unrecorded.iter().filter(|(_, by)| *by == process);
        theirs.map(|(id, _)| id.clone()).collect()
    }
}

impl Holder {
    fn has_not_ended(&self, now: Timestamp) -> bool {
        now < self.until && self.until <= now.saturating_add(LONGEST_LEASE)
    }
}
