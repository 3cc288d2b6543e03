//! A transaction of ours, and what hangs on its end.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::announcer::Announcer;
use crate::dispatcher::quietly;
use crate::hot::{Born, HotPath};
use crate::partitions::{Hints, Tenure};
use crate::poller::Wake;
use crate::runtime::Runtime;
use crate::store::{CommitError, StoreError, TxStore};
use crate::{Event, PartitionSet};

/// Called after every commit that contained events; for notifications of your own.
///
/// A panic in it is logged and reaches nobody. With no hook nothing happens after a commit but what the
/// outbox does itself.
pub trait AfterCommitHook: Send + Sync + 'static {
    /// `events` were committed.
    fn on_commit(&self, events: &[Event]);
}

/// A hook that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHook;

impl AfterCommitHook for NoHook {
    fn on_commit(&self, _events: &[Event]) {}
}

type Callback = Box<dyn FnOnce() + Send>;

/// What happens to events when their transaction has ended, shared by all transactions of an outbox.
pub(crate) struct AfterCommit {
    pub(crate) runtime: Runtime,
    pub(crate) hot: Option<Arc<HotPath>>,
    pub(crate) wake: Option<Arc<Wake>>,
    /// Present if partitions are owned.
    pub(crate) owned: Option<Owned>,
    pub(crate) announcer: Arc<Announcer>,
    pub(crate) hook: Option<Arc<dyn AfterCommitHook>>,
}

/// What a commit has to do with owned partitions.
pub(crate) struct Owned {
    pub(crate) tenure: Arc<Tenure>,
    pub(crate) hints: Arc<Hints>,
}

impl AfterCommit {
    /// The row is committed, or may be: the hot path will find out by reading it back.
    pub(crate) fn committed(&self, written: Written) {
        if let Some(hot) = self.hot.as_ref().filter(|_| !written.born.is_empty()) {
            hot.committed(written.born);
        }
        match &self.owned {
            Some(owned) => self.hint(owned, &written.events),
            None if written.unclaimed => self.wake(written.events.iter().map(Event::partition).collect()),
            None => {}
        }
    }

    /// Tells the reader of the partitions that these events are in, and others if there are any that are not read here.
    fn hint(&self, owned: &Owned, events: &[Event]) {
        let written: PartitionSet = events.iter().map(Event::partition).collect();
        let (ours, others): (Vec<u8>, Vec<u8>) =
            written.iter().partition(|partition| owned.tenure.holds(*partition));
        if !ours.is_empty() {
            owned.hints.give(ours.into_iter().collect());
        }
        self.announcer.announce(others.into_iter().collect());
    }

    /// Tells the poller or the reader, and other processes, that there may be something to take in these partitions.
    pub(crate) fn wake(&self, partitions: PartitionSet) {
        if let Some(wake) = &self.wake {
            wake.wake();
        }
        if let Some(owned) = &self.owned {
            owned.hints.give(partitions);
        }
        self.announcer.announce(partitions);
    }
}

/// What a transaction has written so far.
#[derive(Default)]
pub(crate) struct Written {
    /// Every event, for the hook.
    pub(crate) events: Vec<Event>,
    /// Those with a lease for this instance.
    pub(crate) born: Vec<Born>,
    /// Whether there are others, for the poller.
    pub(crate) unclaimed: bool,
}

/// Why a transaction can no longer be committed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spoiled {
    /// A write was begun and not seen to end: it was cancelled, and nobody knows what it did.
    Cut,
    /// A subscriber failed.
    BySubscriber,
}

/// An open transaction, made by [`Outbox::begin`](crate::Outbox::begin).
///
/// It dereferences to the connection of its store, so statements run on `&mut *tx`. Dropping it rolls back.
pub struct Tx<S: TxStore> {
    /// Taken out when it ends.
    open: Option<S::Tx>,
    after: Arc<AfterCommit>,
    pub(crate) written: Written,
    /// Why it can no longer be committed.
    pub(crate) spoiled: Option<Spoiled>,
    after_commit: Vec<Callback>,
    after_rollback: Vec<Callback>,
}

impl<S: TxStore> Tx<S> {
    pub(crate) fn new(open: S::Tx, after: Arc<AfterCommit>) -> Self {
        Self {
            open: Some(open),
            after,
            written: Written::default(),
            spoiled: None,
            after_commit: Vec::new(),
            after_rollback: Vec::new(),
        }
    }

