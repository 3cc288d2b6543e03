//! Owned partitions by hand.

use anyhow::Result;
use pillarbox::store::{DoneRows, Mode};
use pillarbox_sqlite::SqliteStore;
use sqlx::SqliteConnection;

use super::SqliteFiles;
use crate::database::{Address, Claimed, Database};
use crate::owned::Owned;

impl Owned for SqliteFiles {
    async fn migrate_to(store: &SqliteStore, mode: Mode) -> Result<()> {
        store.migrate_to(mode).await?;
        Ok(())
    }

    async fn own(connection: &mut SqliteConnection) -> Result<()> {
        sqlx::query(include_str!("own.sql")).execute(connection).await?;
        Ok(())
    }

    async fn read_run(
        connection: &mut SqliteConnection,
        partition: u8,
        floor: i64,
        limit: usize,
    ) -> Result<Vec<Claimed>> {
        let run = sqlx::query_as(include_str!("read_run.sql"))
            .bind(partition)
            .bind(floor)
            .bind(i64::try_from(limit)?)
            .fetch_all(connection)
            .await?;
        Ok(run)
    }

    async fn finish(
        connection: &mut SqliteConnection,
        partition: u8,
        run: &[Claimed],
        done: DoneRows,
    ) -> Result<u64> {
        let statement = match done {
            DoneRows::Keep => include_str!("finish.sql"),
            DoneRows::Delete => include_str!("finish_deleting.sql"),
        };
        let numbers: Vec<i64> = run.iter().map(|event| event.0).collect();
        let query = sqlx::query(statement).bind(serde_json::to_string(&numbers)?).bind(partition);
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn shares(address: &Address) -> Result<Vec<u64>> {
        let pool = Self::pool(address).await?;
        let shares: Vec<i64> = sqlx::query_scalar(include_str!("shares.sql")).fetch_all(&pool).await?;
        pool.close().await;
        Ok(shares.into_iter().map(u64::try_from).collect::<Result<_, _>>()?)
    }

    async fn fresh(address: &Address) -> Result<u64> {
        count(address, "SELECT count(*) FROM outbox_event WHERE status NOT IN (1, 2, 3)").await
    }

    async fn done(address: &Address) -> Result<u64> {
        count(address, "SELECT count(*) FROM outbox_event WHERE status = 1").await
    }
}

async fn count(address: &Address, statement: &'static str) -> Result<u64> {
    let pool = SqliteFiles::pool(address).await?;
    let count: i64 = sqlx::query_scalar(statement).fetch_one(&pool).await?;
    pool.close().await;
    Ok(count.try_into()?)
}
