//! The mode of the table: finding it out, and changing it.

use std::sync::Arc;

use pillarbox::store::{Instance, Mode, StoreError};
use pillarbox_sql::members::{self, incarnation};
use sqlx::postgres::PgConnection;
use sqlx::{Row, SqlStr};

use crate::PostgresStore;
use crate::fault;
use crate::lane::Manner;
use crate::migration::{session, watched};
use crate::owned;
use crate::store::Inner;

/// The indexes that belong to one mode, first that of `claims`. To be dropped they are named with their schema, to be made
/// they are not.
const INDEXES: [&str; 5] = [
    "outbox_event_pending",
    "outbox_event_numbers",
    "outbox_event_aside",
    "outbox_event_held",
    "outbox_event_unplaced",
];

/// The indexes that belong to `mode`.
pub(crate) fn indexes_of(mode: Mode) -> &'static [&'static str] {
    match mode {
        Mode::Claims => &INDEXES[..1],
        Mode::Ownership => &INDEXES[1..],
    }
}

impl PostgresStore {
    /// Does what [`migrate`](Self::migrate) does, gives the outbox the mode `mode` with its indexes, and returns the
    /// version. For operators, and for relays whose role may not do it when they start.
    ///
    /// Takes the owner of the tables. All of it happens in one transaction or not at all, and writers wait for it: the
    /// table is read once for every index that is missing. It waits for transactions of others as long as
    /// `lock_timeout` says. Repeated, it makes indexes anew that somebody dropped; if all are there, nobody waits.
    ///
    /// Fails with [`StoreError::Config`] if instances of the other mode are alive, naming them, or if numbers are not
    /// given one by one (a sequence with a cache or an increment), which `ownership` needs.
    pub async fn migrate_to(&self, mode: Mode) -> Result<u32, StoreError> {
        let version = self.migrate().await?;
        let inner = Arc::clone(&self.inner);
        let changed = self.steps(
            |inner| &inner.operating,
            Manner::Patiently,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move { enter(&inner, connection, mode, None, Change::Allowed).await })
            },
        );
        match self.changed(changed.await)? {
            Ok(()) => Ok(version),
            Err(obstacle) => Err(obstacle.into()),
        }
    }

    /// The answer of a step that may have changed the mode.
    pub(crate) fn changed<T>(&self, changed: Result<T, StoreError>) -> Result<T, StoreError> {
        match changed {
            Err(error) if fault::is_lock_timeout(&error) => {
                Err(self.inner.line.place.migration_locked_out(error))
            }
            changed => changed,
        }
    }
}

/// Whether the mode may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Allowed,
    Forbidden,
}

/// Why a mode cannot be had.
pub(crate) enum Obstacle {
    /// The table has another, and it was not to be changed.
    OtherMode(Mode),
    /// What else stands in the way.
    Refused(StoreError),
}

impl From<Obstacle> for StoreError {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::OtherMode(needed) => members::wrong_mode(needed),
            Obstacle::Refused(error) => error,
        }
    }
}

/// Makes sure that the table has the mode `wanted`, for a newcomer or for an operator, and keeps everybody from joining,
/// acquiring, releasing and being heard until the transaction ends.
pub(crate) async fn enter(
    inner: &Inner,
    connection: &mut PgConnection,
    wanted: Mode,
    newcomer: Option<&Instance>,
    change: Change,
) -> Result<Result<(), Obstacle>, sqlx::Error> {
    sqlx::raw_sql(inner.statements.lock_leases.clone()).execute(&mut *connection).await?;
    let standing = Standing::look(inner, connection).await?;
    let others = of_other_mode(inner, connection, wanted, newcomer).await?;
    if let Some(refused) = standing.refusal(inner, wanted, &others) {
        return Ok(Err(Obstacle::Refused(refused)));
    }
    match (standing.mode == wanted.to_string(), change) {
        (true, Change::Forbidden) => Ok(Ok(())),
        (true, Change::Allowed) => {
            let session = session(connection).await?;
            watched(inner, session, mend(inner, connection, wanted)).await.map(Ok)
        }
        (false, Change::Forbidden) => Ok(Err(Obstacle::OtherMode(wanted))),
        (false, Change::Allowed) => {
            let session = session(connection).await?;
            watched(inner, session, self::change(inner, connection, wanted)).await.map(Ok)
        }
    }
}

/// How things stand before a change.
struct Standing {
    mode: String,
    /// Whether this role owns the tables.
    may_change: bool,
    increment: i64,
    cache: i64,
}

