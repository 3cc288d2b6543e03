//! The store, and how its steps run.

use std::sync::Arc;

use pillarbox::store::StoreError;
use pillarbox::{BoxFuture, WriteError};
use pillarbox_sql::canonical::Tables;
use pillarbox_sql::{Ear, KnownLocks, Names, to_its_end};
use sqlx::SqlStr;
use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgRow, Postgres};

use crate::PostgresOptions;
use crate::closed::Closing;
use crate::lane::{Lane, Line, Manner};
use crate::membership::KnownServer;
use crate::migration;
use crate::owned::Sweep;
use crate::settle::HalfSettled;
use crate::statements::Statements;
use crate::take::Looks;
use crate::wake::Hints;

/// An outbox in a PostgreSQL database. Clones are handles to one store; outboxes on them wake each other.
///
/// It keeps up to seven connections of its own, opened when they are needed, beside the pool that
/// [`begin`](pillarbox::store::TxStore::begin) uses: one that takes, one that settles, one for heartbeats, one that
/// reads back and notifies, one for operators, one that listens. All need a tokio runtime.
///
/// A future of the store that is dropped cancels nothing: the step runs to its end in a task of its own. The
/// exception is [`insert`](pillarbox::store::TxStore::insert), which runs on a connection of yours.
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) ear: Arc<Ear>,
    pub(crate) server: KnownServer,
}

/// A statement with its parameters.
pub(crate) type Query = sqlx::query::Query<'static, Postgres, PgArguments>;

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) line: Line,
    pub(crate) statements: Statements,
    pub(crate) pool: PgPool,
    pub(crate) owns_pool: bool,
    pub(crate) looks: Looks,
    pub(crate) locks: KnownLocks,
    pub(crate) half_settled: HalfSettled,
    pub(crate) closing: Closing,
    pub(crate) sweep: Sweep,
    pub(crate) hints: Option<Hints>,
    pub(crate) taking: Lane,
    pub(crate) settling: Lane,
    /// For what owners have done, where that is much.
    pub(crate) settling_beside: Lane,
    pub(crate) beating: Lane,
    pub(crate) hot: Lane,
    pub(crate) operating: Lane,
}

impl PostgresStore {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, ear: Arc::default(), server: KnownServer::default() }
    }

    /// Connects to the database at a URL (`postgres://user:password@host:5432/database`) with the defaults of
    /// [`PostgresOptions`]; nothing is migrated.
    ///
    /// Fails with [`StoreError::NewerSchema`] if the tables are newer than this program.
    pub async fn connect(url: impl Into<String>) -> Result<Self, StoreError> {
        Self::options(url).connect().await
    }

    /// Starts options for the database at a URL.
    pub fn options(url: impl Into<String>) -> PostgresOptions {
        PostgresOptions::of_url(url.into())
    }

    /// Uses `pool` for transactions, and connections made with its options for everything else.
    ///
    /// The pool stays yours: [`close`](Self::close) leaves it open. For other than the default options see
    /// [`options_of_pool`](Self::options_of_pool).
    pub async fn from_pool(pool: PgPool) -> Result<Self, StoreError> {
        Self::options_of_pool(pool).connect().await
    }

    /// Starts options for the database that `pool` is connected to.
    pub fn options_of_pool(pool: PgPool) -> PostgresOptions {
        PostgresOptions::of_pool(pool)
    }

    /// The pool whose connections serve [`begin`](pillarbox::store::TxStore::begin), for statements of yours.
    pub fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    /// Where the tables of this outbox are.
    pub fn names(&self) -> &Names {
        self.inner.line.place.names()
    }

    /// Brings the outbox tables to the newest version that this program knows, and returns it.
    ///
    /// Creates them if there are none, and the schema too if one was set that does not exist. Several processes
    /// may do this at once: they wait for each other. It takes as long as it takes, and every ten seconds logs at
    /// INFO how it goes; but it waits for transactions of others only as long as `lock_timeout` says, then undoes
    /// everything and says so. [`migrations_sql`](crate::migrations_sql) has the same for a tool of yours.
    pub async fn migrate(&self) -> Result<u32, StoreError> {
        migration::migrate(self).await
    }

    /// The version of the outbox tables, if this program can work with it.
    ///
    /// Fails with [`StoreError::NotMigrated`], [`StoreError::OlderSchema`] or [`StoreError::NewerSchema`].
    pub async fn check(&self) -> Result<u32, StoreError> {
        migration::judge(migration::version(self).await?)
    }

    /// Waits for steps that run and closes the connections; later calls answer that the store is closed.
    ///
    /// A pool that was given to [`from_pool`](Self::from_pool) stays open.
    pub async fn close(&self) {
        let inner = &self.inner;
        if let Some(hints) = &inner.hints {
            hints.close();
        }
        tokio::join!(
            inner.taking.close(),
            inner.settling.close(),
            inner.settling_beside.close(),
            inner.beating.close(),
            inner.hot.close(),
            inner.operating.close()
        );
        if inner.owns_pool {
            inner.pool.close().await;
        }
    }

    /// The rows that a statement returns, which commits by itself.
    pub(crate) async fn rows(
        &self,
        lane: fn(&Inner) -> &Lane,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<Vec<PgRow>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.run(lane, move |connection| Box::pin(query(&inner).fetch_all(connection))).await
    }

    /// How many rows a statement changes, which commits by itself.
    pub(crate) async fn execute(
        &self,
        lane: fn(&Inner) -> &Lane,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<u64, StoreError> {
        let inner = Arc::clone(&self.inner);
        let done = self.run(lane, move |connection| Box::pin(query(&inner).execute(connection)));
        Ok(done.await?.rows_affected())
    }

    /// What was read from a row.
    pub(crate) fn read<T>(&self, read: Result<T, sqlx::Error>) -> Result<T, StoreError> {
        read.map_err(|error| self.inner.line.place.store(error))
    }

    /// Runs one statement, which commits by itself, to its end on one of the store's own connections.
    pub(crate) async fn run<T, W>(&self, lane: fn(&Inner) -> &Lane, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        self.steps(lane, Manner::Apart, work).await
    }

    /// Runs statements to their end; in one transaction, if they belong `together`.
    pub(crate) async fn step<T, W>(
        &self,
        lane: fn(&Inner) -> &Lane,
        together: bool,
        work: W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        self.steps(lane, if together { Manner::Together } else { Manner::Apart }, work).await
    }

    /// Runs statements to their end, in this manner.
    pub(crate) async fn steps<T, W>(
        &self,
        lane: fn(&Inner) -> &Lane,
        manner: Manner,
        work: W,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + Sync + 'static,
    {
        let inner = Arc::clone(&self.inner);
        to_its_end(async move { lane(&inner).run(&inner.line, manner, work).await }).await
    }
}

impl Clone for PostgresStore {
    /// A handle to the same store, which hears what the others announce.
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.inner))
    }
}

impl Inner {
    /// A statement, kept prepared by the session where sessions are ours.
    pub(crate) fn query(&self, sql: &SqlStr) -> Query {
        sqlx::query(sql.clone()).persistent(!self.line.pooled)
    }
}

impl Tables for PostgresStore {
    fn names(&self) -> &Names {
        self.names()
    }

    fn stores(&self) -> Result<bool, WriteError> {
        Ok(true)
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("database", &format_args!("{}", self.inner.line.place))
            .field("names", self.names())
            .finish_non_exhaustive()
    }
}
