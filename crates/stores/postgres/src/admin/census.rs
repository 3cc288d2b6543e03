//! Who takes part, who owns which partition, and what waits in each.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Census, Epoch, Mode, Registration, StoreError, Tenancy};
use pillarbox_sql::census::{self, Waiting, unreadable};
use pillarbox_sql::members;
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::PostgresStore;
use crate::lane::Manner;
use crate::row::partition;
use crate::store::Inner;
use crate::time::Instant;

impl PostgresStore {
    pub(super) async fn take_census(&self) -> Result<Census, StoreError> {
        let inner = Arc::clone(&self.inner);
        let census = self.steps(
            |inner| &inner.operating,
            Manner::Together,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move { take(&inner, connection).await })
            },
        );
        census.await?
    }
}

async fn take(
    inner: &Inner,
    connection: &mut PgConnection,
) -> Result<Result<Census, StoreError>, sqlx::Error> {
    let statements = &inner.statements;
    sqlx::raw_sql(statements.census_snapshot.clone()).execute(&mut *connection).await?;
    let mode = inner.query(&statements.census_mode).fetch_one(&mut *connection).await?;
    let mode = match members::mode(Some(mode.try_get("mode")?)) {
        Ok(mode) => mode,
        Err(unknown) => return Ok(Err(unknown)),
    };
    let instances = inner.query(&statements.census_instances).fetch_all(&mut *connection).await?;
    let mut instances = instances.iter().map(registration).collect::<Result<Vec<_>, _>>()?;
    instances.sort_by(|one, other| one.owner.cmp(&other.owner));
    let mut census = Census { mode, instances, ..Census::default() };
    if mode == Mode::Ownership {
        let leases = inner.query(&statements.census_leases).fetch_all(&mut *connection).await?;
        census.partitions = leases.iter().map(tenancy).collect::<Result<_, _>>()?;
        let pending = inner.query(&statements.census_pending).fetch_all(&mut *connection).await?;
        for row in &pending {
            census::count(&mut census, waiting(row)?);
        }
        let keys = inner.query(&statements.census_keys).fetch_one(connection).await?;
        census.blocked_keys = number(&keys, "held")? + number(&keys, "parked_alone")?;
        census.parked_keys = number(&keys, "parked")?;
    }
    Ok(Ok(census))
}

fn registration(row: &PgRow) -> Result<Registration, sqlx::Error> {
    let listed = census::listed(row.try_get("name")?, row.try_get("incarnation")?, row.try_get("mode")?);
    let (owner, mode) = listed.map_err(unreadable)?;
    let now: Instant = row.try_get("now")?;
    let since = |column| row.try_get(column).map(|at: Instant| Duration::from_micros(now.micros_since(at)));
    Ok(Registration {
        owner,
        mode,
        joined_ago: since("joined_at")?,
        silent_for: since("seen_at")?,
        is_alive: row.try_get("is_alive")?,
    })
}

fn tenancy(row: &PgRow) -> Result<Tenancy, sqlx::Error> {
    let owner = census::tenant(row.try_get("owner_name")?, row.try_get("owner_incarnation")?);
    Ok(Tenancy {
        partition: partition(row)?.unwrap_or_default(),
        owner: owner.map_err(unreadable)?,
        is_held: row.try_get("is_held")?,
        epoch: Epoch(row.try_get("epoch")?),
        ..Tenancy::default()
    })
}

fn waiting(row: &PgRow) -> Result<Waiting, sqlx::Error> {
    let (now, oldest): (Instant, Instant) = (row.try_get("now")?, row.try_get("oldest_due_at")?);
    Ok(Waiting {
        // A number that is no partition passes for none: a census shows what is wrong, and does not fail of it.
        partition: row
            .try_get::<Option<i16>, _>("event_partition")?
            .and_then(|number| number.try_into().ok()),
        fresh: number(row, "fresh")?,
        aside: number(row, "aside")?,
        oldest_due_for: (oldest <= now).then(|| Duration::from_micros(now.micros_since(oldest))),
    })
}

fn number(row: &PgRow, name: &str) -> Result<u64, sqlx::Error> {
    row.try_get::<i64, _>(name).map(i64::unsigned_abs)
}
