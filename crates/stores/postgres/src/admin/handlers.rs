//! What is stored of handlers, and changing it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Mode, Progress, Revision, StoreError, handler_needle};
use pillarbox_sql::rows;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::PostgresStore;
use crate::store::Inner;
use crate::time::Instant;

impl PostgresStore {
    pub(super) async fn handlers_progress(
        &self,
        handler: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Progress>, StoreError> {
        let mode = self.look_at_mode().await?;
        let needle = handler.map(handler_needle).unwrap_or_default();
        let found = self.rows(
            |inner| &inner.operating,
            move |inner| {
                let statement = match mode {
                    Mode::Claims => &inner.statements.progress,
                    Mode::Ownership => &inner.statements.progress_owned,
                };
                inner.query(statement).bind(needle.clone()).bind(rows(limit))
            },
        );
        self.read(found.await?.iter().map(progress).collect())
    }

    pub(super) async fn revise_handlers(&self, revisions: &[Revision]) -> Result<Vec<i64>, StoreError> {
        if revisions.is_empty() {
            return Ok(Vec::new());
        }
        let mut revisions = revisions.to_vec();
        // Rows are locked in this order by all, so that no two lock each other out.
        revisions.sort_by_key(|revision| revision.seq);
        let replays = revisions.iter().any(|revision| revision.replays);
        let (inner, revisions) = (Arc::clone(&self.inner), Arc::new(revisions));
        self.step(
            |inner| &inner.operating,
            replays,
            move |connection| {
                let (inner, revisions) = (Arc::clone(&inner), Arc::clone(&revisions));
                Box::pin(async move { revise(&inner, connection, &revisions).await })
            },
        )
        .await
    }
}

/// Changes what is as it was told, and replays of that what is to be.
async fn revise(
    inner: &Inner,
    connection: &mut PgConnection,
    revisions: &[Revision],
) -> Result<Vec<i64>, sqlx::Error> {
    let numbers: Vec<i64> = revisions.iter().map(|revision| revision.seq).collect();
    let texts =
        |of: fn(&Revision) -> &String| revisions.iter().map(|revision| of(revision).clone()).collect();
    let [ids, was, becomes]: [Vec<String>; 3] = [
        texts(|revision| &revision.event_id),
        texts(|revision| &revision.from),
        texts(|revision| &revision.to),
    ];
    let query = inner.query(&inner.statements.revise).bind(numbers).bind(ids).bind(was).bind(becomes);
    let revised = query.fetch_all(&mut *connection).await?;
    let revised: Vec<i64> = revised.iter().map(|row| row.try_get("seq")).collect::<Result<_, _>>()?;
    let changed: HashSet<i64> = revised.iter().copied().collect();
    let replayed = revisions.iter().filter(|revision| revision.replays && changed.contains(&revision.seq));
    let replayed: Vec<String> = replayed.map(|revision| revision.event_id.clone()).collect();
    if !replayed.is_empty() {
        inner.query(&inner.statements.replay_ids).bind(replayed).execute(connection).await?;
    }
    Ok(revised)
}

fn progress(row: &PgRow) -> Result<Progress, sqlx::Error> {
    let now: Instant = row.try_get("now")?;
    Ok(Progress {
        seq: row.try_get("seq")?,
        event_id: row.try_get("event_id")?,
        is_dead: row.try_get("is_dead")?,
        is_leased: row.try_get("is_leased")?,
        written_ago: Duration::from_micros(now.micros_since(row.try_get("created_at")?)),
        handlers: row.try_get("handlers")?,
    })
}