impl Standing {
    async fn look(inner: &Inner, connection: &mut PgConnection) -> Result<Self, sqlx::Error> {
        let row = inner.query(&inner.statements.standing).fetch_one(connection).await?;
        Ok(Self {
            mode: row.try_get("mode")?,
            may_change: row.try_get("may_change")?,
            increment: row.try_get("increment")?,
            cache: row.try_get("cache")?,
        })
    }

    fn refusal(&self, inner: &Inner, wanted: Mode, others: &[String]) -> Option<StoreError> {
        let Self { mode, may_change, increment, cache } = self;
        if let Err(unknown) = members::mode(Some(mode)) {
            return Some(unknown);
        }
        if !others.is_empty() {
            return Some(members::others_alive(wanted, others));
        }
        if wanted == Mode::Ownership && (*increment, *cache) != (1, 1) {
            let sequence = inner.line.place.names().table("outbox_event_seq_seq");
            return Some(StoreError::Config(format!(
                "the sequence `{sequence}` has the increment {increment} and the cache {cache}, and the mode \
                 `{wanted}` needs numbers one by one; run `ALTER SEQUENCE {sequence} INCREMENT 1 CACHE 1`"
            )));
        }
        (mode != &wanted.to_string() && !may_change).then(|| {
            StoreError::Config(format!(
                "the mode of the outbox is `{mode}`, and its indexes belong to it; let the owner of the table run \
                 `pillarbox migrate --mode {wanted}`"
            ))
        })
    }
}

/// The names of those who keep the mode from being `wanted`.
async fn of_other_mode(
    inner: &Inner,
    connection: &mut PgConnection,
    wanted: Mode,
    newcomer: Option<&Instance>,
) -> Result<Vec<String>, sqlx::Error> {
    // Whose place the newcomer takes does not count.
    let named = newcomer.filter(|instance| instance.is_named).map(|instance| &instance.owner);
    let query = inner
        .query(&inner.statements.of_other_mode)
        .bind(wanted.to_string())
        .bind(named.map(|owner| owner.name().to_owned()))
        .bind(named.map(incarnation));
    query.fetch_all(connection).await?.iter().map(|row| row.try_get("name")).collect()
}

/// Makes the indexes of the mode that are missing.
async fn mend(inner: &Inner, connection: &mut PgConnection, mode: Mode) -> Result<(), sqlx::Error> {
    let found = inner.query(&inner.statements.examined_indexes).fetch_all(&mut *connection).await?;
    let found = found.iter().map(|row| row.try_get("name")).collect::<Result<Vec<String>, _>>()?;
    let prefix = inner.line.place.names().prefix();
    if indexes_of(mode).iter().all(|name| found.contains(&format!("{prefix}{name}"))) {
        return Ok(());
    }
    tracing::info!(database = %inner.line.place, %mode, "making indexes anew that somebody dropped");
    sqlx::raw_sql(UNLIMITED).execute(&mut *connection).await?;
    sqlx::raw_sql(index_sql(inner, mode).clone()).execute(connection).await?;
    Ok(())
}

/// Building an index on a large table takes its time.
const UNLIMITED: &str = "SET LOCAL statement_timeout = 0";

fn index_sql(inner: &Inner, mode: Mode) -> &SqlStr {
    match mode {
        Mode::Claims => &inner.statements.index_claims,
        Mode::Ownership => &inner.statements.index_ownership,
    }
}

/// Changes the mode, and ends all that was held in the other.
async fn change(inner: &Inner, connection: &mut PgConnection, to: Mode) -> Result<(), sqlx::Error> {
    let drop = match to {
        Mode::Claims => include_str!("mode/drop_ownership.sql"),
        Mode::Ownership => include_str!("mode/drop_claims.sql"),
    };
    tracing::info!(database = %inner.line.place, mode = %to, "changing the mode of the outbox");
    sqlx::raw_sql(UNLIMITED).execute(&mut *connection).await?;
    for step in [&inner.statements.lock_events, &inner.statements.end, index_sql(inner, to)] {
        sqlx::raw_sql(step.clone()).execute(&mut *connection).await?;
    }
    if to == Mode::Ownership {
        owned::place_all(inner, connection).await?;
        inner.query(&inner.statements.floors).execute(&mut *connection).await?;
    }
    inner.query(&inner.statements.set_mode).bind(to.to_string()).execute(&mut *connection).await?;
    sqlx::raw_sql(inner.line.place.names().fill(drop, &INDEXES)).execute(&mut *connection).await?;
    tracing::info!(database = %inner.line.place, mode = %to, "changed the mode of the outbox");
    Ok(())
}
