//! One statement for many events.

use pillarbox::store::{Birth, InsertError};
use pillarbox::{Event, Payload, Schedule};
use pillarbox_sql::canonical::Database;
use pillarbox_sql::{check_lease, chunks, micros, refusal, repeated_id};
use sqlx::Connection;
use sqlx::postgres::{PgConnection, PgDatabaseError};

use crate::store::{Inner, Query};
use crate::time::Instant;

pub(super) async fn insert(
    inner: &Inner,
    connection: &mut PgConnection,
    events: &[Event],
    birth: Option<&Birth>,
) -> Result<(), InsertError> {
    // By itself each statement would be a commit of its own.
    if !connection.is_in_transaction() {
        return Err(InsertError::Store(refusal(inner.line.place.ended_before())));
    }
    if let Some(birth) = birth {
        check_lease(birth.lease_for).map_err(InsertError::Store)?;
    }
    if let Some(id) = repeated_id(events) {
        return Err(InsertError::DuplicateId { id });
    }
    Database::Postgres.check_times(events).map_err(InsertError::Store)?;
    for chunk in chunks(events) {
        let query = match chunk {
            // The commonest write, without the machinery for many rows.
            [event] => insert_one(inner, event, birth),
            _ => insert_many(inner, chunk, birth),
        };
        // A statement that fails takes the whole transaction along, and with it the chunks before.
        query.execute(&mut *connection).await.map_err(|error| explain(inner, chunk, error))?;
    }
    Ok(())
}

fn insert_one(inner: &Inner, event: &Event, birth: Option<&Birth>) -> Query {
    let row = Values::of(event, birth);
    let birth = birth.filter(|_| row.lease_for.is_some());
    inner
        .query(&inner.statements.insert_one)
        .bind(event.id())
        .bind(event.event_type())
        .bind(event.aggregate_type())
        .bind(event.aggregate_id())
        .bind(event.tenant_id())
        .bind(event.key())
        .bind(row.partition)
        .bind(row.occurred_at)
        .bind(row.headers)
        .bind(row.context)
        .bind(row.json)
        .bind(row.bytes)
        .bind(row.due_at)
        .bind(row.due_in)
        .bind(row.lease_for)
        .bind(birth.map(|birth| birth.owner.to_string()))
        .bind(row.token)
}

fn insert_many(inner: &Inner, events: &[Event], birth: Option<&Birth>) -> Query {
    let rows: Vec<Values<'_>> = events.iter().map(|event| Values::of(event, birth)).collect();
    inner
        .query(&inner.statements.insert)
        .bind(column(events, Event::id))
        .bind(column(events, Event::event_type))
        .bind(column(events, Event::aggregate_type))
        .bind(column(events, Event::aggregate_id))
        .bind(sparse(events, Event::tenant_id))
        .bind(sparse(events, Event::key))
        .bind(column(&rows, |row| row.partition))
        .bind(column(&rows, |row| row.occurred_at))
        .bind(sparse(&rows, |row| row.headers.as_deref()))
        .bind(sparse(&rows, |row| row.context.as_deref()))
        .bind(sparse(&rows, |row| row.json))
        .bind(sparse(&rows, |row| row.bytes))
        .bind(sparse(&rows, |row| row.due_at))
        .bind(column(&rows, |row| row.due_in))
        .bind(sparse(&rows, |row| row.lease_for))
        .bind(sparse(&rows, |row| row.token))
        .bind(birth.map(|birth| birth.owner.to_string()))
}

fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// A column that is often NULL: `None` if it is for all rows, which costs nobody anything.
fn sparse<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> Option<T>) -> Option<Vec<Option<T>>> {
    let is_needed = rows.iter().any(|row| value(row).is_some());
    is_needed.then(|| column(rows, value))
}

/// What is bound of an event beside its names.
struct Values<'a> {
    partition: i16,
    occurred_at: Instant,
    headers: Option<String>,
    context: Option<String>,
    json: Option<&'a str>,
    bytes: Option<&'a [u8]>,
    due_at: Option<Instant>,
    due_in: i64,
    /// Of rows that are leased from birth: delayed ones are not.
    lease_for: Option<i64>,
    token: Option<i64>,
}

impl<'a> Values<'a> {
    fn of(event: &'a Event, birth: Option<&Birth>) -> Self {
        let (json, bytes) = match event.payload() {
            Payload::Json(text) => (Some(text.as_str()), None),
            Payload::Bytes(bytes) => (None, Some(bytes.as_slice())),
        };
        let (due_at, due_in) = match event.schedule() {
            Schedule::Now => (None, 0),
            Schedule::After(delay) => (None, micros(delay)),
            Schedule::At(at) => (Some(at.into()), 0),
        };
        let birth = birth.filter(|_| event.schedule() == Schedule::Now);
        Self {
            partition: i16::from(event.partition()),
            occurred_at: event.occurred_at().into(),
            headers: event.headers().to_json(),
            context: event.context().to_json(),
            json,
            bytes,
            due_at,
            due_in,
            lease_for: birth.map(|birth| micros(birth.lease_for)),
            token: birth.map(|birth| birth.token.of_event(event.id()).0),
        }
    }
}

/// Which id was repeated, if that was it. The transaction has failed, so nobody can be asked; but the server
/// tells the id, unless the role may not read it.
fn explain(inner: &Inner, events: &[Event], error: sqlx::Error) -> InsertError {
    let place = &inner.line.place;
    let said = error.as_database_error().and_then(|said| said.try_downcast_ref::<PgDatabaseError>());
    let is_id = |name: &str| name.ends_with("outbox_event_event_id_key");
    let is_repeated = |said: &&PgDatabaseError| said.code() == "23505" && said.constraint().is_none_or(is_id);
    let Some(said) = said.filter(is_repeated) else {
        return InsertError::Store(place.store(error));
    };
    let detail = said.detail().unwrap_or_default();
    let told = events.iter().map(Event::id).filter(|id| detail.contains(&format!("=({id})")));
    match (told.max_by_key(|id| id.len()), events) {
        (Some(id), _) => InsertError::DuplicateId { id: id.to_owned() },
        (None, [event]) => InsertError::DuplicateId { id: event.id().to_owned() },
        (None, _) => InsertError::Store(place.repeated_id(error)),
    }
}
