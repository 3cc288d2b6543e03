//! Recording what became of taken events.

mod fence;
mod sorted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Batch, DELAYED, DoneRows, EventStore, Found, Lease, Outcome, Owner, REPLAYED, Settlement, StoreError,
    Take, Taken, Token,
};
use pillarbox_sql::members::incarnation;
use pillarbox_sql::{check_lease, micros, refusal};
use serde_json::{Value, json};
use sqlx::mysql::MySqlConnection;
use sqlx::{Executor, Row};

use crate::MySqlStore;
use crate::fault;
use crate::settle::fence::{Fence, lock_partitions};
use crate::settle::sorted::{ROWS_AT_ONCE, Sorted};
use crate::statements::{Listed, MOST_LISTED, MySqlQuery, Statements, bind_list};
use crate::store::Inner;

impl EventStore for MySqlStore {
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(self.take_events(take))
    }

    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            if let Some(reason) = settlements.iter().find_map(refused) {
                return Err(refusal(reason));
            }
            if settlements.is_empty() {
                return Ok(Vec::new());
            }
            let numbers = settlements.iter().map(|settlement| settlement.lease.seq).collect();
            let (inner, settlements) = (Arc::clone(&self.inner), Arc::<[Settlement]>::from(settlements));
            let recorded = self.write_free(numbers, move |connection| {
                let (inner, settlements) = (Arc::clone(&inner), Arc::clone(&settlements));
                Box::pin(async move { record(connection, &inner.statements, &settlements, done).await })
            });
            match recorded.await? {
                Recorded::Lost(numbers) => Ok(numbers),
                Recorded::Refused => Err(refusal(STRANDED)),
            }
        })
    }

    fn renew<'a>(
        &'a self,
        leases: &'a [Lease],
        lease_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            check_lease(lease_for)?;
            if leases.is_empty() {
                return Ok(Vec::new());
            }
            let numbers = leases.iter().map(|lease| lease.seq).collect();
            let (inner, leases) = (Arc::clone(&self.inner), Arc::<[Lease]>::from(leases));
            self.write_free(numbers, move |connection| {
                let (inner, leases) = (Arc::clone(&inner), Arc::clone(&leases));
                Box::pin(async move { prolong(connection, &inner.statements, &leases, lease_for).await })
            })
            .await
        })
    }

    fn read_back<'a>(
        &'a self,
        token: Token,
        event_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Found>, StoreError>> {
        Box::pin(self.find_written(token, event_ids))
    }

    fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            // All pending rows are looked at, so this is done without a lock.
            let held = Arc::new(self.held_before(owner).await?);
            let (inner, owner) = (Arc::clone(&self.inner), owner.clone());
            self.run_together(
                |inner| &inner.settling,
                move |connection| {
                    let (inner, owner, held) = (Arc::clone(&inner), owner.clone(), Arc::clone(&held));
                    Box::pin(async move { succeed(connection, &inner.statements, &owner, &held).await })
                },
            )
            .await
        })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (current, owner) = (self.inner.statements.current.clone(), owner.clone());
        Box::pin(async move {
            self.run(
                |inner| &inner.settling,
                move |connection| {
                    let query = sqlx::query_scalar(current.clone()).bind(owner.name().to_owned());
                    let query = query.bind(incarnation(&owner));
                    Box::pin(async move { query.fetch_one(connection).await })
                },
            )
            .await
        })
    }
}

/// Why an event is not set aside without an end.
const STRANDED: &str = "an event that does not wait for its key is set aside with an end";

/// Why a settlement is refused whatever its row is, if it is.
fn refused(Settlement { lease, outcome, .. }: &Settlement) -> Option<&'static str> {
    if outcome.needs_owner() && lease.token.partition().is_none() {
        return Some("only the owner of a partition sets aside without an end, or parks a key");
    }
    let Outcome::Aside { until: None, reason } = outcome else { return None };
    matches!(reason.as_str(), DELAYED | REPLAYED).then_some(STRANDED)
}

