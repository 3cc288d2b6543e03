//! What operators ask.

mod census;
mod handlers;
mod outline;
mod routes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Administration, Census, Outline, Page, PausedRoute, Progress, Purge, Purged, Revision, Selection, Stats,
    StoreError, StoredEvent,
};
use pillarbox_sql::{micros, rows};
use sqlx::Row;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::MySqlStore;
use crate::fault;
use crate::migration::by_name;
use crate::row::{event_id, stored, wait};
use crate::statements::{MOST_LISTED, MySqlQuery, Statements, bind_list};

impl Administration for MySqlStore {
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>> {
        Box::pin(async move {
            let is_by_partition = self.inner.is_by_partition.load(Ordering::Relaxed);
            match self.count(is_by_partition).await {
                Err(error) if fault::is_missing_index(&error) => {
                    let stats = self.count(!is_by_partition).await?;
                    self.inner.is_by_partition.store(!is_by_partition, Ordering::Relaxed);
                    Ok(stats)
                }
                stats => stats,
            }
        })
    }

    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>> {
        Box::pin(self.take_census())
    }

    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let highest = self.run(
                |inner| &inner.operating,
                move |connection| {
                    let query = by_name(&inner, &inner.statements.highest, "outbox_event");
                    let inner = Arc::clone(&inner);
                    Box::pin(async move {
                        let Some(row) = query.fetch_optional(&mut *connection).await? else {
                            // Whoever has no privilege on a table is not told of it; reading it says which it is.
                            sqlx::query(inner.statements.probe.clone()).execute(connection).await?;
                            return Ok(None);
                        };
                        row.try_get::<Option<i64>, _>(0).map(Some)
                    })
                },
            );
            match highest.await? {
                None => Err(StoreError::NotMigrated),
                Some(highest) => Ok(highest.unwrap_or(0)),
            }
        })
    }

    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        let (find, event_id) = (self.inner.statements.find.clone(), event_id.to_owned());
        let query = move || sqlx::query(find.clone()).bind(event_id.clone());
        Box::pin(async move { Ok(self.list(query).await?.pop()) })
    }

    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        let (find, aggregate_id) = (self.inner.statements.find_by_aggregate.clone(), aggregate_id.to_owned());
        Box::pin(self.list(move || {
            sqlx::query(find.clone()).bind(aggregate_id.clone()).bind(page.after).bind(rows(page.limit))
        }))
    }

    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>> {
        let list_dead = self.inner.statements.list_dead.clone();
        Box::pin(self.list(move || sqlx::query(list_dead.clone()).bind(page.after).bind(rows(page.limit))))
    }

    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>> {
        let (inner, selection) = (Arc::clone(&self.inner), Arc::new(selection.clone()));
        Box::pin(self.run_together(
            |inner| &inner.operating,
            move |connection| {
                let (inner, selection) = (Arc::clone(&inner), Arc::clone(&selection));
                Box::pin(async move { replay(connection, &inner.statements, &selection).await })
            },
        ))
    }

    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        let (inner, selection) = (Arc::clone(&self.inner), Arc::new(selection.clone()));
        Box::pin(async move {
            let discarded = self.run_together(
                |inner| &inner.operating,
                move |connection| {
                    let (inner, selection) = (Arc::clone(&inner), Arc::clone(&selection));
                    Box::pin(async move { discard(connection, &inner.statements, &selection).await })
                },
            );
            let ids = discarded.await?;
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

impl MySqlStore {
    /// Counts by the indexes of one mode or of the other.
    async fn count(&self, is_by_partition: bool) -> Result<Stats, StoreError> {
        let Statements { stats, stats_by_partition, .. } = &self.inner.statements;
        let stats = if is_by_partition { stats_by_partition } else { stats }.clone();
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(stats.clone());
                Box::pin(async move { counted(&query.fetch_one(connection).await?) })
            },
        )
        .await
    }

    async fn list(
        &self,
        query: impl Fn() -> MySqlQuery<'static> + Send + Sync + 'static,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let listed = self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = query();
                Box::pin(async move { query.fetch_all(connection).await })
            },
        );
        let events = listed.await?.iter().map(stored).collect::<Result<_, _>>();
        events.map_err(|error| self.inner.line.place.store(error))
    }

    /// Looks at a run of rows without a lock, and locks only if one of them goes.
    async fn purge_step(&self, purge: Purge) -> Result<Purged, StoreError> {
        let older_than = micros(purge.older_than);
        let statement = self.inner.statements.purge_window.clone();
        let window = self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(statement.clone())
                    .bind(older_than)
                    .bind(older_than)
                    .bind(purge.dead_too)
                    .bind(older_than)
                    .bind(purge.after)
                    .bind(rows(purge.limit));
                Box::pin(async move { Window::read(&query.fetch_one(connection).await?) })
            },
        );
        let window = window.await?;
        let Some(last) = window.last else { return Ok(Purged { deleted: 0, next: None }) };
        let deleted = if window.deletable > 0 { self.delete_up_to(last, purge).await? } else { 0 };
        // Rows are written in the order of their numbers: behind a run of young ones all are young.
        let is_last = window.examined < rows(purge.limit) || !window.is_old;
        Ok(Purged { deleted, next: (!is_last).then_some(last) })
    }

    /// Deletes row by row what was found without a lock: a DELETE that looks for itself would wait for every row that
    /// someone writes in between.
    async fn delete_up_to(&self, last: i64, purge: Purge) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for numbers in self.purgeable(last, purge).await?.chunks(MOST_LISTED) {
            let (inner, numbers) = (Arc::clone(&self.inner), Arc::<[i64]>::from(numbers));
            let purged = self.run(
                |inner| &inner.operating,
                move |connection| {
                    let (inner, numbers) = (Arc::clone(&inner), Arc::clone(&numbers));
                    Box::pin(async move {
                        let query = sqlx::query(inner.statements.purge.of(numbers.len()));
                        bind_list(query, &numbers).execute(connection).await
                    })
                },
            );
            deleted += purged.await?.rows_affected();
        }
        Ok(deleted)
    }

    async fn purgeable(&self, last: i64, purge: Purge) -> Result<Vec<i64>, StoreError> {
        let older_than = micros(purge.older_than);
        let statement = self.inner.statements.purgeable.clone();
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query_scalar(statement.clone())
                    .bind(purge.after)
                    .bind(last)
                    .bind(older_than)
                    .bind(purge.dead_too)
                    .bind(older_than);
                Box::pin(async move { query.fetch_all(connection).await })
            },
        )
        .await
    }
}

