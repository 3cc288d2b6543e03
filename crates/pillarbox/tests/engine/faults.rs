//! A memory store that fails when told to.

mod owners;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{
    Administration, Batch, Birth, Census, CommitError, DoneRows, EventStore, Found, InsertError, Lease,
    Outline, Owner, Page, PausedRoute, Progress, Purge, Purged, Revision, Selection, Settlement, Stats,
    StoreError, StoredEvent, Take, Token, TxStore, WakeUp,
};
use pillarbox::{
    BoxFuture, Clock, Event, MemoryConnection, MemoryStore, MemoryTransaction, PartitionSet, SystemClock,
};
use tokio::sync::Notify;

/// How many of the next calls fail.
#[derive(Debug, Default)]
pub(crate) struct Failing(AtomicU32);

impl Failing {
    pub(crate) fn next(&self, calls: u32) {
        self.0.store(calls, Ordering::Relaxed);
    }

    fn now(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.now() { Err(StoreError::unavailable("the network is down")) } else { Ok(()) }
    }
}

/// How many calls were in progress at once.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Crowd {
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Lets all other tasks have a turn while the call counts as in progress.
    async fn linger(&self) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Which calls fail, and what was called.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) takes: Failing,
    /// What was asked of each call to take.
    pub(crate) taken: Mutex<Vec<Take>>,
    /// The calls to take that were in progress at once.
    pub(crate) taking: Crowd,
    pub(crate) read_backs: Failing,
    pub(crate) renewals: Failing,
    pub(crate) settles: Failing,
    /// How long each call to settle takes before it has an effect.
    pub(crate) settles_take: Mutex<Duration>,
    /// From now on no call to settle ever answers.
    pub(crate) settles_hang: AtomicBool,
    /// These settle, and report failure all the same.
    pub(crate) settle_answers: Failing,
    /// These do not commit, and nobody knows.
    pub(crate) commits: Failing,
    /// These commit, and nobody knows.
    pub(crate) commit_answers: Failing,
    /// The number of a row that the database refuses to settle.
    pub(crate) poisoned: AtomicI64,
    /// The number of a row that another transaction has locked.
    pub(crate) locked: AtomicI64,
    /// How many calls to settle there were.
    pub(crate) settled: AtomicU32,
    /// The partitions that were announced, and how long each announcement takes.
    pub(crate) announced: Mutex<Vec<PartitionSet>>,
    pub(crate) announcing_takes: Mutex<Duration>,
    /// These panic.
    pub(crate) announcements: Failing,
    /// What another process has told.
    hint: Mutex<PartitionSet>,
    told: Notify,
    /// Joining, heartbeats and partitions that come and go.
    pub(crate) members: Failing,
    /// These take effect, and report failure all the same.
    pub(crate) member_answers: Failing,
    /// How long each takes before it has an effect.
    pub(crate) members_take: Mutex<Duration>,
    /// Reads of owned partitions.
    pub(crate) reads: Failing,
    /// The partitions that each fetch of fresh events visited.
    pub(crate) visited: Mutex<Vec<PartitionSet>>,
    /// Who holds this lets no fetch come to its end.
    pub(crate) fetching: tokio::sync::Mutex<()>,
    /// How many reads of owned partitions there were, of every kind.
    pub(crate) read: AtomicU32,
    /// These panic.
    pub(crate) read_panics: Failing,
    /// How long each takes.
    pub(crate) reads_take: Mutex<Duration>,
}

impl Faults {
    /// Another process tells of these partitions.
    pub(crate) fn tell(&self, partitions: PartitionSet) {
        *self.hint.lock().unwrap() |= partitions;
        self.told.notify_one();
    }

    fn check_locks(&self, mut numbers: impl Iterator<Item = i64>) -> Result<(), StoreError> {
        let locked = self.locked.load(Ordering::Relaxed);
        let is_concerned = locked != 0 && numbers.any(|number| number == locked);
        if is_concerned { Err(StoreError::Locked { numbers: vec![locked] }) } else { Ok(()) }
    }
}

/// A memory store behind [`Faults`].
#[derive(Clone, Debug)]
pub(crate) struct FaultyStore {
    store: MemoryStore,
    pub(crate) faults: Arc<Faults>,
}

impl FaultyStore {
    pub(crate) fn around(store: &MemoryStore) -> Self {
        Self { store: store.clone(), faults: Arc::default() }
    }
}