impl MySqlStore {
    /// Counts a start under the lease of an owner.
    pub(crate) async fn count_start(
        &self,
        Taken { event_id, lease, .. }: &Taken,
    ) -> Result<bool, StoreError> {
        let Some((partition, epoch)) = lease.token.partition() else { return Ok(false) };
        let started = json!([[lease.seq, partition, epoch.0, event_id, lease.starts]]).to_string();
        let inner = Arc::clone(&self.inner);
        self.run_together(
            |inner| &inner.settling,
            move |connection| {
                let (inner, started) = (Arc::clone(&inner), started.clone());
                Box::pin(async move {
                    lock_partitions(connection, &inner.statements, &BTreeSet::from([partition])).await?;
                    let start = sqlx::query(inner.statements.start.clone()).bind(started);
                    Ok(start.execute(connection).await?.rows_affected() == 1)
                })
            },
        )
        .await
    }

    /// Writes to the rows with these numbers, unless another transaction has locked one of them.
    pub(crate) async fn write_free<T, W>(&self, numbers: Vec<i64>, write: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>
            + Send
            + Sync
            + 'static,
    {
        let (inner, rows) = (Arc::clone(&self.inner), Arc::new((numbers, write)));
        let written = self.run_together(
            |inner| &inner.settling,
            move |connection| {
                let (inner, rows) = (Arc::clone(&inner), Arc::clone(&rows));
                Box::pin(async move { write_free(connection, &inner, &rows.0, &rows.1).await })
            },
        );
        written.await?.map_err(|numbers| StoreError::Locked { numbers })
    }

    /// The numbers of leases that earlier incarnations hold.
    async fn held_before(&self, owner: &Owner) -> Result<Vec<i64>, StoreError> {
        let (inner, owner) = (Arc::clone(&self.inner), owner.clone());
        let held = self.run(
            |inner| &inner.settling,
            move |connection| {
                let query = sqlx::query(inner.statements.held_before.clone());
                let query = bind_owner(query, &owner);
                Box::pin(async move {
                    query.fetch_all(connection).await?.iter().map(|row| row.try_get(0)).collect()
                })
            },
        );
        let mut held: Vec<i64> = match held.await {
            // In the mode `ownership` nobody holds rows.
            Err(error) if fault::is_missing_index(&error) => Vec::new(),
            held => held?,
        };
        held.sort_unstable();
        Ok(held)
    }
}

/// Binds who holds a row now, and what the names of its earlier incarnations begin with.
fn bind_owner<'q>(query: MySqlQuery<'q>, owner: &Owner) -> MySqlQuery<'q> {
    let (current, name) = (owner.to_string(), format!("{}/", owner.name()));
    query.bind(current.clone()).bind(current).bind(name.clone()).bind(name)
}

/// Ends the leases with these numbers that are still held by earlier incarnations of `owner`'s name.
async fn succeed(
    connection: &mut MySqlConnection,
    statements: &Statements,
    owner: &Owner,
    held: &[i64],
) -> Result<u64, sqlx::Error> {
    let mut resumed = 0;
    for numbers in held.chunks(MOST_LISTED) {
        // Whoever has locked the others is stopped in the middle of a step; their leases end by themselves.
        let free = numbers_of(connection, &statements.free, numbers).await?;
        if free.is_empty() {
            continue;
        }
        let resume = bind_list(sqlx::query(statements.resume.of(free.len())), &free);
        resumed += bind_owner(resume, owner).execute(&mut *connection).await?.rows_affected();
    }
    Ok(resumed)
}

/// Writes in the transaction of `connection`, or answers with the numbers of the rows that another has locked.
///
/// Whether one has is learnt by waiting for it once; known locks are asked about before.
async fn write_free<T>(
    connection: &mut MySqlConnection,
    Inner { statements, locks, .. }: &Inner,
    numbers: &[i64],
    write: impl for<'c> Fn(&'c mut MySqlConnection) -> BoxFuture<'c, Result<T, sqlx::Error>>,
) -> Result<Result<T, Vec<i64>>, sqlx::Error> {
    if !locks.concern(numbers.iter().copied()) {
        match write(connection).await {
            Err(error) if fault::is_lock_timeout(&error) => {}
            written => return written.map(Ok),
        }
    }
    connection.execute("ROLLBACK; START TRANSACTION").await?;
    let locked = locked(connection, statements, numbers.to_vec()).await?;
    locks.learn(numbers.iter().copied(), &locked);
    if locked.is_empty() { write(connection).await.map(Ok) } else { Ok(Err(locked)) }
}