async fn replay(
    connection: &mut MySqlConnection,
    statements: &Statements,
    selection: &Selection,
) -> Result<u64, sqlx::Error> {
    match selection {
        Selection::Numbers { from, to } => {
            let query = sqlx::query(statements.replay_numbers.clone()).bind(from).bind(to);
            let replayed = query.execute(&mut *connection).await?.rows_affected();
            let unpark = sqlx::query(statements.unpark_numbers.clone()).bind(from).bind(to);
            unpark.execute(connection).await?;
            Ok(replayed)
        }
        Selection::Ids(ids) => {
            let mut replayed = 0;
            for ids in ids.chunks(MOST_LISTED) {
                let query = bind_list(sqlx::query(statements.replay_ids.of(ids.len())), &texts(ids));
                replayed += query.execute(&mut *connection).await?.rows_affected();
            }
            unpark(connection, statements, ids).await?;
            Ok(replayed)
        }
    }
}

/// Deletes what it has locked, as nothing here tells which rows a DELETE found.
async fn discard(
    connection: &mut MySqlConnection,
    statements: &Statements,
    selection: &Selection,
) -> Result<Vec<String>, sqlx::Error> {
    let mut found = Vec::new();
    match selection {
        Selection::Numbers { from, to } => {
            let query = sqlx::query(statements.dead_numbers.clone()).bind(from).bind(to);
            found = query.fetch_all(&mut *connection).await?;
        }
        Selection::Ids(ids) => {
            for ids in ids.chunks(MOST_LISTED) {
                let query = bind_list(sqlx::query(statements.dead_ids.of(ids.len())), &texts(ids));
                found.extend(query.fetch_all(&mut *connection).await?);
            }
        }
    }
    let mut numbers = found.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    numbers.sort_unstable();
    for numbers in numbers.chunks(MOST_LISTED) {
        let query = bind_list(sqlx::query(statements.discard.of(numbers.len())), numbers);
        query.execute(&mut *connection).await?;
    }
    let ids = found.iter().map(event_id).collect::<Result<Vec<_>, _>>()?;
    unpark(connection, statements, &ids).await?;
    Ok(ids)
}

/// Frees keys that are parked for these events: what is replayed or discarded holds nothing any more.
async fn unpark(
    connection: &mut MySqlConnection,
    statements: &Statements,
    ids: &[String],
) -> Result<(), sqlx::Error> {
    for ids in ids.chunks(MOST_LISTED) {
        let query = bind_list(sqlx::query(statements.unpark_ids.of(ids.len())), &texts(ids));
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

fn texts(ids: &[String]) -> Vec<&str> {
    ids.iter().map(String::as_str).collect()
}

fn counted(row: &MySqlRow) -> Result<Stats, sqlx::Error> {
    let count = |name| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
    let (pending, retry, dead) = (count("pending")?, count("retry")?, count("dead")?);
    let ends: (Option<i64>, Option<i64>) = (row.try_get("first")?, row.try_get("last")?);
    let numbers = match ends {
        (Some(first), Some(last)) => last.abs_diff(first) + 1,
        _ => 0,
    };
    let oldest_due_in: Option<i64> = row.try_get("oldest_due_for")?;
    Ok(Stats {
        new: pending - retry,
        retry,
        dead,
        done_estimate: numbers.saturating_sub(pending + dead),
        oldest_due_for: match oldest_due_in {
            Some(micros) if micros < 0 => None,
            _ => wait(row, "oldest_due_for")?,
        },
    })
}

/// A run of rows that a purge looks at.
struct Window {
    examined: i64,
    last: Option<i64>,
    is_old: bool,
    deletable: i64,
}

impl Window {
    fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            examined: row.try_get("examined")?,
            last: row.try_get("last")?,
            is_old: row.try_get::<Option<i64>, _>("is_old")? == Some(1),
            deletable: row.try_get("deletable")?,
        })
    }
}
