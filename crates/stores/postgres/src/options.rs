//! How a database is connected to.

#[cfg(test)]
mod tests;
mod url;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox_sql::{KnownLocks, Names};
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

use crate::PostgresStore;
use crate::closed::Closing;
use crate::fault::Place;
use crate::lane::{GRACE, Lane, Line};
use crate::owned::Sweep;
use crate::settle::HalfSettled;
use crate::statements::Statements;
use crate::store::Inner;
use crate::take::Looks;
use crate::wake::Hints;

/// A pooled connection that was not used for this long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// How often one who migrates is looked after.
const WATCH_EVERY: Duration = Duration::from_secs(10);

/// How a [`PostgresStore`] connects; made by [`PostgresStore::options`] or [`PostgresStore::options_of_pool`].
///
/// | field | default |
/// |---|---|
/// | `schema` | none: where the role's `search_path` leads |
/// | `prefix` | none |
/// | `max_connections` | 10 |
/// | `wake_up` | true |
/// | `pooled` | false, unless the URL has `statement-cache-capacity=0` |
/// | `connect_timeout` | 10 s |
/// | `statement_timeout` | 30 s |
/// | `lock_timeout` | 5 s |
#[derive(Clone)]
#[must_use = "options do nothing until `connect` is called"]
pub struct PostgresOptions {
    source: Source,
    schema: Option<String>,
    prefix: String,
    max_connections: Option<u32>,
    wake_up: bool,
    pooled: Option<bool>,
    connect_timeout: Duration,
    statement_timeout: Duration,
    lock_timeout: Duration,
    grace: Duration,
    watch_every: Duration,
}

/// Where connections come from.
#[derive(Clone)]
enum Source {
    Url(String),
    Pool(PgPool),
}

impl PostgresOptions {
    pub(crate) fn of_url(url: String) -> Self {
        Self::new(Source::Url(url))
    }

