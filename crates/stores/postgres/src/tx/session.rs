//! The session of a transaction of our own: how it begins and ends.
//!
//! The driver counts transactions: one, and one more for each savepoint that a transaction inside of it is. It counts
//! on its own, and not what the server says: where one inside fails to begin, or is given up while it does, the driver
//! rolls back the whole and counts none, and what follows would run by itself, each statement a commit of its own.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgTransactionManager, Postgres};
use sqlx::{Connection, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tokio::time::timeout;

use crate::fault;

/// Whatever the role's default is. Whether it may write is not ours to decide: an operator who lets nobody write
/// means us too.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How long the pool may take to see that a connection which is given back is still there.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(5);

/// A connection of the pool in a transaction. Dropped before the transaction has ended well it is closed, which rolls
/// back: nobody else may get it as it is.
pub(super) struct Session {
    connection: Option<PoolConnection<Postgres>>,
}

/// What went wrong with a transaction.
pub(super) enum Fault {
    /// The server or the driver says so.
    Said(sqlx::Error),
    /// Nobody answered in time.
    Silence,
    /// It had ended before.
    EndedBefore,
    /// One inside of it had not ended. All is rolled back.
    OpenInside,
}

impl Fault {
    /// Whether the connection can go on after it.
    fn leaves_a_connection(&self) -> bool {
        match self {
            Self::Said(error) => !fault::is_lost(error),
            Self::Silence => false,
            Self::EndedBefore | Self::OpenInside => true,
        }
    }
}

impl Session {
    /// Begins a transaction on `connection`.
    pub(super) async fn begin(
        connection: PoolConnection<Postgres>,
        patience: Duration,
    ) -> Result<Self, Fault> {
        let mut session = Self { connection: Some(connection) };
        within(patience, PgTransactionManager::begin(&mut session, Some(BEGIN.into_sql_str()))).await?;
        Ok(session)
    }

    pub(super) async fn commit(mut self, patience: Duration) -> Result<(), Fault> {
        let fault = match self.depth() {
            0 => Fault::EndedBefore,
            1 => match within(patience, PgTransactionManager::commit(&mut self)).await {
                Ok(()) => {
                    self.give_back();
                    return Ok(());
                }
                Err(fault) => fault,
            },
            _ => Fault::OpenInside,
        };
        if fault.leaves_a_connection() {
            // However that ends, it changes nothing about the answer.
            let _ = self.roll_back(patience).await;
        }
        Err(fault)
    }

    /// Rolls back this transaction and all that are still open inside of it.
    pub(super) async fn roll_back(mut self, patience: Duration) -> Result<(), Fault> {
        let all = async {
            if self.depth() == 0 {
                // The driver has a ROLLBACK of its own to send first.
                self.ping().await?;
            }
            while self.depth() > 0 {
                PgTransactionManager::rollback(&mut self).await?;
            }
            Ok(())
        };
        within(patience, all).await?;
        self.give_back();
        Ok(())
    }

    fn depth(&self) -> usize {
        PgTransactionManager::get_transaction_depth(self)
    }

    /// Gives the connection back to the pool, which asks it whether it is still there, and would wait for the answer
    /// of one that is not for ever.
    fn give_back(mut self) {
        if let Some(mut connection) = self.connection.take() {
            tokio::spawn(timeout(GIVEN_BACK_WITHIN, connection.return_to_pool()));
        }
    }
}

async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Fault> {
    timeout(patience, work).await.map_err(|_| Fault::Silence)?.map_err(Fault::Said)
}

impl Deref for Session {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect(HELD)
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect(HELD)
    }
}

const HELD: &str = "a session has its connection until it ends";

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Taking leave of a server that is silent takes seconds, and nobody could use the place meanwhile.
            drop(connection.detach());
        }
    }
}
