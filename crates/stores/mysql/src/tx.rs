//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, to_its_end};
use sqlx::mysql::{MySql, MySqlConnection};
use sqlx::{Executor, Transaction};
use tokio::runtime::Handle;

pub(crate) use insert::Inserts;

use crate::MySqlStore;
use crate::fault;
use crate::store::Inner;

/// The session is read-only except inside the transaction. After a deadlock, which rolls back, the server would
/// run what follows by itself, each statement a commit of its own; so it refuses all of it that writes. The
/// savepoint is there exactly as long as the transaction is.
const BEGIN: &str = "SET SESSION TRANSACTION READ ONLY;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
START TRANSACTION READ WRITE;
SAVEPOINT pillarbox_transaction";

/// Fails at the savepoint if the transaction has ended before.
const COMMIT: &str = "RELEASE SAVEPOINT pillarbox_transaction;
COMMIT;
SET SESSION TRANSACTION READ WRITE";

/// How many statements of [`COMMIT`] have succeeded when it is committed.
const COMMITTED: usize = 2;

const ROLLBACK: &str = "ROLLBACK;
SET SESSION TRANSACTION READ WRITE";

/// A transaction that [`begin`](TxStore::begin) opened, at READ COMMITTED.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back. Once a deadlock has
/// rolled it back, or a statement such as `CREATE TABLE` has committed it, the server refuses every further
/// write on it, and committing it is an error.
pub struct MySqlTx {
    transaction: Option<Transaction<'static, MySql>>,
    inner: Arc<Inner>,
    runtime: Handle,
}

impl MySqlTx {
    async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        // Connections that the server has closed meanwhile are found out here, one by one.
        let mut most_stale = inner.pool.options().get_max_connections();
        loop {
            match inner.pool.begin_with(BEGIN).await {
                Ok(transaction) => {
                    return Ok(Self { transaction: Some(transaction), inner, runtime: Handle::current() });
                }
                Err(error) if fault::is_lost(&error) && most_stale > 0 => most_stale -= 1,
                Err(error) => return Err(inner.line.place.connect(error)),
            }
        }
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(mut transaction) = self.transaction.take() else { return Ok(()) };
        let (succeeded, failure) = run_each(&mut transaction, COMMIT).await;
        let Some(error) = failure else { return Ok(()) };
        // The session is made fit for others; a connection that is lost is not given to anybody.
        let _ = roll_back(transaction).await;
        if succeeded >= COMMITTED {
            return Ok(());
        }
        Err(self.inner.line.place.commit(error))
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        roll_back(transaction).await.map_err(|error| self.inner.line.place.store(error))
    }
}

/// Ends the transaction. The driver does not know it and sends a ROLLBACK of its own, when the connection goes
/// back to the pool.
async fn roll_back(mut transaction: Transaction<'static, MySql>) -> Result<(), sqlx::Error> {
    let (_, failure) = run_each(&mut transaction, ROLLBACK).await;
    failure.map_or(Ok(()), Err)
}

/// Runs several statements in one round trip: how many succeeded, and the failure that ended it.
async fn run_each(connection: &mut MySqlConnection, sql: &'static str) -> (usize, Option<sqlx::Error>) {
    let mut succeeded = 0;
    let mut results = connection.execute_many(sql);
    loop {
        match std::future::poll_fn(|context| results.as_mut().poll_next(context)).await {
            Some(Ok(_)) => succeeded += 1,
            Some(Err(error)) => return (succeeded, Some(error)),
            None => return (succeeded, None),
        }
    }
}

impl Deref for MySqlTx {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        self.transaction.as_ref().expect(OPEN)
    }
}

impl DerefMut for MySqlTx {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        self.transaction.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction is open until it is consumed";

impl Drop for MySqlTx {
    fn drop(&mut self) {
        let Some(transaction) = self.transaction.take() else { return };
        let inner = Arc::clone(&self.inner);
        // Given to a runtime that is gone, the pool still needs one to take its connection back.
        let _context = self.runtime.enter();
        self.runtime.spawn(async move {
            if let Err(error) = roll_back(transaction).await {
                tracing::warn!(database = %inner.line.place, %error, "a transaction could not be rolled back");
            }
        });
    }
}

impl std::fmt::Debug for MySqlTx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySqlTx")
            .field("database", &format_args!("{}", self.inner.line.place))
            .finish_non_exhaustive()
    }
}

impl TxStore for MySqlStore {
    type Connection = MySqlConnection;
    type Tx = MySqlTx;
    /// A transaction of your own `sqlx`. If a deadlock rolls it back and you go on all the same, MySQL runs
    /// every further statement by itself: an event that is written then is committed at once. Give such a
    /// transaction up, or use [`begin`](TxStore::begin), whose transactions refuse it.
    type Foreign<'c> = Transaction<'c, MySql>;

    fn begin(&self) -> BoxFuture<'static, Result<MySqlTx, StoreError>> {
        Box::pin(to_its_end(MySqlTx::begin(Arc::clone(&self.inner))))
    }

    fn connection(tx: &MySqlTx) -> &MySqlConnection {
        tx
    }

    fn connection_mut(tx: &mut MySqlTx) -> &mut MySqlConnection {
        tx
    }

    fn foreign_connection<'a>(tx: &'a mut Transaction<'_, MySql>) -> &'a mut MySqlConnection {
        tx
    }

    fn insert<'a>(
        &'a self,
        connection: &'a mut MySqlConnection,
        events: &'a [Event],
        birth: Option<&'a Birth>,
    ) -> BoxFuture<'a, Result<(), InsertError>> {
        Box::pin(insert::insert(&self.inner, connection, events, birth))
    }

    fn commit(tx: MySqlTx) -> BoxFuture<'static, Result<(), CommitError>> {
        Box::pin(async move {
            Step::new(tx.commit()).await.unwrap_or_else(|Panicked| {
                let reason = "a step of the store panicked".into();
                Err(CommitError::Unknown { reason, source: None })
            })
        })
    }

    fn rollback(tx: MySqlTx) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(to_its_end(tx.rollback()))
    }
}
