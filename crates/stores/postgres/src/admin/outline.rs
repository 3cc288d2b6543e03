//! Events without what they carry.

use pillarbox::store::{Outline, Page, StoreError};
use pillarbox_sql::rows;

use crate::PostgresStore;
use crate::row::outline;
use crate::store::{Inner, Query};

impl PostgresStore {
    pub(super) async fn page_of_outlines(&self, page: Page) -> Result<Vec<Outline>, StoreError> {
        self.list_outlines(move |inner| {
            inner.query(&inner.statements.outlines).bind(page.after).bind(rows(page.limit))
        })
        .await
    }

    pub(super) async fn outlines_with(&self, numbers: &[i64]) -> Result<Vec<Outline>, StoreError> {
        let numbers = numbers.to_owned();
        self.list_outlines(move |inner| inner.query(&inner.statements.outlines_of).bind(numbers.clone()))
            .await
    }

    async fn list_outlines(
        &self,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<Vec<Outline>, StoreError> {
        let listed = self.rows(|inner| &inner.operating, query).await?;
        self.read(listed.iter().map(outline).collect())
    }
}
