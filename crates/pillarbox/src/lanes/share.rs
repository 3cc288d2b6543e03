//! The partitions that are owned, and what all of them have together: every outcome asks for it, and there are many
//! partitions.

use std::collections::{BTreeMap, BTreeSet};

use super::owned::Owned;

/// Owned partitions by their numbers.
#[derive(Debug, Default)]
pub(super) struct Share {
    owned: BTreeMap<u8, Owned>,
    in_flight: usize,
    ending: usize,
    /// Those with keys to be read.
    with_keys: BTreeSet<u8>,
    /// Those with suspects that may run.
    with_suspects: BTreeSet<u8>,
}

impl Share {
    pub(super) fn get(&self, partition: u8) -> Option<&Owned> {
        self.owned.get(&partition)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Owned> {
        self.owned.values()
    }

    /// How many events are in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many of them have their outcome, which is being recorded.
    pub(super) fn ending(&self) -> usize {
        self.ending
    }

    /// Adds a partition that is not there.
    pub(super) fn insert(&mut self, partition: u8, owned: Owned) {
        self.in_flight += owned.in_flight();
        self.ending += owned.ending();
        self.owned.insert(partition, owned);
        self.change(partition, |_| {});
    }

    pub(super) fn remove(&mut self, partition: u8) {
        self.with_keys.remove(&partition);
        self.with_suspects.remove(&partition);
        if let Some(removed) = self.owned.remove(&partition) {
            self.in_flight -= removed.in_flight();
            self.ending -= removed.ending();
        }
    }

    /// Does something with a partition, if it is there: the only way to change one.
    pub(super) fn change<T>(&mut self, partition: u8, change: impl FnOnce(&mut Owned) -> T) -> Option<T> {
        let owned = self.owned.get_mut(&partition)?;
        let (in_flight, ending) = (owned.in_flight(), owned.ending());
        let changed = change(owned);
        self.in_flight = self.in_flight + owned.in_flight() - in_flight;
        self.ending = self.ending + owned.ending() - ending;
        list(&mut self.with_keys, partition, owned.has_keys());
        list(&mut self.with_suspects, partition, owned.has_suspects());
        Some(changed)
    }

    /// Lets each be read from its floor again, which changes nothing that all have together.
    pub(super) fn look_back(&mut self) {
        self.owned.values_mut().for_each(Owned::look_back);
    }

    /// The first partition with keys to be read of which something comes, and what that is.
    pub(super) fn find_key<T>(&mut self, mut find: impl FnMut(&mut Owned) -> Option<T>) -> Option<(u8, T)> {
        let with_keys: Vec<u8> = self.with_keys.iter().copied().collect();
        with_keys.into_iter().find_map(|partition| Some((partition, self.change(partition, &mut find)??)))
    }

    /// The first partition with suspects of which something comes, and what that is.
    pub(super) fn find_suspect<T>(&mut self, mut find: impl FnMut(&mut Owned) -> Option<T>) -> Option<T> {
        let with_suspects: Vec<u8> = self.with_suspects.iter().copied().collect();
        with_suspects.into_iter().find_map(|partition| self.change(partition, &mut find)?)
    }

    /// Whether what all have together is what each of them has.
    #[cfg(test)]
    pub(super) fn adds_up(&self) -> bool {
        let those = |has: fn(&Owned) -> bool| -> BTreeSet<u8> {
            self.owned.iter().filter(|(_, owned)| has(owned)).map(|(partition, _)| *partition).collect()
        };
        let sum = |of: fn(&Owned) -> usize| self.owned.values().map(of).sum::<usize>();
        (self.in_flight, self.ending) == (sum(Owned::in_flight), sum(Owned::ending))
            && self.with_keys == those(Owned::has_keys)
            && self.with_suspects == those(Owned::has_suspects)
    }
}

/// Makes a partition a member of a set, or not.
fn list(set: &mut BTreeSet<u8>, partition: u8, is_member: bool) {
    if is_member {
        set.insert(partition);
    } else {
        set.remove(&partition);
    }
}
