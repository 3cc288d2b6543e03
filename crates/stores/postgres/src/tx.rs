//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, to_its_end};
use sqlx::Transaction;
use sqlx::postgres::{PgConnection, Postgres};
use tokio::runtime::Handle;

use crate::PostgresStore;
use crate::fault;
use crate::store::Inner;

/// Whatever the role's default is. Whether it may write is not ours to decide: an operator who lets nobody write
/// means us too.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A transaction that [`begin`](TxStore::begin) opened, at READ COMMITTED whatever the role's default is.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back.
pub struct PostgresTx {
    open: Option<Transaction<'static, Postgres>>,
    inner: Arc<Inner>,
    runtime: Handle,
}

impl PostgresTx {
    /// A connection of the pool may have died since it was last used; beginning is what finds out.
    async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        let mut tries = inner.pool.size() + 1;
        let open = loop {
            match inner.pool.begin_with(BEGIN).await {
                Ok(open) => break open,
                Err(error) if tries > 0 && fault::is_lost(&error) => tries -= 1,
                Err(error) => return Err(inner.line.place.connect(error)),
            }
        };
        Ok(Self { open: Some(open), inner, runtime: Handle::current() })
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.commit().await.map_err(|error| self.inner.line.place.commit(error))
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.rollback().await.map_err(|error| self.inner.line.place.store(error))
    }
}

impl Deref for PostgresTx {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.open.as_ref().expect(OPEN)
    }
}

impl DerefMut for PostgresTx {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.open.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction is open until it is consumed";

impl Drop for PostgresTx {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let inner = Arc::clone(&self.inner);
        // Given to a runtime that is gone, the pool still needs one to take its connection back.
        let _context = self.runtime.enter();
        self.runtime.spawn(async move {
            if let Err(error) = open.rollback().await {
                tracing::warn!(database = %inner.line.place, %error, "a transaction could not be rolled back; its connection is closed");
            }
        });
    }
}

impl std::fmt::Debug for PostgresTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = format_args!("{}", self.inner.line.place).to_string();
        f.debug_struct("PostgresTx").field("database", &place).finish_non_exhaustive()
    }
}

impl TxStore for PostgresStore {
    type Connection = PgConnection;
    type Tx = PostgresTx;
    /// A transaction of your own `sqlx`. After a statement in it has failed, PostgreSQL commits nothing of it,
    /// whatever its commit answers.
    type Foreign<'c> = Transaction<'c, Postgres>;

    fn begin(&self) -> BoxFuture<'static, Result<PostgresTx, StoreError>> {
        Box::pin(to_its_end(PostgresTx::begin(Arc::clone(&self.inner))))
    }

    fn connection(tx: &PostgresTx) -> &PgConnection {
        tx
    }

    fn connection_mut(tx: &mut PostgresTx) -> &mut PgConnection {
        tx
    }

    fn foreign_connection<'a>(tx: &'a mut Transaction<'_, Postgres>) -> &'a mut PgConnection {
        tx
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut PgConnection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(insert::insert(&self.inner, connection, events, birth))
    }

    fn commit(tx: PostgresTx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            Step::new(tx.commit()).await.unwrap_or_else(|Panicked| {
                let reason = "a step of the store panicked".into();
                Err(CommitError::Unknown { reason, source: None })
            })
        })
    }

    fn rollback(tx: PostgresTx) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(to_its_end(tx.rollback()))
    }
}
