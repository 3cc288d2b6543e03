//! Recording what became of taken events.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Batch, DoneRows, EventStore, Found, Lease, Outcome, Owner, Settlement, Status, StoreError, Take, Token,
    cut_error,
};
use pillarbox_sql::{check_lease, micros, refusal};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, SqlStr};

use crate::PostgresStore;
use crate::fault;
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
            let sorted = Arc::new(Sorted::new(settlements)?);
            let leases = settlements.iter().map(|settlement| &settlement.lease);
            let settled = self.write_free(leases.clone(), || self.apply(&sorted, done)).await?;
            Ok(lost(leases, &settled))
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
                        .bind(format!("{}/", owner.name()))
                        .bind(owner.name());
                    Box::pin(query.execute(connection))
                },
            );
            Ok(resumed.await?.rows_affected())
        })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        let (inner, name) = (Arc::clone(&self.inner), owner.name().to_owned());
        Box::pin(async move {
            let row = self.run(
                |inner| &inner.settling,
                move |connection| {
                    Box::pin(inner.query(&inner.statements.current).bind(&name).fetch_optional(connection))
                },
            );
            let current = row.await?.map(|row| row.try_get::<String, _>("value")).transpose();
            let current = current.map_err(|error| self.inner.line.place.store(error))?;
            Ok(current.is_none_or(|current| current == owner.to_string()))
        })
    }
}

impl PostgresStore {
    /// Writes to the rows of leases, unless another transaction has locked one of them.
    ///
    /// Whether it has is learnt by waiting for it once; known locks are asked about before.
    async fn write_free<'l, F>(
        &self,
        leases: impl Iterator<Item = &'l Lease> + Clone,
        write: impl Fn() -> F,
    ) -> Result<Leases, StoreError>
    where
        F: Future<Output = Result<Leases, StoreError>>,
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

    /// Applies all, and returns the leases that were settled.
    async fn apply(&self, sorted: &Arc<Sorted>, done: DoneRows) -> Result<Leases, StoreError> {
        let (inner, sorted) = (Arc::clone(&self.inner), Arc::clone(sorted));
        self.step(
            |inner| &inner.settling,
            sorted.is_mixed(),
            move |connection| {
                let (inner, sorted) = (Arc::clone(&inner), Arc::clone(&sorted));
                Box::pin(async move { sorted.apply(&inner, connection, done).await })
            },
        )
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

/// The numbers of leases that are not among `kept`.
fn lost<'a>(leases: impl Iterator<Item = &'a Lease>, kept: &Leases) -> Vec<i64> {
    leases.filter(|lease| !kept.contains(&(lease.seq, lease.token.0))).map(|lease| lease.seq).collect()
}

fn leases_of(rows: &[PgRow]) -> Result<Leases, sqlx::Error> {
    rows.iter().map(|row| Ok((row.try_get("seq")?, row.try_get("token")?))).collect()
}

/// Leases in two columns, by number: rows are locked in this order by all, so that no two lock each other out.
#[derive(Default)]
struct Numbers {
    seqs: Vec<i64>,
    tokens: Vec<i64>,
}

impl Numbers {
    fn new<'a>(leases: impl Iterator<Item = &'a Lease>) -> Self {
        let mut leases: Vec<&Lease> = leases.collect();
        leases.sort_by_key(|lease| lease.seq);
        let seqs = leases.iter().map(|lease| lease.seq).collect();
        Self { seqs, tokens: leases.iter().map(|lease| lease.token.0).collect() }
    }
}

/// Settlements by the statement that applies them.
struct Sorted {
    done: Numbers,
    others: Others,
}

