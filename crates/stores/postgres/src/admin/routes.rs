//! Routes that are paused, and what waits for them.

use pillarbox::store::{Mode, PausedRoute, StoreError};
use pillarbox_sql::rows;
use sqlx::Row;

use crate::PostgresStore;

impl PostgresStore {
    pub(super) async fn list_paused(&self) -> Result<Vec<PausedRoute>, StoreError> {
        let listed =
            self.rows(|inner| &inner.operating, |inner| inner.query(&inner.statements.paused_routes)).await?;
        let paused = listed
            .iter()
            .map(|row| Ok(PausedRoute::stored(row.try_get("route")?, row.try_get("since")?)))
            .collect();
        self.read(paused)
    }

    pub(super) async fn pause(&self, route: &str) -> Result<bool, StoreError> {
        let route = route.to_owned();
        let paused = self.execute(
            |inner| &inner.operating,
            move |inner| inner.query(&inner.statements.pause_route).bind(route.clone()),
        );
        Ok(paused.await? > 0)
    }

    pub(super) async fn end_pause(&self, route: &str) -> Result<bool, StoreError> {
        let route = route.to_owned();
        let resumed = self.execute(
            |inner| &inner.operating,
            move |inner| inner.query(&inner.statements.resume_route).bind(route.clone()),
        );
        Ok(resumed.await? > 0)
    }

    /// By the indexes of the mode that the table has.
    pub(super) async fn recall_waiting(&self, reason: &str, limit: usize) -> Result<u64, StoreError> {
        let (mode, reason) = (self.look_at_mode().await?, reason.to_owned());
        self.execute(
            |inner| &inner.operating,
            move |inner| {
                let statement = match mode {
                    Mode::Claims => &inner.statements.recall,
                    Mode::Ownership => &inner.statements.recall_owned,
                };
                inner.query(statement).bind(reason.clone()).bind(rows(limit))
            },
        )
        .await
    }
}
