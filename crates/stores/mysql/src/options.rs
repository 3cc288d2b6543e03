//! How a database is connected to.

mod url;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox_sql::{KnownLocks, Names};
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{Connection, Executor, Row};

use crate::MySqlStore;
use crate::closed::Readings;
use crate::fault::Place;
use crate::lane::{Lane, Line};
use crate::migration;
use crate::statements::Statements;
use crate::store::Inner;
use crate::tx::{Inserts, Sessions};

/// A pooled connection that was not used for this long is asked whether it is still there.
const ASK_AFTER: Duration = Duration::from_secs(1);

/// Statements that a connection of the store's own keeps prepared; there are not more.
const KEPT_STATEMENTS: usize = 256;

/// How transactions begin on connections of the store's own, whatever the server's default is.
const READ_COMMITTED: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

/// The oldest versions that have all that is needed: collations without padding, `SKIP LOCKED`, `JSON_TABLE`.
const OLDEST_MYSQL: [u32; 3] = [8, 0, 17];
const OLDEST_MARIADB: [u32; 3] = [10, 6, 0];

/// How a [`MySqlStore`] connects; made by [`MySqlStore::options`] or [`MySqlStore::options_of_pool`].
///
/// | field | default |
/// |---|---|
/// | `schema` | none: the database in the URL |
/// | `prefix` | none |
/// | `max_connections` | 10 |
/// | `connect_timeout` | 10 s |
/// | `statement_timeout` | 30 s |
/// | `lock_timeout` | 5 s |
/// | `longest_transaction` | 10 s |
#[derive(Clone)]
#[must_use = "options do nothing until `connect` is called"]
pub struct MySqlOptions {
    source: Source,
    schema: Option<String>,
    prefix: String,
    max_connections: Option<u32>,
    connect_timeout: Duration,
    statement_timeout: Duration,
    lock_timeout: Duration,
    longest_transaction: Duration,
}

/// Where connections come from.
#[derive(Clone)]
enum Source {
    Url(String),
    Pool(MySqlPool),
}

impl MySqlOptions {
    pub(crate) fn of_url(url: String) -> Self {
        Self::new(Source::Url(url))
    }

    pub(crate) fn of_pool(pool: MySqlPool) -> Self {
        Self::new(Source::Pool(pool))
    }

    fn new(source: Source) -> Self {
        Self {
            source,
            schema: None,
            prefix: String::new(),
            max_connections: None,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: Duration::from_secs(30),
            lock_timeout: Duration::from_secs(5),
            longest_transaction: Duration::from_secs(10),
        }
    }

    /// The database that the outbox tables are in, if it is another than that of your connections.
    ///
    /// ASCII letters, digits and underscores, no digit first, at most 32 of them.
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Puts `prefix` before the names of all tables and indexes, so that several outboxes fit into one database.
    ///
    /// Of the same characters as a schema.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The most connections for transactions of [`begin`](pillarbox::store::TxStore::begin), and as many again for
    /// statements of yours on [`pool`](MySqlStore::pool), beside up to five of the store's own; at least 1. They are
    /// opened when they are needed.
    ///
    /// Only with a URL: a pool has its own limit.
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// How long to wait for a connection to be made, or for one of the pool to come free.
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// How long a statement of the store's own may take; yours are not limited by it.
    pub fn statement_timeout(mut self, statement_timeout: Duration) -> Self {
        self.statement_timeout = statement_timeout;
        self
    }

    /// How long a statement of the store's own waits for a row or table that others have locked: whole seconds,
    /// at least one.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = lock_timeout;
        self
    }

    /// How long transactions that write events stay open, those of other programs included. For the mode `ownership`:
    /// owners look for events that are committed later below what they have read, which is slow, and these may come
    /// behind later ones of their key. A longer time makes owners read more again.
    pub fn longest_transaction(mut self, longest_transaction: Duration) -> Self {
        self.longest_transaction = longest_transaction;
        self
    }

    /// Connects; nothing is migrated by that.
    ///
    /// Fails if the server is read-only, older than MySQL 8.0.17 or MariaDB 10.6, or if the table of the outbox
    /// is not kept by InnoDB.
    pub async fn connect(self) -> Result<MySqlStore, StoreError> {
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
    pub(crate) fn unconnected(self) -> Result<MySqlStore, StoreError> {
        let names = Names::new(self.schema.as_deref(), &self.prefix)?;
        let options = match &self.source {
            Source::Url(url) => url::parse(url)?,
            Source::Pool(pool) => MySqlConnectOptions::clone(&pool.connect_options()),
        };
        let (pool, sessions) = self.pools(&options)?;
        let line = Line {
            place: Place::new(&options, names),
            options: options.charset("utf8mb4").statement_cache_capacity(KEPT_STATEMENTS),
            connect_timeout: self.connect_timeout,
            statement_timeout: self.statement_timeout,
            lock_timeout: self.lock_timeout,
            is_proved: AtomicBool::new(false),
        };
        let taking = Lane::in_turn(&line);
        let inner = Inner {
            statements: Statements::new(line.place.names()),
            inserts: Inserts::default(),
            locks: KnownLocks::default(),
            readings: Readings::new(self.longest_transaction),
            is_by_partition: AtomicBool::new(false),
            line,
            pool,
            sessions,
            taking,
            settling: Lane::impatient(),
            hot: Lane::new(),
            beating: Lane::new().telling_of_losses(),
            operating: Lane::new(),
        };
        Ok(MySqlStore { inner: Arc::new(inner) })
    }

    /// The pool for statements of the user's, and the sessions of transactions of ours.
    fn pools(&self, options: &MySqlConnectOptions) -> Result<(MySqlPool, Sessions), StoreError> {
        match (&self.source, self.max_connections) {
            (_, Some(0)) => Err(StoreError::Config("`max_connections` is 0; at least 1 is needed".into())),
            (Source::Pool(_), Some(_)) => Err(StoreError::Config(
                "`max_connections` has no effect on a pool of yours; set it there".into(),
            )),
            (Source::Pool(pool), None) => Ok((pool.clone(), Sessions::Yours(pool.clone()))),
            (Source::Url(_), limit) => {
                let pool = MySqlPoolOptions::new()
                    .max_connections(limit.unwrap_or(10))
                    .acquire_timeout(self.connect_timeout);
                let sessions = Sessions::ours(pool.clone(), options.clone());
                let pool = pool
                    // A connection that was just used is there; asking it would cost every transaction a round
                    // trip.
                    .test_before_acquire(false)
                    .after_connect(|connection, _| {
                        Box::pin(async move { connection.execute(READ_COMMITTED).await.map(drop) })
                    })
                    .before_acquire(|connection, metadata| {
                        Box::pin(async move {
                            if metadata.idle_for >= ASK_AFTER {
                                connection.ping().await?;
                            }
                            Ok(true)
                        })
                    });
                Ok((pool.connect_lazy_with(options.clone()), sessions))
            }
        }
    }
}

