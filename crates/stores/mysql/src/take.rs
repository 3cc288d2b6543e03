//! Handing out work, and finding what was written.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Batch, Found, Mode, StoreError, Take, Token};
use pillarbox_sql::{check_lease, micros, rows};
use sqlx::Row;
use sqlx::mysql::{MySqlConnection, MySqlRow};

use crate::MySqlStore;
use crate::row::{event_id, taken, time, wait};
use crate::statements::{MOST_LISTED, Statements, bind_list};

impl MySqlStore {
    pub(crate) async fn take_events(&self, take: Take) -> Result<Batch, StoreError> {
        check_lease(take.lease_for)?;
        if take.limit == 0 {
            return Ok(Batch::default());
        }
        let swept = if take.sweep { self.sweep(take.limit).await } else { Ok(Vec::new()) };
        let swept = self.in_mode(Mode::Claims, swept).await?;
        let token = take.token;
        let inner = Arc::clone(&self.inner);
        let asked = Arc::new((take, swept));
        let claimed = self.run_together(
            |inner| &inner.taking,
            move |connection| {
                let (inner, asked) = (Arc::clone(&inner), Arc::clone(&asked));
                Box::pin(async move { claim(connection, &inner.statements, &asked.0, &asked.1).await })
            },
        );
        let (rows, next_due_in) = self.in_mode(Mode::Claims, claimed.await).await?;
        let events = rows.iter().map(|row| taken(row, token)).collect::<Result<_, _>>();
        let events = events.map_err(|error| self.inner.line.place.store(error))?;
        Ok(Batch { events, next_due_in })
    }

    /// Numbers of leases that end too late. Far more rows may be delayed than leased, so they are looked for
    /// without a lock.
    async fn sweep(&self, limit: usize) -> Result<Vec<i64>, StoreError> {
        let sweep = self.inner.statements.sweep.clone();
        self.run(
            |inner| &inner.taking,
            move |connection| {
                let query = sqlx::query_scalar(sweep.clone()).bind(rows(limit.min(MOST_LISTED)));
                Box::pin(async move { query.fetch_all(connection).await })
            },
        )
        .await
    }

    pub(crate) async fn find_written(
        &self,
        token: Token,
        event_ids: &[String],
    ) -> Result<Vec<Found>, StoreError> {
        let mut found = Vec::with_capacity(event_ids.len());
        for event_ids in event_ids.chunks(MOST_LISTED) {
            let inner = Arc::clone(&self.inner);
            let event_ids: Arc<[String]> = event_ids.into();
            let rows = self.run(
                |inner| &inner.hot,
                move |connection| {
                    let (inner, event_ids) = (Arc::clone(&inner), Arc::clone(&event_ids));
                    Box::pin(async move {
                        let ids: Vec<&str> = event_ids.iter().map(String::as_str).collect();
                        let query = sqlx::query(inner.statements.read_back.of(ids.len()));
                        bind_list(query, &ids).fetch_all(connection).await
                    })
                },
            );
            let rows = rows.await?;
            let chunk =
                rows.iter().filter_map(|row| written(row, token).transpose()).collect::<Result<Vec<_>, _>>();
            found.extend(chunk.map_err(|error| self.inner.line.place.store(error))?);
        }
        Ok(found)
    }
}

/// The event, unless it is held under another token than the one that it was born with.
fn written(row: &MySqlRow, token: Token) -> Result<Option<Found>, sqlx::Error> {
    let event_id = event_id(row)?;
    let is_as_born = row.try_get::<Option<i64>, _>("token")? == Some(token.of_event(&event_id).0);
    let found = Found { event_id, seq: row.try_get("seq")?, created_at: time(row, "created_at")? };
    Ok(is_as_born.then_some(found))
}

/// The rows as they were before they were claimed, in their order, and the time to the next one.
async fn claim(
    connection: &mut MySqlConnection,
    statements: &Statements,
    take: &Take,
    swept: &[i64],
) -> Result<(Vec<MySqlRow>, Option<Duration>), sqlx::Error> {
    let skip_recent = micros(take.skip_recent);
    let select = sqlx::query(statements.select.clone());
    let select = select.bind(skip_recent).bind(skip_recent).bind(rows(take.limit));
    let mut claimed = select.fetch_all(&mut *connection).await?;
    let room = take.limit - claimed.len();
    if !swept.is_empty() && room > 0 {
        let select = sqlx::query(statements.select_swept.of(swept.len()));
        claimed.extend(bind_list(select, swept).bind(rows(room)).fetch_all(&mut *connection).await?);
    }
    let mut numbers = claimed.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
    numbers.sort_unstable();
    for numbers in numbers.chunks(MOST_LISTED) {
        let claim = sqlx::query(statements.claim.of(numbers.len()))
            .bind(micros(take.lease_for))
            .bind(take.owner.to_string())
            .bind(take.token.0);
        bind_list(claim, numbers).execute(&mut *connection).await?;
    }
    if claimed.len() >= take.limit {
        return Ok((claimed, None));
    }
    let next_due = sqlx::query(statements.next_due.clone()).bind(skip_recent).bind(skip_recent);
    let row = next_due.fetch_one(connection).await?;
    let next_due_in = [wait(&row, "skipped_in")?, wait(&row, "later_in")?].into_iter().flatten().min();
    Ok((claimed, next_due_in))
}
