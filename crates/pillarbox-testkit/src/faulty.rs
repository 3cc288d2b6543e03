//! A store with faults: calls fail before or after they took effect, hang, dawdle, or are cut off.

mod fault;
mod operation;
mod ownership;
mod transaction;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::{
    Batch, DoneRows, EventStore, Found, Lease, Owner, Settlement, StoreError, Take, Token, WakeUp,
};
use pillarbox::{BoxFuture, PartitionSet};

pub use fault::{Call, Effect, Fault, Faults, Then};
pub use transaction::FaultyTx;

/// Why a call failed.
#[derive(Clone, Copy)]
enum Failure {
    NeverBegun,
    AnswerLost,
    RowLocked,
}

impl From<Failure> for String {
    fn from(failure: Failure) -> Self {
        let text = match failure {
            Failure::NeverBegun => "the connection was lost before the call",
            Failure::AnswerLost => "the answer was lost",
            Failure::RowLocked => "another transaction has locked a row",
        };
        text.to_owned()
    }
}

/// The error of a call to the rows with these numbers, of which the middle one is locked if any is.
fn row_error(failure: Failure, numbers: &[i64]) -> StoreError {
    match failure {
        Failure::RowLocked => StoreError::Locked { numbers: vec![numbers[numbers.len() / 2]] },
        Failure::NeverBegun | Failure::AnswerLost => StoreError::unavailable(failure),
    }
}

/// A store behind a line that can fail.
///
/// It keeps the contracts of the store behind it, as far as those allow faults. [`cut`](FaultyStore::cut)
/// ends it as the death of a process does.
pub struct FaultyStore<S> {
    inner: S,
    line: Arc<Line>,
}

impl<S> FaultyStore<S> {
    /// A line to `inner` with the given faults.
    pub fn new(inner: S, faults: Arc<dyn Faults>) -> Self {
        Self { inner, line: Arc::new(Line { faults, is_cut: AtomicBool::new(false) }) }
    }

    /// Cuts the line: from now on calls have no effect and never answer, those included that are waiting
    /// before their effect.
    pub fn cut(&self) {
        self.line.cut();
    }

    /// A handle that can cut this store's line.
    pub fn cutter(&self) -> Cutter {
        Cutter(Arc::clone(&self.line))
    }
}

/// Cuts the line of a [`FaultyStore`].
#[derive(Clone)]
pub struct Cutter(Arc<Line>);

impl Cutter {
    /// See [`FaultyStore::cut`].
    pub fn cut(&self) {
        self.0.cut();
    }
}

/// The way from one instance to the store.
struct Line {
    faults: Arc<dyn Faults>,
    is_cut: AtomicBool,
}

impl Line {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Lets `time` pass; never returns once the line is cut.
    async fn pass(&self, time: Duration) {
        if time.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(time).await;
        }
        if self.is_cut.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }

    /// One call, with its fault. `told` tells of the effect, `fail` makes the error.
    async fn call<T, E>(
        &self,
        call: Call,
        effect: impl Future<Output = Result<T, E>>,
        told: impl FnOnce(&dyn Faults, &T),
        fail: impl FnOnce(Failure) -> E,
    ) -> Result<T, E> {
        let (fault, session) = (self.faults.next(call), self.faults.session());
        self.pass(fault.before).await;
        let is_cut = || self.faults.session() != session;
        match fault.then {
            _ if is_cut() => {
                self.faults.is_over();
                Err(fail(Failure::NeverBegun))
            }
            Then::Hang => std::future::pending().await,
            Then::FailBefore | Then::RollBack => {
                self.faults.is_over();
                self.pass(fault.after).await;
                Err(fail(Failure::NeverBegun))
            }
            Then::Lock if matches!(call, Call::Settle | Call::Renew) => {
                self.faults.is_over();
                self.pass(fault.after).await;
                Err(fail(Failure::RowLocked))
            }
            Then::Answer | Then::Lock | Then::FailAfter => {
                let answer = effect.await;
                self.faults.is_over();
                if let Ok(value) = &answer {
                    told(&*self.faults, value);
                }
                self.pass(fault.after).await;
                if fault.then == Then::FailAfter || is_cut() {
                    return Err(fail(Failure::AnswerLost));
                }
                if answer.is_ok() {
                    self.faults.answered(call);
                }
                answer
            }
        }
    }
}

impl<S: EventStore> EventStore for FaultyStore<S> {
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.take(take.clone());
            let told = |faults: &dyn Faults, batch: &Batch| faults.took_effect(Effect::Taken(&take, batch));
            self.line.call(Call::Take, effect, told, StoreError::unavailable).await
        })
    }

    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.settle(settlements, done);
            let told =
                |faults: &dyn Faults, lost: &Vec<i64>| faults.took_effect(Effect::Settled(settlements, lost));
            let numbers: Vec<i64> = settlements.iter().map(|settlement| settlement.lease.seq).collect();
            let fail = |failure| row_error(failure, &numbers);
            let settled = self.line.call(Call::Settle, effect, told, fail).await;
            if settled.is_err() {
                self.line.faults.took_effect(Effect::Unsettled(settlements));
            }
            settled
        })
    }

    fn renew<'a>(
        &'a self,
        leases: &'a [Lease],
        lease_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.renew(leases, lease_for);
            let told = |faults: &dyn Faults, lost: &Vec<i64>| {
                faults.took_effect(Effect::Renewed(leases, lease_for, lost))
            };
            let numbers: Vec<i64> = leases.iter().map(|lease| lease.seq).collect();
            self.line.call(Call::Renew, effect, told, |failure| row_error(failure, &numbers)).await
        })
    }

    fn read_back<'a>(
        &'a self,
        token: Token,
        event_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Found>, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.read_back(token, event_ids);
            let told =
                |faults: &dyn Faults, found: &Vec<Found>| faults.took_effect(Effect::Found(token, found));
            self.line.call(Call::ReadBack, effect, told, StoreError::unavailable).await
        })
    }

    fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.resume(owner);
            let told = |faults: &dyn Faults, _: &u64| faults.took_effect(Effect::Resumed(owner));
            self.line.call(Call::Resume, effect, told, StoreError::unavailable).await
        })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let effect = self.inner.is_current(owner);
            self.line.call(Call::IsCurrent, effect, |_, _| {}, StoreError::unavailable).await
        })
    }
}

impl<S: WakeUp> WakeUp for FaultyStore<S> {
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(async move {
            let partitions = tokio::select! {
                biased;
                partitions = self.inner.changed() => partitions,
                partitions = self.line.faults.heard() => partitions,
            };
            self.line.pass(Duration::ZERO).await;
            partitions
        })
    }

    fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.line.pass(Duration::ZERO).await;
            self.inner.announce(partitions).await;
            self.line.faults.announced(partitions);
        })
    }
}
