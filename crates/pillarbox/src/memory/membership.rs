//! Who takes part in the memory store, and who owns which partition.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::{Epoch, Floor, Holding, Instance, LONGEST_LEASE, Member, Owner, Registration, Tenancy};
use crate::{PARTITIONS, Timestamp};

/// The tables of instances and of partitions.
#[derive(Clone)]
pub(super) struct Membership {
    instances: BTreeMap<Owner, Entry>,
    partitions: Vec<Partition>,
}

/// One instance.
#[derive(Clone)]
struct Entry {
    instance: Instance,
    joined_at: Timestamp,
    seen_at: Timestamp,
    until: Timestamp,
    /// When another incarnation took its place.
    replaced_at: Option<Timestamp>,
}

/// One partition.
#[derive(Clone, Default)]
struct Partition {
    /// Nobody if it was released, or never owned.
    holder: Option<Holder>,
    epoch: Epoch,
    floor: i64,
    crashes: u32,
    suspect_to: i64,
}

/// Who owns a partition, and until when.
#[derive(Clone)]
struct Holder {
    owner: Owner,
    until: Timestamp,
}

impl Default for Membership {
    fn default() -> Self {
        Self { instances: BTreeMap::new(), partitions: vec![Partition::default(); PARTITIONS] }
    }
}

impl Membership {
    /// Names of live instances of the other mode, but for earlier incarnations that `instance` takes the place of.
    pub(super) fn of_other_mode(&self, instance: &Instance, now: Timestamp) -> Vec<String> {
        let live = self.instances.values().filter(|other| other.is_alive(now));
        let others = live.map(|other| &other.instance).filter(|other| other.mode != instance.mode);
        others
            .filter(|other| !takes_place_of(instance, &other.owner))
            .map(|other| format!("`{}`", other.owner.name()))
            .collect()
    }

    /// Takes the place of earlier incarnations.
    pub(super) fn replace(&mut self, instance: &Instance, now: Timestamp) {
        let earlier = self.instances.iter_mut().filter(|(owner, _)| takes_place_of(instance, owner));
        earlier.for_each(|(_, entry)| entry.replaced_at = entry.replaced_at.or(Some(now)));
    }

    /// Whether no other incarnation has taken the place of this one, as far as is remembered.
    pub(super) fn is_current(&self, owner: &Owner, now: Timestamp) -> bool {
        let mut of_name = self.instances.iter().filter(|(other, _)| other.name() == owner.name());
        !of_name.any(
            |(other, entry)| {
                if other == owner { entry.replaced_at.is_some() } else { entry.is_alive(now) }
            },
        )
    }

    /// Makes an instance a member for as long as it says, and strikes off those whose time has ended.
    pub(super) fn register(&mut self, instance: &Instance, now: Timestamp) {
        self.instances.retain(|_, other| other.is_remembered(now));
        let joined_at = self.instances.get(&instance.owner).map_or(now, |before| before.joined_at);
        let until = now.saturating_add(instance.live_for);
        let entry = Entry { instance: instance.clone(), joined_at, seen_at: now, until, replaced_at: None };
        self.instances.insert(instance.owner.clone(), entry);
    }

    pub(super) fn strike_off(&mut self, owner: &Owner) {
        self.instances.remove(owner);
    }

    pub(super) fn members(&self, now: Timestamp) -> Vec<Member> {
        let live = self.instances.iter().filter(|(_, entry)| entry.is_alive(now));
        live.map(|(owner, Entry { joined_at, seen_at, .. })| Member {
            owner: owner.clone(),
            joined_ago: now.saturating_since(*joined_at),
            silent_for: now.saturating_since(*seen_at),
        })
        .collect()
    }

    /// Everybody on the list, alive or not, but for those whose place was taken.
    pub(super) fn registrations(&self, now: Timestamp) -> Vec<Registration> {
        let listed = self.instances.values().filter(|entry| entry.replaced_at.is_none());
        listed
            .map(|entry| Registration {
                owner: entry.instance.owner.clone(),
                mode: entry.instance.mode,
                joined_ago: now.saturating_since(entry.joined_at),
                silent_for: now.saturating_since(entry.seen_at),
                is_alive: entry.is_alive(now),
            })
            .collect()
    }

    /// All partitions with their owners, and nothing counted in them.
    pub(super) fn tenancies(&self, now: Timestamp) -> Vec<Tenancy> {
        let partitions = (0..=u8::MAX).zip(&self.partitions);
        partitions
            .map(|(number, partition)| Tenancy {
                partition: number,
                owner: partition.holder.as_ref().map(|holder| holder.owner.clone()),
                is_held: !partition.is_free(now),
                epoch: partition.epoch,
                ..Tenancy::default()
            })
            .collect()
    }

    pub(super) fn epoch_of(&self, partition: u8) -> Epoch {
        self.partitions[usize::from(partition)].epoch
    }

    /// Gives an instance what earlier incarnations have left to it, and what is its own already.
    pub(super) fn inherit(&mut self, instance: &Instance, highest: i64, now: Timestamp) -> Vec<Holding> {
        self.give(instance, 0..=u8::MAX, highest, now, |partition| {
            let holder = partition.holder.as_ref();
            holder.is_some_and(|holder| takes_place_of(instance, &holder.owner))
        })
    }

