//! Seeing that another process wrote events.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::store::WakeUp;
use pillarbox::{BoxFuture, PartitionSet};
use pillarbox_sql::{Ear, Ears};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use crate::SqliteStore;
use crate::fault;
use crate::statements::Statements;
use crate::store::Inner;

const LOOK_EVERY: Duration = Duration::from_millis(1);
const LOOK_IDLE_EVERY: Duration = Duration::from_millis(5);
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Looks without a change after which the slower pace will do.
const IDLE_AFTER: u32 = 200;

/// More ranges than this are not remembered: a forgotten one costs a needless wake-up.
const MOST_RANGES: usize = 1_024;

impl WakeUp for SqliteStore {
    /// Completes when another process (or a transaction that this store did not begin) committed events since
    /// the last call, or since the store was opened, in whichever partitions; or when another clone of this store has
    /// announced some.
    ///
    /// The file is watched only while somebody waits here. What happens meanwhile is seen by the next call.
    fn changed(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(changed(&self.inner, &self.ear))
    }

    /// Wakes clones of this store: other processes see the file change.
    fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(watch) = &self.inner.watch {
                watch.ears.tell_others(&self.ear, partitions);
            }
        })
    }
}

async fn changed(inner: &Arc<Inner>, ear: &Arc<Ear>) -> PartitionSet {
    let Some(watch) = &inner.watch else { return std::future::pending().await };
    // Who asks for the first time may have missed what others were told.
    if watch.ears.admit(ear) && watch.had_news.load(Ordering::SeqCst) {
        ear.tell(PartitionSet::ALL);
    }
    loop {
        let looking = Arc::clone(inner);
        let pace = match tokio::spawn(async move { look(&looking).await }).await {
            Ok(Some(pace)) => pace,
            Ok(None) | Err(_) => return std::future::pending().await,
        };
        if let Ok(partitions) = tokio::time::timeout(pace, ear.heard()).await {
            return partitions;
        }
    }
}

/// What is known of the file.
pub(crate) struct Watch {
    options: SqliteConnectOptions,
    ears: Ears,
    /// Whether there ever was something to tell.
    had_news: AtomicBool,
    seen: tokio::sync::Mutex<Seen>,
}

struct Seen {
    connection: Option<SqliteConnection>,
    data_version: Option<i64>,
    highest: i64,
    quiet_looks: u32,
    is_failing: bool,
}

impl Watch {
    /// A watch for numbers above `highest`.
    pub(crate) fn new(options: SqliteConnectOptions, highest: i64) -> Self {
        let seen = Seen { connection: None, data_version: None, highest, quiet_looks: 0, is_failing: false };
        Self {
            options: logged_as_trace(options),
            ears: Ears::default(),
            had_news: AtomicBool::new(false),
            seen: seen.into(),
        }
    }

    /// Closes the connection.
    pub(crate) async fn close(&self) {
        let connection = self.seen.lock().await.connection.take();
        if let Some(connection) = connection
            && let Err(error) = connection.close().await
        {
            tracing::debug!(%error, "the watch could not be closed");
        }
    }
}

/// Statements that run all day do not belong into a log that is read.
fn logged_as_trace(options: SqliteConnectOptions) -> SqliteConnectOptions {
    match "trace".parse() {
        Ok(level) => options.log_statements(level),
        Err(_) => options,
    }
}

/// Looks once, and says when to look again; never, if the store is closed.
async fn look(inner: &Inner) -> Option<Duration> {
    let watch = inner.watch.as_ref()?;
    let mut seen = watch.seen.lock().await;
    if inner.gate.is_closed() {
        return None;
    }
    match compare(inner, watch, &mut seen).await {
        Ok(is_news) => {
            seen.is_failing = false;
            if is_news {
                watch.had_news.store(true, Ordering::SeqCst);
                watch.ears.tell_all(PartitionSet::ALL);
            }
            Some(if seen.quiet_looks < IDLE_AFTER { LOOK_EVERY } else { LOOK_IDLE_EVERY })
        }
        Err(error) => {
            if !seen.is_failing {
                tracing::warn!(path = %inner.path.display(), %error, "the file cannot be watched; events of other processes wait for the poll");
            }
            seen.is_failing = true;
            seen.connection = None;
            seen.data_version = None;
            Some(LOOK_AGAIN_AFTER)
        }
    }
}

