//! Handing out work, and finding what was written.

mod looks;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Batch, Found, Mode, StoreError, Take, Taken, Token};
use pillarbox_sql::{check_lease, micros, rows};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::time::Instant as Moment;

pub(crate) use looks::Looks;

use looks::Look;

use crate::PostgresStore;
use crate::fault;
use crate::row::taken;
use crate::time::Instant;

impl PostgresStore {
    pub(crate) async fn take_events(&self, take: Take) -> Result<Batch, StoreError> {
        check_lease(take.lease_for)?;
        if take.limit == 0 {
            return Ok(Batch::default());
        }
        let take = Arc::new(take);
        let mut batch = self.claim(&take).await?;
        if take.sweep && batch.events.len() < take.limit {
            let swept = self.sweep(&take, take.limit - batch.events.len()).await?;
            batch.events.extend(swept);
        }
        batch.next_due_in = match batch.next_due_in {
            _ if batch.events.len() >= take.limit => None,
            // What was handed out just now can be taken again, too, when its lease ends.
            next if !batch.events.is_empty() => {
                Some(next.map_or(take.lease_for, |next| next.min(take.lease_for)))
            }
            next => next,
        };
        Ok(batch)
    }

    async fn claim(&self, take: &Arc<Take>) -> Result<Batch, StoreError> {
        let (inner, asked) = (Arc::clone(&self.inner), Arc::clone(take));
        let look = inner.looks.next(Moment::now(), take.sweep);
        let claimed = self.run(
            |inner| &inner.taking,
            move |connection| {
                let query = inner
                    .query(&inner.statements.claim)
                    .bind(rows(asked.limit))
                    .bind(micros(asked.lease_for))
                    .bind(asked.owner.to_string())
                    .bind(asked.token.0)
                    .bind(micros(asked.skip_recent))
                    .bind(look.from)
                    // What others are just taking is passed by, as far as can be told; a sweep passes by nothing.
                    .bind(asked.sweep);
                Box::pin(query.fetch_all(connection))
            },
        );
        let began = Moment::now();
        let claimed = claimed.await.inspect_err(|error| {
            // How long an outage takes says nothing about looks.
            if fault::is_cancelled(error) {
                self.inner.looks.cancelled(Moment::now(), look, began.elapsed());
            }
        })?;
        if let Some(first) = claimed.first() {
            self.check_mode(first, Mode::Claims)?;
        }
        self.read(self.batch(&claimed, take.token, look))
    }

    fn batch(&self, claimed: &[PgRow], token: Token, look: Look) -> Result<Batch, sqlx::Error> {
        let Some(first) = claimed.first() else { return Ok(Batch::default()) };
        // A take that found nothing answers one row, without an event.
        let is_empty = first.try_get::<Option<i64>, _>("seq")?.is_none();
        let (events, last) = if is_empty { (Vec::new(), None) } else { in_order(claimed, token)? };
        let (now, ended_at): (Instant, Instant) = (first.try_get("now")?, first.try_get("ended_at")?);
        let took = Duration::from_micros(ended_at.micros_since(now));
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        self.inner.looks.ended(Moment::now(), look, took, count, last);
        let next_due_at: Option<Instant> = first.try_get("next_due_at")?;
        let next_due_in = next_due_at.map(|next| Duration::from_micros(next.micros_since(now)));
        // What a look that did not begin at the beginning missed is found by the next that does.
        let next_due_in = next_due_in.into_iter().chain(look.whole_in).min();
        Ok(Batch { events, next_due_in })
    }

    /// Takes leases that end too late, as if they had ended.
    async fn sweep(&self, take: &Arc<Take>, limit: usize) -> Result<Vec<Taken>, StoreError> {
        let (inner, asked) = (Arc::clone(&self.inner), Arc::clone(take));
        let swept = self.run(
            |inner| &inner.taking,
            move |connection| {
                let query = inner
                    .query(&inner.statements.sweep)
                    .bind(rows(limit))
                    .bind(micros(asked.lease_for))
                    .bind(asked.owner.to_string())
                    .bind(asked.token.0);
                Box::pin(query.fetch_all(connection))
            },
        );
        let swept = swept.await?;
        let swept = in_order(&swept, take.token).map_err(|error| self.inner.line.place.store(error))?;
        Ok(swept.0)
    }

    pub(crate) async fn find_written(
        &self,
        token: Token,
        event_ids: &[String],
    ) -> Result<Vec<Found>, StoreError> {
        let tokens: Vec<i64> = event_ids.iter().map(|id| token.of_event(id).0).collect();
        let (inner, asked) = (Arc::clone(&self.inner), Arc::new((event_ids.to_vec(), tokens)));
        let rows = self.run(
            |inner| &inner.hot,
            move |connection| {
                let query = inner.query(&inner.statements.read_back).bind(&asked.0).bind(&asked.1);
                Box::pin(query.fetch_all(connection))
            },
        );
        let found = rows.await?.iter().map(found).collect::<Result<_, _>>();
        found.map_err(|error| self.inner.line.place.store(error))
    }
}

/// Taken rows, the earliest available first, and when the last one became so. RETURNING promises no order.
fn in_order(rows: &[PgRow], token: Token) -> Result<(Vec<Taken>, Option<Instant>), sqlx::Error> {
    let mut ranked = rows
        .iter()
        .map(|row| Ok((row.try_get("was_available_at")?, taken(row, token)?)))
        .collect::<Result<Vec<(Instant, Taken)>, sqlx::Error>>()?;
    ranked.sort_by_key(|(available_at, taken)| (*available_at, taken.lease.seq));
    let last = ranked.last().map(|(available_at, _)| *available_at);
    Ok((ranked.into_iter().map(|(_, taken)| taken).collect(), last))
}

fn found(row: &PgRow) -> Result<Found, sqlx::Error> {
    Ok(Found {
        event_id: row.try_get("event_id")?,
        seq: row.try_get("seq")?,
        created_at: row.try_get::<Instant, _>("created_at")?.into(),
    })
}
