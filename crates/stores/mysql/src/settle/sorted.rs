//! Settlements by what they do.

use std::collections::{BTreeMap, BTreeSet};

use pillarbox::store::{DELAYED, DoneRows, Lease, Outcome, REPLAYED, Settlement, Token, cut_error};
use pillarbox_sql::{counted, kept, micros};
use serde_json::{Value, json};
use sqlx::SqlStr;
use sqlx::mysql::MySqlConnection;

use super::fence::lock_partitions;
use crate::statements::{MOST_LISTED, Statements, bind_list};

/// How many rows one statement settles, so that it usually fits into one record of TLS (16 KiB). A longer one is sent in
/// several pieces, and each but the first waits for the server to acknowledge the one before, which that puts off for up
/// to 40 ms: the driver does not set `TCP_NODELAY`.
pub(super) const ROWS_AT_ONCE: usize = 250;

/// Settlements by what they do, each kind in the order in which its rows are locked.
#[derive(Default)]
pub(super) struct Sorted {
    /// What is done of each take.
    done: BTreeMap<Token, Vec<i64>>,
    of_takes: Kinds,
    of_owners: Kinds,
    /// Numbers of dead events whose keys are parked.
    parked: Vec<i64>,
    /// Partitions that stay with their owners until outcomes other than done are recorded.
    partitions: BTreeSet<u8>,
}

/// What is bound for each kind.
#[derive(Default)]
struct Kinds {
    /// Of takes only those of which nothing else is done: what is claimed at birth has a token for each event.
    done: Vec<Value>,
    fell_back: Vec<Value>,
    retry: Vec<Value>,
    aside: Vec<Value>,
    dead: Vec<Value>,
    released: Vec<Value>,
}

impl Sorted {
    pub(super) fn new(settlements: &[Settlement], done: DoneRows) -> Self {
        let mut in_order: Vec<&Settlement> = settlements.iter().collect();
        // Rows of owners by their partitions first: those are locked too.
        in_order.sort_by_key(|Settlement { lease, .. }| {
            (lease.token.partition().map(|(partition, _)| partition), lease.seq)
        });
        let mut sorted = Self::default();
        in_order.into_iter().for_each(|settlement| sorted.add(settlement, done));
        let alone = sorted.done.extract_if(.., |_, numbers| numbers.len() == 1);
        sorted.of_takes.done = alone.map(|(token, numbers)| json!([numbers[0], token.0])).collect();
        sorted.of_takes.done.sort_unstable_by_key(|row| row[0].as_i64());
        sorted
    }

    fn add(&mut self, settlement: &Settlement, done: DoneRows) {
        let Settlement { event_id, lease, outcome, handlers, handlers_before } = settlement;
        let outcome = counted(outcome, done);
        let (kinds, mut row) = match lease.token.partition() {
            None if *outcome == Outcome::Done => {
                return self.done.entry(lease.token).or_default().push(lease.seq);
            }
            None => (&mut self.of_takes, vec![json!(lease.seq), json!(lease.token.0)]),
            Some((partition, epoch)) => {
                if !outcome.is_done() {
                    self.partitions.insert(partition);
                }
                (
                    &mut self.of_owners,
                    vec![json!(lease.seq), json!(partition), json!(epoch.0), json!(event_id)],
                )
            }
        };
        if matches!(outcome, Outcome::Parked { .. }) {
            self.parked.push(lease.seq);
        }
        let Lease { attempts, starts, .. } = *lease;
        let (rows, values) = match outcome {
            Outcome::Done => (&mut kinds.done, Vec::new()),
            Outcome::FellBack { error } => (&mut kinds.fell_back, vec![json!(attempts), json!(kept(error))]),
            Outcome::Retry { after, error, spent } => {
                let (spent, retry_in, error) = (i32::from(*spent), micros(*after), kept(error));
                (
                    &mut kinds.retry,
                    vec![json!(attempts), json!(spent), json!(starts), json!(retry_in), json!(error)],
                )
            }
            Outcome::Aside { until, reason } => {
                let stands_apart = matches!(reason.as_str(), DELAYED | REPLAYED).then_some(1);
                let (look_in, reason) = (until.map(micros), cut_error(reason));
                (&mut kinds.aside, vec![json!(starts), json!(look_in), json!(reason), json!(stands_apart)])
            }
            Outcome::Dead { error, spent } | Outcome::Parked { error, spent } => {
                let (spent, error) = (i32::from(*spent), kept(error));
                (&mut kinds.dead, vec![json!(attempts), json!(spent), json!(starts), json!(error)])
            }
            Outcome::Released => (&mut kinds.released, vec![json!(starts)]),
        };
        row.extend(values);
        if !outcome.is_done() {
            row.push(json!(handlers));
        }
        if !outcome.is_done() && handlers.is_some() && lease.token.partition().is_some() {
            row.push(json!(handlers_before));
        }
        rows.push(Value::Array(row));
    }

    /// Applies those whose lease is held, and returns whether that was all of them.
    pub(super) async fn apply(
        self,
        connection: &mut MySqlConnection,
        statements: &Statements,
        done: DoneRows,
    ) -> Result<bool, sqlx::Error> {
        // Done is true whoever owns the partition now. All else must not come after the next owner.
        lock_partitions(connection, statements, &self.partitions).await?;
        let (of_takes, alone, of_owners) = match done {
            DoneRows::Keep => (&statements.done, &statements.done_each, &statements.owned_done),
            DoneRows::Delete => (&statements.delete, &statements.delete_each, &statements.owned_delete),
        };
        for (token, numbers) in self.done {
            for numbers in numbers.chunks(MOST_LISTED) {
                let query = bind_list(sqlx::query(of_takes.of(numbers.len())), numbers).bind(token.0);
                let settled = query.execute(&mut *connection).await?.rows_affected();
                if settled != numbers.len() as u64 {
                    return Ok(false);
                }
            }
        }
        for (statement, rows) in [
            (alone, self.of_takes.done),
            (&statements.fell_back, self.of_takes.fell_back),
            (&statements.retry, self.of_takes.retry),
            (&statements.aside, self.of_takes.aside),
            (&statements.dead, self.of_takes.dead),
            (&statements.release, self.of_takes.released),
            (of_owners, self.of_owners.done),
            (&statements.owned_fell_back, self.of_owners.fell_back),
            (&statements.owned_retry, self.of_owners.retry),
            (&statements.owned_aside, self.of_owners.aside),
            (&statements.owned_dead, self.of_owners.dead),
            (&statements.owned_release, self.of_owners.released),
        ] {
            if !apply_all(connection, statement, rows).await? {
                return Ok(false);
            }
        }
        for numbers in self.parked.chunks(MOST_LISTED) {
            let park = bind_list(sqlx::query(statements.park.of(numbers.len())), numbers);
            park.execute(&mut *connection).await?;
        }
        Ok(true)
    }
}

/// Applies settlements of one kind, and returns whether all of them did.
async fn apply_all(
    connection: &mut MySqlConnection,
    statement: &SqlStr,
    rows: Vec<Value>,
) -> Result<bool, sqlx::Error> {
    for rows in rows.chunks(ROWS_AT_ONCE) {
        let query = sqlx::query(statement.clone()).bind(Value::from(rows).to_string());
        if query.execute(&mut *connection).await?.rows_affected() != rows.len() as u64 {
            return Ok(false);
        }
    }
    Ok(true)
}
