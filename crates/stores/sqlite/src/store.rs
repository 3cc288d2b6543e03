//! The store, and how its steps run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::StoreError;
use pillarbox_sql::{Ear, Names, to_its_end};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool};
use sqlx::{ConnectOptions, Connection};

use crate::SqliteOptions;
use crate::fault::{self, Fault};
use crate::file::OpenFile;
use crate::lane::{Gate, Lane, Visit};
use crate::migration;
use crate::options::{Settings, check_usable};
use crate::statements::Statements;
use crate::tx::{Begins, Inserts};
use crate::watch::{self, OwnNumbers, Watch};

/// Rows that the driver may read ahead; with few, its thread and ours wake each other all the time.
const READ_AHEAD: usize = 1_000;

/// How long to wait before the journal mode, which SQLite does not wait for, is asked for again.
const OPEN_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// An outbox in a SQLite file. Clones are handles to one store; outboxes on them wake each other.
///
/// It keeps up to five connections of its own, opened when they are needed, beside its pool: one for the
/// transactions of [`begin`](pillarbox::store::TxStore::begin), of which one is open at a time, one that takes and
/// settles, one that reads back or for an owner, one that reads for operators, one that watches. All need a tokio
/// runtime.
///
/// A future of the store that is dropped cancels nothing: the step runs to its end in a task of its own.
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
    pub(crate) ear: Arc<Ear>,
}

/// What all clones share.
pub(crate) struct Inner {
    pub(crate) path: PathBuf,
    pub(crate) file: OpenFile,
    pub(crate) names: Names,
    pub(crate) statements: Statements,
    pub(crate) inserts: Inserts,
    pub(crate) pool: SqlitePool,
    pub(crate) begins: Begins,
    pub(crate) gate: Gate,
    pub(crate) own: Arc<OwnNumbers>,
    pub(crate) watch: Option<Watch>,
    writer: Lane,
    hot: Lane,
    reader: Lane,
}

impl SqliteStore {
    fn new(inner: Arc<Inner>) -> Self {
        Self { inner, ear: Arc::default() }
    }

    /// Opens the database at a path or a URL (`orders.db`, `sqlite:orders.db`, `sqlite://orders.db?mode=rw`)
    /// with the defaults of [`SqliteOptions`]: a missing file is created, and nothing is migrated.
    ///
    /// Fails with [`StoreError::NewerSchema`] if the tables are newer than this program.
    pub async fn connect(url: impl Into<String>) -> Result<Self, StoreError> {
        Self::options(url).connect().await
    }

    /// Starts options for the database at a path or a URL.
    pub fn options(url: impl Into<String>) -> SqliteOptions {
        SqliteOptions::new(url)
    }

    /// Uses `pool` for transactions, with the defaults of [`SqliteOptions::of_pool`].
    pub async fn from_pool(pool: SqlitePool) -> Result<Self, StoreError> {
        SqliteOptions::of_pool(pool).connect().await
    }

    pub(crate) async fn open(
        settings: Settings,
        options: SqliteConnectOptions,
        pool: SqlitePool,
        begins: Begins,
    ) -> Result<Self, StoreError> {
        check_usable(&options)?;
        let path = options.get_filename().to_owned();
        let options = options.row_buffer_size(READ_AHEAD);
        let statements = Statements::new(&settings.names);
        let (first, highest) = first_connection(&options, &statements, settings.busy_timeout).await.map_err(
            |fault| match fault {
                Opening::Failed(error) => Fault::of(&path).open(error),
                Opening::Refused(error) => error,
            },
        )?;
        let store = Self::unopened(settings, options, pool, begins, highest);
        store.inner.writer.park(first);
        Ok(store)
    }

    /// The store, of whose file nothing is known but the highest number.
    pub(crate) fn unopened(
        settings: Settings,
        options: SqliteConnectOptions,
        pool: SqlitePool,
        begins: Begins,
        highest: i64,
    ) -> Self {
        let gate = || Gate::new(settings.busy_timeout);
        let writers = gate();
        let inner = Inner {
            writer: Lane::new(writers.clone(), options.clone()),
            hot: Lane::new(gate(), options.clone()),
            reader: Lane::new(gate(), options.clone()),
            gate: writers,
            own: Arc::new(OwnNumbers::new(settings.watch)),
            path: options.get_filename().to_owned(),
            file: OpenFile::at(options.get_filename()),
            watch: settings.watch.then(|| Watch::new(options, highest)),
            statements: Statements::new(&settings.names),
            names: settings.names,
            inserts: Inserts::default(),
            pool,
            begins,
        };
        Self::new(Arc::new(inner))
    }

    /// Finds out whether the file can be read, and has no outbox that is too new.
    pub(crate) async fn look(&self) -> Result<(), StoreError> {
        let inner = Arc::clone(&self.inner);
        let version = to_its_end(async move {
            let version = match inner.reader.enter().await? {
                Ok(mut visit) => {
                    let version = migration::version(&mut visit, &inner.statements).await;
                    visit.end();
                    version
                }
                Err(error) => Err(error),
            };
            version.map_err(|error| Fault::of(&inner.path).read(error))
        });
        match migration::judge(version.await?) {
            Err(error @ StoreError::NewerSchema { .. }) => Err(error),
            _ => Ok(()),
        }
    }

    /// The path of the database file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// A pool for statements and transactions of yours.
    pub fn pool(&self) -> &SqlitePool {
        &self.inner.pool
    }