impl Sorted {
    fn new(settlements: &[Settlement]) -> Result<Self, StoreError> {
        let (done, others): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| settlement.outcome == Outcome::Done);
        let done = Numbers::new(done.into_iter().map(|settlement| &settlement.lease));
        Ok(Self { done, others: Others::new(others)? })
    }

    /// Whether it takes more than one statement.
    fn is_mixed(&self) -> bool {
        !self.done.seqs.is_empty() && !self.others.numbers.seqs.is_empty()
    }

    /// Applies all, and returns the leases that were settled.
    async fn apply(
        &self,
        inner: &Inner,
        connection: &mut PgConnection,
        rows: DoneRows,
    ) -> Result<Leases, sqlx::Error> {
        let Self { done, others } = self;
        let mut settled = Leases::new();
        if !done.seqs.is_empty() {
            let statement: &SqlStr = match rows {
                DoneRows::Keep => &inner.statements.done,
                DoneRows::Delete => &inner.statements.delete,
            };
            let query = inner.query(statement).bind(&done.seqs).bind(&done.tokens);
            settled.extend(leases_of(&query.fetch_all(&mut *connection).await?)?);
        }
        if !others.numbers.seqs.is_empty() {
            let query = inner
                .query(&inner.statements.settle)
                .bind(&others.numbers.seqs)
                .bind(&others.numbers.tokens)
                .bind(&others.statuses)
                .bind(&others.attempts)
                .bind(&others.starts)
                .bind(&others.due_in)
                .bind(&others.available_in)
                .bind(&others.errors)
                .bind(&others.reasons);
            settled.extend(leases_of(&query.fetch_all(connection).await?)?);
        }
        Ok(settled)
    }
}

/// Outcomes other than DONE, in columns; `None` leaves a column of the row as it is.
#[derive(Default)]
struct Others {
    numbers: Numbers,
    statuses: Vec<Option<i16>>,
    /// The attempts before, where one more is spent.
    attempts: Vec<Option<i32>>,
    starts: Vec<i32>,
    due_in: Vec<Option<i64>>,
    available_in: Vec<Option<i64>>,
    errors: Vec<Option<String>>,
    reasons: Vec<Option<String>>,
}

impl Others {
    fn new(mut settlements: Vec<&Settlement>) -> Result<Self, StoreError> {
        settlements.sort_by_key(|settlement| settlement.lease.seq);
        let mut others = Self::default();
        for Settlement { lease, outcome } in settlements {
            others.push(lease, outcome)?;
        }
        Ok(others)
    }

    fn push(&mut self, lease: &Lease, outcome: &Outcome) -> Result<(), StoreError> {
        let row = Change::of(outcome)?;
        self.numbers.seqs.push(lease.seq);
        self.numbers.tokens.push(lease.token.0);
        self.statuses.push(row.status.map(|status| i16::from(status.code())));
        self.attempts.push(outcome.spends().then(|| count(lease.attempts)));
        self.starts.push(count(lease.starts));
        self.due_in.push(row.due_in);
        self.available_in.push(row.available_in);
        self.errors.push(row.error);
        self.reasons.push(row.reason);
        Ok(())
    }
}

/// What one outcome changes.
#[derive(Default)]
struct Change {
    status: Option<Status>,
    due_in: Option<i64>,
    available_in: Option<i64>,
    error: Option<String>,
    reason: Option<String>,
}

impl Change {
    fn of(outcome: &Outcome) -> Result<Self, StoreError> {
        Ok(match outcome {
            Outcome::Retry { after, error, .. } => {
                let after = Some(micros(*after));
                Self {
                    status: Some(Status::Retry),
                    due_in: after,
                    available_in: after,
                    error: Some(cut_error(error)),
                    reason: None,
                }
            }
            Outcome::Aside { until: Some(until), reason } => Self {
                status: Some(Status::Retry),
                available_in: Some(micros(*until)),
                reason: Some(cut_error(reason)),
                ..Self::default()
            },
            Outcome::Aside { until: None, .. } | Outcome::Parked { .. } => {
                return Err(refusal(
                    "only the owner of a partition sets aside without an end, or parks a key",
                ));
            }
            Outcome::Dead { error, .. } => {
                Self { status: Some(Status::Dead), error: Some(cut_error(error)), ..Self::default() }
            }
            Outcome::Released => Self::default(),
            Outcome::Done => Self { status: Some(Status::Done), ..Self::default() },
        })
    }
}

fn count(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
