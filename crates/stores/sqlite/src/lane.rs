//! Connections of the store's own, each used by one step at a time.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::store::StoreError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Lets one in at a time, in the order of arrival.
///
/// SQLite lets waiting writers sleep in steps of up to 100 ms and favours none of them. So those of one process
/// queue up here, before they begin.
#[derive(Clone)]
pub(crate) struct Gate {
    queue: Arc<Semaphore>,
    patience: Duration,
}

impl Gate {
    /// A gate at which nobody waits longer than `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { queue: Arc::new(Semaphore::new(1)), patience }
    }

    /// Waits to be let in.
    pub(crate) async fn enter(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let queue = Arc::clone(&self.queue);
        match tokio::time::timeout(self.patience, queue.acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(StoreError::unavailable("the store is closed")),
            Err(_) => Err(StoreError::unavailable(format!(
                "another transaction of this process has held the database for {:?}; keep transactions short, or raise `busy_timeout`",
                self.patience
            ))),
        }
    }

    /// Lets nobody in any more.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Whether it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

/// One connection behind a gate, opened when it is needed first.
pub(crate) struct Lane {
    gate: Gate,
    options: SqliteConnectOptions,
    idle: Mutex<Option<SqliteConnection>>,
}

impl Lane {
    /// A lane whose connection is opened with `options`.
    pub(crate) fn new(gate: Gate, options: SqliteConnectOptions) -> Self {
        Self { gate, options, idle: Mutex::new(None) }
    }

    /// Waits until the connection is free, and opens it if there is none.
    pub(crate) async fn enter(&self) -> Result<Result<Visit<'_>, sqlx::Error>, StoreError> {
        let permit = self.gate.enter().await?;
        let idle = self.idle().take();
        let connected = match idle {
            Some(connection) => Ok(connection),
            None => self.options.connect().await,
        };
        Ok(connected.map(|connection| Visit { lane: self, connection, _permit: permit }))
    }

    /// Puts a connection that is open already into the lane.
    pub(crate) fn park(&self, connection: SqliteConnection) {
        *self.idle() = Some(connection);
    }

    /// Waits for the step that runs, and closes the connection.
    pub(crate) async fn close(&self) {
        let permit = self.gate.enter().await;
        self.gate.close();
        let idle = self.idle().take();
        if let Some(connection) = idle
            && let Err(error) = connection.close().await
        {
            tracing::debug!(%error, "a connection could not be closed");
        }
        drop(permit);
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Option<SqliteConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The use of a lane's connection, which is closed unless [`Visit::end`] gives it back.
pub(crate) struct Visit<'a> {
    lane: &'a Lane,
    connection: SqliteConnection,
    _permit: OwnedSemaphorePermit,
}

impl Visit<'_> {
    /// Keeps the connection for the next one.
    pub(crate) fn end(self) {
        self.lane.park(self.connection);
    }
}

impl Deref for Visit<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Visit<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}
