//! Events without what they carry.

use pillarbox::store::{Outline, Page, StoreError};
use pillarbox_sql::rows;
use serde_json::Value;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};

use crate::SqliteStore;
use crate::fault::Fault;
use crate::row::outline;

impl SqliteStore {
    pub(super) async fn page_of_outlines(&self, page: Page) -> Result<Vec<Outline>, StoreError> {
        let query = sqlx::query(self.inner.statements.outlines.clone());
        self.list_outlines(query.bind(page.after).bind(rows(page.limit))).await
    }

    pub(super) async fn outlines_with(&self, numbers: &[i64]) -> Result<Vec<Outline>, StoreError> {
        let query = sqlx::query(self.inner.statements.outlines_of.clone());
        self.list_outlines(query.bind(Value::from(numbers).to_string())).await
    }

    async fn list_outlines(
        &self,
        query: Query<'static, Sqlite, SqliteArguments>,
    ) -> Result<Vec<Outline>, StoreError> {
        let listed =
            self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await })).await?;
        let outlines = listed.iter().map(outline).collect::<Result<_, _>>();
        outlines.map_err(|error| Fault::of(&self.inner.path).store(error))
    }
}
