//! What an operator should know about the database.

mod plan;

use std::path::{Path, PathBuf};
use std::time::Duration;

use pillarbox::store::{Administration, Check, Diagnosis, Health, Mode, StoreError};
use pillarbox_sql::Names;
use pillarbox_sql::diagnosis::{self, PATIENCE, failed, size};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor, Row};

use crate::fault;
use crate::{SqliteOptions, SqliteStore};

/// Pages that are free are worth being given back if they are more than half of the file, and as much.
const MUCH_ROOM: u64 = 16 << 20;

/// SQLite puts the log back into the file at 4 MB; this much means that somebody keeps it from doing so.
const LARGE_LOG: u64 = 32 << 20;

/// Who has the lock of writers for this long holds everybody up.
const LONG_LOCK: Duration = Duration::from_secs(2);

/// Indexes that the table has in both modes, and those of each.
const OF_BOTH: [&str; 2] = ["outbox_event_aggregate", "outbox_event_dead"];
const OF_CLAIMS: [&str; 1] = ["outbox_event_pending"];
const OF_OWNERSHIP: [&str; 4] =
    ["outbox_event_fresh", "outbox_event_aside", "outbox_event_held", "outbox_event_unplaced"];

impl SqliteOptions {
    /// Looks whether the file can be read and has an outbox, whether what should be there is, who holds up whom, and
    /// which settings weaken the promise. Nothing is created or changed, no statement reads the whole table, and whether
    /// somebody holds the lock of writers is found out by taking it for a moment.
    ///
    /// What cannot be looked at is [unknown](pillarbox::store::Health::Unknown). Fails with [`StoreError::Config`] if the
    /// options make no sense.
    pub async fn examine(self) -> Result<Diagnosis, StoreError> {
        let (store, options) = self.unopened(PATIENCE)?;
        let path = store.path().to_owned();
        let mut checks = store.examine().await;
        store.close().await;
        if checks.first().is_some_and(|first| first.health == Health::Ok) {
            checks.push(writers(&path, &options).await);
        }
        Ok(Diagnosis { database: path.display().to_string(), checks })
    }
}

impl SqliteStore {
    async fn examine(&self) -> Vec<Check> {
        let database = self.path().display().to_string();
        if !self.path().exists() {
            return vec![
                Check::problem("database", format!("there is no file `{database}`"))
                    .remedy("correct the path, or run `pillarbox migrate`, which creates it"),
            ];
        }
        let looked = self.look_at_file().await;
        let mut checks = vec![diagnosis::reached(&database, &looked)];
        if looked.is_err() {
            return checks;
        }
        let judged = self.check().await;
        checks.push(diagnosis::schema(&judged));
        checks.push(Check::ok("clock", "the database's clock is this machine's"));
        checks.extend([self.journal().await, self.durability().await]);
        if judged.is_ok() {
            checks.extend(diagnosis::operation(&self.stats().await, &self.census().await));
            match self.mode().await {
                Ok(mode) => checks.extend([self.indexes(mode).await, self.plan(mode).await]),
                Err(error) => checks.push(failed("indexes", &error)),
            }
        }
        checks.push(self.bloat().await);
        checks
    }

    async fn look_at_file(&self) -> Result<String, StoreError> {
        let version = self.value("SELECT sqlite_version() FROM sqlite_schema LIMIT 1", String::new()).await?;
        Ok(format!("SQLite {version}").trim_end().to_owned())
    }

    async fn journal(&self) -> Check {
        match self.value("PRAGMA journal_mode", String::new()).await {
            Ok(mode) => journal(&mode),
            Err(error) => failed("journal", &error),
        }
    }

    async fn durability(&self) -> Check {
        match self.value("PRAGMA synchronous", 2_i64).await {
            Ok(synchronous) => durability(synchronous),
            Err(error) => failed("durability", &error),
        }
    }

