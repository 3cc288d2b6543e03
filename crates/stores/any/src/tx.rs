//! Transactions on whichever database it is.

use std::fmt;
use std::ops::{Deref, DerefMut};

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, refusal, to_its_end};
use sqlx::{Database, Transaction};

use crate::backend::{on_both, on_each};
use crate::{AnyStore, AnyTx};

/// An open transaction on one kind of database: of the store's own, or of your own `sqlx`.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back.
pub struct Open<S: TxStore, D: Database>(Whose<S, D>);

enum Whose<S: TxStore, D: Database> {
    Ours(S::Tx),
    Yours(Transaction<'static, D>),
}

impl<S: TxStore, D: Database> Open<S, D> {
    pub(crate) fn ours(tx: S::Tx) -> Self {
        Self(Whose::Ours(tx))
    }

    pub(crate) fn yours(tx: Transaction<'static, D>) -> Self {
        Self(Whose::Yours(tx))
    }

    async fn commit(self) -> Result<(), CommitError> {
        match self.0 {
            Whose::Ours(tx) => S::commit(tx).await,
            Whose::Yours(tx) => {
                let unknown = |source| {
                    let reason = "the driver reports an error".into();
                    CommitError::Unknown { reason, source: Some(Box::new(source)) }
                };
                let ended = Step::new(async move { tx.commit().await.map_err(unknown) }).await;
                ended.unwrap_or_else(|Panicked| {
                    let reason = "the driver panicked".into();
                    Err(CommitError::Unknown { reason, source: None })
                })
            }
        }
    }

    async fn rollback(self) -> Result<(), StoreError> {
        match self.0 {
            Whose::Ours(tx) => S::rollback(tx).await,
            Whose::Yours(tx) => {
                let unavailable = |source| {
                    let reason = "a transaction could not be rolled back".into();
                    StoreError::Unavailable { reason, source: Some(Box::new(source)) }
                };
                to_its_end(async move { tx.rollback().await.map_err(unavailable) }).await
            }
        }
    }
}

impl<S: TxStore<Connection = D::Connection>, D: Database> Deref for Open<S, D> {
    type Target = D::Connection;

    fn deref(&self) -> &D::Connection {
        match &self.0 {
            Whose::Ours(tx) => S::connection(tx),
            Whose::Yours(tx) => tx,
        }
    }
}

impl<S: TxStore<Connection = D::Connection>, D: Database> DerefMut for Open<S, D> {
    fn deref_mut(&mut self) -> &mut D::Connection {
        match &mut self.0 {
            Whose::Ours(tx) => S::connection_mut(tx),
            Whose::Yours(tx) => tx,
        }
    }
}

impl<S: TxStore, D: Database> fmt::Debug for Open<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_ours = matches!(self.0, Whose::Ours(_));
        f.debug_struct("Open").field("is_ours", &is_ours).finish_non_exhaustive()
    }
}

impl TxStore for AnyStore {
    type Connection = AnyTx;
    type Tx = AnyTx;
    /// A transaction of your own `sqlx`, begun on a pool: `AnyTx::from(pool.begin().await?)`. End it by
    /// [`commit`](TxStore::commit) or [`rollback`](TxStore::rollback) of the store.
    type Foreign<'c> = AnyTx;

    fn begin(&self) -> BoxFuture<'static, Result<AnyTx, StoreError>> {
        on_each!(AnyStore, self, store => {
            let begun = store.begin();
            Box::pin(async move { begun.await.map(AnyTx::from) })
        })
    }

    fn connection(tx: &AnyTx) -> &AnyTx {
        tx
    }

    fn connection_mut(tx: &mut AnyTx) -> &mut AnyTx {
        tx
    }

    fn foreign_connection(tx: &mut AnyTx) -> &mut AnyTx {
        tx
    }

    /// Refuses a transaction on another kind of database.
    fn insert<'a>(
        &'a self,
        connection: &'a mut AnyTx,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        on_both!(self, connection, (store, tx) => store.insert(tx, events, birth), else {
            let refused = refusal(format!("the transaction is not one on {}, where the outbox is", self.kind()));
            Box::pin(std::future::ready(Err(InsertError::Store(refused))))
        })
    }

    fn commit(tx: AnyTx) -> BoxFuture<'static, Result<(), CommitError>> {
        on_each!(AnyTx, tx, tx => Box::pin(tx.commit()))
    }

    fn rollback(tx: AnyTx) -> BoxFuture<'static, Result<(), StoreError>> {
        on_each!(AnyTx, tx, tx => Box::pin(tx.rollback()))
    }
}
