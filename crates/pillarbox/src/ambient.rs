//! The ambient transaction: the one that the current task runs in.

use std::any::Any;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::Tx;
use crate::store::{CommitError, StoreError, TxStore};

tokio::task_local! {
    /// The transactions that the current task runs in, one for each outbox at most.
    static CURRENT: Vec<(usize, Arc<dyn Any + Send + Sync>)>;
}

type Slot<S> = Mutex<Option<Tx<S>>>;

/// There is no ambient transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no transaction is active on this task; run this code inside `Outbox::transaction`")]
pub struct NoTransaction;

/// Why [`Outbox::transaction`](crate::Outbox::transaction) did not commit.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError<E> {
    /// It could not be begun.
    #[error("the transaction could not be begun")]
    Begin(#[source] StoreError),
    /// The code inside failed; the transaction was rolled back.
    #[error(transparent)]
    Body(E),
    /// It could not be committed, or nobody knows whether it was.
    #[error(transparent)]
    Commit(CommitError),
}

/// The ambient transaction, for as long as this value lives.
///
/// It dereferences to [`Tx`]. Others that ask for the ambient transaction meanwhile wait.
pub struct CurrentTx<S: TxStore>(OwnedMutexGuard<Option<Tx<S>>>);

impl<S: TxStore> Deref for CurrentTx<S> {
    type Target = Tx<S>;

    fn deref(&self) -> &Tx<S> {
        self.0.as_ref().expect("checked when it was made")
    }
}

impl<S: TxStore> DerefMut for CurrentTx<S> {
    fn deref_mut(&mut self) -> &mut Tx<S> {
        self.0.as_mut().expect("checked when it was made")
    }
}

impl<S: TxStore> std::fmt::Debug for CurrentTx<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CurrentTx").field(&**self).finish()
    }
}

/// Runs `body` with `tx` as the ambient transaction of the outbox `outbox`.
pub(crate) async fn within<S: TxStore, T, E>(
    outbox: usize,
    tx: Tx<S>,
    body: impl Future<Output = Result<T, E>>,
) -> Result<T, TransactionError<E>> {
    let slot: Arc<Slot<S>> = Arc::new(Mutex::new(Some(tx)));
    let mut stack = CURRENT.try_with(Clone::clone).unwrap_or_default();
    stack.push((outbox, slot.clone()));

    let result = CURRENT.scope(stack, body).await;
    let tx = slot.lock().await.take();
    match (result, tx) {
        (Ok(value), Some(tx)) => tx.commit().await.map(|()| value).map_err(TransactionError::Commit),
        (Err(error), tx) => {
            if let Some(tx) = tx
                && let Err(error) = tx.rollback().await
            {
                tracing::warn!(%error, "a failed transaction could not be rolled back; its connection is closed");
            }
            Err(TransactionError::Body(error))
        }
        (Ok(_), None) => {
            let reason = "it was ended from within".to_owned();
            Err(TransactionError::Commit(CommitError::RolledBack { reason, source: None }))
        }
    }
}

/// Whether the current task runs in a transaction of the outbox `outbox`.
pub(crate) fn is_active(outbox: usize) -> bool {
    CURRENT.try_with(|stack| stack.iter().any(|(owner, _)| *owner == outbox)).unwrap_or(false)
}

/// The innermost transaction of the outbox `outbox` that the current task runs in.
pub(crate) async fn current<S: TxStore>(outbox: usize) -> Result<CurrentTx<S>, NoTransaction> {
    let slot = CURRENT.try_with(|stack| {
        let innermost = stack.iter().rev().find(|(owner, _)| *owner == outbox);
        innermost.and_then(|(_, slot)| slot.clone().downcast::<Slot<S>>().ok())
    });
    let guard = slot.ok().flatten().ok_or(NoTransaction)?.lock_owned().await;
    if guard.is_none() {
        return Err(NoTransaction);
    }
    Ok(CurrentTx(guard))
}
