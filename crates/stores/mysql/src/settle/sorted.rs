//! Settlements by what they do.

use pillarbox::store::{DoneRows, Lease, Outcome, Settlement, cut_error};
use pillarbox_sql::micros;
use serde_json::{Value, json};
use sqlx::mysql::MySqlConnection;

use super::by_token;
use crate::statements::{MOST_LISTED, Statements, bind_list};

/// Settlements by what they do, each kind in the order of its numbers: one statement each, however many rows
/// there are.
#[derive(Default)]
pub(super) struct Sorted {
    done: Vec<Lease>,
    retry: Vec<Value>,
    aside: Vec<Value>,
    dead: Vec<Value>,
    released: Vec<Value>,
}

impl Sorted {
    pub(super) fn new(settlements: &[Settlement]) -> Self {
        let mut by_number: Vec<&Settlement> = settlements.iter().collect();
        by_number.sort_by_key(|settlement| settlement.lease.seq);
        let mut sorted = Self::default();
        for Settlement { lease, outcome } in by_number {
            let Lease { seq, token, attempts, starts } = *lease;
            match outcome {
                Outcome::Done => sorted.done.push(*lease),
                Outcome::Retry { after, error, spent } => {
                    let (retry_in, error) = (micros(*after), cut_error(error));
                    let spent = i32::from(*spent);
                    sorted.retry.push(json!([seq, token.0, attempts, spent, starts, retry_in, error]));
                }
                Outcome::Aside { until, reason } => {
                    let look_in = micros(until.unwrap_or_default());
                    sorted.aside.push(json!([seq, token.0, starts, look_in, cut_error(reason)]));
                }
                Outcome::Dead { error, spent } | Outcome::Parked { error, spent } => {
                    let spent = i32::from(*spent);
                    sorted.dead.push(json!([seq, token.0, attempts, spent, starts, cut_error(error)]));
                }
                Outcome::Released => sorted.released.push(json!([seq, token.0, starts])),
            }
        }
        sorted
    }

    /// Applies those whose lease is held, and returns whether that was all of them.
    pub(super) async fn apply(
        self,
        connection: &mut MySqlConnection,
        statements: &Statements,
        done: DoneRows,
    ) -> Result<bool, sqlx::Error> {
        let statement = match done {
            DoneRows::Keep => &statements.done,
            DoneRows::Delete => &statements.delete,
        };
        for (token, numbers) in by_token(&self.done) {
            for numbers in numbers.chunks(MOST_LISTED) {
                let query = bind_list(sqlx::query(statement.of(numbers.len())), numbers).bind(token.0);
                let settled = query.execute(&mut *connection).await?.rows_affected();
                if settled != numbers.len() as u64 {
                    return Ok(false);
                }
            }
        }
        for (statement, rows) in [
            (&statements.retry, self.retry),
            (&statements.aside, self.aside),
            (&statements.dead, self.dead),
            (&statements.release, self.released),
        ] {
            if rows.is_empty() {
                continue;
            }
            let count = rows.len() as u64;
            let query = sqlx::query(statement.clone()).bind(Value::from(rows).to_string());
            if query.execute(&mut *connection).await?.rows_affected() != count {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
