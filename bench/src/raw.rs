//! What a careful engineer would write by hand: the limit that everything is measured against.

use anyhow::{Result, ensure};
use sqlx::{Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::database::{AGGREGATE, EVENT, payload};

/// How many events the loop takes and settles at a time.
pub(crate) const BATCH: usize = 100;

/// An event as the loop reads it: number, id, types, aggregate, key, headers, attempts and payload.
pub(crate) type Claimed =
    (i64, String, String, String, Option<String>, Option<String>, Option<String>, i64, Option<String>);

/// Begins a transaction that may write.
pub(crate) async fn begin(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>> {
    Ok(pool.begin_with("BEGIN IMMEDIATE").await?)
}

/// Inserts the event of order `number`.
pub(crate) async fn insert(connection: &mut SqliteConnection, number: usize) -> Result<String> {
    let (id, order) = (format!("{number:026}"), format!("order-{number}"));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    sqlx::query(include_str!("sql/insert.sql"))
        .bind(&id)
        .bind(EVENT)
        .bind(AGGREGATE)
        .bind(&order)
        .bind(&order)
        .bind(i64::try_from(now.as_micros())?)
        .bind(payload(number))
        .execute(connection)
        .await?;
    Ok(id)
}

/// Claims up to `limit` events in one statement.
pub(crate) async fn claim(
    connection: &mut SqliteConnection,
    token: i64,
    limit: usize,
) -> Result<Vec<Claimed>> {
    let claimed = sqlx::query_as(include_str!("sql/claim.sql"))
        .bind(300_000_000_i64)
        .bind("by hand")
        .bind(token)
        .bind(i64::try_from(limit)?)
        .fetch_all(connection)
        .await?;
    Ok(claimed)
}

/// Claims, delivers to nobody, and settles, until `count` events are done.
pub(crate) async fn drain(pool: &SqlitePool, count: usize) -> Result<()> {
    let mut connection = pool.acquire().await?;
    let (mut done, mut token) = (0, 0);
    while done < count {
        token += 1;
        let claimed = claim(&mut connection, token, BATCH).await?;
        ensure!(!claimed.is_empty(), "only {done} of {count} events were there");
        done += settle(&mut connection, token, &claimed).await?;
    }
    Ok(())
}

async fn settle(connection: &mut SqliteConnection, token: i64, claimed: &[Claimed]) -> Result<usize> {
    let numbers: Vec<i64> = claimed.iter().map(|event| event.0).collect();
    let settled = sqlx::query(include_str!("sql/settle.sql"))
        .bind(serde_json::to_string(&numbers)?)
        .bind(token)
        .execute(connection)
        .await?;
    Ok(usize::try_from(settled.rows_affected())?)
}
