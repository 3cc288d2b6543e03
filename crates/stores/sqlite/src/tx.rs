//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, to_its_end};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqliteConnection, SqlitePool, SqlitePoolOptions};
use sqlx::{Connection, Transaction};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use insert::Inserts;

use crate::SqliteStore;
use crate::fault::{self, Fault};
use crate::store::Inner;

/// A transaction that [`begin`](TxStore::begin) opened: it may write, and others of this process wait for it.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back. Leave the rollback hook of
/// the connection alone: by it the store learns that SQLite rolled back by itself.
pub struct SqliteTx {
    open: Option<Open>,
    inner: Arc<Inner>,
    runtime: Handle,
}

/// An open transaction, and the right to have one.
struct Open {
    // On the heap, so that its connection is known by its address.
    transaction: Box<Transaction<'static, Sqlite>>,
    permit: OwnedSemaphorePermit,
}

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Where transactions of our own begin.
pub(crate) struct Begins {
    pool: SqlitePool,
    /// Set by every rollback, if the pool is ours and has one connection. Those of a pool that was given are told
    /// in every transaction to set a new one, which is one more errand to the driver's thread.
    is_rolled_back: Option<Arc<AtomicBool>>,
}

impl Begins {
    /// On a connection of our own: only one transaction of ours is open at a time.
    pub(crate) fn apart(pool: SqlitePoolOptions, options: SqliteConnectOptions) -> Self {
        let is_rolled_back = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_rolled_back);
        let pool = pool
            .max_connections(1)
            .after_connect(move |connection, _| Box::pin(notice_rollback(connection, Arc::clone(&flag))))
            .connect_lazy_with(options);
        Self { pool, is_rolled_back: Some(is_rolled_back) }
    }

    /// On connections of a pool that was given, which the user may have prepared for this.
    pub(crate) fn on(pool: SqlitePool) -> Self {
        Self { pool, is_rolled_back: None }
    }

    /// What will be set when the transaction that has just begun is rolled back.
    async fn notice_rollback(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Arc<AtomicBool>, sqlx::Error> {
        let is_rolled_back = self.is_rolled_back.clone().unwrap_or_default();
        is_rolled_back.store(false, Ordering::Relaxed);
        if self.is_rolled_back.is_none() {
            notice_rollback(connection, Arc::clone(&is_rolled_back)).await?;
        }
        Ok(is_rolled_back)
    }

    /// The pool, unless it was given.
    pub(crate) fn own_pool(&self) -> Option<&SqlitePool> {
        self.is_rolled_back.as_ref().map(|_| &self.pool)
    }
}

/// Sets `is_rolled_back` when SQLite rolls a transaction back by itself (`OR ROLLBACK`, `RAISE(ROLLBACK)`, a full
/// disk) or by a statement that did not come from us. From then on every statement would commit by itself.
async fn notice_rollback(
    connection: &mut SqliteConnection,
    is_rolled_back: Arc<AtomicBool>,
) -> Result<(), sqlx::Error> {
    let mut handle = connection.lock_handle().await?;
    handle.set_rollback_hook(move || is_rolled_back.store(true, Ordering::Relaxed));
    Ok(())
}

impl SqliteTx {
    async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        let permit = inner.gate.enter().await?;
        let begun = begin_on(&inner.begins.pool).await;
        let mut transaction = Box::new(begun.map_err(|error| Fault::of(&inner.path).open(error))?);
        let noticed = inner.begins.notice_rollback(&mut transaction).await;
        let is_rolled_back = noticed.map_err(|error| Fault::of(&inner.path).store(error))?;
        inner.own.begin(&transaction, is_rolled_back);
        Ok(Self { open: Some(Open { transaction, permit }), inner, runtime: Handle::current() })
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(Open { transaction, permit }) = self.open.take() else { return Ok(()) };
        if self.inner.own.is_rolled_back(&transaction) {
            // The driver still has to hear that it is over; that there is nothing to roll back is no news.
            let _ = Open { transaction, permit }.rollback(&self.inner).await;
            let reason = "SQLite rolled it back at an earlier statement".to_owned();
            return Err(CommitError::RolledBack { reason, source: None });
        }
        let committed = transaction.commit().await.map_err(|error| Fault::of(&self.inner.path).commit(error));
        self.inner.own.end(matches!(committed, Err(CommitError::RolledBack { .. })));
        drop(permit);
        committed
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.rollback(&self.inner).await.map_err(|error| Fault::of(&self.inner.path).store(error))
    }
}

