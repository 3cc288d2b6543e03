//! One statement for many events.

use std::sync::{Arc, OnceLock};

use pillarbox::store::{Birth, InsertError};
use pillarbox::{Event, Payload, Schedule};
use pillarbox_sql::{check_lease, chunks, micros, refusal, repeated_id};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::fault::Fault;
use crate::store::Inner;

/// The most events of one statement, as `chunks` makes them.
const MOST_EVENTS: usize = 500;

/// The row of parameters in the file, which is repeated for further events.
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// Statements for 1, 2, 4, … rows. What is not bound is NULL, and a row without an event id is left out: so a
/// handful of prepared statements serves any number of events.
#[derive(Default)]
pub(crate) struct Inserts([OnceLock<SqlStr>; 10]);

impl Inserts {
    fn for_events(&self, count: usize, one: &SqlStr) -> SqlStr {
        let step = count.next_power_of_two().trailing_zeros() as usize;
        let rows = (1 << step).min(MOST_EVENTS);
        let statement = self.0[step].get_or_init(|| match rows {
            1 => one.clone(),
            _ => {
                let sql = one.as_str().replace(ROW, &vec![ROW; rows].join(",\n"));
                AssertSqlSafe(Arc::<str>::from(sql)).into_sql_str()
            }
        });
        statement.clone()
    }
}

pub(super) async fn insert(
    inner: &Inner,
    connection: &mut SqliteConnection,
    events: &[Event],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    if let Some(birth) = birth {
        check_lease(birth.lease_for).map_err(InsertError::Store)?;
    }
    if let Some(id) = repeated_id(events) {
        return Err(InsertError::DuplicateId { id });
    }
    inner.file.check().map_err(InsertError::Store)?;
    if inner.own.is_rolled_back(connection) {
        let reason = "the transaction was rolled back at an earlier statement; begin a new one";
        return Err(InsertError::Store(refusal(reason)));
    }
    let mut inserted: Option<(i64, i64)> = None;
    for chunk in chunks(events) {
        let statement = match chunk {
            // The commonest write, without the machinery for many rows.
            [_] => inner.statements.insert_one.clone(),
            _ => inner.inserts.for_events(chunk.len(), &inner.statements.insert),
        };
        match bind(statement, chunk, birth).execute(&mut *connection).await {
            Ok(done) => {
                let last = done.last_insert_rowid();
                let first = last + 1 - chunk.len() as i64;
                inner.own.inserted(connection, first, last);
                inserted = Some((inserted.map_or(first, |(first, _)| first), last));
            }
            Err(error) => {
                let error = explain(inner, connection, chunk, error).await;
                return Err(undo(inner, connection, inserted).await.err().unwrap_or(error));
            }
        }
    }
    Ok(())
}

/// Takes back what earlier statements of the same call inserted: all or nothing, without a savepoint.
async fn undo(
    inner: &Inner,
    connection: &mut SqliteConnection,
    inserted: Option<(i64, i64)>,
) -> Result<(), InsertError> {
    let Some((first, last)) = inserted else { return Ok(()) };
    let query = sqlx::query(inner.statements.undo.clone()).bind(first).bind(last);
    let undone = query.execute(connection).await;
    undone.map(drop).map_err(|error| InsertError::Store(Fault::of(&inner.path).store(error)))
}

fn bind<'q>(
    statement: SqlStr,
    events: &'q [Event],
    birth: Option<&'q Birth>,
) -> Query<'q, Sqlite, SqliteArguments> {
    let query = sqlx::query(statement)
        .bind(birth.map(|birth| micros(birth.lease_for)))
        .bind(birth.map(|birth| birth.owner.to_string()));
    events.iter().fold(query, |query, event| {
        let (json, bytes) = match event.payload() {
            Payload::Json(text) => (Some(text.as_str()), None),
            Payload::Bytes(bytes) => (None, Some(bytes.as_slice())),
        };
        let (due_at, due_in) = match event.schedule() {
            Schedule::Now => (None, 0),
            Schedule::After(delay) => (None, micros(delay)),
            Schedule::At(at) => (Some(at.as_micros()), 0),
        };
        query
            .bind(event.id())
            .bind(event.event_type())
            .bind(event.aggregate_type())
            .bind(event.aggregate_id())
            .bind(event.tenant_id())
            .bind(event.key())
            .bind(event.partition())
            .bind(event.occurred_at().as_micros())
            .bind(event.headers().to_json())
            .bind(event.context().to_json())
            .bind(json)
            .bind(bytes)
            .bind(due_at)
            .bind(due_in)
            .bind(
                birth
                    .filter(|_| event.schedule() == Schedule::Now)
                    .map(|birth| birth.token.of_event(event.id()).0),
            )
    })
}

/// Which id was repeated, if that was it.
async fn explain(
    inner: &Inner,
    connection: &mut SqliteConnection,
    events: &[Event],
    error: sqlx::Error,
) -> InsertError {
    let is_repeated = error.as_database_error().is_some_and(|error| error.is_unique_violation());
    if is_repeated {
        let ids: Vec<&str> = events.iter().map(Event::id).collect();
        let query = sqlx::query_scalar(inner.statements.find_repeated.clone());
        let found = query.bind(serde_json::Value::from(ids).to_string()).fetch_optional(connection).await;
        if let Ok(Some(id)) = found {
            return InsertError::DuplicateId { id };
        }
    }
    InsertError::Store(Fault::of(&inner.path).store(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of events has a statement with room for it.
    #[test]
    fn a_statement_has_room_for_its_events() {
        let (inserts, one) = (Inserts::default(), include_str!("insert.sql").into_sql_str());

        for count in 1..=MOST_EVENTS {
            let rows = inserts.for_events(count, &one).as_str().matches(ROW).count();
            assert!((count..=MOST_EVENTS.min(2 * count)).contains(&rows), "{rows} rows for {count} events");
        }
    }
}
