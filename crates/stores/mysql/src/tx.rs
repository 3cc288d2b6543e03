//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;

use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, to_its_end};
use sqlx::mysql::{MySql, MySqlConnection, MySqlTransactionManager};
use sqlx::pool::PoolConnection;
use sqlx::{Executor, SqlSafeStr, Transaction};
use sqlx_core::transaction::TransactionManager;
use tokio::runtime::Handle;
use tokio::time::timeout;

pub(crate) use insert::Inserts;

use crate::MySqlStore;
use crate::fault;
use crate::lane::Line;
use crate::store::Inner;

/// A deadlock rolls back, and what follows would run by itself, each statement a commit of its own; without
/// `autocommit` it becomes another transaction, which nobody commits. The savepoint is there exactly as long as
/// the transaction is.
const BEGIN: &str = include_str!("tx/begin.sql");

/// The same on a connection of which it is not known how transactions begin.
const BEGIN_ON_YOURS: &str =
    concat!("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n", include_str!("tx/begin.sql"));

/// Fails at the savepoint, and commits nothing, if the transaction has ended before.
const COMMIT: &str = include_str!("tx/commit.sql");

/// How many statements of [`COMMIT`] have succeeded when it is committed. The rest need not be waited for.
const COMMITTED: usize = 2;

const ROLLBACK: &str = include_str!("tx/rollback.sql");

/// How many statements of [`ROLLBACK`] have succeeded when it is rolled back.
const ROLLED_BACK: usize = 1;

/// How long a rollback may take that nobody waits for. Closing the connection rolls back too.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// A transaction that [`begin`](TxStore::begin) opened, at READ COMMITTED.
///
/// It stands for its connection, so statements run on `&mut *tx`. Dropped, it rolls back. If a deadlock has
/// rolled it back, or a statement such as `CREATE TABLE` has committed it, [`commit`](TxStore::commit) is an
/// error, and what was written since is rolled back.
pub struct MySqlTx {
    connection: Option<PoolConnection<MySql>>,
    inner: Arc<Inner>,
    runtime: Handle,
}

impl MySqlTx {
    async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        // Connections that the server has closed meanwhile are found out here, one by one.
        let mut most_stale = inner.pool.options().get_max_connections();
        loop {
            let acquired = inner.pool.acquire().await;
            let mut connection = acquired.map_err(|error| inner.line.place.connect(error))?;
            let begin = if inner.owns_pool { BEGIN } else { BEGIN_ON_YOURS };
            match MySqlTransactionManager::begin(&mut connection, Some(begin.into_sql_str())).await {
                Ok(()) => {
                    return Ok(Self { connection: Some(connection), inner, runtime: Handle::current() });
                }
                Err(error) => {
                    connection.close_on_drop();
                    if !fault::is_lost(&error) || most_stale == 0 {
                        return Err(inner.line.place.store(error));
                    }
                    most_stale -= 1;
                }
            }
        }
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let place = &self.inner.line.place;
        match end(connection, COMMIT, COMMITTED, self.inner.line.patience()).await {
            Ended::Well => Ok(()),
            Ended::Badly(error) => Err(place.commit(error)),
            Ended::Silently => {
                Err(CommitError::Unknown { reason: format!("`{place}` did not answer"), source: None })
            }
        }
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let line = &self.inner.line;
        roll_back(connection, line, line.patience()).await
    }
}

async fn roll_back(
    connection: PoolConnection<MySql>,
    line: &Line,
    patience: Duration,
) -> Result<(), StoreError> {
    match end(connection, ROLLBACK, ROLLED_BACK, patience).await {
        Ended::Well => Ok(()),
        Ended::Badly(error) => Err(line.place.store(error)),
        Ended::Silently => Err(line.place.silent(patience)),
    }
}

/// How a transaction ended.
enum Ended {
    Well,
    Badly(sqlx::Error),
    Silently,
}

/// Ends a transaction by several statements in one round trip, and gives its connection back to the pool once `needed`
/// of them are answered: whoever comes next reads the rest of the answers first, and the pool makes sure that there
/// are no more. It is closed instead, which rolls back, if anything is not as expected: a statement of the user's that
/// was dropped half-way may have left answers behind that are not ours.
async fn end(
    mut connection: PoolConnection<MySql>,
    sql: &'static str,
    needed: usize,
    patience: Duration,
) -> Ended {
    let mut succeeded = 0;
    let ended = timeout(patience, guarded(run_each(&mut connection, sql, needed, &mut succeeded))).await;
    match ended {
        Ok(Ok(())) if succeeded == needed => {
            forget_transaction(&mut connection);
            return Ended::Well;
        }
        _ => connection.close_on_drop(),
    }
    match ended {
        Ok(Ok(())) => Ended::Badly(sqlx::Error::Protocol(format!("{succeeded} answers instead of {needed}"))),
        Ok(Err(error)) => Ended::Badly(error),
        Err(_) => Ended::Silently,
    }
}

/// Makes an error of a panic: the driver may stumble over answers that it did not expect.
async fn guarded(run: impl Future<Output = Result<(), sqlx::Error>>) -> Result<(), sqlx::Error> {
    let mut run = pin!(run);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context)));
        let stumbled = || sqlx::Error::Protocol("the driver stumbled over an answer".into());
        polled.unwrap_or_else(|_| Poll::Ready(Err(stumbled())))
    })
    .await
}

/// Sends several statements at once, and counts those that succeeded until there are as many as are needed.
async fn run_each(
    connection: &mut MySqlConnection,
    sql: &'static str,
    needed: usize,
    succeeded: &mut usize,
) -> Result<(), sqlx::Error> {
    let mut results = connection.execute_many(sql);
    while *succeeded < needed {
        let Some(result) = poll_fn(|context| results.as_mut().poll_next(context)).await else { break };
        result?;
        *succeeded += 1;
    }
    Ok(())
}

/// Tells the driver, which keeps account of transactions to make those inside of ours savepoints, that it is
/// over. It sends a ROLLBACK with what comes next, which has nothing to do any more.
fn forget_transaction(connection: &mut MySqlConnection) {
    while MySqlTransactionManager::get_transaction_depth(connection) > 0 {
        MySqlTransactionManager::start_rollback(connection);
    }
}

impl Deref for MySqlTx {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        self.connection.as_ref().expect(OPEN)
    }
}

impl DerefMut for MySqlTx {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        self.connection.as_mut().expect(OPEN)
    }
}

const OPEN: &str = "a transaction is open until it is consumed";

impl Drop for MySqlTx {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let inner = Arc::clone(&self.inner);
        // Given to a runtime that is gone, the pool still needs one to take its connection back.
        let _context = self.runtime.enter();
        self.runtime.spawn(async move {
            if let Err(error) = roll_back(connection, &inner.line, DROP_PATIENCE).await {
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
    /// transaction up, or use [`begin`](TxStore::begin), whose transactions commit nothing then.
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
