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
use pillarbox_sql::{members, micros, rows};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::PostgresStore;
use crate::row::stored;
use crate::store::{Inner, Query};
use crate::time::Instant;

impl Administration for PostgresStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move {
            // Both count right in either mode, but each by the indexes of its own.
            let row = match self.look_at_mode().await? {
                Mode::Claims => self.fetch_one(|inner| inner.query(&inner.statements.stats)).await?,
                Mode::Ownership => self.fetch_one(|inner| inner.query(&inner.statements.stats_owned)).await?,
            };
            stats(&row).map_err(|error| self.inner.line.place.store(error))
        })
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(self.take_census())
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        Box::pin(async move {
            let row = self.fetch_one(|inner| inner.query(&inner.statements.highest)).await?;
            row.try_get(0).map_err(|error| self.inner.line.place.store(error))
        })
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        let event_id = event_id.to_owned();
        Box::pin(async move {
            let found = self.list(move |inner| inner.query(&inner.statements.find).bind(event_id.clone()));
            Ok(found.await?.pop())
        })
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        let aggregate_id = aggregate_id.to_owned();
        Box::pin(self.list(move |inner| {
            let query = inner.query(&inner.statements.find_by_aggregate).bind(aggregate_id.clone());
            query.bind(page.after).bind(rows(page.limit))
        }))
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(self.list(move |inner| {
            inner.query(&inner.statements.list_dead).bind(page.after).bind(rows(page.limit))
        }))
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        let selection = selection.clone();
        Box::pin(async move {
            self.execute(
                |inner| &inner.operating,
                move |inner| match &selection {
                    Selection::Ids(ids) => inner.query(&inner.statements.replay_ids).bind(ids),
                    Selection::Numbers { from, to } => {
                        inner.query(&inner.statements.replay_numbers).bind(from).bind(to)
                    }
                },
            )
            .await
        })
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let selection = selection.clone();
        Box::pin(async move {
            let discarded = self.rows(
                |inner| &inner.operating,
                move |inner| match &selection {
                    Selection::Ids(ids) => inner.query(&inner.statements.discard_ids).bind(ids),
                    Selection::Numbers { from, to } => {
                        inner.query(&inner.statements.discard_numbers).bind(from).bind(to)
                    }
                },
            );
            let ids = discarded.await?.iter().map(|row| row.try_get("event_id")).collect::<Result<_, _>>();
            let ids: Vec<String> = ids.map_err(|error| self.inner.line.place.store(error))?;
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
        Box::pin(async move {
            let purged = self.fetch_one(move |inner| {
                inner
                    .query(&inner.statements.purge)
                    .bind(purge.after)
                    .bind(rows(purge.limit))
                    .bind(micros(purge.older_than))
                    .bind(purge.dead_too)
            });
            let window = Window::of(&purged.await?);
            let window = window.map_err(|error| self.inner.line.place.store(error))?;
            // Rows are written in the order of their numbers: behind a run of young ones all are young.
            let is_last = window.examined < rows(purge.limit) || !window.is_old;
            let next = window.last.filter(|_| !is_last);
            Ok(Purged { deleted: window.deleted.unsigned_abs(), next })
        })
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

impl PostgresStore {
    /// The mode that the table has now.
    pub(crate) async fn look_at_mode(&self) -> Result<Mode, StoreError> {
        let mode = self.fetch_one(|inner| inner.query(&inner.statements.census_mode)).await?;
        members::mode(Some(self.read(mode.try_get("mode"))?))
    }

    async fn list(
        &self,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let rows = self.rows(|inner| &inner.operating, query).await?;
        let events = rows.iter().map(stored).collect::<Result<_, _>>();
        events.map_err(|error| self.inner.line.place.store(error))
    }

    async fn fetch_one(
        &self,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<PgRow, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.run(|inner| &inner.operating, move |connection| Box::pin(query(&inner).fetch_one(connection)))
            .await
    }
}

fn stats(row: &PgRow) -> Result<Stats, sqlx::Error> {
    let count = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
    let (new, retry, dead) = (count("new")?, count("retry")?, count("dead")?);
    let numbers = match (row.try_get::<Option<i64>, _>("first")?, row.try_get::<Option<i64>, _>("last")?) {
        (Some(first), Some(last)) => last.abs_diff(first) + 1,
        _ => 0,
    };
    let now: Instant = row.try_get("now")?;
    let oldest: Option<Instant> = row.try_get("oldest_due_at")?;
    Ok(Stats {
        new,
        retry,
        dead,
        done_estimate: numbers.saturating_sub(new + retry + dead),
        oldest_due_for: oldest
            .filter(|oldest| *oldest <= now)
            .map(|oldest| Duration::from_micros(now.micros_since(oldest))),
    })
}

/// A run of rows that a purge looked at.
struct Window {
    examined: i64,
    last: Option<i64>,
    is_old: bool,
    deleted: i64,
}

impl Window {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            examined: row.try_get("examined")?,
            last: row.try_get("last")?,
            is_old: row.try_get("is_old")?,
            deleted: row.try_get("deleted")?,
        })
    }
}
