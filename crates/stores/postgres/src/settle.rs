//! Recording what became of taken events.

mod half;
mod sorted;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Batch, DoneRows, EventStore, Found, Lease, Owner, Settlement, StoreError, Take, Token,
};
use pillarbox_sql::{check_lease, members, micros};
use sqlx::Row;
use sqlx::postgres::PgRow;

pub(crate) use half::HalfSettled;
use sorted::{Numbers, Sorted};

use crate::PostgresStore;
use crate::fault;
use crate::lane::Lane;
use crate::store::Inner;

/// Leases by number and token.
type Leases = HashSet<(i64, i64)>;

impl EventStore for PostgresStore {
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>> {
        Box::pin(self.take_events(take))
    }

    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            if settlements.is_empty() {
                return Ok(Vec::new());
            }
            let parts: Vec<_> = Sorted::new(settlements, done)?.divided().into_iter().map(Arc::new).collect();
            let leases = settlements.iter().map(|settlement| &settlement.lease);
            let settled = Mutex::new(Leases::new());
            let written = self.write_free(leases.clone(), || self.apply(&parts, done, &settled)).await;
            let settled = settled.into_inner().unwrap_or_else(PoisonError::into_inner);
            match written {
                Ok(()) => Ok(self.inner.half_settled.lost(without(leases, &settled))),
                Err(error) => {
                    self.inner.half_settled.remember(settled);
                    Err(error)
                }
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
            let numbers = Arc::new(Numbers::new(leases.iter()));
            let renewed = self.write_free(leases.iter(), || self.prolong(&numbers, lease_for)).await?;
            Ok(lost(leases.iter(), &renewed))
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
        let (inner, owner) = (Arc::clone(&self.inner), owner.clone());
        Box::pin(async move {
            let resumed = self.run(
                |inner| &inner.settling,
                move |connection| {
                    let query = inner
                        .query(&inner.statements.resume)
                        .bind(owner.to_string())
                        .bind(format!("{}/", owner.name()));
                    Box::pin(query.execute(connection))
                },
            );
            Ok(resumed.await?.rows_affected())
        })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (inner, name, incarnation) =
            (Arc::clone(&self.inner), owner.name().to_owned(), members::incarnation(owner));
        Box::pin(async move {
            let row = self.run(
                |inner| &inner.settling,
                move |connection| {
                    let current = inner.query(&inner.statements.current).bind(&name).bind(&incarnation);
                    Box::pin(current.fetch_one(connection))
                },
            );
            self.read(row.await?.try_get("is_current"))
        })
    }
}

impl PostgresStore {
    /// Writes to the rows of leases, unless another transaction has locked one of them.
    ///
    /// Whether it has is learnt by waiting for it once; known locks are asked about before.
    async fn write_free<'l, T, F>(
        &self,
        leases: impl Iterator<Item = &'l Lease> + Clone,
        write: impl Fn() -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let numbers = leases.map(|lease| lease.seq);
        if self.inner.locks.concern(numbers.clone()) {
            self.check_locks(numbers.clone()).await?;
        }
        match write().await {
            Err(error) if fault::is_lock_timeout(&error) => {
                self.check_locks(numbers).await?;
                write().await
            }
            written => written,
        }
    }

    /// Makes leases end later, and returns those that were held.
    async fn prolong(&self, numbers: &Arc<Numbers>, lease_for: Duration) -> Result<Leases, StoreError> {
        let (inner, numbers) = (Arc::clone(&self.inner), Arc::clone(numbers));
        self.run(
            |inner| &inner.settling,
            move |connection| {
                let (inner, numbers) = (Arc::clone(&inner), Arc::clone(&numbers));
                Box::pin(async move {
                    let query = inner
                        .query(&inner.statements.renew)
                        .bind(&numbers.seqs)
                        .bind(&numbers.tokens)
                        .bind(micros(lease_for));
                    leases_of(&query.fetch_all(connection).await?)
                })
            },
        )
        .await
    }

    /// Applies all parts, two at a time, and notes the leases that were settled, also if it fails.
    async fn apply(
        &self,
        parts: &[Arc<Sorted>],
        done: DoneRows,
        settled: &Mutex<Leases>,
    ) -> Result<(), StoreError> {
        let every_other = |first: usize, lane: fn(&Inner) -> &Lane| async move {
            for sorted in parts.iter().skip(first).step_by(2) {
                let applied = self.apply_on(lane, sorted, done).await?;
                settled.lock().unwrap_or_else(PoisonError::into_inner).extend(applied);
            }
            Ok(())
        };
        let (here, beside) = tokio::join!(
            every_other(0, |inner| &inner.settling),
            every_other(1, |inner| &inner.settling_beside)
        );
        here.and(beside)
    }

    async fn apply_on(
        &self,
        lane: fn(&Inner) -> &Lane,
        sorted: &Arc<Sorted>,
        done: DoneRows,
    ) -> Result<Leases, StoreError> {
        let (inner, sorted) = (Arc::clone(&self.inner), Arc::clone(sorted));
        self.step(lane, sorted.is_mixed(), move |connection| {
            let (inner, sorted) = (Arc::clone(&inner), Arc::clone(&sorted));
            Box::pin(async move { sorted.apply(&inner, connection, done).await })
        })
        .await
    }

    /// Fails if another transaction has locked one of these rows.
    async fn check_locks(&self, numbers: impl Iterator<Item = i64>) -> Result<(), StoreError> {
        let (inner, looked_at): (_, Vec<i64>) = (Arc::clone(&self.inner), numbers.collect());
        let asked = looked_at.clone();
        let locked = self.run(
            |inner| &inner.settling,
            move |connection| {
                let query = inner.query(&inner.statements.locked).bind(asked.clone());
                Box::pin(async move {
                    query.fetch_all(connection).await?.iter().map(|row| row.try_get("seq")).collect()
                })
            },
        );
        let numbers: Vec<i64> = locked.await?;
        self.inner.locks.learn(looked_at.into_iter(), &numbers);
        if numbers.is_empty() { Ok(()) } else { Err(StoreError::Locked { numbers }) }
    }
}

/// The leases that are not among `kept`.
fn without<'a>(leases: impl Iterator<Item = &'a Lease>, kept: &Leases) -> Vec<&'a Lease> {
    leases.filter(|lease| !kept.contains(&(lease.seq, lease.token.0))).collect()
}

/// The numbers of leases that are not among `kept`.
fn lost<'a>(leases: impl Iterator<Item = &'a Lease>, kept: &Leases) -> Vec<i64> {
    without(leases, kept).into_iter().map(|lease| lease.seq).collect()
}

fn leases_of(rows: &[PgRow]) -> Result<Leases, sqlx::Error> {
    rows.iter().map(|row| Ok((row.try_get("seq")?, row.try_get("token")?))).collect()
}