    /// Gives an instance those of `wanted` that are free, and those that are its own already.
    pub(super) fn acquire(
        &mut self,
        instance: &Instance,
        wanted: &[u8],
        highest: i64,
        now: Timestamp,
    ) -> Vec<Holding> {
        let wanted: BTreeSet<u8> = wanted.iter().copied().collect();
        self.give(instance, wanted, highest, now, |partition| partition.is_free(now))
    }

    fn give(
        &mut self,
        instance: &Instance,
        wanted: impl IntoIterator<Item = u8>,
        highest: i64,
        now: Timestamp,
        is_to_be_had: impl Fn(&Partition) -> bool,
    ) -> Vec<Holding> {
        let until = now.saturating_add(instance.live_for);
        let mut given = Vec::new();
        for number in wanted {
            let partition = &mut self.partitions[usize::from(number)];
            if partition.is_held_by(&instance.owner) || is_to_be_had(partition) {
                partition.pass_to(&instance.owner, until, highest);
                given.push(partition.holding(number));
            }
        }
        given
    }

    /// Stores floors, and renews everything that the instance owns.
    pub(super) fn renew(&mut self, instance: &Instance, floors: &[Floor], now: Timestamp) {
        let until = now.saturating_add(instance.live_for);
        self.raise(&instance.owner, floors, |_| {});
        let holders = self.partitions.iter_mut().filter_map(|partition| partition.holder.as_mut());
        holders.filter(|holder| holder.owner == instance.owner).for_each(|holder| holder.until = until);
    }

    /// Stores floors, and gives their partitions back.
    pub(super) fn release(&mut self, owner: &Owner, floors: &[Floor]) {
        self.raise(owner, floors, |partition| partition.holder = None);
    }

    fn raise(&mut self, owner: &Owner, floors: &[Floor], then: impl Fn(&mut Partition)) {
        for floor in floors {
            let partition = &mut self.partitions[usize::from(floor.partition)];
            if partition.is_held_by(owner) && partition.epoch == floor.epoch {
                partition.floor = partition.floor.max(floor.floor);
                then(partition);
            }
        }
    }

    /// Takes suspicion from those partitions that have come past it, of which `is_clear` knows the rest.
    pub(super) fn absolve(&mut self, owner: &Owner, is_clear: impl Fn(u8, i64) -> bool) {
        for (number, partition) in (0..=u8::MAX).zip(&mut self.partitions) {
            let is_past = partition.crashes > 0 && partition.floor >= partition.suspect_to;
            if is_past && partition.is_held_by(owner) && is_clear(number, partition.suspect_to) {
                partition.crashes = 0;
            }
        }
    }

    pub(super) fn held_by(&self, owner: &Owner) -> Vec<Holding> {
        let partitions = (0..=u8::MAX).zip(&self.partitions);
        let held = partitions.filter(|(_, partition)| partition.is_held_by(owner));
        held.map(|(number, partition)| partition.holding(number)).collect()
    }

    /// Ends all ownership; nothing that was read before can be settled after.
    pub(super) fn end_ownership(&mut self) {
        for partition in &mut self.partitions {
            *partition = Partition { epoch: partition.epoch.next(), ..Partition::default() };
        }
    }
}

impl Entry {
    fn is_alive(&self, now: Timestamp) -> bool {
        self.replaced_at.is_none() && has_not_ended(self.until, now)
    }

    /// Whose place was taken stays for a while, to be told so should it wake up.
    fn is_remembered(&self, now: Timestamp) -> bool {
        self.is_alive(now) || self.replaced_at.is_some_and(|at| now < at.saturating_add(LONGEST_LEASE))
    }
}

impl Partition {
    fn is_held_by(&self, owner: &Owner) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.owner == *owner)
    }

    fn is_free(&self, now: Timestamp) -> bool {
        self.holder.as_ref().is_none_or(|holder| !has_not_ended(holder.until, now))
    }

    fn pass_to(&mut self, owner: &Owner, until: Timestamp, highest: i64) {
        // Who asks for its own has lost the answer, and is neither another owner nor dead.
        if !self.is_held_by(owner) {
            self.epoch = self.epoch.next();
            if self.holder.is_some() {
                self.crashes += 1;
                self.suspect_to = highest;
            }
            if self.floor > highest {
                self.floor = 0;
            }
        }
        self.holder = Some(Holder { owner: owner.clone(), until });
    }

    fn holding(&self, partition: u8) -> Holding {
        let Self { epoch, floor, crashes, suspect_to, .. } = *self;
        Holding { partition, epoch, floor, crashes, suspect_to }
    }
}

/// Whether `other` is an earlier incarnation of this instance.
fn takes_place_of(instance: &Instance, other: &Owner) -> bool {
    instance.is_named && other.name() == instance.owner.name() && *other != instance.owner
}

/// One that would end implausibly late has ended: the clock went back.
fn has_not_ended(until: Timestamp, now: Timestamp) -> bool {
    now < until && until <= now.saturating_add(LONGEST_LEASE)
}
