//! Recording what became of taken events.

mod sorted;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Batch, DoneRows, EventStore, Found, Lease, Owner, Settlement, StoreError, Take, Token,
};
use pillarbox_sql::{check_lease, micros, refusal};
use sqlx::mysql::MySqlConnection;
use sqlx::{Executor, Row};

use crate::MySqlStore;
use crate::fault;
use crate::settle::sorted::Sorted;
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
            if settlements.iter().any(|settlement| settlement.outcome.needs_owner()) {
                return Err(refusal(
                    "only the owner of a partition sets aside without an end, or parks a key",
                ));
            }
            if settlements.is_empty() {
                return Ok(Vec::new());
            }
            let numbers = settlements.iter().map(|settlement| settlement.lease.seq).collect();
            let (inner, settlements) = (Arc::clone(&self.inner), Arc::<[Settlement]>::from(settlements));
            self.write_free(numbers, move |connection| {
                let (inner, settlements) = (Arc::clone(&inner), Arc::clone(&settlements));
                Box::pin(async move { record(connection, &inner.statements, &settlements, done).await })
            })
            .await
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
        let (current, name) = (self.inner.statements.current.clone(), owner.name().to_owned());
        Box::pin(async move {
            let current = self.run(
                |inner| &inner.settling,
                move |connection| {
                    let query = sqlx::query_scalar(current.clone()).bind(name.clone());
                    Box::pin(async move { query.fetch_optional(connection).await })
                },
            );
            let current: Option<String> = current.await?;
            Ok(current.is_none_or(|current| current == owner.to_string()))
        })
    }
}

impl MySqlStore {
    /// Writes to the rows with these numbers, unless another transaction has locked one of them.
    async fn write_free<T, W>(&self, numbers: Vec<i64>, write: W) -> Result<T, StoreError>
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
        let mut held: Vec<i64> = held.await?;
        held.sort_unstable();
        Ok(held)
    }
}

/// Binds who holds a row now, and what the names of its earlier incarnations begin with.
fn bind_owner<'q>(query: MySqlQuery<'q>, owner: &Owner) -> MySqlQuery<'q> {
    let (current, name) = (owner.to_string(), format!("{}/", owner.name()));
    query.bind(current.clone()).bind(current).bind(name.clone()).bind(name)
}

/// Makes `owner` the current incarnation of its name, and ends the leases with these numbers that are still held
/// by earlier ones.
async fn succeed(
    connection: &mut MySqlConnection,
    statements: &Statements,
    owner: &Owner,
    held: &[i64],
) -> Result<u64, sqlx::Error> {
    let current = owner.to_string();
    let set_current = sqlx::query(statements.set_current.clone());
    let set_current = set_current.bind(owner.name().to_owned()).bind(current.clone()).bind(current);
    set_current.execute(&mut *connection).await?;
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

/// Records outcomes in the transaction of `connection`, and returns the numbers of those whose lease was lost.
///
/// Nearly always none was lost, so they are applied first and counted. Only if some did not apply, everything is
/// taken back and done again with the rows locked: afterwards a row that was just settled looks like a lost one.
async fn record(
    connection: &mut MySqlConnection,
    statements: &Statements,
    settlements: &[Settlement],
    done: DoneRows,
) -> Result<Vec<i64>, sqlx::Error> {
    if Sorted::new(settlements).apply(connection, statements, done).await? {
        return Ok(Vec::new());
    }
    connection.execute("ROLLBACK; START TRANSACTION").await?;
    let leases = settlements.iter().map(|settlement| &settlement.lease);
    let mut held = lock(connection, statements, leases).await?;
    // Taken out of the map: a second settlement of the same row is lost.
    let is_held = |Settlement { lease, outcome }: &Settlement| match held.get(&lease.seq) {
        Some(&(token, attempts)) if token == lease.token.0 => {
            let fits = !outcome.spends() || attempts == i64::from(lease.attempts);
            fits && held.remove(&lease.seq).is_some()
        }
        _ => false,
    };
    let (kept, lost): (Vec<_>, Vec<_>) = settlements.iter().cloned().partition(is_held);
    if !Sorted::new(&kept).apply(connection, statements, done).await? {
        return Err(sqlx::Error::Protocol("rows that were locked have changed".into()));
    }
    Ok(lost.iter().map(|settlement| settlement.lease.seq).collect())
}

/// Tokens and attempts of the rows that are pending under some lease, by their numbers, with the rows locked in
/// the order of their numbers.
async fn lock(
    connection: &mut MySqlConnection,
    statements: &Statements,
    leases: impl Iterator<Item = &Lease>,
) -> Result<HashMap<i64, (i64, i64)>, sqlx::Error> {
    let mut numbers: Vec<i64> = leases.map(|lease| lease.seq).collect();
    numbers.sort_unstable();
    let mut held = HashMap::with_capacity(numbers.len());
    for numbers in numbers.chunks(MOST_LISTED) {
        let query = bind_list(sqlx::query(statements.held.of(numbers.len())), numbers);
        for row in query.fetch_all(&mut *connection).await? {
            held.insert(row.try_get("seq")?, (row.try_get("token")?, row.try_get("attempts")?));
        }
    }
    Ok(held)
}

/// Makes leases end later, and returns the numbers of those that were lost.
async fn prolong(
    connection: &mut MySqlConnection,
    statements: &Statements,
    leases: &[Lease],
    lease_for: Duration,
) -> Result<Vec<i64>, sqlx::Error> {
    let mut renewed = 0;
    for (token, numbers) in by_token(leases) {
        for numbers in numbers.chunks(MOST_LISTED) {
            let query = sqlx::query(statements.renew.of(numbers.len())).bind(micros(lease_for));
            let query = bind_list(query, numbers).bind(token.0);
            renewed += query.execute(&mut *connection).await?.rows_affected();
        }
    }
    if renewed == leases.len() as u64 {
        return Ok(Vec::new());
    }
    let held = lock(connection, statements, leases.iter()).await?;
    let is_lost = |lease: &&Lease| held.get(&lease.seq).is_none_or(|(token, _)| *token != lease.token.0);
    Ok(leases.iter().filter(is_lost).map(|lease| lease.seq).collect())
}

/// The numbers of each take, in their order.
fn by_token<'l>(leases: impl IntoIterator<Item = &'l Lease>) -> BTreeMap<Token, Vec<i64>> {
    let mut sorted = BTreeMap::<Token, Vec<i64>>::new();
    for lease in leases {
        sorted.entry(lease.token).or_default().push(lease.seq);
    }
    for numbers in sorted.values_mut() {
        numbers.sort_unstable();
    }
    sorted
}