    /// Brings the outbox tables to the newest version that this program knows, and returns it.
    ///
    /// Creates them if there are none. Several processes may do this at once.
    pub async fn migrate(&self) -> Result<u32, StoreError> {
        let inner = Arc::clone(&self.inner);
        let version = self.write(move |connection| Box::pin(migration::migrate(inner, connection))).await?;
        version.map_err(migration::newer)
    }

    /// The version of the outbox tables, if this program can work with it.
    ///
    /// Fails with [`StoreError::NotMigrated`], [`StoreError::OlderSchema`] or [`StoreError::NewerSchema`].
    pub async fn check(&self) -> Result<u32, StoreError> {
        let inner = Arc::clone(&self.inner);
        let version = self.read(move |connection| {
            Box::pin(async move { migration::version(connection, &inner.statements).await })
        });
        migration::judge(version.await?)
    }

    /// Waits for steps that run and closes the connections; later calls answer that the store is closed.
    ///
    /// A pool that was given stays open.
    pub async fn close(&self) {
        let inner = &self.inner;
        if inner.file.check().is_err() {
            self.empty_log().await;
        }
        tokio::join!(inner.writer.close(), inner.hot.close(), inner.reader.close());
        if let Some(watch) = &inner.watch {
            watch.close().await;
        }
        if let Some(begins) = inner.begins.own_pool() {
            tokio::join!(begins.close(), inner.pool.close());
        }
    }

    /// Empties the log of a file that was replaced. SQLite leaves it where it is, and whoever opens the new file would
    /// take it for the log of that.
    async fn empty_log(&self) {
        let empty = sqlx::query_scalar::<_, bool>("PRAGMA wal_checkpoint(TRUNCATE)");
        let is_busy = self.read_on(
            |inner| &inner.writer,
            |connection| Box::pin(async move { empty.fetch_one(connection).await }),
        );
        if !matches!(is_busy.await, Ok(false)) {
            let path = self.inner.path.display();
            tracing::warn!(%path, "the log of the file that was replaced could not be emptied; delete its `-wal` file");
        }
    }

    /// Runs `work` in one immediate transaction on the connection that takes and settles.
    pub(crate) async fn write<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        to_its_end(async move {
            let visit = inner.writer.enter().await?;
            let result = match visit {
                Ok(visit) => in_transaction(visit, work).await,
                Err(error) => Err(error),
            };
            result.map_err(|error| Fault::of(&inner.path).store(error))
        })
        .await
    }

    /// Runs `work` on the connection that reads for operators.
    pub(crate) async fn read<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        self.read_on(|inner| &inner.reader, work).await
    }

    /// Runs `work` on the connection that reads for the hot path, and for owners, who have none.
    pub(crate) async fn read_hot<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        self.read_on(|inner| &inner.hot, work).await
    }

    async fn read_on<T, W>(&self, lane: fn(&Inner) -> &Lane, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        to_its_end(async move {
            let result = match lane(&inner).enter().await? {
                Ok(mut visit) => {
                    let result = work(&mut visit).await;
                    if result.is_ok() {
                        visit.end();
                    }
                    result
                }
                Err(error) => Err(error),
            };
            result.map_err(|error| Fault::of(&inner.path).store(error))
        })
        .await
    }
}

impl Clone for SqliteStore {
    /// A handle to the same store, which hears what the others announce.
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.inner))
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.inner.path)
            .field("prefix", &self.inner.names.prefix())
            .finish_non_exhaustive()
    }
}

async fn in_transaction<T, W>(mut visit: Visit<'_>, work: W) -> Result<T, sqlx::Error>
where
    W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
{
    let mut tx = visit.begin_with("BEGIN IMMEDIATE").await?;
    let worked = work(&mut tx).await;
    let result = match worked {
        Ok(value) => tx.commit().await.map(|()| value),
        Err(error) => {
            // What fails here fails for the reason that is reported; the connection is closed below.
            let _ = tx.rollback().await;
            Err(error)
        }
    };
    // An error may have ended the transaction behind the driver's back: then only a new connection is safe.
    if result.is_ok() {
        visit.end();
    }
    result
}

/// Why a database could not be opened: a failure of SQLite, or a refusal of ours.
enum Opening {
    Failed(sqlx::Error),
    Refused(StoreError),
}

/// A connection to a database that is in WAL mode and not too new, and the highest number in its outbox.
async fn first_connection(
    options: &SqliteConnectOptions,
    statements: &Statements,
    busy_timeout: Duration,
) -> Result<(SqliteConnection, i64), Opening> {
    let options = options.clone().journal_mode(SqliteJournalMode::Wal);
    let give_up_at = tokio::time::Instant::now() + busy_timeout;
    let mut connection = loop {
        match options.connect().await {
            Ok(connection) => break connection,
            Err(error) if fault::is_busy(&error) && tokio::time::Instant::now() < give_up_at => {
                tokio::time::sleep(OPEN_AGAIN_AFTER).await;
            }
            Err(error) => return Err(Opening::Failed(error)),
        }
    };
    let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut connection)
        .await
        .map_err(Opening::Failed)?;
    if mode != "wal" {
        return Err(Opening::Refused(StoreError::Config(format!(
            "`{}` cannot be switched to WAL mode and stays in mode `{mode}`; use a local, writable file",
            options.get_filename().display()
        ))));
    }
    let found = migration::version(&mut connection, statements).await.map_err(Opening::Failed)?;
    let highest = match migration::judge(found) {
        Ok(_) => watch::highest(&mut connection, statements).await.map_err(Opening::Failed)?,
        Err(error @ StoreError::NewerSchema { .. }) => return Err(Opening::Refused(error)),
        Err(_) => 0,
    };
    Ok((connection, highest))
}
