//! Changing the mode: of several steps, since definitions are not part of transactions here.
//!
//! The row `mode` says first that it is being changed, and last that it was; in between nobody can join. Each step may
//! be repeated, so whoever joins next completes what another has left half-done, or changes it back. A lock by name,
//! the one of migrations, lets one process at a time do it.

use std::sync::Arc;

use pillarbox::store::{Instance, Mode, StoreError};
use pillarbox_sql::{Names, to_its_end};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::{Refusal, Stored, increment, others_alive};
use crate::MySqlStore;
use crate::fault;
use crate::lane::{BEGIN, COMMIT, Lane};
use crate::migration;
use crate::statements::{MOST_LISTED, bind_list};
use crate::store::Inner;

/// Indexes that one mode needs and the other does not.
const OF_CLAIMS: &[(&str, &str)] = &[("outbox_event_pending", "(is_pending, available_at, seq)")];
const OF_OWNERSHIP: &[(&str, &str)] = &[
    ("outbox_event_fresh", "(status, event_partition, seq)"),
    ("outbox_event_aside", "(aside_in, available_at, seq)"),
    ("outbox_event_key", "(aside_in, aside_key, seq)"),
];

/// How a change went.
enum Changed {
    Now,
    Refused(Refusal),
    /// The user may change neither the mode nor indexes.
    Denied(sqlx::Error),
    Elsewhere,
}

/// Makes `mode` the mode of the outbox, with its indexes and without those of the other, unless members of the other
/// mode are alive. Earlier incarnations of a newcomer do not count.
///
/// Making an index takes as long as it takes.
pub(crate) async fn change_to(
    store: &MySqlStore,
    mode: Mode,
    newcomer: Option<&Instance>,
) -> Result<(), StoreError> {
    let replaced = newcomer.filter(|newcomer| newcomer.is_named);
    let replaced = replaced.map(|newcomer| newcomer.owner.name().to_owned());
    let inner = Arc::clone(&store.inner);
    let changed = to_its_end(async move {
        let (lane, line) = (Lane::new(), inner.line.patient());
        let changed = lane.run(&line, move |connection| {
            let (inner, replaced) = (Arc::clone(&inner), replaced.clone());
            Box::pin(async move { alone(&inner, connection, mode, replaced.as_deref()).await })
        });
        let changed = changed.await;
        lane.close().await;
        changed
    });
    let place = &store.inner.line.place;
    match changed.await? {
        Changed::Now => Ok(()),
        Changed::Refused(refusal) => Err(refusal.into_error(place)),
        Changed::Denied(source) => Err(StoreError::Refused {
            reason: format!(
                "the mode of the outbox is not `{mode}`, and this user may not change the indexes on `{place}`; run `pillarbox migrate --mode {mode}` as the owner of the table"
            ),
            source: Some(Box::new(source)),
        }),
        Changed::Elsewhere => Err(migration::elsewhere(place)),
    }
}

/// Changes the mode while no other process does, nor migrates.
async fn alone(
    inner: &Inner,
    connection: &mut MySqlConnection,
    mode: Mode,
    replaced: Option<&str>,
) -> Result<Changed, sqlx::Error> {
    if !migration::lock(inner, connection).await? {
        return Ok(Changed::Elsewhere);
    }
    // On an error the connection is closed, which gives up the lock.
    let changed = change(inner, connection, mode, replaced).await?;
    migration::unlock(inner, connection).await?;
    Ok(changed)
}

async fn change(
    inner: &Inner,
    connection: &mut MySqlConnection,
    mode: Mode,
    replaced: Option<&str>,
) -> Result<Changed, sqlx::Error> {
    if mode == Mode::Ownership
        && let Some(increment) = increment(connection, &inner.statements).await?
    {
        return Ok(Changed::Refused(Refusal::Increment(increment)));
    }
    let before = match announce(inner, connection, mode, replaced).await {
        Ok(Ok(before)) => before,
        Ok(Err(refusal)) => return Ok(Changed::Refused(refusal)),
        // What was begun ends with the connection, which is used for nothing else.
        Err(error) if fault::is_denied(&error) => return Ok(Changed::Denied(error)),
        Err(error) => return Err(error),
    };
    if let Err(error) = arrange_indexes(inner, connection, mode).await {
        if matches!(before, Stored::Is(_)) {
            // Nothing has changed yet; left as it is, the next to join would end what is held.
            let _ = set(inner, connection, before).await;
        }
        return if fault::is_denied(&error) { Ok(Changed::Denied(error)) } else { Err(error) };
    }
    if before != Stored::Is(mode) {
        end_all(inner, connection, mode).await?;
        set(inner, connection, Stored::Is(mode)).await?;
        tracing::info!(database = %inner.line.place, %mode, "changed the mode of the outbox");
    }
    Ok(Changed::Now)
}

