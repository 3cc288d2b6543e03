//! Transactions of the store's own, and writing inside them or inside those of others.

mod insert;
mod sessions;

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Birth, CommitError, InsertError, StoreError, TxStore};
use pillarbox::{BoxFuture, Event};
use pillarbox_sql::{Panicked, Step, to_its_end};
use sqlx::Transaction;
use sqlx::mysql::{MySql, MySqlConnection};
use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;
use tokio::time::timeout;

pub(crate) use insert::Inserts;
pub(crate) use sessions::Sessions;

use sessions::Ended;

use crate::MySqlStore;
use crate::fault;
use crate::lane::Line;
use crate::store::Inner;

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
        let mut most_stale = inner.sessions.pool().options().get_max_connections();
        loop {
            let acquired = inner.sessions.pool().acquire().await;
            let mut connection = acquired.map_err(|error| inner.line.place.connect(error))?;
            let patience = inner.line.connect_timeout;
            match timeout(patience, inner.sessions.begin(&mut connection)).await {
                Ok(Ok(())) => {
                    return Ok(Self { connection: Some(connection), inner, runtime: Handle::current() });
                }
                Ok(Err(error)) => {
                    connection.close_on_drop();
                    if !fault::is_lost(&error) || most_stale == 0 {
                        return Err(inner.line.place.store(error));
                    }
                    most_stale -= 1;
                }
                Err(_) => {
                    connection.close_on_drop();
                    return Err(inner.line.place.silent(patience));
                }
            }
        }
    }

    async fn commit(mut self) -> Result<(), CommitError> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let Line { place, .. } = &self.inner.line;
        match self.inner.sessions.commit(connection, self.inner.line.patience()).await {
            Ended::Well => Ok(()),
            Ended::Badly(error) => Err(place.commit(error)),
            Ended::Silently => {
                Err(CommitError::Unknown { reason: format!("`{place}` did not answer"), source: None })
            }
        }
    }

    async fn rollback(mut self) -> Result<(), StoreError> {
        let Some(connection) = self.connection.take() else { return Ok(()) };
        roll_back(connection, &self.inner, self.inner.line.patience()).await
    }
}

async fn roll_back(
    connection: PoolConnection<MySql>,
    inner: &Inner,
    patience: Duration,
) -> Result<(), StoreError> {
    match inner.sessions.roll_back(connection, patience).await {
        Ended::Well => Ok(()),
        Ended::Badly(error) => Err(inner.line.place.store(error)),
        Ended::Silently => Err(inner.line.place.silent(patience)),
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
            if let Err(error) = roll_back(connection, &inner, DROP_PATIENCE).await {
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
