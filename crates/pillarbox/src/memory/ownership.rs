//! Membership and owners of the memory store, and its partitions behind the contract.

use super::index::ByPartition;
use super::row::NEVER;
use super::table::Table;
use super::{MemoryStore, check_lease};
use crate::Timestamp;
use crate::runtime::BoxFuture;
use crate::store::{
    Blocked, Due, Fetched, Floor, Holding, Instance, Mode, Numbers, Owner, Ownership, Pulse, StoreError,
    Taken, Visit,
};

impl Ownership for MemoryStore {
    fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        Box::pin(async move { self.database.table().join(instance, self.database.now()) })
    }

    fn beat<'a>(
        &'a self,
        instance: &'a Instance,
        floors: &'a [Floor],
    ) -> BoxFuture<'a, Result<Pulse, StoreError>> {
        Box::pin(async move { self.database.table().beat(instance, floors, self.database.now()) })
    }

    fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        wanted: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        Box::pin(async move { self.database.table().acquire(instance, wanted, self.database.now()) })
    }

    fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.database.table().membership.release(owner, floors);
            Ok(())
        })
    }

    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.database.table().membership.strike_off(owner);
            Ok(())
        })
    }

    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>> {
        Box::pin(async move { Ok(self.database.table().numbers()) })
    }

    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(async move { self.database.table().fetch(visits, limit, self.database.now()) })
    }

    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(async move { self.database.table().below(visits, limit, self.database.now()) })
    }

    fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>> {
        Box::pin(async move { self.database.table().due(visits, limit, self.database.now()) })
    }

    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(async move { self.database.table().aside_of(visit, key, limit, self.database.now()) })
    }

    fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>> {
        Box::pin(async move { self.database.table().blocked(partitions, self.database.now()) })
    }

    fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.database.table().start(taken)) })
    }

    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.database.table().skip(keys)) })
    }
}

impl Table {
    /// How events are taken: the indexes by partition are there in one mode only.
    pub(super) fn mode(&self) -> Mode {
        if self.indexes.by_partition.is_some() { Mode::Ownership } else { Mode::Claims }
    }

    pub(super) fn check_mode(&self, needed: Mode) -> Result<(), StoreError> {
        let mode = self.mode();
        if mode == needed { Ok(()) } else { Err(wrong_mode(mode, needed)) }
    }

    pub(super) fn by_partition(&self) -> Result<&ByPartition, StoreError> {
        self.indexes.by_partition.as_ref().ok_or_else(|| wrong_mode(Mode::Claims, Mode::Ownership))
    }

    fn join(&mut self, instance: &Instance, now: Timestamp) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        let others = self.membership.of_other_mode(instance, now);
        if !others.is_empty() {
            return Err(StoreError::Config(format!(
                "the mode of the outbox is `{}` while these instances are alive: {}; stop them before you start one \
                 in the mode `{}`",
                self.mode(),
                others.join(", "),
                instance.mode,
            )));
        }
        if self.mode() != instance.mode {
            self.switch_to(instance.mode);
        }
        self.membership.replace(instance, now);
        self.membership.register(instance, now);
        let highest = self.last_seq();
        Ok(self.membership.inherit(instance, highest, now))
    }

    /// Changes the mode, and ends all that was held in the other.
    pub(super) fn switch_to(&mut self, mode: Mode) {
        self.indexes.by_partition = None;
        let bound = self.pending().filter(|row| row.lock.is_some() || row.available_at == NEVER);
        let bound: Vec<i64> = bound.map(|row| row.seq).collect();
        for seq in bound {
            self.change(seq, |row| {
                row.lock = None;
                row.available_at = row.due_at;
            });
        }
        self.parked.clear();
        self.membership.end_ownership();
        if mode == Mode::Ownership {
            let mut by_partition = ByPartition::default();
            self.rows.values().for_each(|row| by_partition.add(row));
            self.indexes.by_partition = Some(by_partition);
        }
    }

    fn is_replaced(&self, instance: &Instance, now: Timestamp) -> bool {
        instance.is_named && !self.membership.is_current(&instance.owner, now)
    }

    fn beat(&mut self, instance: &Instance, floors: &[Floor], now: Timestamp) -> Result<Pulse, StoreError> {
        check_lease(instance.live_for)?;
        if self.is_replaced(instance, now) {
            return Ok(Pulse { is_replaced: true, ..Pulse::default() });
        }
        self.check_mode(instance.mode)?;
        self.membership.register(instance, now);
        self.membership.renew(instance, floors, now);
        if let Some(by_partition) = &self.indexes.by_partition {
            let is_clear = |partition, suspect_to| !by_partition.has_aside_up_to(partition, suspect_to);
            self.membership.absolve(&instance.owner, is_clear);
        }
        let (members, held) = (self.membership.members(now), self.membership.held_by(&instance.owner));
        Ok(Pulse { members, held, is_replaced: false })
    }

    fn acquire(
        &mut self,
        instance: &Instance,
        wanted: &[u8],
        now: Timestamp,
    ) -> Result<Vec<Holding>, StoreError> {
        check_lease(instance.live_for)?;
        self.check_mode(Mode::Ownership)?;
        if self.is_replaced(instance, now) {
            return Ok(Vec::new());
        }
        let highest = self.last_seq();
        Ok(self.membership.acquire(instance, wanted, highest, now))
    }
}

fn wrong_mode(mode: Mode, needed: Mode) -> StoreError {
    StoreError::Config(format!(
        "the mode of the outbox is `{mode}`, and this instance is one of the mode `{needed}`; start it in the mode \
         `{mode}`"
    ))
}
