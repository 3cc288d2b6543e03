//! Recording what became of taken events.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use pillarbox::BoxFuture;
use pillarbox::store::{
    Batch, DELAYED, DoneRows, EventStore, Found, Lease, Mode, Outcome, Owner, REPLAYED, Settlement,
    StoreError, Take, Token, cut_error,
};
use pillarbox_sql::members::incarnation;
use pillarbox_sql::{check_lease, counted, kept, micros, refusal};
use serde_json::{Map, Value, json};
use sqlx::SqlStr;
use sqlx::sqlite::SqliteConnection;

use crate::SqliteStore;
use crate::fault::is_missing_value;
use crate::statements::Statements;
use crate::take::json as json_array;

impl EventStore for SqliteStore {
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
            let sorted = Sorted::new(settlements, done)?;
            let inner = Arc::clone(&self.inner);
            let mut lost = self
                .write(move |connection| {
                    Box::pin(async move { sorted.apply(connection, &inner.statements, done).await })
                })
                .await?;
            let lost_in_order = settlements.iter().map(|settlement| settlement.lease.seq);
            Ok(lost_in_order.filter(|seq| lost.remove(seq)).collect())
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
            let renew = self.inner.statements.renew.clone();
            let leased: Vec<Value> = leases.iter().map(|lease| json!([lease.seq, lease.token.0])).collect();
            let leased = Value::from(leased).to_string();
            let renewed = self.write(move |connection| {
                let query = sqlx::query_scalar(renew).bind(leased).bind(micros(lease_for));
                Box::pin(async move { query.fetch_all(connection).await })
            });
            let renewed: HashSet<i64> = renewed.await?.into_iter().collect();
            Ok(leases.iter().map(|lease| lease.seq).filter(|seq| !renewed.contains(seq)).collect())
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
            let (current, name) = (owner.to_string(), format!("{}/", owner.name()));
            let held_before = self.inner.statements.held_before.clone();
            let query = sqlx::query_scalar(held_before).bind(current.clone()).bind(name.clone());
            let held: Vec<i64> = match self.mode().await? {
                // All pending rows are looked at, so this is done before the write lock is taken.
                Mode::Claims => {
                    self.read(move |connection| Box::pin(async move { query.fetch_all(connection).await }))
                        .await?
                }
                // Leases of takes mean nothing here.
                Mode::Ownership => Vec::new(),
            };
            if held.is_empty() {
                return Ok(0);
            }
            let resume = sqlx::query(self.inner.statements.resume.clone());
            let resume = resume.bind(current).bind(name).bind(json_array(&held));
            let resumed =
                self.write(move |connection| Box::pin(async move { resume.execute(connection).await }));
            Ok(resumed.await?.rows_affected())
        })
    }

    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let query = sqlx::query_scalar(self.inner.statements.current.clone());
            let query = query.bind(owner.name().to_owned()).bind(incarnation(owner));
            self.read(move |connection| Box::pin(async move { query.fetch_one(connection).await })).await
        })
    }
}

/// Settlements by what they do, as rows of JSON: one statement each, however many rows there are.
#[derive(Default)]
struct Sorted {
    /// What is done of each take.
    done: BTreeMap<Token, Vec<i64>>,
    /// Tokens by number, of those of which nothing else is done: what is claimed at birth has a token for each event.
    done_alone: Map<String, Value>,
    done_by_owner: Vec<Settlement>,
    fell_back: Vec<Value>,
    retry: Vec<Value>,
    aside: Vec<Value>,
    dead: Vec<Value>,
    parked: Vec<Value>,
    released: Vec<Value>,
}

impl Sorted {
    fn new(settlements: &[Settlement], done: DoneRows) -> Result<Self, StoreError> {
        let mut sorted = Self::default();
        for settlement in settlements {
            let Settlement { event_id, lease, outcome, handlers, .. } = settlement;
            let Lease { seq, token, attempts, starts } = *lease;
            check(token, outcome)?;
            let (id, token_number) = (comparable(event_id), token.0);
            let before = settlement.handlers_before.as_ref().filter(|_| handlers.is_some());
            match counted(outcome, done) {
                Outcome::Done if token.partition().is_some() => sorted.done_by_owner.push(settlement.clone()),
                Outcome::Done => sorted.done.entry(token).or_default().push(seq),
                Outcome::FellBack { error } => {
                    sorted.fell_back.push(json!([seq, token_number, id, attempts, kept(error)]));
                }
                Outcome::Retry { after, error, spent } => {
                    let (error, after) = (kept(error), micros(*after));
                    sorted.retry.push(json!([
                        seq,
                        token_number,
                        id,
                        attempts,
                        spent,
                        starts,
                        after,
                        error,
                        handlers,
                        before
                    ]));
                }
                Outcome::Aside { until, reason } => {
                    let (until, reason) = (until.map(micros), cut_error(reason));
                    let row = json!([seq, token_number, id, starts, until, reason, handlers, before]);
                    sorted.aside.push(row);
                }
                Outcome::Dead { error, spent } | Outcome::Parked { error, spent } => {
                    let error = kept(error);
                    let row =
                        json!([seq, token_number, id, attempts, spent, starts, error, handlers, before]);
                    let parks = matches!(outcome, Outcome::Parked { .. });
                    if parks { &mut sorted.parked } else { &mut sorted.dead }.push(row);
                }
                Outcome::Released => {
                    sorted.released.push(json!([seq, token_number, id, starts, handlers, before]));
                }
            }
        }
        let alone = sorted.done.extract_if(.., |_, numbers| numbers.len() == 1);
        sorted.done_alone = alone.map(|(token, numbers)| (numbers[0].to_string(), token.0.into())).collect();
        Ok(sorted)
    }

