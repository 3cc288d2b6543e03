//! Reading from partitions that are owned.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Blocked, Due, Fetched, Numbers, StoreError, Taken, Token, Visit};
use pillarbox_sql::{members, rows};
use serde_json::{Value, json};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};

use crate::SqliteStore;
use crate::fault::Fault;
use crate::row;
use crate::settle::comparable;
use crate::statements::Statements;
use crate::watch;

/// How many rows without a partition are given theirs at once.
const ADOPTED_AT_ONCE: usize = 1_000;

/// How often that is done in a transaction: then writers get their turn.
const ADOPTIONS: usize = 10;

impl SqliteStore {
    /// The highest number that was committed. Only one transaction writes at a time, so none below it is to come.
    pub(crate) async fn known_numbers(&self) -> Result<Numbers, StoreError> {
        let inner = Arc::clone(&self.inner);
        let highest = self.read_hot(move |connection| {
            Box::pin(async move { watch::highest(connection, &inner.statements).await })
        });
        let highest = highest.await?;
        Ok(Numbers { closed: highest, given: highest })
    }

    pub(crate) async fn fetch_from(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let asked = Asked::of(visits, limit);
        let fetch = asked.fresh(&self.inner.statements.fetch);
        let mut rows = self.read_rows(fetch).await?;
        if is_unplaced(&rows).map_err(|error| Fault::of(&self.inner.path).store(error))? {
            rows = self.adopt_and_fetch(&asked).await?;
        }
        self.decode_in_order(&rows, visits)
    }

    /// Gives rows without a partition theirs, and fetches before anybody can write another.
    async fn adopt_and_fetch(&self, asked: &Asked) -> Result<Vec<SqliteRow>, StoreError> {
        loop {
            let (fetch, inner) = (asked.fresh(&self.inner.statements.fetch), Arc::clone(&self.inner));
            let adopted = self.write(move |connection| {
                Box::pin(async move {
                    for _ in 0..ADOPTIONS {
                        if !adopt(connection, &inner.statements).await? {
                            return fetch.fetch_all(connection).await.map(Some);
                        }
                    }
                    Ok(None)
                })
            });
            if let Some(rows) = adopted.await? {
                return Ok(rows);
            }
        }
    }

    pub(crate) async fn fetch_below(
        &self,
        visits: &[Visit],
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let below = Asked::of(visits, limit).fresh(&self.inner.statements.below);
        self.decode_in_order(&self.read_rows(below).await?, visits)
    }

    pub(crate) async fn fetch_due(&self, visits: &[Visit], limit: usize) -> Result<Due, StoreError> {
        let asked = Asked::of(visits, limit);
        let next_due = sqlx::query_as(self.inner.statements.next_due_aside.clone());
        let next_due = next_due.bind(asked.partitions.clone());
        let due = sqlx::query(self.inner.statements.due.clone());
        let due = due.bind(asked.partitions).bind(asked.in_flight).bind(asked.limit);
        let (rows, later_in) = self
            .read_hot(move |connection| {
                Box::pin(async move {
                    let (now, is_due, later_in): (i64, bool, Option<i64>) =
                        next_due.fetch_one(&mut *connection).await?;
                    // At the same moment, so that none becomes due between the two.
                    let rows = if is_due { due.bind(now).fetch_all(connection).await? } else { Vec::new() };
                    Ok((rows, later_in))
                })
            })
            .await?;
        let later_in = later_in.filter(|_| rows.len() < limit);
        let next_due_in = later_in.map(|micros| Duration::from_micros(micros.unsigned_abs()));
        Ok(Due { events: self.decode(&rows, visits)?, next_due_in })
    }

    pub(crate) async fn fetch_aside(
        &self,
        visit: &Visit,
        key: &str,
        limit: usize,
    ) -> Result<Vec<Fetched>, StoreError> {
        let query = sqlx::query(self.inner.statements.aside_of.clone())
            .bind(visit.partition)
            .bind(key.to_owned())
            .bind(json!(visit.in_flight).to_string())
            .bind(rows(limit));
        self.decode(&self.read_rows(query).await?, std::slice::from_ref(visit))
    }

    pub(crate) async fn blocked_keys(&self, partitions: &[u8]) -> Result<Vec<Blocked>, StoreError> {
        let partitions: BTreeSet<u8> = partitions.iter().copied().collect();
        let query = sqlx::query(self.inner.statements.blocked.clone());
        let rows = self.read_rows(query.bind(json!(partitions).to_string())).await?;
        let blocked = rows.iter().filter_map(|row| blocked(row).transpose()).collect::<Result<_, _>>();
        blocked.map_err(|error| Fault::of(&self.inner.path).store(error))
    }

