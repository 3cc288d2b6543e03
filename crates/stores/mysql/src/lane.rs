//! Connections of the store's own, each used by one step at a time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::StoreError;
use pillarbox_sql::for_now;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, SqlSafeStr, SqlStr};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::fault::{self, Place};
use crate::migration;

/// A connection that was not used for this long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Time for the server's own limits to be heard of, before a silent connection is given up.
const GRACE: Duration = Duration::from_secs(5);

/// A process that is stopped in the middle of a transaction keeps its rows locked until the server has heard nothing
/// of it for the `wait_timeout` that is set here. Outside of transactions it is longer: a connection that the server
/// closes for it has to be made anew.
pub(crate) const BEGIN: &str = include_str!("lane/begin.sql");
pub(crate) const COMMIT: &str = include_str!("lane/commit.sql");

/// How long a settlement waits for a row before it counts as locked: the shortest time that the server knows.
const LOCKED_AFTER: Duration = Duration::from_secs(1);

/// How long a take waits for the one before it, which has a few statements to do. A process that is stopped meanwhile
/// costs the others this much each, until the server has closed its connection.
const LET_IN_WITHIN: Duration = Duration::from_secs(1);

/// How often a step is tried that others stood in the way of.
const TRIES: u32 = 5;

/// How connections are made, for all lanes of a store.
pub(crate) struct Line {
    pub(crate) place: Place,
    pub(crate) options: MySqlConnectOptions,
    pub(crate) connect_timeout: Duration,
    pub(crate) statement_timeout: Duration,
    pub(crate) lock_timeout: Duration,
    /// Whether this database was found fit for an outbox.
    pub(crate) is_proved: AtomicBool,
}

impl Line {
    /// A connection, with nothing set on it.
    async fn connect(&self) -> Result<MySqlConnection, StoreError> {
        match timeout(self.connect_timeout, self.options.connect()).await {
            Ok(connected) => connected.map_err(|error| self.place.connect(error)),
            Err(_) => Err(self.place.silent(self.connect_timeout)),
        }
    }

    /// Why a connection could not be made, once others were: that may pass.
    fn excuse(&self, error: StoreError) -> StoreError {
        if self.is_proved.load(Ordering::Relaxed) { for_now(error) } else { error }
    }

    /// The same for work that takes as long as it takes; it waits for locked rows and tables no longer than others do.
    pub(crate) fn patient(&self) -> Self {
        Self {
            place: self.place.clone(),
            options: self.options.clone(),
            connect_timeout: self.connect_timeout,
            statement_timeout: Duration::MAX,
            lock_timeout: self.lock_timeout,
            is_proved: AtomicBool::new(self.is_proved.load(Ordering::Relaxed)),
        }
    }

    /// How long a step may take before its connection counts as lost.
    pub(crate) fn patience(&self) -> Duration {
        self.statement_timeout.saturating_add(GRACE)
    }

    /// What makes a session ours, whatever the server's defaults are. MySQL limits the time of reading
    /// statements only, in milliseconds, and remembers the size of tables for a day unless it is told not to.
    fn prelude(&self, lock_timeout: Duration) -> SqlStr {
        let statement_seconds = self.statement_timeout.as_secs_f64().clamp(0.001, 1e6);
        let statement_millis = self.statement_timeout.as_millis().clamp(1, 1_000_000_000);
        let lock_seconds = lock_timeout.as_secs().clamp(1, 1_000_000);
        let prelude = include_str!("lane/prelude.sql")
            .replace(":statement_seconds", &statement_seconds.to_string())
            .replace(":statement_millis", &statement_millis.to_string())
            .replace(":lock_seconds", &lock_seconds.to_string());
        AssertSqlSafe(prelude).into_sql_str()
    }
}

/// One connection, opened when it is needed, behind a gate that lets one step in at a time.
pub(crate) struct Lane {
    gate: Semaphore,
    idle: Mutex<Option<Idle>>,
    /// How long its statements wait for a row at most.
    lock_timeout: Duration,
    /// What stands around the statements of a transaction.
    begin: SqlStr,
    commit: SqlStr,
    /// Whether a step is told that the connection was lost since the last one, instead of getting a new one in silence.
    tells_of_losses: bool,
}

struct Idle {
    connection: MySqlConnection,
    since: Instant,
}

