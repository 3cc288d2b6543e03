//! Routes that are paused, and what waits for them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pillarbox::store::{PausedRoute, StoreError};
use pillarbox_sql::rows;
use sqlx::mysql::MySqlRow;
use sqlx::{Row, SqlStr};

use crate::MySqlStore;
use crate::fault;
use crate::row::lossy;
use crate::statements::{MOST_LISTED, bind_list};

/// All partitions, as they are bound.
const PARTITIONS: [i64; 256] = {
    let mut all = [0; 256];
    let mut partition = 0;
    while partition < 256 {
        all[partition] = partition as i64;
        partition += 1;
    }
    all
};

impl MySqlStore {
    pub(super) async fn list_paused(&self) -> Result<Vec<PausedRoute>, StoreError> {
        let statement = self.inner.statements.paused_routes.clone();
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(statement.clone());
                Box::pin(async move { query.fetch_all(connection).await?.iter().map(paused).collect() })
            },
        )
        .await
    }

    pub(super) async fn pause(&self, route: &str) -> Result<bool, StoreError> {
        Ok(self.change_route(&self.inner.statements.pause_route, route).await? > 0)
    }

    pub(super) async fn end_pause(&self, route: &str) -> Result<bool, StoreError> {
        Ok(self.change_route(&self.inner.statements.resume_route, route).await? > 0)
    }

    async fn change_route(&self, statement: &SqlStr, route: &str) -> Result<u64, StoreError> {
        let (statement, route) = (statement.clone(), route.to_owned());
        let changed = self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(statement.clone()).bind(route.clone());
                Box::pin(async move { query.execute(connection).await })
            },
        );
        Ok(changed.await?.rows_affected())
    }

    /// Looks for what waits without a lock, and then locks just that.
    pub(super) async fn recall_waiting(&self, reason: &str, limit: usize) -> Result<u64, StoreError> {
        let numbers = self.waiting(reason, limit.min(MOST_LISTED)).await?;
        if numbers.is_empty() {
            return Ok(0);
        }
        let (inner, reason) = (Arc::clone(&self.inner), reason.to_owned());
        let recalled = self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = sqlx::query(inner.statements.recall.of(numbers.len()));
                let query = bind_list(query, &numbers).bind(reason.clone());
                Box::pin(async move { query.execute(connection).await })
            },
        );
        Ok(recalled.await?.rows_affected())
    }

    /// Looks by the indexes of one mode, and by those of the other if they are missing.
    async fn waiting(&self, reason: &str, limit: usize) -> Result<Vec<i64>, StoreError> {
        let is_by_partition = self.inner.is_by_partition.load(Ordering::Relaxed);
        match self.waiting_by(is_by_partition, reason, limit).await {
            Err(error) if fault::is_missing_index(&error) => {
                let found = self.waiting_by(!is_by_partition, reason, limit).await?;
                self.inner.is_by_partition.store(!is_by_partition, Ordering::Relaxed);
                Ok(found)
            }
            found => found,
        }
    }

    async fn waiting_by(
        &self,
        is_by_partition: bool,
        reason: &str,
        limit: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let (inner, reason) = (Arc::clone(&self.inner), reason.to_owned());
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = match is_by_partition {
                    true => {
                        let statement = inner.statements.waiting_by_partition.of(PARTITIONS.len());
                        bind_list(sqlx::query(statement), &PARTITIONS)
                    }
                    false => sqlx::query(inner.statements.waiting.clone()),
                };
                let query = query.bind(reason.clone()).bind(rows(limit));
                Box::pin(async move { query.fetch_all(connection).await?.iter().map(number).collect() })
            },
        )
        .await
    }
}

fn paused(row: &MySqlRow) -> Result<PausedRoute, sqlx::Error> {
    let (route, since) = (lossy(row, "route")?, lossy(row, "since")?);
    Ok(PausedRoute::stored(route.unwrap_or_default(), &since.unwrap_or_default()))
}

fn number(row: &MySqlRow) -> Result<i64, sqlx::Error> {
    row.try_get("seq")
}
