//! SQLite: a file for each outbox.

mod owned;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pillarbox::partition_of;
use pillarbox_sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::cases::{self, Case, wake_up};
use crate::database::{self, AGGREGATE, Address, Claimed, Database, EVENT, Fill, Goals};
use crate::measure::Scale;
use crate::raw;
use crate::report::{Goal, Line};
use crate::server::portions;

/// How many rows one transaction fills in.
const PORTION: usize = 250_000;
/// How often the relay by hand looks for something new.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A directory for files.
pub(crate) struct SqliteFiles {
    dir: TempDir,
}

impl SqliteFiles {
    /// A directory of its own in `parent`, which is the system's for temporary files if there is none.
    pub(crate) fn in_dir(parent: Option<PathBuf>) -> Result<Self> {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::tempdir_in(&parent);
        let dir = dir.with_context(|| format!("no databases can be made in {}", parent.display()))?;
        Ok(Self { dir })
    }
}

impl Database for SqliteFiles {
    const NAME: &'static str = "sqlite";
    const CASES: &'static [Case] = &[
        Case::Write,
        Case::HotLatency,
        Case::WakeUp,
        Case::Drain,
        Case::DrainDoneRows,
        Case::DrainBacklog,
        Case::RunSink,
        Case::Memory,
        Case::Handlers,
        Case::OwnedDrain,
        Case::OwnedOrdered,
        Case::OwnedHotKey,
        Case::OwnedAside,
        Case::OwnedLatency,
    ];
    const GOALS: Goals = Goals {
        write: Goal::AtMost(1.15),
        drain: Goal::AtLeast(0.6),
        run_sink: Some(Goal::AtLeast(10.0)),
        owned: None,
    };

    type Driver = Sqlite;
    type Store = SqliteStore;

    async fn create(&self, name: &str) -> Result<Address> {
        let path = self.dir.path().join(format!("{name}.db"));
        remove(&path)?;
        let store = SqliteStore::connect(path.to_string_lossy()).await?;
        store.migrate().await?;
        sqlx::query(include_str!("sqlite/orders.sql")).execute(store.pool()).await?;
        store.close().await;
        Ok(Address::new(path.to_string_lossy()))
    }

    async fn clear(&self) -> Result<()> {
        for entry in std::fs::read_dir(self.dir.path())? {
            remove(&entry?.path())?;
        }
        Ok(())
    }

    async fn measure(&self, case: Case, scale: Scale) -> Result<Vec<Line>> {
        match case {
            Case::WakeUp => wake_up::measure(self, scale).await,
            shared => cases::measure(shared, self, scale).await,
        }
    }

    async fn store(address: &Address) -> Result<SqliteStore> {
        Ok(SqliteStore::connect(address.as_str()).await?)
    }

    async fn close(store: &SqliteStore) {
        store.close().await;
    }

    async fn pool(address: &Address) -> Result<SqlitePool> {
        pool(address, SqliteSynchronous::Full).await
    }

    async fn begin(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>> {
        Ok(pool.begin_with("BEGIN IMMEDIATE").await?)
    }

    async fn place_order(connection: &mut SqliteConnection, number: usize) -> Result<()> {
        sqlx::query("INSERT INTO orders (id, total) VALUES (?, ?)")
            .bind(database::order(number))
            .bind(129_900)
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn insert(connection: &mut SqliteConnection, numbers: Range<usize>) -> Result<()> {
        ensure!(numbers.len() == 1, "events are inserted one by one here");
        let (number, order) = (numbers.start, database::order(numbers.start));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        sqlx::query(include_str!("sqlite/insert.sql"))
            .bind(database::id(number))
            .bind(EVENT)
            .bind(AGGREGATE)
            .bind(&order)
            .bind(&order)
            .bind(i64::try_from(now.as_micros())?)
            .bind(database::payload(number))
            .execute(connection)
            .await?;
        Ok(())
    }

    async fn read_back(connection: &mut SqliteConnection, id: &str) -> Result<()> {
        let query = sqlx::query_as("SELECT seq, created_at FROM outbox_event WHERE event_id = ?");
        let _: (i64, i64) = query.bind(id).fetch_one(connection).await?;
        Ok(())
    }

    async fn claim(connection: &mut SqliteConnection, token: i64, limit: usize) -> Result<Vec<Claimed>> {
        let claimed = sqlx::query_as(include_str!("sqlite/claim.sql"))
            .bind(300_000_000_i64)
            .bind("by hand")
            .bind(token)
            .bind(i64::try_from(limit)?)
            .fetch_all(connection)
            .await?;
        Ok(claimed)
    }

    async fn settle(connection: &mut SqliteConnection, token: i64, claimed: &[Claimed]) -> Result<u64> {
        let numbers: Vec<i64> = claimed.iter().map(|event| event.0).collect();
        let settled = sqlx::query(include_str!("sqlite/settle.sql"))
            .bind(serde_json::to_string(&numbers)?)
            .bind(token)
            .execute(connection)
            .await?;
        Ok(settled.rows_affected())
    }

    /// Leaves nothing in the log.
    async fn fill(address: &Address, count: usize, kind: Fill) -> Result<()> {
        let pool = pool(address, SqliteSynchronous::Off).await?;
        let query = sqlx::query_scalar("SELECT coalesce(max(seq), 0) + 1 FROM outbox_event");
        let from: i64 = query.fetch_one(&pool).await?;
        for numbers in portions(from, count, PORTION)? {
            let row = |number| {
                let key = kind.key(number);
                (number, partition_of(&key), key)
            };
            let rows: Vec<(i64, u8, String)> = numbers.map(row).collect();
            sqlx::query(include_str!("sqlite/fill.sql"))
                .bind(serde_json::to_string(&rows)?)
                .bind(kind == Fill::Done)
                .execute(&pool)
                .await?;
        }
        sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&pool).await?;
        pool.close().await;
        Ok(())
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

async fn pool(address: &Address, synchronous: SqliteSynchronous) -> Result<SqlitePool> {
    let options = SqliteConnectOptions::new()
        .filename(address.as_str())
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(synchronous)
        .busy_timeout(Duration::from_secs(30))
        .row_buffer_size(1_000);
    let pool = SqlitePoolOptions::new().max_connections(2).test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}

impl wake_up::Hints for SqliteFiles {
    const GOAL: Option<Goal> = None;
    type ByHand = Looking;

    async fn by_hand(&self, address: &Address) -> Result<Looking> {
        Looking::start(address).await
    }

    async fn hint(by_hand: &mut Looking, number: usize) -> Result<Duration> {
        by_hand.commit(number).await
    }
}

/// A task that looks whether the file has changed, and claims if it has.
pub(crate) struct Looking {
    writer: SqlitePool,
    claimed: mpsc::UnboundedReceiver<Result<Instant>>,
}

impl Looking {
    async fn start(address: &Address) -> Result<Self> {
        let reader = SqliteFiles::pool(address).await?;
        let (claims, claimed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Err(error) = look(&reader, &claims).await {
                if claims.send(Err(error)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { writer: SqliteFiles::pool(address).await?, claimed })
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = SqliteFiles::begin(&self.writer).await?;
        SqliteFiles::insert(&mut tx, number..number + 1).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let claimed = self.claimed.recv().await.context("the relay by hand is gone")??;
        Ok(claimed.saturating_duration_since(committed))
    }
}

/// Looks until nobody wants to know any more.
async fn look(pool: &SqlitePool, claims: &mpsc::UnboundedSender<Result<Instant>>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    let (mut seen, mut token) = (0, 0);
    while !claims.is_closed() {
        let version: i64 = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut *connection).await?;
        if version != seen {
            seen = version;
            token += 1;
            for _ in SqliteFiles::claim(&mut connection, token, raw::BATCH).await? {
                claims.send(Ok(Instant::now()))?;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
