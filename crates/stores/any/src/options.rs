//! How a database is opened, whichever it is.

use std::fmt;
use std::time::Duration;

use pillarbox::StoreSettings;
use pillarbox::store::{Diagnosis, StoreError};

use crate::{AnyStore, Kind, backend, kind};

/// How an [`AnyStore`] is opened; made by [`AnyStore::options`].
///
/// | field | default |
/// |---|---|
/// | `schema` | none |
/// | `prefix` | none |
/// | `max_connections` | 10 |
/// | `create_if_missing` | true for a SQLite file, unless the URL has a `mode` |
/// | `read_only` | false |
/// | `wake_up` | true where the database can do it |
/// | `lock_timeout` | 5 s |
/// | `longest_transaction` | 10 s, on MySQL and MariaDB |
///
/// What a database cannot do is refused when it is connected to.
#[derive(Clone)]
#[must_use = "options do nothing until `connect` is called"]
pub struct AnyOptions {
    pub(crate) url: String,
    pub(crate) schema: Option<String>,
    pub(crate) prefix: Option<String>,
    pub(crate) max_connections: Option<u32>,
    pub(crate) create_if_missing: Option<bool>,
    pub(crate) read_only: bool,
    pub(crate) wake_up: Option<bool>,
    pub(crate) lock_timeout: Option<Duration>,
    pub(crate) longest_transaction: Option<Duration>,
}

impl AnyOptions {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: kind::normal(url).into_owned(),
            schema: None,
            prefix: None,
            max_connections: None,
            create_if_missing: None,
            read_only: false,
            wake_up: None,
            lock_timeout: None,
            longest_transaction: None,
        }
    }

    /// The schema of the outbox tables, which is a database in MySQL; SQLite has none.
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
        self.prefix = Some(prefix.into());
        self
    }

    /// The most connections for transactions of yours, beside the few of the store's own; at least 1. On MySQL there
    /// are as many again for statements outside of them.
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// Whether a SQLite file that does not exist is created. A server's database never is.
    pub fn create_if_missing(mut self, create_if_missing: bool) -> Self {
        self.create_if_missing = Some(create_if_missing);
        self
    }

    /// Whether a SQLite file is only read: it stays as it is and need not be writable, and whatever would write to it fails.
    /// In a server the rights of the user decide.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether events that other processes commit are noticed before the next poll: SQLite watches its file,
    /// PostgreSQL uses LISTEN and NOTIFY, MySQL has no way.
    pub fn wake_up(mut self, wake_up: bool) -> Self {
        self.wake_up = Some(wake_up);
        self
    }

    /// How long the store waits for what others have locked: rows and tables of a server, in a migration too, or a
    /// SQLite file, where it is called `busy_timeout`.
    pub fn lock_timeout(mut self, lock_timeout: Duration) -> Self {
        self.lock_timeout = Some(lock_timeout);
        self
    }

    /// How long transactions that write events stay open, those of other programs included, for owned partitions on MySQL and
    /// MariaDB: an event that is committed later than this comes late, and perhaps after later ones of its key. The other
    /// databases show which transactions are open, and need not be told.
    pub fn longest_transaction(mut self, longest_transaction: Duration) -> Self {
        self.longest_transaction = Some(longest_transaction);
        self
    }

    /// Takes what a file or the environment says, but for the URL; what is set by a call wins, before this one and after
    /// it.
    pub fn settings(mut self, settings: &StoreSettings) -> Self {
        self.schema = self.schema.or_else(|| settings.schema.clone());
        self.prefix = self.prefix.or_else(|| settings.prefix.clone());
        self.max_connections = self.max_connections.or(settings.max_connections);
        self.create_if_missing = self.create_if_missing.or(settings.create_if_missing);
        self.wake_up = self.wake_up.or(settings.wake_up);
        self.lock_timeout = self.lock_timeout.or(settings.lock_timeout);
        self.longest_transaction = self.longest_transaction.or(settings.longest_transaction);
        self
    }

    /// Connects; nothing is migrated by that.
    ///
    /// Fails with [`StoreError::Config`] if the scheme of the URL is unknown, if this program was built without
    /// that database, or if an option asks for what it cannot do; otherwise as the database's own store does.
    pub async fn connect(self) -> Result<AnyStore, StoreError> {
        let kind = Kind::of(&self.url)?;
        self.check(kind)?;
        backend::connect(kind, self).await
    }

    /// Looks at the database without changing it: whether it can be reached, whether all is there, who holds up whom, and
    /// which settings weaken the promise.
    ///
    /// Fails with [`StoreError::Config`] like [`connect`](Self::connect) if that can be told without connecting; a database
    /// that cannot be reached is a [`Check`](pillarbox::store::Check) that says so.
    pub async fn examine(self) -> Result<Diagnosis, StoreError> {
        let kind = Kind::of(&self.url)?;
        self.check(kind)?;
        backend::examine(kind, self).await
    }

    /// Refuses what a database of this kind cannot do.
    fn check(&self, kind: Kind) -> Result<(), StoreError> {
        check_schema(kind, self.schema.as_deref())?;
        let refusal = match kind {
            Kind::Postgres | Kind::MySql if self.create_if_missing == Some(true) => {
                "`create_if_missing` is for SQLite files; create the database on its server"
            }
            Kind::MySql if self.wake_up == Some(true) => {
                "`wake_up` cannot be had from MySQL, which tells nobody of a commit; leave it out, and poll more often"
            }
            Kind::Sqlite | Kind::Postgres if self.longest_transaction.is_some() => {
                "`longest_transaction` is for MySQL and MariaDB; leave it out, this database shows what is open"
            }
            _ => return Ok(()),
        };
        Err(StoreError::Config(refusal.into()))
    }
}

/// Refuses a schema where there are none.
pub(crate) fn check_schema(kind: Kind, schema: Option<&str>) -> Result<(), StoreError> {
    match (kind, schema) {
        (Kind::Sqlite, Some(_)) => Err(StoreError::Config(
            "SQLite has no schemas; leave `schema` out, and use `prefix` or a file of its own".into(),
        )),
        _ => Ok(()),
    }
}

impl fmt::Debug for AnyOptions {
    /// Leaves out the URL, which may have a password in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyOptions")
            .field("kind", &Kind::of(&self.url).ok())
            .field("schema", &self.schema)
            .field("prefix", &self.prefix)
            .field("max_connections", &self.max_connections)
            .field("create_if_missing", &self.create_if_missing)
            .field("read_only", &self.read_only)
            .field("wake_up", &self.wake_up)
            .field("lock_timeout", &self.lock_timeout)
            .field("longest_transaction", &self.longest_transaction)
            .finish_non_exhaustive()
    }
}