    /// Whether statements can still be executed: false once a write on it was cancelled half-way, or a subscriber failed.
    pub fn is_active(&self) -> bool {
        self.open.is_some() && self.spoiled.is_none()
    }

    /// Runs `callback` after a commit that succeeded, in the order of registration.
    pub fn after_commit(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.after_commit.push(Box::new(callback));
    }

    /// Runs `callback` after a rollback, a drop, or a commit that failed.
    ///
    /// Neither kind of callback runs when nobody knows how a commit ended ([`CommitError::Unknown`]).
    pub fn after_rollback(&mut self, callback: impl FnOnce() + Send + 'static) {
        self.after_rollback.push(Box::new(callback));
    }

    /// Commits. Cancelling the returned future does not stop the commit, nor what follows it.
    pub async fn commit(mut self) -> Result<(), CommitError> {
        if let Some(spoiled) = self.spoiled {
            let reason = match spoiled {
                Spoiled::Cut => {
                    "a write on this transaction was cancelled half-way; write again in a new transaction"
                }
                Spoiled::BySubscriber => "a subscriber to one of its events failed",
            };
            // Dropping rolls back.
            return Err(CommitError::RolledBack { reason: reason.to_owned(), source: None });
        }
        let Some(open) = self.open.take() else {
            return Err(CommitError::RolledBack { reason: "it has ended already".to_owned(), source: None });
        };
        let ending = Ending {
            after: self.after.clone(),
            written: std::mem::take(&mut self.written),
            after_commit: std::mem::take(&mut self.after_commit),
            after_rollback: std::mem::take(&mut self.after_rollback),
        };
        let committed = self.after.runtime.to_its_end("commit", ending.commit::<S>(open)).await;
        committed.unwrap_or_else(|| {
            let reason = "it panicked before the answer came".to_owned();
            Err(CommitError::Unknown { reason, source: None })
        })
    }

    /// Rolls back.
    pub async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let callbacks = std::mem::take(&mut self.after_rollback);
        let step = roll_back::<S>(open, callbacks);
        let rolled_back = self.after.runtime.to_its_end("rollback", step).await;
        rolled_back.unwrap_or_else(|| Err(StoreError::unavailable("the rollback panicked")))
    }

    fn connection(&self) -> &S::Connection {
        S::connection(self.open.as_ref().expect("a transaction is open until it is consumed"))
    }
}

impl<S: TxStore> Deref for Tx<S> {
    type Target = S::Connection;

    fn deref(&self) -> &S::Connection {
        self.connection()
    }
}

impl<S: TxStore> DerefMut for Tx<S> {
    fn deref_mut(&mut self) -> &mut S::Connection {
        S::connection_mut(self.open.as_mut().expect("a transaction is open until it is consumed"))
    }
}

impl<S: TxStore> Drop for Tx<S> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let callbacks = std::mem::take(&mut self.after_rollback);
            let step = async move {
                if let Err(error) = roll_back::<S>(open, callbacks).await {
                    tracing::warn!(%error, "a dropped transaction could not be rolled back; its connection is closed");
                }
            };
            self.after.runtime.spawner.spawn("rollback", Box::pin(step));
        }
    }
}

impl<S: TxStore> std::fmt::Debug for Tx<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("events", &self.written.events.len()).finish_non_exhaustive()
    }
}

/// A transaction that is being committed.
struct Ending {
    after: Arc<AfterCommit>,
    written: Written,
    after_commit: Vec<Callback>,
    after_rollback: Vec<Callback>,
}

impl Ending {
    async fn commit<S: TxStore>(self, open: S::Tx) -> Result<(), CommitError> {
        let result = S::commit(open).await;
        match &result {
            Ok(()) => {
                let events = self.written.events.clone();
                self.after.committed(self.written);
                if let Some(hook) = self.after.hook.as_ref().filter(|_| !events.is_empty()) {
                    quietly("the after-commit hook", || hook.on_commit(&events));
                }
                run(self.after_commit, "an after-commit callback");
            }
            Err(CommitError::RolledBack { .. }) => run(self.after_rollback, "an after-rollback callback"),
            Err(CommitError::Unknown { .. }) => self.after.committed(self.written),
        }
        result
    }
}

async fn roll_back<S: TxStore>(open: S::Tx, callbacks: Vec<Callback>) -> Result<(), StoreError> {
    let result = S::rollback(open).await;
    run(callbacks, "an after-rollback callback");
    result
}

fn run(callbacks: Vec<Callback>, what: &'static str) {
    for callback in callbacks {
        quietly(what, callback);
    }
}
