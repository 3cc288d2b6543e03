//! Connections of the store's own, each used by one step at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::StoreError;
use pillarbox_sql::for_now;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqlSafeStr, SqlStr};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::fault::{self, Place};

/// A connection that was not used for this long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Time for the server's own limits to be heard of, before a silent connection is given up.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// How long a settlement waits for a row before it counts as locked.
const LOCKED_AFTER: Duration = Duration::from_millis(250);

/// How often a statement is tried that others stood in the way of.
const TRIES: u32 = 3;

/// What our sessions are like, whatever the role's defaults are. Sorting, scanning and joining in bulk are never
/// right for statements that touch a batch of rows by an index, and the statistics of a queue are always out of
/// date: so plans depend neither on statistics nor on parameters. (Costs that are high by decree would call the
/// compiler, hence no `jit`.)
const SETTINGS: &str = include_str!("lane/session.sql");

/// How connections are made, for all lanes of a store.
pub(crate) struct Line {
    pub(crate) place: Place,
    pub(crate) options: PgConnectOptions,
    /// Whether a pooler may hand every transaction to another session.
    pub(crate) pooled: bool,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    /// [`GRACE`], unless a test has no time for it.
    pub(crate) grace: Duration,
    /// How often one who migrates is looked after.
    pub(crate) watch_every: Duration,
    /// Whether this database was found fit for an outbox.
    pub(crate) is_proved: AtomicBool,
}

impl Line {
    /// A connection, with nothing set on it.
    pub(crate) async fn connect(&self) -> Result<PgConnection, StoreError> {
        match timeout(self.connect_timeout, self.options.connect()).await {
            Ok(connected) => connected.map_err(|error| self.place.connect(error)),
            Err(_) => Err(self.place.silent(self.connect_timeout)),
        }
    }

    /// Why a connection could not be made, once others were: that may pass.
    fn excuse(&self, error: StoreError) -> StoreError {
        if self.is_proved.load(Ordering::Relaxed) { for_now(error) } else { error }
    }

    /// How long a statement may take before its connection counts as lost.
    pub(crate) fn patience(&self) -> Duration {
        self.statement_timeout.saturating_add(self.grace)
    }

    fn settings(&self, also: &str, lock_timeout: Duration) -> String {
        let [statement, lock] = [self.statement_timeout, lock_timeout].map(milliseconds);
        format!("{SETTINGS}{also}SET statement_timeout = {statement};\nSET lock_timeout = {lock};\n")
    }
}

/// 0 would switch a limit off.
pub(crate) fn milliseconds(limit: Duration) -> String {
    limit.as_millis().clamp(1, i32::MAX as u128).to_string()
}

/// How the statements of a step belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Each commits by itself.
    Apart,
    /// All are one transaction.
    Together,
    /// All are one transaction, which may take as long as it takes.
    Patiently,
}

impl Manner {
    /// What `work` answers, or how long it was waited for in vain.
    async fn limit<T>(self, line: &Line, work: impl Future<Output = T>) -> Result<T, Duration> {
        match self {
            Self::Patiently => Ok(work.await),
            Self::Apart | Self::Together => timeout(line.patience(), work).await.map_err(|_| line.patience()),
        }
    }
}

/// One connection, opened when it is needed, behind a gate that lets one step in at a time.
pub(crate) struct Lane {
    gate: Semaphore,
    idle: Mutex<Option<Idle>>,
    /// What makes a session ours; sent once, or before every transaction where sessions are not ours to keep.
    prelude: SqlStr,
    is_pooled: bool,
    /// Whether a step is told that the connection was lost since the last one, instead of getting a new one in silence.
    tells_of_losses: bool,
}

struct Idle {
    connection: PgConnection,
    since: Instant,
}

impl Lane {
    /// A lane of `line`, whose sessions also have the settings of `also`.
    pub(crate) fn new(line: &Line, also: &str) -> Self {
        Self::with(line, &line.settings(also, line.lock_timeout))
    }

    /// A lane on which nobody waits long for a lock: whose row is locked is told so, and the others go on.
    pub(crate) fn impatient(line: &Line) -> Self {
        let short = LOCKED_AFTER.min(line.lock_timeout).min(line.statement_timeout / 2);
        Self::with(line, &line.settings("", short))
    }