    pub(crate) fn of_pool(pool: PgPool) -> Self {
        Self::new(Source::Pool(pool))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            schema: None,
            prefix: String::new(),
            max_connections: None,
            wake_up: true,
            pooled: None,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            grace: GRACE,
            watch_every: WATCH_EVERY,
        }
    }

    /// The schema that the outbox tables are in.
    ///
    /// ASCII letters, digits and underscores, no digit first, at most 32 of them. It is taken as it is written:
    /// `Orders` is not `orders`, and has to be quoted in SQL of yours; so has a reserved word like `order`.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Puts `prefix` before the names of all tables and indexes, so that several outboxes fit into one schema.
    ///
    /// Of the same characters as a schema.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The most connections for transactions of yours, beside up to seven of the store's own; at least 1.
    ///
    /// Only with a URL: a pool has its own limit.
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// Whether this store listens for events that other processes commit, and tells them of its own.
    ///
    /// Without it such events wait for the next poll. Behind a pooler in transaction mode it tells others, and hears
    /// nobody but its clones.
    pub fn wake_up(mut self, wake_up: bool) -> Self {
        self.wake_up = wake_up;
        self
    }

    /// Whether a pooler stands before the database that may hand every transaction to another session, like
    /// PgBouncer in transaction mode.
    ///
    /// The store then keeps no prepared statements, no session settings and no LISTEN; every step is a
    /// transaction of its own and costs some more round trips.
    pub fn pooled(mut self, pooled: bool) -> Self {
        self.pooled = Some(pooled);
        self
    }

    /// How long to wait for a connection to be made, for one of the pool to come free, or for a transaction to begin.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long a statement of the store's own may take; neither yours nor those of
    /// [`migrate`](PostgresStore::migrate) are limited by it. The end of a transaction of
    /// [`begin`](pillarbox::store::TxStore::begin) may take five seconds longer.
    pub fn statement_timeout(mut self, statement_timeout: Duration) -> Self {
        self.statement_timeout = statement_timeout;
        self
    }

    /// How long a statement of the store's own waits for a row or table that others have locked; in a migration too.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// How long after a time limit of the server the store waits for its answer, and how often it looks after a
    /// migration; for tests that have no time.
    #[doc(hidden)]
    pub fn paces(mut self, grace: Duration, watch_every: Duration) -> Self {
        (self.grace, self.watch_every) = (grace, watch_every);
        self
    }

    /// Connects; nothing is migrated by that.
    ///
    /// Fails if the server is a standby or lets nobody write (`default_transaction_read_only`), if its encoding is
    /// not UTF-8, or if it is older than PostgreSQL 15.
    pub async fn connect(self) -> Result<PostgresStore, StoreError> {
        let store = self.unconnected()?;
        match store.first_look().await {
            Ok(()) => {
                store.inner.line.is_proved.store(true, Ordering::Relaxed);
                Ok(store)
            }
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// Waits no longer than this for an answer, or for a lock.
    pub(crate) fn impatient(mut self, patience: Duration) -> Self {
        self.statement_timeout = self.statement_timeout.min(patience);
        self.lock_timeout = self.lock_timeout.min(patience);
        self
    }

    /// The store, of whose database nothing is known yet.
    pub(crate) fn unconnected(self) -> Result<PostgresStore, StoreError> {
        let names = Names::new(self.schema.as_deref(), &self.prefix)?.quoted();
        let options = self.connect_options()?;
        let line = Line {
            place: Place::new(&options, names),
            pooled: self.pooled.unwrap_or_else(|| url::asks_for_no_cache(&options)),
            options,
            connect_timeout: self.connect_timeout,
            statement_timeout: self.statement_timeout,
            lock_timeout: self.lock_timeout,
            grace: self.grace,
            watch_every: self.watch_every,
            is_proved: AtomicBool::new(false),
        };
        let (pool, owns_pool) = self.pool(&line.options)?;
        Ok(PostgresStore::new(assemble(line, pool, owns_pool, self.wake_up).into()))
    }

    fn connect_options(&self) -> Result<PgConnectOptions, StoreError> {
        let options = match &self.source {
            Source::Url(url) => url::parse(url)?,
            Source::Pool(pool) => PgConnectOptions::clone(&pool.connect_options()),
        };
        let options = match options.get_application_name() {
            None => options.application_name("pillarbox"),
            Some(_) => options,
        };
        // Poolers refuse settings that they do not know, and the store has no floating point numbers.
        Ok(options.extra_float_digits(None))
    }

    fn pool(&self, options: &PgConnectOptions) -> Result<(PgPool, bool), StoreError> {
        match (&self.source, self.max_connections) {
            (_, Some(0)) => Err(StoreError::Config("`max_connections` is 0; at least 1 is needed".into())),
            (Source::Pool(_), Some(_)) => Err(StoreError::Config(
                "`max_connections` has no effect on a pool of yours; set it there".into(),
            )),
            (Source::Pool(pool), None) => Ok((pool.clone(), false)),
            (Source::Url(_), limit) => {
                let pool = PgPoolOptions::new()
                    .max_connections(limit.unwrap_or(10))
                    .acquire_timeout(self.connect_timeout)
                    // A connection that was just used is there; asking it would cost every transaction a round trip.
                    .test_before_acquire(false)
                    .before_acquire(|connection, metadata| {
                        Box::pin(async move {
                            if metadata.idle_for >= ASK_AFTER {
                                connection.ping().await?;
                            }
                            Ok(true)
                        })
                    });
                Ok((pool.connect_lazy_with(options.clone()), true))
            }
        }
    }
}

fn assemble(line: Line, pool: PgPool, owns_pool: bool, wake_up: bool) -> Inner {
    let statements = Statements::new(line.place.names());
    Inner {
        // A claim that a crash of the server undoes is an event that comes again, as after every crash. Recording
        // an outcome waits for the disk, and so for all claims before it.
        taking: Lane::new(&line, "SET synchronous_commit = off;\n"),
        settling: Lane::impatient(&line),
        settling_beside: Lane::impatient(&line),
        beating: Lane::new(&line, "").telling_of_losses(),
        // It reads and notifies, and a lost notification costs nothing: no need to wait for the disk.
        hot: Lane::new(&line, "SET synchronous_commit = off;\n"),
        operating: Lane::new(&line, ""),
        hints: wake_up.then(Hints::new),
        looks: Looks::default(),
        locks: KnownLocks::default(),
        half_settled: HalfSettled::default(),
        closing: Closing::default(),
        sweep: Sweep::default(),
        line,
        statements,
        pool,
        owns_pool,
    }
}

impl PostgresStore {
    /// Whether an outbox can live in this database.
    async fn first_look(&self) -> Result<(), StoreError> {
        self.look_at_server().await?;
        match self.check().await {
            Ok(_) | Err(StoreError::NotMigrated | StoreError::OlderSchema { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the server is fit for an outbox, and which it is.
    pub(crate) async fn look_at_server(&self) -> Result<String, StoreError> {
        let look = self.run(
            |inner| &inner.operating,
            |connection| {
                let look = include_str!("options/first_look.sql");
                Box::pin(sqlx::query_as(look).persistent(false).fetch_one(connection))
            },
        );
        let (is_standby, is_read_only, encoding, version): (bool, bool, String, i32) = look.await?;
        let place = &self.inner.line.place;
        if is_standby {
            return Err(StoreError::Config(format!(
                "`{place}` is a standby, which cannot be written to; give the URL of the primary"
            )));
        }
        if is_read_only {
            return Err(StoreError::Config(format!(
                "`{place}` is read-only, and an outbox is written to; switch `default_transaction_read_only` off for its role, its database or its server"
            )));
        }
        if encoding != "UTF8" {
            return Err(StoreError::Config(format!(
                "the database `{place}` has the encoding `{encoding}`, which cannot hold every event; use one with `UTF8`"
            )));
        }
        let major = version / 10_000;
        if version < 150_000 {
            return Err(StoreError::Config(format!(
                "`{place}` is PostgreSQL {major}; version 15 or newer is needed"
            )));
        }
        Ok(format!("PostgreSQL {major}"))
    }
}

impl std::fmt::Debug for PostgresOptions {
    /// Leaves out the URL, which may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("prefix", &self.prefix)
            .field("max_connections", &self.max_connections)
            .field("wake_up", &self.wake_up)
            .field("pooled", &self.pooled)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .finish_non_exhaustive()
    }
}
