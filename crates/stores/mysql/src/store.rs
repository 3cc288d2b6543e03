//! The store, and how its steps run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pillarbox::store::{Mode, StoreError, WakeUp};
use pillarbox::{BoxFuture, PartitionSet};
use pillarbox_sql::{KnownLocks, Names, to_its_end};
use sqlx::mysql::{MySqlConnection, MySqlPool};

use crate::MySqlOptions;
use crate::closed::Readings;
use crate::lane::{Lane, Line};
use crate::migration;
use crate::mode;
use crate::statements::Statements;
use crate::tx::{Inserts, Sessions};

/// An outbox in a MySQL or MariaDB database. Clones are handles to one store.
///
/// It keeps up to five connections of its own: one that takes or fetches, one that settles, one that reads back, one that
/// beats, one for operators. Beside them there are two pools if it is made from a URL, one for transactions of
/// [`begin`](pillarbox::store::TxStore::begin) and one for statements of yours ([`pool`](Self::pool)), and else the pool
/// that it was given. Connections are opened when they are needed; all need a tokio runtime.
///
/// A future of the store that is dropped cancels nothing: the step runs to its end in a task of its own. The
/// exception is [`insert`](pillarbox::store::TxStore::insert), which runs on a connection of yours.
#[derive(Clone)]
pub struct MySqlStore {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) line: Line,
    pub(crate) statements: Statements,
    pub(crate) inserts: Inserts,
    pub(crate) locks: KnownLocks,
    pub(crate) readings: Readings,
    /// Whether the table had the indexes of owners when they were last needed.
    pub(crate) is_by_partition: AtomicBool,
    pub(crate) pool: MySqlPool,
    pub(crate) sessions: Sessions,
    pub(crate) taking: Lane,
    pub(crate) settling: Lane,
    pub(crate) hot: Lane,
    pub(crate) beating: Lane,
    pub(crate) operating: Lane,
}

impl MySqlStore {
    /// Connects to the database at a URL (`mysql://user:password@host:3306/database`) with the defaults of
    /// [`MySqlOptions`]; nothing is migrated.
    ///
    /// Fails with [`StoreError::NewerSchema`] if the tables are newer than this program.
    pub async fn connect(url: impl Into<String>) -> Result<Self, StoreError> {
        Self::options(url).connect().await
    }

    /// Starts options for the database at a URL.
    pub fn options(url: impl Into<String>) -> MySqlOptions {
        MySqlOptions::of_url(url.into())
    }

    /// Uses `pool` for transactions, and connections made with its options for everything else.
    ///
    /// The pool stays yours: [`close`](Self::close) leaves it open. For other than the default options see
    /// [`options_of_pool`](Self::options_of_pool).
    pub async fn from_pool(pool: MySqlPool) -> Result<Self, StoreError> {
        Self::options_of_pool(pool).connect().await
    }

    /// Starts options for the database that `pool` is connected to.
    pub fn options_of_pool(pool: MySqlPool) -> MySqlOptions {
        MySqlOptions::of_pool(pool)
    }

    /// A pool for statements of yours: the one that the store was made from, or one of its own.
    ///
    /// Made from a URL, its connections are at READ COMMITTED, and commit each statement by itself as usual;
    /// [`begin`](pillarbox::store::TxStore::begin) has others.
    pub fn pool(&self) -> &MySqlPool {
        &self.inner.pool
    }

    /// Where the tables of this outbox are.
    pub fn names(&self) -> &Names {
        self.inner.line.place.names()
    }

    /// Brings the outbox tables to the newest version that this program knows, and returns it.
    ///
    /// Creates them if there are none, and the database too if a schema was set that does not exist. Several
    /// processes may do this at once, and what one that died has left half-done is completed.
    ///
    /// A user who may not create triggers gets the tables without theirs, and a warning in the log;
    /// a later call by one who may adds it. [`migrations_sql`](crate::migrations_sql) has the same for a tool
    /// of yours.
    pub async fn migrate(&self) -> Result<u32, StoreError> {
        migration::migrate(self).await
    }

    /// [Migrates](Self::migrate), and makes `mode` the mode of the outbox with the indexes that belong to it, for a user
    /// who may do what instances may not; returns the version.
    ///
    /// Takes as long as making the indexes takes, during which others can write. Does nothing if there is nothing to
    /// do; makes indexes that are missing. Fails with [`StoreError::Config`], naming them, while instances of the other
    /// mode are alive.
    pub async fn migrate_to(&self, mode: Mode) -> Result<u32, StoreError> {
        let version = self.migrate().await?;
        mode::change_to(self, mode, None).await?;
        Ok(version)
    }

    /// The version of the outbox tables, if this program can work with it.
    ///
    /// Fails with [`StoreError::NotMigrated`], [`StoreError::OlderSchema`] or [`StoreError::NewerSchema`].
    pub async fn check(&self) -> Result<u32, StoreError> {
        let inner = Arc::clone(&self.inner);
        let version = self.run(
            |inner| &inner.operating,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move { migration::version(connection, &inner.statements).await })
            },
        );
        migration::judge(version.await?)
    }

    /// Waits for steps that run and closes the connections; later calls answer that the store is closed.
    ///
    /// A pool that was given to [`from_pool`](Self::from_pool) stays open.
    pub async fn close(&self) {
        let inner = &self.inner;
        tokio::join!(
            inner.taking.close(),
            inner.settling.close(),
            inner.hot.close(),
            inner.beating.close(),
            inner.operating.close()
        );
        if let Sessions::Ours { pool, .. } = &inner.sessions {
            tokio::join!(inner.pool.close(), pool.close());
        }
    }

    /// Runs one statement to its end on one of the store's own connections.
    pub(crate) async fn run<T, W>(&self, lane: fn(&Inner) -> &Lane, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>
            + Send
            + Sync
            + 'static,
    {
        let inner = Arc::clone(&self.inner);
        to_its_end(async move { lane(&inner).run(&inner.line, work).await }).await
    }

    /// Runs a transaction to its end on one of the store's own connections.
    pub(crate) async fn run_together<T, W>(&self, lane: fn(&Inner) -> &Lane, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>
            + Send
            + Sync
            + 'static,
    {
        let inner = Arc::clone(&self.inner);
        to_its_end(async move { lane(&inner).run_together(&inner.line, work).await }).await
    }
}

impl WakeUp for MySqlStore {
    /// Never completes: MySQL tells nobody of a commit. The poll finds what other processes wrote.
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(std::future::pending())
    }

    /// Does nothing.
    fn announce(&self, _partitions: PartitionSet) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl std::fmt::Debug for MySqlStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySqlStore")
            .field("database", &format_args!("{}", self.inner.line.place))
            .field("names", self.names())
            .finish_non_exhaustive()
    }
}
