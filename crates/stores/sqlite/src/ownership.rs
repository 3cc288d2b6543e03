//! Owning partitions, behind the contract.

use pillarbox::BoxFuture;
use pillarbox::store::{
    Blocked, Due, Fetched, Floor, Holding, Instance, Numbers, Owner, Ownership, Pulse, StoreError, Taken,
    Visit,
};

use crate::SqliteStore;

impl Ownership for SqliteStore {
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
        Box::pin(self.release_as(owner, floors))
    }

    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.leave_as(owner))
    }

    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>> {
        Box::pin(self.known_numbers())
    }

    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.fetch_from(visits, limit))
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
        Box::pin(self.start_under(taken))
    }

    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.skip_keys(keys))
    }
}
