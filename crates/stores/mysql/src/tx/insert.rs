//! One statement for many events.

use std::sync::{Arc, OnceLock};

use pillarbox::store::{Birth, InsertError};
use pillarbox::{Event, Payload, Schedule};
use pillarbox_sql::canonical::Database;
use pillarbox_sql::{check_lease, chunks, micros, repeated_id};
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, SqlStr};

use crate::fault;
use crate::statements::{MySqlQuery, Statements};
use crate::store::Inner;
use crate::time::nearest;

/// Statements for up to this many events stay prepared. One that does not is closed after use, which nobody answers:
/// the driver leaves Nagle's algorithm on, and what is sent next, the commit, then waits 40 ms for an acknowledgement.
const KEPT: usize = 32;

/// Fails outside of a transaction, where a savepoint alone does nothing: each statement would be a commit of its own.
const SAVEPOINT: &str = include_str!("savepoint.sql");

/// What the events of a statement need beside what they are: each kind has a statement of its own, for every value and
/// every expression more costs each row.
#[derive(Clone, Copy)]
enum Kind {
    /// Due now, for whoever takes them.
    Free,
    /// Due now, and leased to who writes them.
    Leased,
    /// Some are due later; the others may be leased.
    Scheduled,
}

impl Kind {
    fn of(events: &[Event], birth: Option<&Birth>) -> Self {
        match birth {
            _ if events.iter().any(|event| event.schedule() != Schedule::Now) => Self::Scheduled,
            Some(_) => Self::Leased,
            None => Self::Free,
        }
    }
}

/// Statements for 1 to [`KEPT`] events of each kind.
#[derive(Default)]
pub(crate) struct Inserts([[OnceLock<SqlStr>; KEPT]; 3]);

impl Inserts {
    fn for_events(&self, count: usize, kind: Kind, statements: &Statements) -> SqlStr {
        let one = match kind {
            Kind::Free => &statements.insert,
            Kind::Leased => &statements.insert_leased,
            Kind::Scheduled => &statements.insert_scheduled,
        };
        match self.0[kind as usize].get(count - 1) {
            Some(kept) => kept.get_or_init(|| repeated(count, one)).clone(),
            None => repeated(count, one),
        }
    }
}

/// `one`, with its row of values repeated.
fn repeated(count: usize, one: &SqlStr) -> SqlStr {
    const VALUES: &str = "VALUES ";
    let (head, row) = one.as_str().trim_end().split_once(VALUES).unwrap_or((one.as_str(), ""));
    let sql = format!("{head}{VALUES}{}", vec![row; count].join(",\n"));
    AssertSqlSafe(Arc::<str>::from(sql)).into_sql_str()
}

pub(super) async fn insert(
    inner: &Inner,
    connection: &mut MySqlConnection,
    events: &[Event],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    if let Some(birth) = birth {
        check_lease(birth.lease_for).map_err(InsertError::Store)?;
    }
    if let Some(id) = repeated_id(events) {
        return Err(InsertError::DuplicateId { id });
    }
    Database::MySql.check_times(events).map_err(InsertError::Store)?;
    let chunks: Vec<&[Event]> = chunks(events).collect();
    let [several @ .., last] = chunks.as_slice() else { return Ok(()) };
    if several.is_empty() {
        return insert_chunk(inner, connection, last, birth).await;
    }
    insert_chunks(inner, connection, &chunks, birth).await
}

/// Inserts all of them or none. A user who may only insert can delete nothing, but go back to a savepoint.
async fn insert_chunks(
    inner: &Inner,
    connection: &mut MySqlConnection,
    chunks: &[&[Event]],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    let failed = |error| InsertError::Store(inner.line.place.insert(error, 0));
    connection.execute(SAVEPOINT).await.map_err(failed)?;
    for chunk in chunks {
        if let Err(error) = insert_chunk(inner, connection, chunk, birth).await {
            // After a deadlock there is nothing to go back to: all was rolled back.
            let _ = connection.execute("ROLLBACK TO SAVEPOINT pillarbox_insert").await;
            return Err(error);
        }
    }
    connection.execute("RELEASE SAVEPOINT pillarbox_insert").await.map(drop).map_err(failed)
}

