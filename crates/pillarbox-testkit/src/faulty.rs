//! A store with faults: calls fail before or after they took effect, hang, dawdle, or are cut off.

mod operation;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::{
    Batch, Birth, CommitError, DoneRows, EventStore, Found, InsertError, Lease, Owner, Settlement,
    StoreError, Take, Token, TxStore, WakeUp,
};
use pillarbox::{BoxFuture, Event};

/// A call to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`EventStore::take`].
    Take,
    /// [`EventStore::settle`].
    Settle,
    /// [`EventStore::renew`].
    Renew,
    /// [`EventStore::read_back`].
    ReadBack,
    /// [`EventStore::resume`].
    Resume,
    /// [`EventStore::is_current`].
    IsCurrent,
    /// [`TxStore::begin`].
    Begin,
    /// [`TxStore::insert`].
    Insert,
    /// [`TxStore::commit`].
    Commit,
    /// [`TxStore::rollback`].
    Rollback,
    /// Any call of [`Administration`](pillarbox::store::Administration).
    Administer,
}

/// What happens in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It takes effect, and the answer arrives.
    Answer,
    /// It fails before it took effect, and nobody can tell.
    FailBefore,
    /// It takes effect, and then fails: the answer is lost.
    FailAfter,
    /// A commit is rolled back and says so; any other call fails before it took effect.
    RollBack,
    /// Another transaction has locked a row: a settlement or a renewal names it and does nothing else; any other
    /// call takes effect, and the answer arrives.
    Lock,
    /// It never takes effect and never answers.
    Hang,
}

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

/// How one call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Time that passes before the effect.
    pub before: Duration,
    /// What happens then.
    pub then: Then,
    /// Time that passes between the effect and the answer.
    pub after: Duration,
}

impl Fault {
    /// No fault, no delay.
    pub const NONE: Self = Self { before: Duration::ZERO, then: Then::Answer, after: Duration::ZERO };
}

/// What a call changed or found, told at the moment at which it took effect.
#[derive(Debug)]
pub enum Effect<'a> {
    /// Events were handed out.
    Taken(&'a Take, &'a Batch),
    /// Outcomes were recorded, but for those numbers whose lease was lost.
    Settled(&'a [Settlement], &'a [i64]),
    /// Leases were renewed for a time, but for those numbers that were lost.
    Renewed(&'a [Lease], Duration, &'a [i64]),
    /// The hot path found its rows.
    Found(Token, &'a [Found]),
    /// The leases of earlier incarnations of this owner's name were ended.
    Resumed(&'a Owner),
    /// Events were inserted into a transaction that has not been committed yet.
    Inserted(&'a [Event], Option<&'a Birth>),
    /// A settlement failed, and its caller does not know whether it took effect.
    Unsettled(&'a [Settlement]),
}

/// Decides how calls go, and sees what they did.
///
/// # Contract
/// To repeat a run from a seed, the answers must depend on nothing but the calls before.
pub trait Faults: Send + Sync + 'static {
    /// How the next call goes.
    fn next(&self, call: Call) -> Fault;

    /// A call took effect.
    fn took_effect(&self, effect: Effect<'_>);
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
        let fault = self.faults.next(call);
        self.pass(fault.before).await;
        match fault.then {
            Then::Hang => std::future::pending().await,
            Then::FailBefore | Then::RollBack => {
                self.pass(fault.after).await;
                Err(fail(Failure::NeverBegun))
            }
            Then::Lock if matches!(call, Call::Settle | Call::Renew) => {
                self.pass(fault.after).await;
                Err(fail(Failure::RowLocked))
            }
            Then::Answer | Then::Lock | Then::FailAfter => {
                let answer = effect.await;
                if let Ok(value) = &answer {
                    told(&*self.faults, value);
                }
                self.pass(fault.after).await;
                let is_lost = fault.then == Then::FailAfter;
                if is_lost { Err(fail(Failure::AnswerLost)) } else { answer }
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
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.inner.changed().await;
            self.line.pass(Duration::ZERO).await;
        })
    }

    fn announce(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.line.pass(Duration::ZERO).await;
            self.inner.announce().await;
        })
    }
}

/// A transaction of a [`FaultyStore`], with the line that it came by.
pub struct FaultyTx<T> {
    inner: T,
    line: Arc<Line>,
}

impl<S: TxStore> TxStore for FaultyStore<S> {
    type Connection = S::Connection;
    type Tx = FaultyTx<S::Tx>;
    type Foreign<'c> = S::Foreign<'c>;

    fn begin(&self) -> BoxFuture<'static, Result<Self::Tx, StoreError>> {
        let (effect, line) = (self.inner.begin(), Arc::clone(&self.line));
        Box::pin(async move {
            let inner = line.call(Call::Begin, effect, |_, _| {}, StoreError::unavailable).await?;
            Ok(FaultyTx { inner, line })
        })
    }

    fn connection(tx: &Self::Tx) -> &Self::Connection {
        S::connection(&tx.inner)
    }

    fn connection_mut(tx: &mut Self::Tx) -> &mut Self::Connection {
        S::connection_mut(&mut tx.inner)
    }

    fn foreign_connection<'a>(tx: &'a mut Self::Foreign<'_>) -> &'a mut Self::Connection {
        S::foreign_connection(tx)
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut Self::Connection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(async move {
            let effect = self.inner.insert(connection, events, birth);
            let told = |faults: &dyn Faults, (): &()| faults.took_effect(Effect::Inserted(events, birth));
            let fail = |reason| InsertError::Store(StoreError::unavailable(reason));
            self.line.call(Call::Insert, effect, told, fail).await
        })
    }

    fn commit(tx: Self::Tx) -> BoxFuture<'static, Result<(), CommitError>> {
        let FaultyTx { inner, line } = tx;
        Box::pin(async move {
            let fault = line.faults.next(Call::Commit);
            line.pass(fault.before).await;
            let reason = "the connection was lost".to_owned();
            match fault.then {
                Then::Hang => std::future::pending().await,
                Then::FailBefore | Then::RollBack => {
                    drop(inner);
                    line.pass(fault.after).await;
                    Err(if fault.then == Then::RollBack {
                        CommitError::RolledBack { reason, source: None }
                    } else {
                        CommitError::Unknown { reason, source: None }
                    })
                }
                Then::Answer | Then::Lock | Then::FailAfter => {
                    let answer = S::commit(inner).await;
                    line.pass(fault.after).await;
                    let is_lost = fault.then == Then::FailAfter;
                    if is_lost { Err(CommitError::Unknown { reason, source: None }) } else { answer }
                }
            }
        })
    }

    fn rollback(tx: Self::Tx) -> BoxFuture<'static, Result<(), StoreError>> {
        let FaultyTx { inner, line } = tx;
        Box::pin(async move {
            line.call(Call::Rollback, S::rollback(inner), |_, _| {}, StoreError::unavailable).await
        })
    }
}
