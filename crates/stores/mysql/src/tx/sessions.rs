//! How transactions of our own begin and end.
//!
//! A deadlock rolls back, and what follows would run by itself, each statement a commit of its own; without
//! `autocommit` it becomes another transaction, which nobody commits. The savepoint that every transaction begins with
//! is there exactly as long as the transaction is.
//!
//! Sessions that are used for nothing else are always in a transaction that has done nothing yet: the end of each is the
//! beginning of the next, in the same round trip, and nobody waits for that. They hold no lock and no snapshot by it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use sqlx::mysql::{
    MySql, MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions, MySqlTransactionManager,
};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Executor, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tokio::time::{Instant, timeout};

use crate::fault;

/// A session of our own that was idle for this long is asked whether it is still there. The next transaction of a
/// process that is busy begins sooner, and is not to wait for an answer.
const ASK_AFTER: Duration = Duration::from_millis(10);

/// What makes a session one of our own, and begins its first transaction.
const FIRST: &str = include_str!("first.sql");

/// Begins a transaction in a session that commits every statement by itself, of which it is not known how isolated its
/// transactions are, and what follows on their end. That stays as it is set here: the driver sends a ROLLBACK of its own
/// long after the end, which must neither begin a transaction nor close the connection.
const BEGIN_ON_YOURS: &str = include_str!("begin_on_yours.sql");

/// Fails at the savepoint, and commits nothing, if the transaction has ended before.
const COMMIT: End = End { sql: include_str!("commit.sql"), needed: 2 };
const COMMIT_ON_YOURS: End = End { sql: include_str!("commit_on_yours.sql"), needed: 2 };

/// Sets `autocommit` too: the user may have switched it on.
const ROLLBACK: End = End { sql: include_str!("rollback.sql"), needed: 1 };
const ROLLBACK_ON_YOURS: End = End { sql: include_str!("rollback_on_yours.sql"), needed: 1 };

/// Statements that end a transaction in one round trip.
struct End {
    sql: &'static str,
    /// How many of them have succeeded when it has ended. The rest, of which there is some, is not waited for.
    needed: usize,
}

/// How a transaction ended.
pub(super) enum Ended {
    Well,
    Badly(sqlx::Error),
    Silently,
}

impl Ended {
    /// Whether the connection was found lost: one that ends badly because the server says no is not.
    fn is_loss(&self) -> bool {
        match self {
            Self::Well => false,
            Self::Badly(error) => fault::is_lost(error),
            Self::Silently => true,
        }
    }
}

/// The sessions that transactions of our own run in.
pub(crate) enum Sessions {
    /// Those of a pool that is used for nothing else.
    Ours { pool: MySqlPool, losses: Losses },
    /// Those of a pool that was given, which the user may have prepared for this.
    Yours(MySqlPool),
}

impl Sessions {
    /// Sessions of our own, opened when they are needed.
    pub(crate) fn ours(pool: MySqlPoolOptions, options: MySqlConnectOptions) -> Self {
        let losses = Losses::default();
        let known = losses.clone();
        let pool = pool
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(MySqlTransactionManager::begin(connection, Some(FIRST.into_sql_str())))
            })
            .before_acquire(move |connection, metadata| {
                let known = known.clone();
                Box::pin(async move {
                    if metadata.idle_for >= ASK_AFTER || known.were_within(metadata.idle_for) {
                        connection.ping().await.inspect_err(|_| known.note())?;
                    }
                    Ok(true)
                })
            });
        Self::Ours { pool: pool.connect_lazy_with(options), losses }
    }

    pub(crate) fn pool(&self) -> &MySqlPool {
        match self {
            Self::Ours { pool, .. } | Self::Yours(pool) => pool,
        }
    }

    /// Begins a transaction, where it has not begun with the end of the one before.
    pub(super) async fn begin(&self, connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        match self {
            Self::Ours { .. } => Ok(()),
            Self::Yours(_) => {
                MySqlTransactionManager::begin(connection, Some(BEGIN_ON_YOURS.into_sql_str())).await
            }
        }
    }

    pub(super) async fn commit(&self, connection: PoolConnection<MySql>, patience: Duration) -> Ended {
        let commit = match self {
            Self::Ours { .. } => COMMIT,
            Self::Yours(_) => COMMIT_ON_YOURS,
        };
        self.end(connection, commit, patience).await
    }

    pub(super) async fn roll_back(&self, connection: PoolConnection<MySql>, patience: Duration) -> Ended {
        let rollback = match self {
            Self::Ours { .. } => ROLLBACK,
            Self::Yours(_) => ROLLBACK_ON_YOURS,
        };
        self.end(connection, rollback, patience).await
    }

    /// Gives the connection back to the pool once enough statements are answered: whoever comes next reads the rest of
    /// the answers first, and the pool makes sure that there are no more. It is closed instead, which rolls back, if
    /// anything is not as expected: a statement of the user's that was dropped half-way may have left answers behind
    /// that are not ours.
    async fn end(&self, mut connection: PoolConnection<MySql>, end: End, patience: Duration) -> Ended {
        let mut succeeded = 0;
        let ended = timeout(patience, guarded(run_each(&mut connection, &end, &mut succeeded))).await;
        if matches!(ended, Ok(Ok(()))) && succeeded == end.needed {
            if !self.is_fit_again(&mut connection) {
                connection.close_on_drop();
            }
            return Ended::Well;
        }
        connection.close_on_drop();
        let ended = match ended {
            Ok(Ok(())) => {
                Ended::Badly(sqlx::Error::Protocol(format!("{succeeded} answers instead of {}", end.needed)))
            }
            Ok(Err(error)) => Ended::Badly(error),
            Err(_) => Ended::Silently,
        };
        match self {
            Self::Ours { losses, .. } if ended.is_loss() => losses.note(),
            _ => {}
        }
        ended
    }

    /// Whether the driver, which keeps account of transactions to make those inside of ours savepoints, now counts as
    /// many as before the one that has ended. A session of ours is always in one; in a session of the user's it is
    /// told that they are over, for which it sends a ROLLBACK with what comes next, which has nothing to do any more.
    fn is_fit_again(&self, connection: &mut MySqlConnection) -> bool {
        let left = match self {
            Self::Ours { .. } => 1,
            Self::Yours(_) => {
                while MySqlTransactionManager::get_transaction_depth(connection) > 0 {
                    MySqlTransactionManager::start_rollback(connection);
                }
                0
            }
        };
        MySqlTransactionManager::get_transaction_depth(connection) == left
    }
}

/// When a connection was last found lost: others that were idle then may be lost too.
#[derive(Clone, Default)]
pub(crate) struct Losses(Arc<Mutex<Option<Instant>>>);

impl Losses {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether there was one within this time.
    fn were_within(&self, time: Duration) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|last| last.elapsed() <= time)
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

/// Sends the statements at once, and counts those that succeeded until there are as many as are needed.
async fn run_each(
    connection: &mut MySqlConnection,
    end: &End,
    succeeded: &mut usize,
) -> Result<(), sqlx::Error> {
    let mut results = connection.execute_many(end.sql);
    while *succeeded < end.needed {
        let Some(result) = poll_fn(|context| results.as_mut().poll_next(context)).await else { break };
        result?;
        *succeeded += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S11: a connection counts as lost where nobody answers or it is cut, and not where the server says no.
    #[test]
    fn refusals_are_no_losses() {
        let cut = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());

        assert!(Ended::Silently.is_loss() && Ended::Badly(cut).is_loss());
        assert!(!Ended::Badly(sqlx::Error::RowNotFound).is_loss() && !Ended::Well.is_loss());
    }
}
