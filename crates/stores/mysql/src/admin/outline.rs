//! Events without what they carry.

use std::sync::Arc;

use pillarbox::store::{Outline, Page, StoreError};
use pillarbox_sql::rows;

use crate::MySqlStore;
use crate::row::outline;
use crate::statements::{MOST_LISTED, MySqlQuery, bind_list};

impl MySqlStore {
    pub(super) async fn page_of_outlines(&self, page: Page) -> Result<Vec<Outline>, StoreError> {
        let statement = self.inner.statements.outlines.clone();
        self.list_outlines(move || sqlx::query(statement.clone()).bind(page.after).bind(rows(page.limit)))
            .await
    }

    pub(super) async fn outlines_with(&self, numbers: &[i64]) -> Result<Vec<Outline>, StoreError> {
        let mut sorted = numbers.to_owned();
        sorted.sort_unstable();
        sorted.dedup();
        let mut outlines = Vec::new();
        for numbers in sorted.chunks(MOST_LISTED) {
            let (inner, numbers) = (Arc::clone(&self.inner), numbers.to_owned());
            let listed = self.list_outlines(move || {
                bind_list(sqlx::query(inner.statements.outlines_of.of(numbers.len())), &numbers)
            });
            outlines.extend(listed.await?);
        }
        Ok(outlines)
    }

    async fn list_outlines(
        &self,
        query: impl Fn() -> MySqlQuery<'static> + Send + Sync + 'static,
    ) -> Result<Vec<Outline>, StoreError> {
        self.run(
            |inner| &inner.operating,
            move |connection| {
                let query = query();
                Box::pin(async move { query.fetch_all(connection).await?.iter().map(outline).collect() })
            },
        )
        .await
    }
}
