//! Rows as they come from the table.

use std::time::Duration;

use pillarbox::store::{Lease, Outline, Status, StoredEvent, Taken, Token};
use pillarbox::{Event, EventParts, Headers, Payload, Timestamp};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};

use crate::time::Instant;

/// The row of an event that is handed out under `token`.
pub(crate) fn taken(row: &PgRow, token: Token) -> Result<Taken, sqlx::Error> {
    let lease = Lease {
        seq: row.try_get("seq")?,
        token,
        attempts: count(row, "attempts")?,
        starts: count(row, "starts")?,
    };
    let now: Instant = row.try_get("now")?;
    Ok(Taken {
        lease,
        event_id: row.try_get("event_id")?,
        created_at: time(row, "created_at")?,
        due_for: Duration::from_micros(now.micros_since(row.try_get("due_at")?)),
        handlers: row.try_get("handlers")?,
        event: event(row),
    })
}

/// What the defaults of two columns may differ by in a row that was written by hand: each is the moment at which it was
/// computed. Nobody delays an event by less.
const DEFAULTS_APART: u64 = 1_000;

/// How long the event of this row has to wait for a time of its own.
pub(crate) fn ready_in(row: &PgRow) -> Result<Duration, sqlx::Error> {
    let now = row.try_get("now")?;
    let status = i64::from(row.try_get::<i16, _>("status")?);
    if Status::from_code(status) == Some(Status::Retry) {
        return Ok(aside_for(row.try_get("available_at")?, now));
    }
    // A lease that is left from the mode `claims` means nothing.
    let (created_at, due_at): (Instant, Instant) = (row.try_get("created_at")?, row.try_get("due_at")?);
    let is_delayed = due_at.micros_since(created_at) > DEFAULTS_APART;
    Ok(Duration::from_micros(if is_delayed { due_at.micros_since(now) } else { 0 }))
}

/// How long an event that was set aside waits for a time of its own: not at all if it waits for its key.
pub(crate) fn aside_for(available_at: Instant, now: Instant) -> Duration {
    if available_at == Instant::ENDLESS {
        return Duration::ZERO;
    }
    Duration::from_micros(available_at.micros_since(now))
}

/// The partition of this row, if it has one.
pub(crate) fn partition(row: &PgRow) -> Result<Option<u8>, sqlx::Error> {
    let number: Option<i16> = row.try_get("event_partition")?;
    let partition = number.map(u8::try_from).transpose();
    partition
        .map_err(|error| sqlx::Error::ColumnDecode { index: "event_partition".into(), source: error.into() })
}

/// The row of an event as an operator sees it.
pub(crate) fn stored(row: &PgRow) -> Result<StoredEvent, sqlx::Error> {
    let status = i64::from(row.try_get::<i16, _>("status")?);
    let done_at: Option<Instant> = row.try_get("done_at")?;
    Ok(StoredEvent {
        seq: row.try_get("seq")?,
        event_id: row.try_get("event_id")?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        starts: count(row, "starts")?,
        created_at: time(row, "created_at")?,
        due_at: time(row, "due_at")?,
        available_at: time(row, "available_at")?,
        done_at: done_at.map(Timestamp::from),
        locked_by: row.try_get("locked_by")?,
        last_error: row.try_get("last_error")?,
        reason: row.try_get("reason")?,
        handlers: row.try_get("handlers")?,
        event: event(row),
    })
}

/// The row of an event without what it carries.
pub(crate) fn outline(row: &PgRow) -> Result<Outline, sqlx::Error> {
    let status = i64::from(row.try_get::<i16, _>("status")?);
    let done_at: Option<Instant> = row.try_get("done_at")?;
    Ok(Outline {
        seq: row.try_get("seq")?,
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        key: row.try_get("event_key")?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        created_at: time(row, "created_at")?,
        done_at: done_at.map(Timestamp::from),
        last_error: row.try_get("last_error")?,
        reason: row.try_get("reason")?,
    })
}

fn event(row: &PgRow) -> Result<Event, String> {
    let payload = match json(row, "payload")? {
        Some(json) => Payload::Json(json.to_owned()),
        None => Payload::Bytes(column(row, "payload_bytes")?),
    };
    Ok(Event::restore(EventParts {
        id: column(row, "event_id")?,
        event_type: column(row, "event_type")?,
        aggregate_type: column(row, "aggregate_type")?,
        aggregate_id: column(row, "aggregate_id")?,
        key: column(row, "event_key")?,
        tenant_id: column(row, "tenant_id")?,
        occurred_at: column::<Instant>(row, "occurred_at")?.into(),
        headers: headers(row, "headers")?,
        context: headers(row, "context")?,
        payload,
    }))
}

fn headers(row: &PgRow, name: &str) -> Result<Headers, String> {
    Headers::from_json(json(row, name)?).map_err(|error| unreadable(name, error))
}

/// The text of a JSON column. Its type is not checked, because the driver does not take `json` for text.
fn json<'r>(row: &'r PgRow, name: &str) -> Result<Option<&'r str>, String> {
    row.try_get_unchecked(name).map_err(|error| unreadable(name, error))
}

/// A value, or a reason that names the column.
fn column<'r, T>(row: &'r PgRow, name: &str) -> Result<T, String>
where
    T: Decode<'r, Postgres> + Type<Postgres>,
{
    row.try_get(name).map_err(|error| match error {
        sqlx::Error::ColumnDecode { source, .. } => unreadable(name, source),
        other => unreadable(name, other),
    })
}

fn unreadable(name: &str, error: impl std::fmt::Display) -> String {
    format!("the column `{name}` cannot be read: {error}")
}

fn count(row: &PgRow, name: &str) -> Result<u32, sqlx::Error> {
    let count: i32 = row.try_get(name)?;
    Ok(count.max(0).unsigned_abs())
}

fn time(row: &PgRow, name: &str) -> Result<Timestamp, sqlx::Error> {
    row.try_get::<Instant, _>(name).map(Timestamp::from)
}
