//! Owning partitions behind the contract.

use pillarbox::BoxFuture;
use pillarbox::store::{
    Blocked, Due, Fetched, Floor, Holding, Instance, Numbers, Owner, Ownership, Pulse, StoreError, Taken,
    Visit,
};

use crate::MySqlStore;

impl Ownership for MySqlStore {
    /// Fails with [`StoreError::Refused`] if the mode has to change and the user may not change the indexes of the
    /// table: run [`migrate_to`](MySqlStore::migrate_to) as one who may. Fails with [`StoreError::Config`] in the mode
    /// `ownership` if the server's `auto_increment_increment` is not 1.
    fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        Box::pin(self.join_as(instance))
    }

    fn beat<'a>(
        &'a self,
        instance: &'a Instance,
        floors: &'a [Floor],
    ) -> BoxFuture<'a, Result<Pulse, StoreError>> {
        Box::pin(self.beat_as(instance, floors))
    }

    fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        wanted: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        Box::pin(self.acquire_as(instance, wanted))
    }

    fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.give_back(owner, floors))
    }

    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.strike_off(owner))
    }

    /// What was given is that of the latest reading, which is a tenth of
    /// [`longest_transaction`](crate::MySqlOptions::longest_transaction) old at most. What is closed is a hint: the highest
    /// number of a reading that is as old as that at least, by the clock of this process. No user may see here which
    /// transactions are open, so it passes events of those that stay open for longer, and only
    /// [`below`](Ownership::below) finds them.
    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>> {
        Box::pin(self.known_numbers())
    }

    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.fetch_fresh(visits, limit))
    }

    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.fetch_below(visits, limit))
    }

    fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>> {
        Box::pin(self.fetch_due(visits, limit))
    }

    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.fetch_aside(visit, key, limit))
    }

    fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>> {
        Box::pin(self.blocked_keys(partitions))
    }

    fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.count_start(taken))
    }

    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.unpark_keys(keys))
    }
}
