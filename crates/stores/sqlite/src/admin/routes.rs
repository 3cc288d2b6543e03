//! Routes that are paused, and what waits for them.

use pillarbox::store::{Mode, PausedRoute, StoreError};
use pillarbox_sql::rows;
use sqlx::Row;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};

use crate::SqliteStore;
use crate::fault::Fault;

impl SqliteStore {
    pub(super) async fn list_paused(&self) -> Result<Vec<PausedRoute>, StoreError> {
        let query = sqlx::query(self.inner.statements.paused_routes.clone());
        let listed =
            self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await })).await?;
        let paused =
            listed.iter().map(|row| Ok(PausedRoute::stored(row.try_get("route")?, row.try_get("since")?)));
        paused.collect::<Result<_, _>>().map_err(|error| Fault::of(&self.inner.path).store(error))
    }

    pub(super) async fn pause(&self, route: &str) -> Result<bool, StoreError> {
        let query = sqlx::query(self.inner.statements.pause_route.clone());
        Ok(self.change(query.bind(route.to_owned())).await? > 0)
    }

    pub(super) async fn end_pause(&self, route: &str) -> Result<bool, StoreError> {
        let query = sqlx::query(self.inner.statements.resume_route.clone());
        Ok(self.change(query.bind(route.to_owned())).await? > 0)
    }

    /// By the indexes of the mode that the table has.
    pub(super) async fn recall_waiting(&self, reason: &str, limit: usize) -> Result<u64, StoreError> {
        let statement = match self.mode().await? {
            Mode::Claims => self.inner.statements.recall.clone(),
            Mode::Ownership => self.inner.statements.recall_owned.clone(),
        };
        self.change(sqlx::query(statement).bind(reason.to_owned()).bind(rows(limit))).await
    }

    async fn change(&self, query: Query<'static, Sqlite, SqliteArguments>) -> Result<u64, StoreError> {
        let changed = self.write(move |connection| Box::pin(async move { query.execute(connection).await }));
        Ok(changed.await?.rows_affected())
    }
}