    async fn indexes(&self, mode: Mode) -> Check {
        let query = sqlx::query_scalar::<_, String>(self.inner.statements.examined_indexes.clone());
        let found = self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await }));
        match found.await {
            Ok(found) => indexes(&self.inner.names, mode, &found),
            Err(error) => failed("indexes", &error),
        }
    }

    async fn bloat(&self) -> Check {
        let pages = self.read(|connection| {
            Box::pin(async move {
                let row = sqlx::query(include_str!("diagnosis/pages.sql")).fetch_one(connection).await?;
                let number = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
                Ok((number("page_size")?, number("pages")?, number("free")?))
            })
        });
        match pages.await {
            Ok((page, pages, free)) => bloat(page * pages, page * free, log_of(self.path())),
            Err(error) => failed("bloat", &error),
        }
    }

    /// The only value that a statement finds, or `otherwise` if it finds none.
    async fn value<T>(&self, sql: &'static str, otherwise: T) -> Result<T, StoreError>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite> + Send + Unpin + 'static,
    {
        let found = self.read(move |connection| {
            Box::pin(async move { sqlx::query_scalar::<_, T>(sql).fetch_optional(connection).await })
        });
        Ok(found.await?.unwrap_or(otherwise))
    }
}

/// The size of the log beside the file; 0 without one.
fn log_of(path: &Path) -> u64 {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).map_or(0, |log| log.len())
}

fn journal(mode: &str) -> Check {
    match mode {
        "wal" => Check::ok("journal", "`journal_mode` is `wal`"),
        other => Check::warning(
            "journal",
            format!("`journal_mode` is `{other}`: writers and readers wait for each other"),
        )
        .remedy("run `pillarbox migrate`, which switches it to `wal`, as does every program that opens the outbox"),
    }
}

fn durability(synchronous: i64) -> Check {
    let lost = "events and orders alike, can be lost when the machine loses its power";
    match synchronous {
        0 => Check::problem(
            "durability",
            format!("`synchronous` is OFF: what was committed, {lost}, and the file be damaged"),
        )
        .remedy("set it to FULL"),
        1 => Check::warning("durability", format!("`synchronous` is NORMAL: the last commits, {lost}"))
            .remedy("set it to FULL"),
        _ => Check::ok(
            "durability",
            "commits are on disk (`synchronous` FULL) on our connections; every program chooses for its own",
        ),
    }
}

fn indexes(names: &Names, mode: Mode, found: &[String]) -> Check {
    let of_mode: &[&str] = match mode {
        Mode::Claims => &OF_CLAIMS,
        Mode::Ownership => &OF_OWNERSHIP,
    };
    let named = |name: &&str| format!("{}{name}", names.prefix());
    let needed: Vec<String> = OF_BOTH.iter().chain(of_mode).map(named).collect();
    diagnosis::indexes(&needed, found, |missing| {
        let are_of_mode = missing.iter().all(|name| of_mode.iter().any(|of_mode| name.ends_with(of_mode)));
        if are_of_mode {
            format!("run `pillarbox migrate --mode {mode}`")
        } else {
            "make it as `pillarbox migrate --print --dialect sqlite` says".to_owned()
        }
    })
}

fn bloat(used: u64, free: u64, log: u64) -> Check {
    let found = format!("{}, of which {} are free; {} of log", size(used), size(free), size(log));
    if log >= LARGE_LOG {
        return Check::warning("bloat", found).remedy(
            "end the transaction that keeps SQLite from putting the log back into the file: one that reads since long, or a \
             writer that never pauses",
        );
    }
    if free >= MUCH_ROOM && free > used / 2 {
        return Check::warning("bloat", found)
            .remedy("later events use it again; to give it back run `VACUUM`, which writes the file anew");
    }
    Check::ok("bloat", found)
}

/// Whether somebody holds the lock of writers. It is taken for a moment and given back, as every writer does.
async fn writers(path: &Path, options: &SqliteConnectOptions) -> Check {
    let options = options.clone().busy_timeout(LONG_LOCK);
    match lock(&options).await {
        Ok(()) => Check::ok("transactions", "nobody holds the lock of writers"),
        Err(error) if fault::is_busy(&error) => {
            let found =
                format!("somebody has held the lock of writers for {} or more", diagnosis::time(LONG_LOCK));
            Check::warning("transactions", found)
                .remedy(format!("find who has `{}` open (`fuser`), and end the transaction", path.display()))
        }
        Err(error) => failed("transactions", &fault::Fault::of(path).store(error)),
    }
}

async fn lock(options: &SqliteConnectOptions) -> Result<(), sqlx::Error> {
    let mut connection: SqliteConnection = options.connect().await?;
    let locked = connection.execute("BEGIN IMMEDIATE").await.map(drop);
    if locked.is_ok() {
        connection.execute("ROLLBACK").await?;
    }
    connection.close().await?;
    locked
}

#[cfg(test)]
mod tests;