    fn with(line: &Line, settings: &str) -> Self {
        let prelude = if line.pooled {
            let settings = settings.replace("SET ", "SET LOCAL ");
            format!("BEGIN ISOLATION LEVEL READ COMMITTED;\n{settings}")
        } else {
            let level = "ISOLATION LEVEL READ COMMITTED";
            format!("SET SESSION CHARACTERISTICS AS TRANSACTION {level};\n{settings}")
        };
        Self {
            gate: Semaphore::new(1),
            idle: Mutex::new(None),
            prelude: AssertSqlSafe(prelude).into_sql_str(),
            is_pooled: line.pooled,
            tells_of_losses: false,
        }
    }

    /// A lane that fails once when its connection was lost while nobody used it: the server may be another since.
    pub(crate) fn telling_of_losses(self) -> Self {
        Self { tells_of_losses: true, ..self }
    }

    /// Makes the connection before it is needed. Whether it can be made, the step that needs it will tell.
    pub(crate) async fn connect_ahead(&self, line: &Line) {
        // Whoever has the turn connects, or has connected.
        let Ok(_turn) = self.gate.try_acquire() else { return };
        if let Ok(connection) = self.connection(line).await {
            self.park(connection);
        }
    }

    /// Runs the statements of one step.
    pub(crate) async fn run<T, W>(&self, line: &Line, manner: Manner, work: W) -> Result<T, StoreError>
    where
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        let _turn = match manner.limit(line, self.gate.acquire()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => return Err(StoreError::unavailable("the store is closed")),
            Err(_) => return Err(StoreError::unavailable("earlier steps of this process take too long")),
        };
        let mut tries = 1;
        loop {
            let connected = self.connection(line).await;
            let mut connection = connected.map_err(|error| line.excuse(error))?;
            let attempt = self.attempt(&mut connection, manner, &work);
            match manner.limit(line, attempt).await {
                Ok(Ok(value)) => {
                    self.park(connection);
                    return Ok(value);
                }
                // An error may leave a transaction behind; only a new connection is certain to have none.
                Ok(Err(error)) => {
                    close(connection).await;
                    if !fault::is_collision(&error) || tries == TRIES {
                        return Err(line.place.store(error));
                    }
                    tries += 1;
                }
                Err(patience) => return Err(line.place.silent(patience)),
            }
        }
    }

    async fn attempt<T, W>(
        &self,
        connection: &mut PgConnection,
        manner: Manner,
        work: &W,
    ) -> Result<T, sqlx::Error>
    where
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        let mut tx = match (self.is_pooled, manner) {
            (true, _) => connection.begin_with(self.prelude.clone()).await?,
            (false, Manner::Together | Manner::Patiently) => connection.begin().await?,
            (false, Manner::Apart) => return work(connection).await,
        };
        let value = work(&mut tx).await?;
        tx.commit().await?;
        Ok(value)
    }

    /// The connection, if it is still there, or a new one.
    async fn connection(&self, line: &Line) -> Result<PgConnection, StoreError> {
        let idle = self.idle().take();
        if let Some(Idle { mut connection, since }) = idle {
            if since.elapsed() < ASK_AFTER {
                return Ok(connection);
            }
            if matches!(timeout(GRACE, connection.ping()).await, Ok(Ok(()))) {
                return Ok(connection);
            }
            if self.tells_of_losses {
                return Err(StoreError::unavailable("the connection was lost since it was last used"));
            }
        }
        let mut connection = line.connect().await?;
        if !self.is_pooled {
            let set = sqlx::raw_sql(self.prelude.clone()).execute(&mut connection);
            match timeout(line.patience(), set).await {
                Ok(set) => set.map_err(|error| line.place.connect(error))?,
                Err(_) => return Err(line.place.silent(line.patience())),
            };
        }
        Ok(connection)
    }

    fn park(&self, connection: PgConnection) {
        *self.idle() = Some(Idle { connection, since: Instant::now() });
    }

    /// Waits for the step that runs, and closes the connection.
    pub(crate) async fn close(&self) {
        let turn = self.gate.acquire().await;
        self.gate.close();
        let idle = self.idle().take();
        if let Some(Idle { connection, .. }) = idle {
            close(connection).await;
        }
        drop(turn);
    }

    fn idle(&self) -> MutexGuard<'_, Option<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes leave of the server, if it listens.
async fn close(connection: PgConnection) {
    if let Ok(Err(error)) = timeout(GRACE, connection.close()).await {
        tracing::debug!(%error, "a connection could not be closed");
    }
}
