//! What is stored of handlers, and changing it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::store::{Progress, Revision, Selection, Status, StoreError, handler_needle};
use pillarbox_sql::rows;
use serde_json::{Value, json};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Row, SqlStr};

use super::replay;
use crate::MySqlStore;
use crate::fault;
use crate::row::{event_id, lossy, wait};
use crate::statements::{MOST_LISTED, Statements, bind_list};

impl MySqlStore {
    pub(super) async fn handlers_progress(
        &self,
        handler: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Progress>, StoreError> {
        let needle = handler.map(handler_needle).unwrap_or_default();
        let mut found = self.pending_progress(&needle, limit).await?;
        let left = limit.saturating_sub(found.len());
        if left > 0 {
            found.extend(self.progress_by(&self.inner.statements.progress_dead, &needle, left).await?);
        }
        Ok(found)
    }

    /// Looks by the indexes of one mode, and by those of the other if they are missing.
    async fn pending_progress(&self, needle: &str, limit: usize) -> Result<Vec<Progress>, StoreError> {
        let Statements { progress_pending, progress_by_partition, .. } = &self.inner.statements;
        let is_by_partition = self.inner.is_by_partition.load(Ordering::Relaxed);
        let (likely, other) = match is_by_partition {
            true => (progress_by_partition, progress_pending),
            false => (progress_pending, progress_by_partition),
        };
        match self.progress_by(likely, needle, limit).await {
            Err(error) if fault::is_missing_index(&error) => {
                let found = self.progress_by(other, needle, limit).await?;
                self.inner.is_by_partition.store(!is_by_partition, Ordering::Relaxed);
                Ok(found)
            }
            found => found,
        }
    }

    async fn progress_by(
        &self,
        statement: &SqlStr,
        needle: &str,
        limit: usize,
    ) -> Result<Vec<Progress>, StoreError> {
        let (statement, needle) = (statement.clone(), needle.to_owned());
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(statement.clone()).bind(needle.clone()).bind(rows(limit));
                Box::pin(async move { query.fetch_all(connection).await?.iter().map(progress).collect() })
            },
        )
        .await
    }

    pub(super) async fn revise_handlers(&self, revisions: &[Revision]) -> Result<Vec<i64>, StoreError> {
        if revisions.is_empty() {
            return Ok(Vec::new());
        }
        let (inner, revisions) = (Arc::clone(&self.inner), Arc::<[Revision]>::from(revisions));
        self.run_together(
            |inner| &inner.operating,
            move |connection| {
                let (inner, revisions) = (Arc::clone(&inner), Arc::clone(&revisions));
                Box::pin(async move { revise(connection, &inner.statements, &revisions).await })
            },
        )
        .await
    }
}

/// Changes what is as it was told and nobody has locked, and replays of that what is to be.
async fn revise(
    connection: &mut MySqlConnection,
    statements: &Statements,
    revisions: &[Revision],
) -> Result<Vec<i64>, sqlx::Error> {
    let mut open = HashMap::new();
    let mut numbers: Vec<i64> = revisions.iter().map(|revision| revision.seq).collect();
    numbers.sort_unstable();
    for numbers in numbers.chunks(MOST_LISTED) {
        let query = bind_list(sqlx::query(statements.open_progress.of(numbers.len())), numbers);
        for row in query.fetch_all(&mut *connection).await? {
            let progress = progress(&row)?;
            open.insert(progress.seq, progress);
        }
    }
    let is_free = |Revision { seq, event_id, from, .. }: &&Revision| {
        open.get(seq).is_some_and(|is| !is.is_leased && is.event_id == *event_id && is.handlers == *from)
    };
    let mut free: Vec<&Revision> = revisions.iter().filter(is_free).collect();
    free.sort_by_key(|revision| revision.seq);
    for free in free.chunks(MOST_LISTED) {
        let told = free.iter().map(|Revision { seq, to, .. }| json!([seq, to]));
        let query = sqlx::query(statements.revise.clone()).bind(Value::from_iter(told).to_string());
        query.execute(&mut *connection).await?;
    }
    let replayed = free.iter().filter(|revision| revision.replays);
    let replayed: Vec<String> = replayed.map(|revision| revision.event_id.clone()).collect();
    if !replayed.is_empty() {
        replay(connection, statements, &Selection::Ids(replayed)).await?;
    }
    Ok(free.iter().map(|revision| revision.seq).collect())
}

fn progress(row: &MySqlRow) -> Result<Progress, sqlx::Error> {
    Ok(Progress {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        is_dead: Status::from_code(row.try_get("status")?) == Some(Status::Dead),
        is_leased: row.try_get::<i64, _>("is_leased")? != 0,
        written_ago: wait(row, "written_ago")?.unwrap_or_default(),
        handlers: lossy(row, "handlers")?.unwrap_or_default(),
    })
}
