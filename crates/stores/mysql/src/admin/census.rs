//! Who takes part, who owns which partition, and what waits in each.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Census, Epoch, Mode, Registration, StoreError, Tenancy};
use pillarbox_sql::census::{self, Waiting, unreadable};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, Row, SqlSafeStr};

use crate::MySqlStore;
use crate::lane::COMMIT;
use crate::mode::Stored;
use crate::row::wait;
use crate::statements::Statements;

/// The level at which a transaction reads from one snapshot.
const BEGIN: &str = include_str!("census/snapshot.sql");

impl MySqlStore {
    pub(super) async fn take_census(&self) -> Result<Census, StoreError> {
        let inner = Arc::clone(&self.inner);
        let census = self.run(
            |inner| &inner.operating,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move {
                    connection.execute(BEGIN.into_sql_str()).await?;
                    let census = take(connection, &inner.statements).await?;
                    connection.execute(COMMIT.into_sql_str()).await?;
                    Ok(census)
                })
            },
        );
        self.in_mode(Mode::Ownership, census.await).await
    }
}

async fn take(connection: &mut MySqlConnection, statements: &Statements) -> Result<Census, sqlx::Error> {
    let mode = sqlx::query_scalar::<_, String>(statements.mode.clone());
    let mode = match Stored::read(mode.fetch_optional(&mut *connection).await?.as_deref())? {
        Stored::Is(mode) => mode,
        // Until that is done nobody joins, and nobody owns.
        Stored::Becomes(_) => Mode::Claims,
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
    Ok(census)
}

fn registration(row: &MySqlRow) -> Result<Registration, sqlx::Error> {
    let listed = census::listed(row.try_get("owner")?, row.try_get("incarnation")?, row.try_get("mode")?);
    let (owner, mode) = listed.map_err(unreadable)?;
    Ok(Registration {
        owner,
        mode,
        joined_ago: wait(row, "joined_ago")?.unwrap_or_default(),
        silent_for: wait(row, "silent_for")?.unwrap_or_default(),
        is_alive: row.try_get::<i64, _>("is_alive")? != 0,
    })
}

fn tenancy(row: &MySqlRow) -> Result<Tenancy, sqlx::Error> {
    let owner = census::tenant(row.try_get("owner")?, row.try_get("incarnation")?);
    Ok(Tenancy {
        partition: row.try_get("event_partition")?,
        owner: owner.map_err(unreadable)?,
        is_held: row.try_get::<i64, _>("is_held")? != 0,
        epoch: Epoch(row.try_get("epoch")?),
        ..Tenancy::default()
    })
}

fn waiting(row: &MySqlRow) -> Result<Waiting, sqlx::Error> {
    // Negative, if even the oldest is to come; none, if its time cannot be read.
    let oldest: Option<i64> = row.try_get("oldest_due_for")?;
    Ok(Waiting {
        partition: row.try_get("event_partition")?,
        fresh: number(row, "fresh")?,
        aside: number(row, "aside")?,
        oldest_due_for: oldest.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros),
    })
}

fn number(row: &MySqlRow, name: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(name).map(i64::unsigned_abs)
}
