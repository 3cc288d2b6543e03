//! The contracts, each kept by the store that was chosen.

use std::time::Duration;

use pillarbox::store::{
    Administration, Batch, Blocked, Census, DoneRows, Due, EventStore, Fetched, Floor, Found, Holding,
    Instance, Lease, Mode, Numbers, Outline, Owner, Ownership, Page, PausedRoute, Progress, Pulse, Purge,
    Purged, Revision, Selection, Settlement, Stats, StoreError, StoredEvent, Take, Taken, Token, Visit,
    WakeUp,
};
use pillarbox::{BoxFuture, PartitionSet, Settings};

use crate::backend::on_each;
use crate::{AnyOptions, AnyStore};

impl AnyStore {
    /// Connects to the database at a URL, or opens the SQLite file at a path, with the defaults of [`AnyOptions`];
    /// nothing is migrated.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, StoreError> {
        Self::options(url).connect().await
    }

    /// Connects as a file or the environment says (`store.url`, or the file that `store.url_file` names, and the rest of
    /// their table), and migrates if they ask for it.
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// use pillarbox::{Outbox, Settings};
    /// use pillarbox_any::AnyStore;
    ///
    /// let settings = Settings::from_env()?;
    /// let store = AnyStore::configured(&settings).await?;
    /// let outbox = Outbox::builder(store).settings(settings).start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn configured(settings: &Settings) -> Result<Self, StoreError> {
        let settings = settings.store();
        let url = match (&settings.url, &settings.url_file) {
            (Some(url), _) => url.clone(),
            (None, Some(file)) => url_in(file)?,
            (None, None) => {
                let missing = "no database is configured; set `store.url` (`PILLARBOX_STORE_URL`)";
                return Err(StoreError::Config(missing.into()));
            }
        };
        let store = Self::options(url).settings(&settings).connect().await?;
        if settings.migrate {
            store.migrate().await?;
        }
        Ok(store)
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

    /// Brings the tables to the newest version, and gives the table the indexes of a mode; returns the version.
    ///
    /// An outbox does so when it starts. Do it beforehand where its user may not make indexes. Fails with
    /// [`StoreError::Config`], naming them, while instances of the other mode are alive.
    pub async fn migrate_to(&self, mode: Mode) -> Result<u32, StoreError> {
        on_each!(AnyStore, self, store => store.migrate_to(mode).await)
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

/// The URL that a file has in it; the line end behind it does not count.
fn url_in(file: &str) -> Result<String, StoreError> {
    match std::fs::read_to_string(file) {
        Ok(url) => Ok(url.trim_end_matches(['\r', '\n']).to_owned()),
        Err(error) => {
            let text = format!("`store.url_file` is `{file}`, which cannot be read: {error}");
            Err(StoreError::Config(text))
        }
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
        fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>>;
        fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>>;
        fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>>;
        fn find_by_aggregate<'a>(&'a self, aggregate_id: &'a str, page: Page) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;
        fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>>;
        fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>>;
        fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;
        fn progress<'a>(&'a self, handler: Option<&'a str>, limit: usize) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>>;
        fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;
        fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>>;
        fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>>;
        fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;
        fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;
        fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>>;
        fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>>;
        fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>>;
    }
}

impl Ownership for AnyStore {
    delegate! {
        fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;
        fn beat<'a>(&'a self, instance: &'a Instance, floors: &'a [Floor]) -> BoxFuture<'a, Result<Pulse, StoreError>>;
        fn acquire<'a>(&'a self, instance: &'a Instance, wanted: &'a [u8]) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;
        fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>>;
        fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>>;
        fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>>;
        fn fetch<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;
        fn below<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;
        fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>>;
        fn aside_of<'a>(&'a self, visit: &'a Visit, key: &'a str, limit: usize) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;
        fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>>;
        fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>>;
        fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>>;
    }
}

impl WakeUp for AnyStore {
    delegate! {
        fn changed(&self) -> BoxFuture<'_, PartitionSet>;
        fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()>;
    }
}
