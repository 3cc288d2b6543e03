//! One run of the demo, as the database knows it.

use std::collections::HashSet;

use anyhow::Context;
use pillarbox::store::{Administration, StoreError};
use pillarbox_sqlite::SqliteStore;
use sqlx::{Row, SqlitePool};

use crate::database::{SqliteFile, explain};
use crate::exit::Unusable;

/// One run of the demo. Several runs can share a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) number: i64,
    pub(super) seed: u64,
    pub(super) events: u64,
}

impl Run {
    /// Begins a new run in a file that is new, or was made by the demo.
    pub(super) async fn begin(
        store: &SqliteStore,
        file: &SqliteFile,
        seed: u64,
        events: u64,
    ) -> anyhow::Result<Self> {
        let highest = match store.check().await {
            Ok(_) => store.highest().await?,
            Err(StoreError::NotMigrated) => 0,
            Err(error) => return Err(explain(error, &file.name())),
        };
        let pool = store.pool();
        let has_table = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)";
        let is_there = |name| sqlx::query_scalar::<_, bool>(has_table).bind(name).fetch_one(pool);
        let is_ours = is_there("demo_run").await?;
        if !is_ours && (highest > 0 || is_there("orders").await?) {
            return Err(Unusable(format!(
                "`{}` has events or orders that are not the demo's, and the demo would deliver them to nobody; \
                 give a new file",
                file.name()
            ))
            .into());
        }
        store.migrate().await?;
        sqlx::raw_sql(include_str!("tables.sql")).execute(pool).await?;
        let insert = "INSERT INTO demo_run (seed, events) VALUES (?1, ?2) RETURNING run";
        let number = sqlx::query_scalar(insert).bind(seed as i64).bind(events as i64).fetch_one(pool).await?;
        Ok(Self { number, seed, events })
    }

    /// The run with this number, begun by another process.
    pub(super) async fn find(store: &SqliteStore, number: i64) -> anyhow::Result<Self> {
        let select = "SELECT seed, events FROM demo_run WHERE run = ?1";
        let row = sqlx::query(select).bind(number).fetch_optional(store.pool()).await?;
        let row = row.with_context(|| format!("the demo has no run {number}"))?;
        Ok(Self { number, seed: row.get::<i64, _>(0) as u64, events: row.get::<i64, _>(1) as u64 })
    }

    /// The numbers of the orders that were committed.
    pub(super) async fn placed(&self, pool: &SqlitePool) -> anyhow::Result<HashSet<u64>> {
        let select = "SELECT number FROM orders WHERE run = ?1";
        let numbers: Vec<i64> = sqlx::query_scalar(select).bind(self.number).fetch_all(pool).await?;
        Ok(numbers.into_iter().map(|number| number as u64).collect())
    }

    /// How many events of this run are still pending.
    pub(super) async fn unsettled(&self, pool: &SqlitePool) -> anyhow::Result<i64> {
        Ok(sqlx::query_scalar(include_str!("unsettled.sql")).bind(self.number).fetch_one(pool).await?)
    }
}
