//! Partitions of a store with faults.

use pillarbox::BoxFuture;
use pillarbox::store::{
    Blocked, Due, Fetched, Floor, Holding, Instance, Numbers, Owner, Ownership, Pulse, StoreError, Taken,
    Visit,
};

use super::{Call, Effect, Faults, FaultyStore};

impl<S> FaultyStore<S> {
    /// One call of the contract, which fails as if the database were away.
    async fn own<T>(
        &self,
        call: Call,
        effect: BoxFuture<'_, Result<T, StoreError>>,
        told: impl FnOnce(&dyn Faults, &T),
    ) -> Result<T, StoreError> {
        self.line.call(call, effect, told, StoreError::unavailable).await
    }

    /// One call that reads events.
    async fn read(
        &self,
        call: Call,
        visits: &[Visit],
        effect: BoxFuture<'_, Result<Vec<Fetched>, StoreError>>,
    ) -> Result<Vec<Fetched>, StoreError> {
        let told = |faults: &dyn Faults, events: &Vec<Fetched>| {
            faults.took_effect(Effect::Read(call, visits, events));
        };
        self.own(call, effect, told).await
    }
}

impl<S: Ownership> Ownership for FaultyStore<S> {
    fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        let told = |faults: &dyn Faults, held: &Vec<Holding>| {
            faults.took_effect(Effect::Joined(instance, held));
        };
        Box::pin(self.own(Call::Join, self.inner.join(instance), told))
    }

    fn beat<'a>(
        &'a self,
        instance: &'a Instance,
        floors: &'a [Floor],
    ) -> BoxFuture<'a, Result<Pulse, StoreError>> {
        let told = |faults: &dyn Faults, pulse: &Pulse| {
            faults.took_effect(Effect::Beaten(instance, floors, pulse));
        };
        Box::pin(self.own(Call::Beat, self.inner.beat(instance, floors), told))
    }

    fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        wanted: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>> {
        let told = |faults: &dyn Faults, held: &Vec<Holding>| {
            faults.took_effect(Effect::Acquired(instance, held));
        };
        Box::pin(self.own(Call::Acquire, self.inner.acquire(instance, wanted), told))
    }

    fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>> {
        let told = |faults: &dyn Faults, (): &()| faults.took_effect(Effect::GivenBack(owner, floors));
        Box::pin(self.own(Call::Release, self.inner.release(owner, floors), told))
    }

    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.own(Call::Leave, self.inner.leave(owner), |_, _| {}))
    }

    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>> {
        Box::pin(self.own(Call::Numbers, self.inner.numbers(), |_, _| {}))
    }

    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.read(Call::Fetch, visits, self.inner.fetch(visits, limit)))
    }

    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        Box::pin(self.read(Call::Below, visits, self.inner.below(visits, limit)))
    }

    fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>> {
        let told = |faults: &dyn Faults, due: &Due| {
            faults.took_effect(Effect::Read(Call::Due, visits, &due.events));
        };
        Box::pin(self.own(Call::Due, self.inner.due(visits, limit), told))
    }

    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>> {
        let visits = std::slice::from_ref(visit);
        Box::pin(self.read(Call::AsideOf, visits, self.inner.aside_of(visit, key, limit)))
    }

    fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>> {
        Box::pin(self.own(Call::Blocked, self.inner.blocked(partitions), |_, _| {}))
    }

    fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>> {
        let told = |faults: &dyn Faults, is_counted: &bool| {
            faults.took_effect(Effect::Started(taken, *is_counted));
        };
        Box::pin(self.own(Call::Start, self.inner.start(taken), told))
    }

    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.own(Call::Skip, self.inner.skip(keys), |_, _| {}))
    }
}