impl EventStore for FaultyStore {
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(async move {
            self.faults.taken.lock().unwrap().push(take.clone());
            self.faults.taking.linger().await;
            self.faults.takes.check()?;
            self.store.take(take).await
        })
    }

    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            self.faults.settled.fetch_add(1, Ordering::Relaxed);
            if self.faults.settles_hang.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            owners::pass(&self.faults.settles_take).await;
            self.faults.settles.check()?;
            self.faults.check_locks(settlements.iter().map(|settlement| settlement.lease.seq))?;
            let poisoned = self.faults.poisoned.load(Ordering::Relaxed);
            if settlements.iter().any(|settlement| settlement.lease.seq == poisoned) {
                return Err(StoreError::Refused { reason: "a constraint failed".to_owned(), source: None });
            }
            let lost = self.store.settle(settlements, done).await?;
            self.faults.settle_answers.check()?;
            Ok(lost)
        })
    }

    fn renew<'a>(
        &'a self,
        leases: &'a [Lease],
        lease_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            self.faults.renewals.check()?;
            self.faults.check_locks(leases.iter().map(|lease| lease.seq))?;
            self.store.renew(leases, lease_for).await
        })
    }

    fn read_back<'a>(
        &'a self,
        token: Token,
        event_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Found>, StoreError>> {
        Box::pin(async move {
            self.faults.read_backs.check()?;
            self.store.read_back(token, event_ids).await
        })
    }

    fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.resume(owner)
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.store.is_current(owner)
    }
}

/// A transaction of a [`FaultyStore`].
pub(crate) struct FaultyTx {
    tx: MemoryTransaction,
    faults: Arc<Faults>,
}

impl TxStore for FaultyStore {
    type Connection = MemoryConnection;
    type Tx = FaultyTx;
    type Foreign<'c> = MemoryTransaction;

    fn begin(&self) -> BoxFuture<'static, Result<FaultyTx, StoreError>> {
        let (tx, faults) = (self.store.open(), self.faults.clone());
        Box::pin(async move { Ok(FaultyTx { tx, faults }) })
    }

    fn connection(tx: &FaultyTx) -> &MemoryConnection {
        MemoryStore::connection(&tx.tx)
    }

    fn connection_mut(tx: &mut FaultyTx) -> &mut MemoryConnection {
        tx.tx.connection()
    }

    fn foreign_connection<'a>(tx: &'a mut Self::Foreign<'_>) -> &'a mut MemoryConnection {
        tx.connection()
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut MemoryConnection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        self.store.insert(connection, events, birth)
    }

    fn commit(tx: FaultyTx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            let unknown =
                Err(CommitError::Unknown { reason: "the network is down".to_owned(), source: None });
            if tx.faults.commits.now() {
                return unknown;
            }
            tx.tx.commit()?;
            if tx.faults.commit_answers.now() { unknown } else { Ok(()) }
        })
    }

    fn rollback(tx: FaultyTx) -> BoxFuture<'static, Result<(), StoreError>> {
        MemoryStore::rollback(tx.tx)
    }
}

impl WakeUp for FaultyStore {
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(async move {
            self.faults.told.notified().await;
            std::mem::take(&mut *self.faults.hint.lock().unwrap())
        })
    }

    fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()> {
        self.faults.announced.lock().unwrap().push(partitions);
        let time = *self.faults.announcing_takes.lock().unwrap();
        Box::pin(async move {
            assert!(!self.faults.announcements.now(), "told to panic");
            SystemClock.sleep(time).await;
            self.store.announce(partitions).await;
        })
    }
}

impl Administration for FaultyStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        self.store.stats()
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(async move {
            self.faults.reads.check()?;
            self.store.census().await
        })
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        self.store.highest()
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        self.store.find(event_id)
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        self.store.find_by_aggregate(aggregate_id, page)
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        self.store.dead(page)
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.replay(selection)
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.store.discard(selection)
    }

    fn progress<'a>(
        &'a self,
        handler: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>> {
        Box::pin(async move {
            self.faults.reads.check()?;
            self.store.progress(handler, limit).await
        })
    }

    fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        self.store.revise(revisions)
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        self.store.purge(purge)
    }

    fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>> {
        self.store.paused_routes()
    }

    fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.store.pause_route(route)
    }

    fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.store.resume_route(route)
    }

    fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.store.recall(reason, limit)
    }

    fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>> {
        self.store.outlines(page)
    }

    fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>> {
        self.store.outlines_of(numbers)
    }
}
