//! Owned partitions by hand.

use anyhow::Result;
use pillarbox::store::{DoneRows, Mode};
use pillarbox_mysql::MySqlStore;
use sqlx::MySqlConnection;

use super::{MySqlServer, for_numbers};
use crate::database::{Address, Claimed, Database};
use crate::owned::Owned;

impl Owned for MySqlServer {
    async fn migrate_to(store: &MySqlStore, mode: Mode) -> Result<()> {
        store.migrate_to(mode).await?;
        Ok(())
    }

    async fn own(connection: &mut MySqlConnection) -> Result<()> {
        sqlx::query(include_str!("own.sql")).execute(connection).await?;
        Ok(())
    }

    async fn read_run(
        connection: &mut MySqlConnection,
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
        connection: &mut MySqlConnection,
        partition: u8,
        run: &[Claimed],
        done: DoneRows,
    ) -> Result<u64> {
        let statement = match done {
            DoneRows::Keep => include_str!("finish.sql"),
            DoneRows::Delete => include_str!("finish_deleting.sql"),
        };
        for_numbers(connection, statement, i64::from(partition), run).await
    }

    async fn shares(address: &Address) -> Result<Vec<u64>> {
        let pool = Self::pool(address).await?;
        let shares: Vec<i64> = sqlx::query_scalar(include_str!("shares.sql")).fetch_all(&pool).await?;
        pool.close().await;
        Ok(shares.into_iter().map(u64::try_from).collect::<Result<_, _>>()?)
    }

    async fn fresh(address: &Address) -> Result<u64> {
        count(address, "SELECT count(*) FROM outbox_event WHERE status = 0").await
    }

    async fn done(address: &Address) -> Result<u64> {
        count(address, "SELECT count(*) FROM outbox_event WHERE status = 1").await
    }
}

async fn count(address: &Address, statement: &'static str) -> Result<u64> {
    let pool = MySqlServer::pool(address).await?;
    let count: i64 = sqlx::query_scalar(statement).fetch_one(&pool).await?;
    pool.close().await;
    Ok(count.try_into()?)
}