    /// Applies all, and returns the numbers of those that were lost.
    async fn apply(
        self,
        connection: &mut SqliteConnection,
        statements: &Statements,
        done: DoneRows,
    ) -> Result<HashSet<i64>, sqlx::Error> {
        let mut lost = HashSet::new();
        let (statement, alone, by_owner) = match done {
            DoneRows::Keep => (&statements.done, &statements.done_each, &statements.done_owned),
            DoneRows::Delete => (&statements.delete, &statements.delete_each, &statements.delete_owned),
        };
        for (token, numbers) in self.done {
            let query = sqlx::query_scalar(statement.clone()).bind(json_array(&numbers)).bind(token.0);
            let settled = query.fetch_all(&mut *connection).await?;
            note_lost(&mut lost, numbers, &settled);
        }
        if !self.done_alone.is_empty() {
            let numbers = self.done_alone.keys().filter_map(|number| number.parse().ok()).collect();
            let query = sqlx::query_scalar(alone.clone()).bind(Value::Object(self.done_alone).to_string());
            let settled = query.fetch_all(&mut *connection).await?;
            note_lost(&mut lost, numbers, &settled);
        }
        if !self.done_by_owner.is_empty() {
            let query = sqlx::query_scalar(by_owner.clone()).bind(json_object(&self.done_by_owner));
            let settled = query.fetch_all(&mut *connection).await?;
            let numbers = self.done_by_owner.iter().map(|done| done.lease.seq).collect();
            note_lost(&mut lost, numbers, &settled);
        }
        for (statement, rows) in [
            (&statements.fell_back, self.fell_back),
            (&statements.retry, self.retry),
            (&statements.aside, self.aside),
            (&statements.dead, self.dead),
            (&statements.release, self.released),
        ] {
            apply_rows(connection, statement, rows, &mut lost).await?;
        }
        let parked = apply_rows(connection, &statements.dead, self.parked, &mut lost).await?;
        if !parked.is_empty() {
            sqlx::query(statements.park.clone()).bind(json_array(&parked)).execute(connection).await?;
        }
        Ok(lost)
    }
}

/// Refuses what only the owner of a partition may say, and an endless wait for anything but a key.
fn check(token: Token, outcome: &Outcome) -> Result<(), StoreError> {
    if outcome.needs_owner() && token.partition().is_none() {
        return Err(refusal("only the owner of a partition sets aside without an end, or parks a key"));
    }
    match outcome {
        Outcome::Aside { until: None, reason } if matches!(reason.as_str(), DELAYED | REPLAYED) => {
            Err(refusal(WITHOUT_AN_END))
        }
        _ => Ok(()),
    }
}

const WITHOUT_AN_END: &str = "an event that does not wait for its key is set aside with an end";

/// Applies `rows`, notes those that were lost, and returns the numbers of the others.
async fn apply_rows(
    connection: &mut SqliteConnection,
    statement: &SqlStr,
    rows: Vec<Value>,
    lost: &mut HashSet<i64>,
) -> Result<Vec<i64>, sqlx::Error> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let numbers = rows.iter().filter_map(|row| row[0].as_i64()).collect();
    let query = sqlx::query_scalar(statement.clone()).bind(Value::from(rows).to_string());
    let settled = query.fetch_all(connection).await.map_err(|error| {
        // The time of an endless wait for no key is no value.
        if is_missing_value(&error) { sqlx::Error::InvalidArgument(WITHOUT_AN_END.into()) } else { error }
    })?;
    note_lost(lost, numbers, &settled);
    Ok(settled)
}

/// Tokens and ids by number. An object is read faster than rows of JSON, and this is what most settlements are.
fn json_object(done: &[Settlement]) -> String {
    let fence = |done: &Settlement| match comparable(&done.event_id) {
        Some(event_id) => Value::from(format!("{}/{event_id}", done.lease.token.0)),
        None => Value::from(done.lease.token.0.to_string()),
    };
    let members: Vec<String> =
        done.iter().map(|done| format!(r#""{}":{}"#, done.lease.seq, fence(done))).collect();
    format!("{{{}}}", members.join(","))
}

/// The id of an event, to be compared with that of the row; none if it is no text and was read as well as it could be,
/// or has a NUL, which JSON cannot carry to SQLite. No writer of ours makes such ids.
pub(crate) fn comparable(event_id: &str) -> Option<&str> {
    (!event_id.contains([char::REPLACEMENT_CHARACTER, '\0'])).then_some(event_id)
}

fn note_lost(lost: &mut HashSet<i64>, numbers: Vec<i64>, settled: &[i64]) {
    if numbers.len() != settled.len() {
        let settled: HashSet<i64> = settled.iter().copied().collect();
        lost.extend(numbers.into_iter().filter(|seq| !settled.contains(seq)));
    }
}
