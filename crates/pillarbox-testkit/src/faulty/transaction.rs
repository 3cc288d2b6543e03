//! Transactions of a store with faults.

use std::sync::Arc;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};

use super::{Call, Effect, Faults, FaultyStore, Line, Then};

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
            let (fault, session) = (line.faults.next(Call::Commit), line.faults.session());
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
                    line.faults.took_effect(Effect::Committed);
                    line.pass(fault.after).await;
                    let is_lost = fault.then == Then::FailAfter || line.faults.session() != session;
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
