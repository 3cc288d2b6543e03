//! One statement for many events.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use pillarbox::store::{Birth, InsertError};
use pillarbox::{Event, Payload, Schedule};
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::fault::{self, Fault};
use crate::row::micros;
use crate::store::Inner;
use crate::take::check_lease;

/// The most events of one statement.
const MOST_EVENTS: usize = 500;

/// The most bytes of payload of one statement, unless one event alone has more.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The row of parameters in the file, which is repeated for further events.
const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

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
    if let Some(id) = repeated(events) {
        return Err(InsertError::DuplicateId { id });
    }
    if inner.own.is_rolled_back(connection) {
        let reason = "the transaction was rolled back at an earlier statement; begin a new one";
        return Err(InsertError::Store(fault::refusal(reason)));
    }
    let mut inserted: Option<(i64, i64)> = None;
    for chunk in Chunks(events) {
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

/// An id that is in this call twice.
fn repeated(events: &[Event]) -> Option<String> {
    if events.len() < 2 {
        return None;
    }
    let mut ids = HashSet::with_capacity(events.len());
    events.iter().map(Event::id).find(|&id| !ids.insert(id)).map(str::to_owned)
}

fn bind<'q>(
    statement: SqlStr,
    events: &'q [Event],
    birth: Option<&'q Birth>,
) -> Query<'q, Sqlite, SqliteArguments> {
    let query = sqlx::query(statement)
        .bind(birth.map(|birth| micros(birth.lease_for)))
        .bind(birth.map(|birth| birth.owner.to_string()))
        .bind(birth.map(|birth| birth.token.0));
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
            .bind(event.occurred_at().as_micros())
            .bind(event.headers().to_json())
            .bind(event.context().to_json())
            .bind(json)
            .bind(bytes)
            .bind(due_at)
            .bind(due_in)
            .bind(birth.is_some() && event.schedule() == Schedule::Now)
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

/// Runs of events that fit into one statement.
struct Chunks<'a>(&'a [Event]);

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [Event];

    fn next(&mut self) -> Option<&'a [Event]> {
        let mut bytes = 0;
        let fits = self.0.iter().take(MOST_EVENTS).take_while(|event| {
            bytes += event.payload().as_bytes().len();
            bytes <= MOST_BYTES
        });
        let count = fits.count().max(1).min(self.0.len());
        let (chunk, rest) = self.0.split_at(count);
        self.0 = rest;
        (!chunk.is_empty()).then_some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(events: &[Event]) -> Vec<usize> {
        Chunks(events).map(<[Event]>::len).collect()
    }

    fn of_bytes(size: usize) -> Event {
        Event::of_bytes("OrderPlaced", vec![0; size]).unwrap()
    }

    /// W2: a statement has at most 500 events.
    #[test]
    fn a_chunk_ends_after_500_events() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();

        assert_eq!(lengths(&[]), [0; 0]);
        assert_eq!(lengths(&vec![event.clone(); 500]), [500]);
        assert_eq!(lengths(&vec![event; 1_001]), [500, 500, 1]);
    }

    /// W2: a statement has at most 4 MiB of payload.
    #[test]
    fn a_chunk_ends_after_4_mib() {
        assert_eq!(lengths(&vec![of_bytes(1 << 20); 9]), [4, 4, 1]);
    }

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
