//! Who takes part, who owns which partition, and what waits in each.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Census, Epoch, Mode, Registration, StoreError, Tenancy};
use pillarbox_sql::census::{self, Waiting, unreadable};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Connection, Row};

use crate::SqliteStore;
use crate::mode;
use crate::row::span;
use crate::statements::Statements;

impl SqliteStore {
    pub(super) async fn take_census(&self) -> Result<Census, StoreError> {
        let inner = Arc::clone(&self.inner);
        let census = self.read(move |connection| {
            Box::pin(async move {
                // A transaction reads from one snapshot.
                let mut tx = connection.begin().await?;
                let census = take(&mut tx, &inner.statements).await?;
                tx.commit().await?;
                Ok(census)
            })
        });
        census.await?
    }
}

async fn take(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<Result<Census, StoreError>, sqlx::Error> {
    let mode = match mode::stored(connection, statements).await? {
        Ok(mode) => mode,
        Err(unknown) => return Ok(Err(unknown)),
    };
    let instances = sqlx::query(statements.census_instances.clone()).fetch_all(&mut *connection).await?;
    let mut instances = instances.iter().map(registration).collect::<Result<Vec<_>, _>>()?;
    instances.sort_by(|one, other| one.owner.cmp(&other.owner));
    let mut census = Census { mode, instances, ..Census::default() };
    if mode == Mode::Ownership {
        let leases = sqlx::query(statements.census_leases.clone()).fetch_all(&mut *connection).await?;
        census.partitions = leases.iter().map(tenancy).collect::<Result<_, _>>()?;
        let pending = sqlx::query(statements.census_pending.clone()).fetch_all(&mut *connection).await?;
        for row in &pending {
            census::count(&mut census, waiting(row)?);
        }
        let keys = sqlx::query(statements.census_keys.clone()).fetch_one(connection).await?;
        census.blocked_keys = number(&keys, "held")? + number(&keys, "parked_alone")?;
        census.parked_keys = number(&keys, "parked")?;
    }
    Ok(Ok(census))
}

fn registration(row: &SqliteRow) -> Result<Registration, sqlx::Error> {
    let listed = census::listed(row.try_get("name")?, row.try_get("incarnation")?, row.try_get("mode")?);
    let (owner, mode) = listed.map_err(unreadable)?;
    Ok(Registration {
        owner,
        mode,
        joined_ago: span(row, "joined_ago")?,
        silent_for: span(row, "silent_for")?,
        is_alive: row.try_get("is_alive")?,
    })
}

fn tenancy(row: &SqliteRow) -> Result<Tenancy, sqlx::Error> {
    let owner = census::tenant(row.try_get("owner_name")?, row.try_get("owner_incarnation")?);
    Ok(Tenancy {
        partition: row.try_get("event_partition")?,
        owner: owner.map_err(unreadable)?,
        is_held: row.try_get("is_held")?,
        epoch: Epoch(row.try_get("epoch")?),
        ..Tenancy::default()
    })
}

fn waiting(row: &SqliteRow) -> Result<Waiting, sqlx::Error> {
    let partition: Option<i64> = row.try_get("event_partition")?;
    // Negative, if even the oldest is to come.
    let oldest: i64 = row.try_get("oldest_due_for")?;
    Ok(Waiting {
        partition: partition.and_then(|partition| u8::try_from(partition).ok()),
        fresh: number(row, "fresh")?,
        aside: number(row, "aside")?,
        oldest_due_for: u64::try_from(oldest).ok().map(Duration::from_micros),
    })
}

fn number(row: &SqliteRow, name: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(name).map(i64::unsigned_abs)
}
