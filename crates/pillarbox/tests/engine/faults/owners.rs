//! Owned partitions of a memory store that fails when told to.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::{
    Blocked, Due, Fetched, Floor, Holding, Instance, Numbers, Owner, Ownership, Pulse, StoreError, Taken,
    Visit,
};
use pillarbox::{BoxFuture, Clock, SystemClock};

use super::FaultyStore;

impl FaultyStore {
    /// A call by which an instance takes part.
    fn member<'a, T: Send + 'a>(
        &'a self,
        call: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            pass(&self.faults.members_take).await;
            self.faults.members.check()?;
            let answer = call.await?;
            self.faults.member_answers.check()?;
            Ok(answer)
        })
    }

    /// A call by which owned partitions are read.
    fn read<'a, T: Send + 'a>(
        &'a self,
        call: BoxFuture<'a, Result<T, StoreError>>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(async move {
            self.faults.read.fetch_add(1, Ordering::Relaxed);
            pass(&self.faults.reads_take).await;
            assert!(!self.faults.read_panics.now(), "told to panic");
            self.faults.reads.check()?;
            call.await
        })
    }
}

/// Lets the time pass that a call takes, if it takes any.
pub(super) async fn pass(time: &Mutex<Duration>) {
    let time = *time.lock().unwrap();
    if !time.is_zero() {
        SystemClock.sleep(time).await;
    }
}

impl Ownership for FaultyStore {
    fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        self.member(self.store.join(instance))
    }

    fn beat<'a>(
        &'a self,
        instance: &'a Instance,
        floors: &'a [Floor],
    ) -> BoxFuture<'a, Result<Pulse, StoreError>> {
        self.member(self.store.beat(instance, floors))
    }

    fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        wanted: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        self.member(self.store.acquire(instance, wanted))
    }

    fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.member(self.store.release(owner, floors))
    }

    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>> {
        self.member(self.store.leave(owner))
    }

    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>> {
        self.read(self.store.numbers())
    }

    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(async move {
            self.faults.visited.lock().unwrap().push(visits.iter().map(|visit| visit.partition).collect());
            let _turn = self.faults.fetching.lock().await;
            self.read(self.store.fetch(visits, limit)).await
        })
    }

    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        self.read(self.store.below(visits, limit))
    }

    fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>> {
        self.read(self.store.due(visits, limit))
    }

    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        self.read(self.store.aside_of(visit, key, limit))
    }

    fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>> {
        self.read(self.store.blocked(partitions))
    }

    fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.read(self.store.start(taken))
    }

    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.skip(keys)
    }
}