/// Begins a transaction on a connection of the pool.
///
/// One that is found in a transaction is closed, or it would fail whoever gets it next.
async fn begin_on(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>, sqlx::Error> {
    for _ in 0..pool.size() {
        match pool.begin_with(BEGIN).await {
            Err(error) if fault::is_in_transaction(&error) => close_stuck(pool).await?,
            begun => return begun,
        }
    }
    pool.begin_with(BEGIN).await
}

/// Closes the first connection that is in a transaction which nobody can end: SQLite ended it by itself and the
/// driver believes in it, or it was begun by plain SQL and left open.
async fn close_stuck(pool: &SqlitePool) -> Result<(), sqlx::Error> {
    let mut sound = Vec::new();
    for _ in 0..pool.size() {
        let mut connection = pool.acquire().await?;
        let is_stuck = match connection.begin_with("BEGIN DEFERRED").await {
            Ok(tx) => tx.rollback().await.is_err(),
            Err(_) => true,
        };
        if is_stuck {
            tracing::warn!("closing a connection of the pool that was left in a transaction");
            return connection.close().await;
        }
        sound.push(connection);
    }
    Ok(())
}

impl Open {
    async fn rollback(self, inner: &Inner) -> Result<(), sqlx::Error> {
        let rolled_back = self.transaction.rollback().await;
        inner.own.end(true);
        // Others begin when this transaction is really over.
        drop(self.permit);
        rolled_back
    }
}

impl Deref for SqliteTx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.open.as_ref().expect(OPEN).transaction
    }
}

impl DerefMut for SqliteTx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.open.as_mut().expect(OPEN).transaction
    }
}

const OPEN: &str = "a transaction is open until it is consumed";

impl Drop for SqliteTx {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let inner = Arc::clone(&self.inner);
        // Given to a runtime that is gone, the pool still needs one to take its connection back.
        let _context = self.runtime.enter();
        self.runtime.spawn(async move {
            if let Err(error) = open.rollback(&inner).await {
                tracing::warn!(path = %inner.path.display(), %error, "a transaction could not be rolled back");
            }
        });
    }
}

impl std::fmt::Debug for SqliteTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteTx").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl TxStore for SqliteStore {
    type Connection = SqliteConnection;
    type Tx = SqliteTx;
    /// A transaction of your own `sqlx`. Begin it with `BEGIN IMMEDIATE` (`begin_with`): one that reads first
    /// and writes later fails at once when another wrote in between, whatever the busy timeout is.
    type Foreign<'c> = Transaction<'c, Sqlite>;

    fn begin(&self) -> BoxFuture<'static, Result<SqliteTx, StoreError>> {
        Box::pin(to_its_end(SqliteTx::begin(Arc::clone(&self.inner))))
    }

    fn connection(tx: &SqliteTx) -> &SqliteConnection {
        tx
    }

    fn connection_mut(tx: &mut SqliteTx) -> &mut SqliteConnection {
        tx
    }

    fn foreign_connection<'a>(tx: &'a mut Transaction<'_, Sqlite>) -> &'a mut SqliteConnection {
        tx
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut SqliteConnection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(insert::insert(&self.inner, connection, events, birth))
    }

    fn commit(tx: SqliteTx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            Step::new(tx.commit()).await.unwrap_or_else(|Panicked| {
                let reason = "a step of the store panicked".into();
                Err(CommitError::Unknown { reason, source: None })
            })
        })
    }

    fn rollback(tx: SqliteTx) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(to_its_end(tx.rollback()))
    }
}
