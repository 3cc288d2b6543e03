//! The contracts, each kept by the store that was chosen.

use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Administration, Batch, DoneRows, EventStore, Found, Lease, Owner, Page, Purge, Purged, Selection,
    Settlement, Stats, StoreError, StoredEvent, Take, Token, WakeUp,
};

use crate::backend::on_each;
use crate::{AnyOptions, AnyStore};

impl AnyStore {
    /// Connects to the database at a URL, or opens the SQLite file at a path, with the defaults of [`AnyOptions`];
    /// nothing is migrated.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, StoreError> {
        Self::options(url).connect().await
    }

    /// Starts options for the database at a URL or a path.
    pub fn options(url: impl AsRef<str>) -> AnyOptions {
        AnyOptions::new(url.as_ref())
    }

    /// Brings the outbox tables to the newest version that this program knows, and returns it.
    ///
    /// Creates them if there are none. Several processes may do this at once.
    pub async fn migrate(&self) -> Result<u32, StoreError> {
        on_each!(AnyStore, self, store => store.migrate().await)
    }

    /// The version of the outbox tables, if this program can work with it.
    ///
    /// Fails with [`StoreError::NotMigrated`], [`StoreError::OlderSchema`] or [`StoreError::NewerSchema`].
    pub async fn check(&self) -> Result<u32, StoreError> {
        on_each!(AnyStore, self, store => store.check().await)
    }

    /// Waits for steps that run and closes the connections; later calls answer that the store is closed.
    pub async fn close(&self) {
        on_each!(AnyStore, self, store => store.close().await)
    }
}

/// Hands each of these methods on to the store that was chosen.
macro_rules! delegate {
    ($(fn $method:ident $(<$life:lifetime>)? (&$($self_life:lifetime)? self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*) => {$(
        fn $method$(<$life>)?(&$($self_life)? self $(, $argument: $type)*) -> $answer {
            on_each!(AnyStore, self, store => store.$method($($argument),*))
        }
    )*};
}

impl EventStore for AnyStore {
    delegate! {
        fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>>;
        fn settle<'a>(&'a self, settlements: &'a [Settlement], done: DoneRows) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;
        fn renew<'a>(&'a self, leases: &'a [Lease], lease_for: Duration) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;
        fn read_back<'a>(&'a self, token: Token, event_ids: &'a [String]) -> BoxFuture<'a, Result<Vec<Found>, StoreError>>;
        fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>>;
        fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>>;
    }
}

impl Administration for AnyStore {
    delegate! {
        fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>>;
        fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>>;
        fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>>;
        fn find_by_aggregate<'a>(&'a self, aggregate_id: &'a str, page: Page) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;
        fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>>;
        fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>>;
        fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;
        fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>>;
    }
}

impl WakeUp for AnyStore {
    delegate! {
        fn changed(&self) -> BoxFuture<'_, ()>;
        fn announce(&self) -> BoxFuture<'_, ()>;
    }
}
