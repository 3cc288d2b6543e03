//! What operators ask.

mod census;
mod handlers;
mod outline;
mod routes;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Administration, Census, Mode, Outline, Page, PausedRoute, Progress, Purge, Purged, Revision, Selection,
    Stats, StoreError, StoredEvent,
};
use pillarbox_sql::{micros, rows};
use serde_json::Value;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{FromRow, Row, SqlStr};

use crate::SqliteStore;
use crate::fault::Fault;
use crate::row::{event_id, stored};
use crate::statements::Statements;
use crate::watch;

impl Administration for SqliteStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move {
            let query = sqlx::query_as(match self.mode().await? {
                Mode::Claims => self.inner.statements.stats.clone(),
                Mode::Ownership => self.inner.statements.stats_owned.clone(),
            });
            let counts: Counts = self
                .read(move |connection| Box::pin(async move { query.fetch_one(connection).await }))
                .await?;
            Ok(counts.stats())
        })
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(self.take_census())
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(self.read(move |connection| {
            Box::pin(async move { watch::highest(connection, &inner.statements).await })
        }))
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        let query = sqlx::query(self.inner.statements.find.clone()).bind(event_id.to_owned());
        Box::pin(async move { Ok(self.list(query).await?.pop()) })
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        let query = sqlx::query(self.inner.statements.find_by_aggregate.clone());
        Box::pin(self.list(query.bind(aggregate_id.to_owned()).bind(page.after).bind(rows(page.limit))))
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        let query = sqlx::query(self.inner.statements.list_dead.clone());
        Box::pin(self.list(query.bind(page.after).bind(rows(page.limit))))
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        let (inner, selection) = (Arc::clone(&self.inner), selection.clone());
        Box::pin(self.write(move |connection| {
            Box::pin(async move { replay(connection, &inner.statements, &selection).await })
        }))
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let statements = &self.inner.statements;
        let free = select(selection, &statements.free_ids, &statements.free_numbers);
        let discard = select(selection, &statements.discard_ids, &statements.discard_numbers);
        Box::pin(async move {
            let discarded = self.write(move |connection| {
                Box::pin(async move {
                    free.execute(&mut *connection).await?;
                    discard.fetch_all(connection).await
                })
            });
            let ids = discarded.await?.iter().map(event_id).collect::<Result<Vec<_>, _>>();
            let ids = ids.map_err(|error| Fault::of(&self.inner.path).store(error))?;
            for id in &ids {
                tracing::info!(event_id = %id, "discarded a dead event");
            }
            Ok(ids)
        })
    }

    fn progress<'a>(
        &'a self,
        handler: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>> {
        Box::pin(self.handlers_progress(handler, limit))
    }

    fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(self.revise_handlers(revisions))
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>> {
        Box::pin(self.purge_step(purge))
    }

    fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>> {
        Box::pin(self.list_paused())
    }

    fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.pause(route))
    }

    fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.end_pause(route))
    }

    fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(self.recall_waiting(reason, limit))
    }

    fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>> {
        Box::pin(self.page_of_outlines(page))
    }

    fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>> {
        Box::pin(self.outlines_with(numbers))
    }
}

impl SqliteStore {
    async fn list(
        &self,
        query: Query<'static, Sqlite, SqliteArguments>,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let rows =
            self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await })).await?;
        let events = rows.iter().map(stored).collect::<Result<_, _>>();
        events.map_err(|error| Fault::of(&self.inner.path).store(error))
    }

    /// Looks at a run of rows without a lock, and takes the lock only if one of them goes.
    async fn purge_step(&self, purge: Purge) -> Result<Purged, StoreError> {
        let older_than = micros(purge.older_than);
        let statements = &self.inner.statements;
        let query = sqlx::query_as(statements.purge_window.clone())
            .bind(purge.after)
            .bind(rows(purge.limit))
            .bind(older_than)
            .bind(purge.dead_too);
        let window: Window =
            self.read(move |connection| Box::pin(async move { query.fetch_one(connection).await })).await?;
        let Some(last) = window.last else { return Ok(Purged { deleted: 0, next: None }) };
        let mut deleted = 0;
        if window.deletable > 0 {
            let query = sqlx::query(statements.purge.clone())
                .bind(purge.after)
                .bind(last)
                .bind(older_than)
                .bind(purge.dead_too);
            let purged =
                self.write(move |connection| Box::pin(async move { query.execute(connection).await }));
            deleted = purged.await?.rows_affected();
        }
        // Rows are written in the order of their numbers: behind a run of young ones all are young.
        let is_last = window.examined < rows(purge.limit) || !window.is_old;
        Ok(Purged { deleted, next: (!is_last).then_some(last) })
    }
}

/// Makes dead events pending, frees keys that are parked for them, and returns how many were dead.
async fn replay(
    connection: &mut SqliteConnection,
    statements: &Statements,
    selection: &Selection,
) -> Result<u64, sqlx::Error> {
    let free = select(selection, &statements.free_ids, &statements.free_numbers);
    let freed = free.fetch_all(&mut *connection).await?;
    let freed = freed.iter().map(event_id).collect::<Result<Vec<_>, _>>()?;
    let replay = select(selection, &statements.replay_ids, &statements.replay_numbers);
    let replayed = replay.bind(Value::from(freed).to_string()).execute(connection).await?;
    Ok(replayed.rows_affected())
}

fn select(
    selection: &Selection,
    by_ids: &SqlStr,
    by_numbers: &SqlStr,
) -> Query<'static, Sqlite, SqliteArguments> {
    match selection {
        Selection::Ids(ids) => sqlx::query(by_ids.clone()).bind(Value::from(ids.as_slice()).to_string()),
        Selection::Numbers { from, to } => sqlx::query(by_numbers.clone()).bind(*from).bind(*to),
    }
}

/// What is counted at once.
struct Counts {
    pending: u64,
    retry: u64,
    dead: u64,
    oldest_due_for: Option<i64>,
    first: Option<i64>,
    last: Option<i64>,
}

impl Counts {
    fn stats(&self) -> Stats {
        let numbers = match (self.first, self.last) {
            (Some(first), Some(last)) => last.abs_diff(first) + 1,
            _ => 0,
        };
        Stats {
            new: self.pending - self.retry,
            retry: self.retry,
            dead: self.dead,
            done_estimate: numbers.saturating_sub(self.pending + self.dead),
            oldest_due_for: self
                .oldest_due_for
                .and_then(|micros| u64::try_from(micros).ok())
                .map(Duration::from_micros),
        }
    }
}

impl<'r> FromRow<'r, sqlx::sqlite::SqliteRow> for Counts {
    fn from_row(row: &'r sqlx::sqlite::SqliteRow) -> Result<Self, sqlx::Error> {
        let count = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
        Ok(Self {
            pending: count("pending")?,
            retry: count("retry")?,
            dead: count("dead")?,
            oldest_due_for: row.try_get("oldest_due_for")?,
            first: row.try_get("first")?,
            last: row.try_get("last")?,
        })
    }
}

/// A run of rows that a purge looks at.
struct Window {
    examined: i64,
    last: Option<i64>,
    is_old: bool,
    deletable: i64,
}

impl<'r> FromRow<'r, sqlx::sqlite::SqliteRow> for Window {
    fn from_row(row: &'r sqlx::sqlite::SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            examined: row.try_get("examined")?,
            last: row.try_get("last")?,
            is_old: row.try_get::<Option<bool>, _>("is_old")?.unwrap_or(false),
            deletable: row.try_get("deletable")?,
        })
    }
}