/// Whether there are numbers that this process did not give.
async fn compare(inner: &Inner, watch: &Watch, seen: &mut Seen) -> Result<bool, sqlx::Error> {
    let mut connection = match seen.connection.take() {
        Some(connection) => connection,
        None => watch.options.connect().await?,
    };
    let data_version: i64 = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut connection).await?;
    let mut is_news = false;
    if seen.data_version == Some(data_version) {
        seen.quiet_looks = seen.quiet_looks.saturating_add(1);
    } else {
        let highest = highest(&mut connection, &inner.statements).await?;
        // Numbers that went back mean that the file was replaced.
        is_news = highest < seen.highest || !inner.own.cover(seen.highest + 1, highest);
        inner.own.forget_up_to(highest);
        seen.highest = highest;
        seen.data_version = Some(data_version);
        seen.quiet_looks = 0;
    }
    seen.connection = Some(connection);
    Ok(is_news)
}

/// The highest number given so far; 0 if there is none, or no table.
pub(crate) async fn highest(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<i64, sqlx::Error> {
    let found = sqlx::query_scalar(statements.highest.clone()).fetch_optional(connection).await;
    match found {
        Ok(found) => Ok(found.unwrap_or(0)),
        Err(error) if fault::is_missing_table(&error) => Ok(0),
        Err(error) => Err(error),
    }
}

/// The numbers of events that this store's own transactions wrote: whoever commits them knows of them.
pub(crate) struct OwnNumbers {
    is_watched: bool,
    state: Mutex<Numbers>,
}

#[derive(Default)]
struct Numbers {
    /// First and last numbers, ascending.
    ranges: Vec<(i64, i64)>,
    /// The connection of the transaction that is open. The gate lets only one be.
    open: Option<Open>,
    /// The first number that the open transaction gave.
    open_from: Option<i64>,
}

/// A transaction of our own.
struct Open {
    connection: usize,
    /// Set when SQLite rolled it back, whoever asked for that.
    is_rolled_back: Arc<AtomicBool>,
}

impl OwnNumbers {
    /// No numbers; none are kept unless somebody watches.
    pub(crate) fn new(is_watched: bool) -> Self {
        Self { is_watched, state: Mutex::default() }
    }

    /// A transaction of our own began on `connection`; `is_rolled_back` will be set when that happens to it.
    pub(crate) fn begin(&self, connection: &SqliteConnection, is_rolled_back: Arc<AtomicBool>) {
        let mut state = self.state();
        state.open = Some(Open { connection: address(connection), is_rolled_back });
        state.open_from = None;
    }

    /// Whether `connection` had a transaction of our own that was rolled back behind our back: what is written
    /// on it now would be committed by itself.
    pub(crate) fn is_rolled_back(&self, connection: &SqliteConnection) -> bool {
        let state = self.state();
        let open = state.open.as_ref().filter(|open| open.connection == address(connection));
        open.is_some_and(|open| open.is_rolled_back.load(Ordering::Relaxed))
    }

    /// `connection` gave the numbers from `first` to `last`; of no interest if it is not our own.
    pub(crate) fn inserted(&self, connection: &SqliteConnection, first: i64, last: i64) {
        let mut state = self.state();
        let is_own = state.open.as_ref().is_some_and(|open| open.connection == address(connection));
        if !self.is_watched || !is_own {
            return;
        }
        state.open_from.get_or_insert(first);
        match state.ranges.last_mut() {
            Some(range) if first <= range.1 + 1 => range.1 = range.1.max(last),
            _ => state.ranges.push((first, last)),
        }
        if state.ranges.len() > MOST_RANGES {
            state.ranges.remove(0);
        }
    }

    /// The open transaction is over. Numbers of one that was rolled back are given again, to anybody.
    pub(crate) fn end(&self, is_rolled_back: bool) {
        let mut state = self.state();
        state.open = None;
        if let Some(from) = state.open_from.take()
            && is_rolled_back
        {
            state.ranges.retain(|range| range.0 < from);
            if let Some(range) = state.ranges.last_mut() {
                range.1 = range.1.min(from - 1);
            }
        }
    }

    /// Whether all numbers from `first` to `last` are ours.
    fn cover(&self, first: i64, last: i64) -> bool {
        let mut next = first;
        for &(from, to) in &self.state().ranges {
            if from > next {
                break;
            }
            next = next.max(to + 1);
        }
        next > last
    }

    /// Numbers up to `highest` were looked at. Higher ones were rolled back, unless they are in flight.
    fn forget_up_to(&self, highest: i64) {
        let mut state = self.state();
        let open_from = state.open_from;
        state.ranges.retain(|range| range.1 > highest && open_from.is_some_and(|from| range.1 >= from));
    }

    fn state(&self) -> MutexGuard<'_, Numbers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn address(connection: &SqliteConnection) -> usize {
    std::ptr::from_ref(connection).addr()
}