    pub(crate) async fn start_under(&self, taken: &Taken) -> Result<bool, StoreError> {
        let (lease, event_id) = (taken.lease, comparable(&taken.event_id).map(str::to_owned));
        let start = sqlx::query(self.inner.statements.start.clone());
        let start = start.bind(lease.seq).bind(lease.token.0).bind(event_id).bind(lease.starts);
        let started = self.write(move |connection| Box::pin(async move { start.execute(connection).await }));
        Ok(started.await?.rows_affected() > 0)
    }

    pub(crate) async fn skip_keys(&self, keys: &[String]) -> Result<u64, StoreError> {
        let skip = sqlx::query(self.inner.statements.skip.clone()).bind(Value::from(keys).to_string());
        let skipped = self.write(move |connection| Box::pin(async move { skip.execute(connection).await }));
        Ok(skipped.await?.rows_affected())
    }

    async fn read_rows(
        &self,
        query: Query<'static, Sqlite, SqliteArguments>,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        self.read_hot(move |connection| Box::pin(async move { query.fetch_all(connection).await })).await
    }

    fn decode(&self, rows: &[SqliteRow], visits: &[Visit]) -> Result<Vec<Fetched>, StoreError> {
        let token = |visit: &Visit| (visit.partition, Token::of_partition(visit.partition, visit.epoch));
        let tokens: HashMap<u8, Token> = visits.iter().map(token).collect();
        let fetched = rows.iter().map(|row| row::fetched(row, &tokens)).collect::<Result<_, _>>();
        fetched.map_err(|error| Fault::of(&self.inner.path).store(error))
    }

    fn decode_in_order(&self, rows: &[SqliteRow], visits: &[Visit]) -> Result<Vec<Fetched>, StoreError> {
        let mut fetched = self.decode(rows, visits)?;
        // They come partition by partition.
        fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
        Ok(fetched)
    }
}

/// Whether a fetch has found nothing but that a row has no partition.
fn is_unplaced(rows: &[SqliteRow]) -> Result<bool, sqlx::Error> {
    match rows {
        [row] => Ok(row.try_get::<Option<i64>, _>("seq")?.is_none()),
        _ => Ok(false),
    }
}

/// What is read, as it is bound.
struct Asked {
    /// Partitions and floors.
    visited: String,
    partitions: String,
    in_flight: String,
    limit: i64,
}

impl Asked {
    fn of(visits: &[Visit], limit: usize) -> Self {
        let visited = visits.iter().map(|visit| json!([visit.partition, visit.floor]));
        let in_flight = visits.iter().flat_map(|visit| visit.in_flight.iter().copied());
        Self {
            visited: Value::from_iter(visited).to_string(),
            partitions: Value::from_iter(visits.iter().map(|visit| visit.partition)).to_string(),
            in_flight: Value::from_iter(in_flight).to_string(),
            limit: rows(limit),
        }
    }

    fn fresh(&self, statement: &SqlStr) -> Query<'static, Sqlite, SqliteArguments> {
        let query = sqlx::query(statement.clone()).bind(self.visited.clone());
        query.bind(self.in_flight.clone()).bind(self.limit)
    }
}

/// Gives rows without a partition theirs, the lowest numbers first, and returns whether there may be more.
pub(crate) async fn adopt(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<bool, sqlx::Error> {
    let unplaced = sqlx::query(statements.unplaced.clone()).bind(rows(ADOPTED_AT_ONCE));
    let unplaced = unplaced.fetch_all(&mut *connection).await?;
    if unplaced.is_empty() {
        return Ok(false);
    }
    let mut placed = Vec::with_capacity(unplaced.len());
    for row in &unplaced {
        let seq = row.try_get("seq")?;
        placed.push(json!([seq, members::adopted_by(seq, row::key(row)?.as_deref())]));
    }
    let placed = Value::from(placed).to_string();
    sqlx::query(statements.place.clone()).bind(placed).execute(connection).await?;
    Ok(unplaced.len() == ADOPTED_AT_ONCE)
}

/// A key that must not go on; `None` if it is no text, which no event has.
fn blocked(row: &SqliteRow) -> Result<Option<Blocked>, sqlx::Error> {
    let Some(key) = row::key(row)? else { return Ok(None) };
    Ok(Some(Blocked {
        partition: row.try_get("event_partition")?,
        key,
        first: row.try_get("first")?,
        ready_in: row::span(row, "ready_in")?,
        parked_for: row::lossy(row, "parked_for")?,
    }))
}