async fn insert_chunk(
    inner: &Inner,
    connection: &mut MySqlConnection,
    events: &[Event],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    let kind = Kind::of(events, birth);
    let statement = inner.inserts.for_events(events.len(), kind, &inner.statements);
    let query = sqlx::query(statement).persistent(events.len() <= KEPT);
    let query = events.iter().fold(query, |query, event| {
        let query = bind(query, event);
        match (kind, birth) {
            (Kind::Free, _) | (Kind::Leased, None) => query,
            (Kind::Leased, Some(birth)) => bind_birth(query, event, birth),
            (Kind::Scheduled, _) => bind_schedule(query, event, birth),
        }
    });
    query.execute(connection).await.map(drop).map_err(|error| explain(inner, events, error))
}

/// Binds what an event is.
fn bind<'q>(query: MySqlQuery<'q>, event: &'q Event) -> MySqlQuery<'q> {
    let (json, bytes) = match event.payload() {
        Payload::Json(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(bytes.as_slice())),
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
}

/// Binds how long an event is leased, and to whom.
fn bind_birth<'q>(query: MySqlQuery<'q>, event: &Event, birth: &'q Birth) -> MySqlQuery<'q> {
    query.bind(micros(birth.lease_for)).bind(birth.owner.to_string()).bind(birth.token.of_event(event.id()).0)
}

/// Binds when an event is due; one that is due now may be leased. None of these is computed from another column: who
/// may only insert can read none.
fn bind_schedule<'q>(query: MySqlQuery<'q>, event: &'q Event, birth: Option<&'q Birth>) -> MySqlQuery<'q> {
    let (due_at, due_in) = match event.schedule() {
        Schedule::Now => (None, 0),
        Schedule::After(after) => (None, micros(after)),
        Schedule::At(at) => (Some(nearest(at)), 0),
    };
    let birth = birth.filter(|_| event.schedule() == Schedule::Now);
    query
        .bind(due_at)
        .bind(due_in)
        .bind(due_at)
        .bind(birth.map_or(due_in, |birth| micros(birth.lease_for)))
        .bind(birth.map(|birth| birth.owner.to_string()))
        .bind(birth.map(|birth| birth.token.of_event(event.id()).0))
        .bind(birth.map(|_| 0))
        .bind(i32::from(birth.is_some()))
}

/// Which id was repeated, if that was it: the server names the value and the key.
fn explain(inner: &Inner, events: &[Event], error: sqlx::Error) -> InsertError {
    let said = fault::repeated_entry(&error).filter(|said| said.contains("outbox_event_id"));
    let repeated = said.and_then(|said| {
        let is_named = |event: &&Event| said.contains(&format!("'{}' for key", event.id()));
        events.iter().find(is_named).or(events.first().filter(|_| events.len() == 1))
    });
    match repeated {
        Some(event) => InsertError::DuplicateId { id: event.id().to_owned() },
        None => {
            let bytes = events.iter().map(|event| event.payload().as_bytes().len()).sum();
            InsertError::Store(inner.line.place.insert(error, bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use pillarbox_sql::Names;

    use super::*;

    /// W2: one statement has a row of values for every event.
    #[test]
    fn a_statement_has_room_for_its_events() {
        let (inserts, statements) = (Inserts::default(), Statements::new(&Names::default()));

        for (kind, values) in [(Kind::Free, 12), (Kind::Leased, 15), (Kind::Scheduled, 20)] {
            for count in [1, 2, KEPT, KEPT + 1, 500] {
                let statement = inserts.for_events(count, kind, &statements);
                assert_eq!(statement.as_str().matches('?').count(), values * count);
            }
        }
    }
}
