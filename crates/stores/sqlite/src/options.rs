//! How a database is opened.

use std::path::Path;
use std::time::Duration;

use pillarbox::store::StoreError;
use pillarbox_sql::Names;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteSynchronous};

use crate::SqliteStore;
use crate::fault::Fault;
use crate::tx::Begins;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How sure a commit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// A commit survives a crash of the process, of the system, and a loss of power.
    #[default]
    Full,
    /// A commit survives a crash of the process; the last ones may be rolled back by a crash of the system or
    /// a loss of power. Several times faster for small transactions.
    Normal,
}

/// How a [`SqliteStore`] is opened; made by [`SqliteStore::options`] or [`SqliteOptions::of_pool`].
///
/// | field | default |
/// |---|---|
/// | `prefix` | none |
/// | `create_if_missing` | true, unless the URL has a `mode` |
/// | `read_only` | false |
/// | `busy_timeout` | 5 s |
/// | `synchronous` | [`Synchronous::Full`] |
/// | `watch` | true |
/// | `max_connections` | 10 |
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `connect` is called"]
pub struct SqliteOptions {
    database: Database,
    prefix: String,
    create_if_missing: Option<bool>,
    read_only: bool,
    busy_timeout: Option<Duration>,
    synchronous: Option<Synchronous>,
    watch: bool,
    max_connections: Option<u32>,
}

/// What is opened.
#[derive(Clone, Debug)]
enum Database {
    Url(String),
    Pool(SqlitePool),
}

impl SqliteOptions {
    pub(crate) fn new(url: impl Into<String>) -> Self {
        Self::of(Database::Url(url.into()))
    }

    /// Starts options for the database of `pool`, which serves transactions; all else uses connections that are
    /// made with the pool's options.
    ///
    /// The database is switched to WAL mode. The pool stays yours: [`SqliteStore::close`] leaves it open. What it
    /// decides is refused here: `create_if_missing`, `read_only`, `synchronous` and `max_connections`.
    pub fn of_pool(pool: SqlitePool) -> Self {
        Self::of(Database::Pool(pool))
    }

    fn of(database: Database) -> Self {
        Self {
            database,
            prefix: String::new(),
            create_if_missing: None,
            read_only: false,
            busy_timeout: None,
            synchronous: None,
            watch: true,
            max_connections: None,
        }
    }

    /// Puts `prefix` before the names of all tables and indexes, so that several outboxes fit into one file.
    ///
    /// ASCII letters, digits and underscores, no digit first, at most 32 of them.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Whether a file that does not exist is created.
    pub fn create_if_missing(mut self, create_if_missing: bool) -> Self {
        self.create_if_missing = Some(create_if_missing);
        self
    }

