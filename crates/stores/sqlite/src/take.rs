//! Handing out work, and finding what was written.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::Timestamp;
use pillarbox::store::{Batch, Found, StoreError, Take, Token};
use pillarbox_sql::{check_lease, micros, rows};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use crate::SqliteStore;
use crate::fault::Fault;
use crate::row::taken;
use crate::statements::Statements;

impl SqliteStore {
    pub(crate) async fn take_events(&self, take: Take) -> Result<Batch, StoreError> {
        check_lease(take.lease_for)?;
        if take.limit == 0 {
            return Ok(Batch::default());
        }
        let swept = if take.sweep { self.sweep(take.limit).await? } else { Vec::new() };
        let token = take.token;
        let inner = Arc::clone(&self.inner);
        let claimed = self.write(move |connection| {
            Box::pin(async move { claim(connection, &inner.statements, &take, &swept).await })
        });
        let (rows, next_due_in) = claimed.await?;
        let events = rows.iter().map(|row| taken(row, token)).collect::<Result<_, _>>();
        let events = events.map_err(|error| Fault::of(&self.inner.path).store(error))?;
        Ok(Batch { events, next_due_in })
    }

    /// Numbers of leases that end too late. Far more rows may be delayed than leased, so they are looked for
    /// before the write lock is taken.
    async fn sweep(&self, limit: usize) -> Result<Vec<i64>, StoreError> {
        let sweep = self.inner.statements.sweep.clone();
        self.read(move |connection| {
            Box::pin(async move { sqlx::query_scalar(sweep).bind(rows(limit)).fetch_all(connection).await })
        })
        .await
    }

    pub(crate) async fn find_written(
        &self,
        token: Token,
        event_ids: &[String],
    ) -> Result<Vec<Found>, StoreError> {
        let read_back = self.inner.statements.read_back.clone();
        let asked = serde_json::Value::from(event_ids).to_string();
        let rows = self.read_hot(move |connection| {
            let query = sqlx::query_as(read_back).bind(asked);
            Box::pin(async move { query.fetch_all(connection).await })
        });
        let rows: Vec<(String, i64, i64, Option<i64>)> = rows.await?;
        let as_born = rows.into_iter().filter(|(id, .., held)| *held == Some(token.of_event(id).0));
        let found = as_born.map(|(event_id, seq, created_at, _)| Found {
            event_id,
            seq,
            created_at: Timestamp::from_micros(created_at),
        });
        Ok(found.collect())
    }
}

/// The rows as they were before they were claimed, in their order, and the time to the next one.
async fn claim(
    connection: &mut SqliteConnection,
    statements: &Statements,
    take: &Take,
    swept: &[i64],
) -> Result<(Vec<SqliteRow>, Option<Duration>), sqlx::Error> {
    let select = sqlx::query(statements.select.clone()).bind(rows(take.limit)).bind(micros(take.skip_recent));
    let mut claimed = select.fetch_all(&mut *connection).await?;
    if !swept.is_empty() && claimed.len() < take.limit {
        let select = sqlx::query(statements.select_swept.clone()).bind(json(swept));
        claimed.extend(select.fetch_all(&mut *connection).await?);
        claimed.truncate(take.limit);
    }
    if !claimed.is_empty() {
        let numbers = claimed.iter().map(|row| row.try_get("seq")).collect::<Result<Vec<i64>, _>>()?;
        sqlx::query(statements.claim.clone())
            .bind(micros(take.lease_for))
            .bind(take.owner.to_string())
            .bind(take.token.0)
            .bind(json(&numbers))
            .execute(&mut *connection)
            .await?;
    }
    if claimed.len() >= take.limit {
        return Ok((claimed, None));
    }
    let next_due = sqlx::query_as(statements.next_due.clone()).bind(micros(take.skip_recent));
    let (skipped_in, later_in): (Option<i64>, Option<i64>) = next_due.fetch_one(connection).await?;
    let next_due_in = [skipped_in, later_in].into_iter().flatten().min();
    Ok((claimed, next_due_in.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)))))
}

/// Numbers as a JSON array, which is bound as one parameter however many there are.
pub(crate) fn json(numbers: &[i64]) -> String {
    serde_json::Value::from(numbers).to_string()
}