/// Those of the rows with these numbers that another transaction has locked; the others are locked by this one.
async fn locked(
    connection: &mut MySqlConnection,
    statements: &Statements,
    mut numbers: Vec<i64>,
) -> Result<Vec<i64>, sqlx::Error> {
    numbers.sort_unstable();
    let mut locked = Vec::new();
    for numbers in numbers.chunks(MOST_LISTED) {
        // Asked for the number alone, MySQL would go through a small table and lock all of it.
        let free = numbers_of(connection, &statements.free, numbers).await?;
        let present = numbers_of(connection, &statements.present, numbers).await?;
        locked.extend(present.into_iter().filter(|seq| !free.contains(seq)));
    }
    Ok(locked)
}

/// What a statement finds of the rows with these numbers.
async fn numbers_of(
    connection: &mut MySqlConnection,
    statement: &Listed,
    numbers: &[i64],
) -> Result<Vec<i64>, sqlx::Error> {
    let query = bind_list(sqlx::query(statement.of(numbers.len())), numbers);
    query.fetch_all(connection).await?.iter().map(|row| row.try_get("seq")).collect()
}

/// How it went to record outcomes.
enum Recorded {
    /// All but those with these numbers, whose lease was lost.
    Lost(Vec<i64>),
    /// None: one of them would set an event aside that nobody would bring back.
    Refused,
}

/// Records outcomes in the transaction of `connection`.
///
/// Nearly always none was lost, so they are applied first and counted. Only if some did not apply, everything is
/// taken back and done again with the rows locked: afterwards a row that was just settled looks like a lost one.
async fn record(
    connection: &mut MySqlConnection,
    statements: &Statements,
    settlements: &[Settlement],
    done: DoneRows,
) -> Result<Recorded, sqlx::Error> {
    if Sorted::new(settlements, done).apply(connection, statements, done).await? {
        return Ok(Recorded::Lost(Vec::new()));
    }
    connection.execute("ROLLBACK; START TRANSACTION").await?;
    let leases = settlements.iter().map(|settlement| &settlement.lease);
    let mut fence = Fence::lock(connection, statements, leases).await?;
    if settlements.iter().any(|settlement| fence.would_strand(settlement)) {
        return Ok(Recorded::Refused);
    }
    let (kept, lost): (Vec<_>, Vec<_>) =
        settlements.iter().cloned().partition(|settlement| fence.pass(settlement));
    if !Sorted::new(&kept, done).apply(connection, statements, done).await? {
        return Err(sqlx::Error::Protocol("rows that were locked have changed".into()));
    }
    Ok(Recorded::Lost(lost.iter().map(|settlement| settlement.lease.seq).collect()))
}

/// Makes leases end later, and returns the numbers of those that were lost.
async fn prolong(
    connection: &mut MySqlConnection,
    statements: &Statements,
    leases: &[Lease],
    lease_for: Duration,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut in_order: Vec<&Lease> = leases.iter().collect();
    in_order.sort_unstable_by_key(|lease| lease.seq);
    let leased: Vec<Value> = in_order.iter().map(|lease| json!([lease.seq, lease.token.0])).collect();
    let mut renewed = 0;
    for leased in leased.chunks(ROWS_AT_ONCE) {
        let query = sqlx::query(statements.renew.clone()).bind(Value::from(leased).to_string());
        renewed += query.bind(micros(lease_for)).execute(&mut *connection).await?.rows_affected();
    }
    if renewed == leases.len() as u64 {
        return Ok(Vec::new());
    }
    let of_takes = leases.iter().filter(|lease| lease.token.partition().is_none());
    let fence = Fence::lock(connection, statements, of_takes).await?;
    Ok(leases.iter().filter(|lease| !fence.is_taken(lease)).map(|lease| lease.seq).collect())
}