impl Lane {
    /// A lane whose statements wait for locked rows as long as the options say.
    pub(crate) fn new() -> Self {
        Self {
            gate: Semaphore::new(1),
            idle: Mutex::new(None),
            lock_timeout: Duration::MAX,
            begin: BEGIN.into_sql_str(),
            commit: COMMIT.into_sql_str(),
            tells_of_losses: false,
        }
    }

    /// A lane whose transactions are let in one at a time, of all processes: a take walks over the rows that others are
    /// just taking. The next is let in before the commit, so that the server can still do several commits at once, and
    /// who was not let in within [`LET_IN_WITHIN`] goes on all the same.
    pub(crate) fn in_turn(line: &Line) -> Self {
        let names = line.place.names();
        let database = migration::database(names);
        // A wait that takes longer than statements may is an error in MariaDB.
        let seconds = LET_IN_WITHIN.min(line.statement_timeout / 2).as_secs_f64();
        let filled = |sql: &str| {
            let sql = sql.replace(":database", &database).replace(":prefix", names.prefix());
            AssertSqlSafe(sql.replace(":seconds", &format!("{seconds:.3}"))).into_sql_str()
        };
        let begin = filled(concat!(include_str!("lane/enter.sql"), include_str!("lane/begin.sql")));
        let commit = filled(concat!(include_str!("lane/leave.sql"), include_str!("lane/commit.sql")));
        Self { begin, commit, ..Self::new() }
    }

    /// A lane on which nobody waits long for a lock: whose row is locked is told so, and the others go on.
    pub(crate) fn impatient() -> Self {
        Self { lock_timeout: LOCKED_AFTER, ..Self::new() }
    }

    /// A lane that fails once when its connection was lost while nobody used it: the server may be another since.
    pub(crate) fn telling_of_losses(self) -> Self {
        Self { tells_of_losses: true, ..self }
    }

    /// Runs statements that each commit by themselves, if they are together one that may be repeated.
    pub(crate) async fn run<T, W>(&self, line: &Line, work: W) -> Result<T, StoreError>
    where
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        self.enter(line, false, work).await
    }

    /// Runs statements in one transaction.
    pub(crate) async fn run_together<T, W>(&self, line: &Line, work: W) -> Result<T, StoreError>
    where
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        self.enter(line, true, work).await
    }

    async fn enter<T, W>(&self, line: &Line, together: bool, work: W) -> Result<T, StoreError>
    where
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        let _turn = match timeout(line.patience(), self.gate.acquire()).await {
            Ok(Ok(turn)) => turn,
            Ok(Err(_)) => return Err(StoreError::unavailable("the store is closed")),
            Err(_) => return Err(StoreError::unavailable("earlier steps of this process take too long")),
        };
        let mut tries = 1;
        loop {
            let connected = self.connection(line).await;
            let mut connection = connected.map_err(|error| line.excuse(error))?;
            let step = async {
                if together {
                    self.together(&mut connection, &work).await
                } else {
                    work(&mut connection).await
                }
            };
            match timeout(line.patience(), step).await {
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
                    tokio::time::sleep(some_of(Duration::from_millis(10) * tries)).await;
                    tries += 1;
                }
                Err(_) => return Err(line.place.silent(line.patience())),
            }
        }
    }

    async fn together<T, W>(&self, connection: &mut MySqlConnection, work: &W) -> Result<T, sqlx::Error>
    where
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
    {
        connection.execute(self.begin.clone()).await?;
        let value = work(connection).await?;
        connection.execute(self.commit.clone()).await?;
        Ok(value)
    }

    /// The connection, if it is still there, or a new one.
    async fn connection(&self, line: &Line) -> Result<MySqlConnection, StoreError> {
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
        let set =
            sqlx::raw_sql(line.prelude(self.lock_timeout.min(line.lock_timeout))).execute(&mut connection);
        match timeout(line.patience(), set).await {
            Ok(set) => set.map_err(|error| line.place.connect(error))?,
            Err(_) => return Err(line.place.silent(line.patience())),
        };
        Ok(connection)
    }

    fn park(&self, connection: MySqlConnection) {
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
async fn close(connection: MySqlConnection) {
    if let Ok(Err(error)) = timeout(GRACE, connection.close()).await {
        tracing::debug!(%error, "a connection could not be closed");
    }
}

/// A random part of `most`, so that those who stood in each other's way do not meet again.
fn some_of(most: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish();
    most.mul_f64((random >> 11) as f64 / (1_u64 << 53) as f64)
}
