//! What is stored of handlers, and changing it.

use std::collections::HashSet;
use std::sync::Arc;

use pillarbox::store::{Mode, Progress, Revision, Selection, StoreError, handler_needle};
use pillarbox_sql::rows;
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::replay;
use crate::SqliteStore;
use crate::fault::Fault;
use crate::row::{event_id, lossy, span};
use crate::statements::Statements;

impl SqliteStore {
    pub(super) async fn handlers_progress(
        &self,
        handler: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Progress>, StoreError> {
        let query = sqlx::query(match self.mode().await? {
            Mode::Claims => self.inner.statements.progress.clone(),
            Mode::Ownership => self.inner.statements.progress_owned.clone(),
        });
        let query = query.bind(handler.map(handler_needle).unwrap_or_default()).bind(rows(limit));
        let found =
            self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await })).await?;
        let progress = found.iter().map(progress).collect::<Result<_, _>>();
        progress.map_err(|error| Fault::of(&self.inner.path).store(error))
    }

    pub(super) async fn revise_handlers(&self, revisions: &[Revision]) -> Result<Vec<i64>, StoreError> {
        if revisions.is_empty() {
            return Ok(Vec::new());
        }
        let (inner, revisions) = (Arc::clone(&self.inner), revisions.to_vec());
        let revised = self.write(move |connection| {
            Box::pin(async move { revise(connection, &inner.statements, &revisions).await })
        });
        revised.await
    }
}

/// Changes what is as it was told, and replays of that what is to be.
async fn revise(
    connection: &mut SqliteConnection,
    statements: &Statements,
    revisions: &[Revision],
) -> Result<Vec<i64>, sqlx::Error> {
    let told =
        revisions.iter().map(|Revision { seq, event_id, from, to, .. }| json!([seq, event_id, from, to]));
    let query = sqlx::query_scalar(statements.revise.clone()).bind(Value::from_iter(told).to_string());
    let revised: Vec<i64> = query.fetch_all(&mut *connection).await?;
    let changed: HashSet<i64> = revised.iter().copied().collect();
    let replayed = revisions.iter().filter(|revision| revision.replays && changed.contains(&revision.seq));
    let replayed: Vec<String> = replayed.map(|revision| revision.event_id.clone()).collect();
    if !replayed.is_empty() {
        replay(connection, statements, &Selection::Ids(replayed)).await?;
    }
    Ok(revised)
}

fn progress(row: &SqliteRow) -> Result<Progress, sqlx::Error> {
    Ok(Progress {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        is_dead: row.try_get("is_dead")?,
        is_leased: row.try_get("is_leased")?,
        written_ago: span(row, "written_ago")?,
        handlers: lossy(row, "handlers")?.unwrap_or_default(),
    })
}