impl MySqlStore {
    /// Whether an outbox can live in this database.
    async fn first_look(&self) -> Result<(), StoreError> {
        self.look_at_server().await?;
        match self.check().await {
            Ok(_) | Err(StoreError::NotMigrated | StoreError::OlderSchema { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the server and the table on it are fit for an outbox, and which server it is.
    pub(crate) async fn look_at_server(&self) -> Result<String, StoreError> {
        let place = &self.inner.line.place;
        if !place.has_database() {
            return Err(StoreError::Config(
                "the URL names no database; add one (`mysql://host/database`), or set `schema`".into(),
            ));
        }
        let look = include_str!("options/look.sql");
        let (version, is_read_only) = self
            .run(
                |inner| &inner.operating,
                move |connection| {
                    Box::pin(async move {
                        let row = sqlx::query(look).persistent(false).fetch_one(connection).await?;
                        Ok((
                            row.try_get::<String, _>("version")?,
                            row.try_get::<i64, _>("is_read_only")? != 0,
                        ))
                    })
                },
            )
            .await?;
        check_server(place, &version, is_read_only)?;
        migration::check_engine(self).await?;
        let server = if version.contains("MariaDB") { "MariaDB" } else { "MySQL" };
        Ok(format!("{server} {}", version.split('-').next().unwrap_or_default()))
    }
}

/// Refuses a server that is too old, or that is not to be written to. Whoever may write to a replica all the same
/// would break its replication.
fn check_server(place: &Place, version: &str, is_read_only: bool) -> Result<(), StoreError> {
    if is_too_old(version) {
        return Err(StoreError::Config(format!(
            "`{place}` has the version `{version}`; MySQL 8.0.17 or MariaDB 10.6, or a newer one, is needed"
        )));
    }
    if is_read_only {
        return Err(StoreError::Config(format!(
            "`{place}` is read-only, as replicas are; give the URL of the primary, or set its `read_only` to 0"
        )));
    }
    Ok(())
}

fn is_too_old(version: &str) -> bool {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit());
    let found = [(); 3].map(|()| numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0));
    let oldest = if version.contains("MariaDB") { OLDEST_MARIADB } else { OLDEST_MYSQL };
    found < oldest
}

impl std::fmt::Debug for MySqlOptions {
    /// Leaves out the URL, which may have a password in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MySqlOptions")
            .field("schema", &self.schema)
            .field("prefix", &self.prefix)
            .field("max_connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("lock_timeout", &self.lock_timeout)
            .field("longest_transaction", &self.longest_transaction)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8: versions without what the SQL needs are refused, and others are not.
    #[test]
    fn old_versions_are_known() {
        for old in
            ["5.7.44-log", "8.0.16", "8.0.11-TiDB-v7.5.1", "10.5.23-MariaDB", "5.5.5-10.5.23-MariaDB", ""]
        {
            assert!(is_too_old(old), "{old}");
        }
        for new in
            ["8.0.17", "8.4.2", "9.7.4-2", "10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB"]
        {
            assert!(!is_too_old(new), "{new}");
        }
    }

    /// S8: a server that is read-only is refused, though some users could write to it.
    #[test]
    fn read_only_servers_are_refused() {
        let place =
            Place::new(&MySqlConnectOptions::new().host("db.example").database("shop"), Names::default());

        assert!(check_server(&place, "8.4.2", false).is_ok());
        let refused = check_server(&place, "8.4.2", true).unwrap_err().to_string();
        assert!(refused.contains("`db.example:3306/shop` is read-only"), "{refused}");
    }
}