    /// Whether the file is only read: it stays in the journal mode that it has, need not be writable and is not watched,
    /// and whatever would write to it fails.
    ///
    /// A file in WAL mode that nobody has open can be read only by those who may write to its directory.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// How long to wait for the transactions of others before answering that the database is not available.
    ///
    /// The connections of a pool that was given keep the busy timeout that they have.
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = Some(busy_timeout);
        self
    }

    /// How sure a commit is, on all connections of the store.
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = Some(synchronous);
        self
    }

    /// Whether the file is watched for events that other processes commit.
    ///
    /// Watching reads one number every millisecond, and every 5 ms when nothing happens; it touches no table.
    pub fn watch(mut self, watch: bool) -> Self {
        self.watch = watch;
        self
    }

    /// The most connections of [`SqliteStore::pool`]; at least 1.
    pub fn max_connections(mut self, max_connections: u32) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// Opens the database; it is not migrated by that.
    pub async fn connect(self) -> Result<SqliteStore, StoreError> {
        let settings = self.settings()?;
        match &self.database {
            Database::Url(_) if self.read_only => {
                let store = self.unopened(settings.busy_timeout)?.0;
                store.look().await.map(|()| store)
            }
            Database::Url(url) => {
                let options = self.connect_options(url)?;
                let pool = pool_options(settings.busy_timeout);
                let begins = Begins::apart(pool.clone(), options.clone());
                let pool = pool.max_connections(self.connections()?).connect_lazy_with(options.clone());
                SqliteStore::open(settings, options, pool, begins).await
            }
            Database::Pool(pool) => {
                self.refuse_options_of_the_pool()?;
                let options = SqliteConnectOptions::clone(&pool.connect_options());
                let options = match self.busy_timeout {
                    Some(busy_timeout) => options.busy_timeout(busy_timeout),
                    None => options,
                };
                SqliteStore::open(settings, options, pool.clone(), Begins::on(pool.clone())).await
            }
        }
    }

    /// A store that only reads, of whose file nothing is known yet, and how its connections are made that may write. Nobody
    /// waits for a lock longer than `patience`.
    pub(crate) fn unopened(
        self,
        patience: Duration,
    ) -> Result<(SqliteStore, SqliteConnectOptions), StoreError> {
        let settings = self.settings()?;
        let busy_timeout = settings.busy_timeout.min(patience);
        let settings = Settings { watch: false, busy_timeout, ..settings };
        let options = match &self.database {
            Database::Url(url) => self.connect_options(url)?,
            Database::Pool(pool) => SqliteConnectOptions::clone(&pool.connect_options()),
        };
        check_usable(&options)?;
        let options = options.create_if_missing(false).busy_timeout(busy_timeout);
        // A connection that is opened read-only leaves the files of the log behind that it made; this one is so only as
        // far as the file demands it.
        let reading = options.clone().pragma("query_only", "ON");
        let pool = pool_options(busy_timeout);
        let begins = Begins::apart(pool.clone(), reading.clone());
        let pool = pool.connect_lazy_with(reading.clone());
        Ok((SqliteStore::unopened(settings, reading, pool, begins, 0), options))
    }

    fn settings(&self) -> Result<Settings, StoreError> {
        let names = Names::new(None, &self.prefix)?;
        let busy_timeout = self.busy_timeout.unwrap_or(BUSY_TIMEOUT);
        Ok(Settings { names, busy_timeout, watch: self.watch })
    }

    fn refuse_options_of_the_pool(&self) -> Result<(), StoreError> {
        let given = [
            ("create_if_missing", self.create_if_missing.is_some()),
            ("read_only", self.read_only),
            ("synchronous", self.synchronous.is_some()),
            ("max_connections", self.max_connections.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(StoreError::Config(format!(
                "`{option}` is decided by the pool that was given; set it where the pool is made"
            ))),
            None => Ok(()),
        }
    }

    fn connections(&self) -> Result<u32, StoreError> {
        match self.max_connections {
            Some(0) => Err(StoreError::Config("`max_connections` is 0; at least 1 is needed".into())),
            given => Ok(given.unwrap_or(10)),
        }
    }

    fn connect_options(&self, url: &str) -> Result<SqliteConnectOptions, StoreError> {
        let synchronous = match self.synchronous.unwrap_or_default() {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
        };
        let options = parse(url)?;
        let has_mode = is_url(url) && url.contains("mode=");
        let options = match self.create_if_missing {
            Some(create) => options.create_if_missing(create),
            None if !has_mode => options.create_if_missing(true),
            None => options,
        };
        let busy_timeout = self.busy_timeout.unwrap_or(BUSY_TIMEOUT);
        Ok(options.busy_timeout(busy_timeout).synchronous(synchronous))
    }
}

fn pool_options(patience: Duration) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .acquire_timeout(patience)
        .max_lifetime(None)
        .test_before_acquire(false)
        // A transaction that SQLite ended by itself leaves a connection that can begin no other.
        .after_release(|connection, _| {
            let is_clean = !sqlx::Connection::is_in_transaction(connection);
            Box::pin(async move { Ok(is_clean) })
        })
}

/// What the store itself needs of the options.
pub(crate) struct Settings {
    pub(crate) names: Names,
    pub(crate) busy_timeout: Duration,
    pub(crate) watch: bool,
}

/// Refuses databases that only one connection sees, and such that cannot be written.
pub(crate) fn check_usable(options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let path = options.get_filename();
    // The driver tells these settings only in a URL, and panics over some paths in it.
    let url = options.clone().filename("/").to_url_lossy();
    let has = |pair: &str| url.query().is_some_and(|query| query.split('&').any(|part| part == pair));
    if has("mode=memory") || path.as_os_str().is_empty() || path == Path::new(":memory:") {
        return Err(StoreError::Config(
            "each connection to an in-memory SQLite database would see its own; use a file, or `MemoryStore`"
                .into(),
        ));
    }
    if has("mode=ro") || has("immutable=true") {
        return Err(StoreError::Config(format!(
            "`{}` is to be opened read-only, and an outbox is written to; remove `mode=ro` and `immutable`",
            path.display()
        )));
    }
    Ok(())
}

fn parse(url: &str) -> Result<SqliteConnectOptions, StoreError> {
    if is_url(url) {
        return url.parse().map_err(|error| Fault::of(Path::new(url)).open(error));
    }
    if let Some((scheme, _)) = url.split_once("://") {
        return Err(StoreError::Config(format!(
            "`{scheme}://` is no SQLite database; give a path, or a URL that begins with `sqlite:`"
        )));
    }
    Ok(SqliteConnectOptions::new().filename(url))
}

fn is_url(url: &str) -> bool {
    url.starts_with("sqlite:")
}