/// Says that the mode is being changed, and returns what it was before.
async fn announce(
    inner: &Inner,
    connection: &mut MySqlConnection,
    mode: Mode,
    replaced: Option<&str>,
) -> Result<Result<Stored, Refusal>, sqlx::Error> {
    let statements = &inner.statements;
    connection.execute(BEGIN).await?;
    let before = sqlx::query_scalar::<_, String>(statements.state_to_change.clone());
    let before = before.fetch_optional(&mut *connection).await?;
    let before = Stored::read(before.as_deref())?;
    let is_so = before == Stored::Is(mode);
    let names = if is_so { Vec::new() } else { others_alive(connection, statements, mode, replaced).await? };
    if !is_so && names.is_empty() {
        set(inner, connection, Stored::Becomes(mode)).await?;
    }
    connection.execute(COMMIT).await?;
    Ok(if names.is_empty() { Ok(before) } else { Err(Refusal::OthersAlive { names, needed: mode }) })
}

async fn set(inner: &Inner, connection: &mut MySqlConnection, stored: Stored) -> Result<(), sqlx::Error> {
    let set = sqlx::query(inner.statements.set_mode.clone()).bind(stored.text()).bind(stored.text());
    set.execute(connection).await.map(drop)
}

/// Makes the indexes of `mode` that are missing and drops those of the other, all in one statement. From then on nobody
/// takes or reads in the other mode: its statements name indexes that are gone.
async fn arrange_indexes(
    inner: &Inner,
    connection: &mut MySqlConnection,
    mode: Mode,
) -> Result<(), sqlx::Error> {
    let rows = migration::by_name(inner, &inner.statements.indexes, "outbox_event")
        .fetch_all(&mut *connection)
        .await?;
    let found = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    let Some(sql) = alteration(inner.line.place.names(), mode, &found) else { return Ok(()) };
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.map(drop)
}

/// What has to be done to the indexes, if anything has.
fn alteration(names: &Names, mode: Mode, found: &[String]) -> Option<String> {
    let (needed, others) = match mode {
        Mode::Claims => (OF_CLAIMS, OF_OWNERSHIP),
        Mode::Ownership => (OF_OWNERSHIP, OF_CLAIMS),
    };
    let name = |(name, _): &(&str, &str)| format!("{}{name}", names.prefix());
    let is_found = |index: &&(&str, &str)| found.contains(&name(index));
    let missing = needed.iter().filter(|index| !is_found(index));
    let missing = missing.map(|index| format!("ADD KEY {} {}", name(index), index.1));
    let left = others.iter().filter(is_found).map(|index| format!("DROP KEY {}", name(index)));
    let steps: Vec<String> = missing.chain(left).collect();
    (!steps.is_empty()).then(|| format!("ALTER TABLE {} {}", names.table("outbox_event"), steps.join(", ")))
}

/// Ends all that is held in the other mode: owners, parked keys, leases of takes and waits without an end.
async fn end_all(inner: &Inner, connection: &mut MySqlConnection, mode: Mode) -> Result<(), sqlx::Error> {
    let statements = &inner.statements;
    connection.execute(BEGIN).await?;
    sqlx::query(statements.end_ownership.clone()).execute(&mut *connection).await?;
    sqlx::query(statements.end_parking.clone()).execute(&mut *connection).await?;
    connection.execute(COMMIT).await?;
    let bound = match mode {
        Mode::Claims => &statements.bound,
        Mode::Ownership => &statements.bound_by_partition,
    };
    let mut bound: Vec<i64> = sqlx::query_scalar(bound.clone()).fetch_all(&mut *connection).await?;
    bound.sort_unstable();
    for numbers in bound.chunks(MOST_LISTED) {
        let free = bind_list(sqlx::query(statements.free_bound.of(numbers.len())), numbers);
        free.execute(&mut *connection).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O3: a change makes what is missing, drops what the other mode had, and does nothing twice.
    #[test]
    fn indexes_follow_the_mode() {
        let names = Names::new(Some("shop"), "eu_").unwrap();
        let found = |indexes: &[&str]| indexes.iter().map(|index| format!("eu_{index}")).collect::<Vec<_>>();
        let pending = found(&["PRIMARY", "outbox_event_pending"]);

        let to_ownership = alteration(&names, Mode::Ownership, &pending).unwrap();
        let completed =
            alteration(&names, Mode::Ownership, &found(&["outbox_event_fresh", "outbox_event_key"]));

        assert!(
            to_ownership
                .starts_with("ALTER TABLE shop.eu_outbox_event ADD KEY eu_outbox_event_fresh (status")
        );
        assert!(to_ownership.ends_with("DROP KEY eu_outbox_event_pending"), "{to_ownership}");
        let aside =
            "ALTER TABLE shop.eu_outbox_event ADD KEY eu_outbox_event_aside (aside_in, available_at, seq)";
        assert_eq!(completed.as_deref(), Some(aside));
        assert_eq!(alteration(&names, Mode::Claims, &pending), None);
    }
}
