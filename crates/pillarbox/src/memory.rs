//! The store that needs no database: the reference for all others.

mod census;
#[cfg(pillarbox_mutant)]
mod identity;
mod index;
mod membership;
mod operation;
mod owned;
mod ownership;
mod pause;
mod replica;
mod revision;
mod row;
mod settlement;
mod table;
mod transaction;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use replica::Replica;
pub use transaction::{MemoryConnection, MemoryTransaction, Savepoint};

use crate::runtime::{BoxFuture, Clock, SystemClock};
use crate::store::{
    Batch, DoneRows, EventStore, Found, LONGEST_LEASE, Lease, Mode, Owner, Settlement, StoreError,
    StoredEvent, Take, Token, WakeUp,
};
use crate::{Event, PartitionSet, Timestamp};
use row::Row;
use table::Table;

/// A store in the memory of this process: for tests, for simulated time, and as the reference for all others.
///
/// Clones are handles to one database, which is gone with the last of them. No call waits for anything, and
/// the same calls at the same times give the same answers.
///
/// Transactions run side by side as they do in a server: a number is given when an event is inserted, so a
/// rollback leaves a gap, and the order of commits may differ from the order of numbers.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use pillarbox::store::{Administration, TxStore};
/// use pillarbox::{Event, MemoryStore};
///
/// let store = MemoryStore::new();
/// let mut tx = store.begin().await?;
/// store.insert(tx.connection(), &[Event::of_json("OrderPlaced", "{}")?], None).await?;
/// MemoryStore::commit(tx).await?;
///
/// assert_eq!(store.stats().await?.pending(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    pub(crate) database: Arc<Database>,
}

impl MemoryStore {
    /// An empty database that goes by the system's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty database that goes by the time of day of `clock`, and by nothing else.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let (table, failovers) = (Mutex::default(), AtomicU64::new(0));
        Self { database: Arc::new(Database { clock, table, failovers, journal: None }) }
    }

    /// Opens a transaction as a user's own driver would, past [`TxStore`](crate::store::TxStore).
    pub fn open(&self) -> MemoryTransaction {
        MemoryTransaction::begin(Arc::clone(&self.database))
    }

    /// All rows that are there, in the order of their numbers. For tests.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use pillarbox::store::TxStore;
    /// # use pillarbox::{Event, MemoryStore};
    /// let store = MemoryStore::new();
    /// let mut tx = store.open();
    /// store.insert(tx.connection(), &[Event::of_json("OrderPlaced", "{}")?], None).await?;
    /// assert!(store.rows().is_empty());
    ///
    /// tx.commit()?;
    /// assert_eq!(store.rows().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn rows(&self) -> Vec<StoredEvent> {
        self.database.table().rows.values().map(Row::stored).collect()
    }

    /// Makes the row of `event_id` unreadable, as a writer with a bug could: it is handed out with `reason`
    /// in place of the event. For tests. Returns whether there is such a row.
    pub fn corrupt(&self, event_id: &str, reason: &str) -> bool {
        let mut table = self.database.table();
        let Some(seq) = table.seq_of(event_id) else { return false };
        table.change(seq, |row| row.unreadable = Some(reason.to_owned()));
        true
    }

    /// Puts the row of `event_id` into another partition, as a writer could that computes it wrongly. For tests. Returns
    /// whether there is such a row.
    pub fn misplace(&self, event_id: &str, partition: u8) -> bool {
        let mut table = self.database.table();
        let Some(seq) = table.seq_of(event_id) else { return false };
        table.change(seq, |row| row.partition = partition);
        true
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemoryStore")
    }
}

/// What all clones and transactions of one store share.
pub(crate) struct Database {
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
    /// How often another has taken the place of this one: sessions from before are cut off.
    failovers: AtomicU64,
    /// What was committed, in the order of commits, if somebody wants to know: rows may be deleted.
    pub(crate) journal: Option<Mutex<Vec<Event>>>,
}

impl Database {
    fn now(&self) -> Timestamp {
        self.clock.wall()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStore for MemoryStore {
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(async move {
            check_lease(take.lease_for)?;
            let mut table = self.database.table();
            table.check_mode(Mode::Claims)?;
            Ok(table.take(&take, self.database.now()))
        })
    }

    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move { self.database.table().settle(settlements, done, self.database.now()) })
    }

    fn renew<'a>(
        &'a self,
        leases: &'a [Lease],
        lease_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            check_lease(lease_for)?;
            let until = self.database.now().saturating_add(lease_for);
            Ok(self.database.table().renew(leases, until))
        })
    }

    fn read_back<'a>(
        &'a self,
        token: Token,
        event_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Found>, StoreError>> {
        Box::pin(async move { Ok(self.database.table().read_back(token, event_ids)) })
    }

    fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { Ok(self.database.table().resume(owner)) })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.database.table().membership.is_current(owner, self.database.now())) })
    }
}

impl WakeUp for MemoryStore {
    /// Never completes: no other process can write here.
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(std::future::pending())
    }

    /// Does nothing, for the same reason.
    fn announce(&self, _partitions: PartitionSet) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn check_lease(lease_for: Duration) -> Result<(), StoreError> {
    if lease_for > LONGEST_LEASE {
        return Err(refused(format!("a lease of {lease_for:?} is longer than {LONGEST_LEASE:?}")));
    }
    Ok(())
}

fn refused(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { reason: reason.into(), source: None }
}
