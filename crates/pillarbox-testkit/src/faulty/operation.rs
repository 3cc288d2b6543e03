//! What operators ask of a store with faults.

use pillarbox::BoxFuture;
use pillarbox::store::{
    Administration, Census, Outline, Page, PausedRoute, Progress, Purge, Purged, Revision, Selection, Stats,
    StoreError, StoredEvent,
};

use super::{Call, FaultyStore};

impl<S> FaultyStore<S> {
    async fn administer<T>(&self, effect: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
        self.line.call(Call::Administer, effect, |_, _| {}, StoreError::unavailable).await
    }
}

impl<S: Administration> Administration for FaultyStore<S> {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(self.administer(self.inner.stats()))
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(self.administer(self.inner.census()))
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(self.administer(self.inner.highest()))
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(self.administer(self.inner.find(event_id)))
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(self.administer(self.inner.find_by_aggregate(aggregate_id, page)))
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(self.administer(self.inner.dead(page)))
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.administer(self.inner.replay(selection)))
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(self.administer(self.inner.discard(selection)))
    }

    fn progress<'a>(
        &'a self,
        handler: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>> {
        Box::pin(self.administer(self.inner.progress(handler, limit)))
    }

    fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(self.administer(self.inner.revise(revisions)))
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.administer(self.inner.purge(purge)))
    }

    fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>> {
        Box::pin(self.administer(self.inner.paused_routes()))
    }

    fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.administer(self.inner.pause_route(route)))
    }

    fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.administer(self.inner.resume_route(route)))
    }

    fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.administer(self.inner.recall(reason, limit)))
    }

    fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>> {
        Box::pin(self.administer(self.inner.outlines(page)))
    }

    fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>> {
        Box::pin(self.administer(self.inner.outlines_of(numbers)))
    }
}
