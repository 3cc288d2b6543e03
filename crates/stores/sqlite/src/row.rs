//! Rows as they come from the table.

use std::collections::HashMap;
use std::time::Duration;

use pillarbox::store::{Fetched, Lease, Outline, Status, StoredEvent, Taken, Token};
use pillarbox::{Event, EventParts, Headers, Payload, Timestamp};
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{Decode, Row, Type};

/// The row of an event that is handed out under `token`.
pub(crate) fn taken(row: &SqliteRow, token: Token) -> Result<Taken, sqlx::Error> {
    let lease = Lease {
        seq: row.try_get("seq")?,
        token,
        attempts: count(row, "attempts")?,
        starts: count(row, "starts")?,
    };
    Ok(Taken {
        lease,
        event_id: event_id(row)?,
        created_at: time(row, "created_at")?,
        due_for: span(row, "due_for")?,
        handlers: lossy(row, "handlers")?,
        event: check_state(row).and_then(|()| event(row)),
    })
}

/// The row of an event as the owner of its partition reads it, under the token of that.
pub(crate) fn fetched(row: &SqliteRow, tokens: &HashMap<u8, Token>) -> Result<Fetched, sqlx::Error> {
    let partition = row.try_get("event_partition")?;
    let unasked = || sqlx::Error::Decode(format!("the partition {partition} was not asked for").into());
    let taken = taken(row, *tokens.get(&partition).ok_or_else(unasked)?)?;
    Ok(Fetched { taken, key: key(row)?, ready_in: span(row, "ready_in")? })
}

/// The row of an event as an operator sees it.
pub(crate) fn stored(row: &SqliteRow) -> Result<StoredEvent, sqlx::Error> {
    let status: i64 = row.try_get("status")?;
    let done_at: Option<i64> = row.try_get("done_at")?;
    Ok(StoredEvent {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        starts: count(row, "starts")?,
        created_at: time(row, "created_at")?,
        due_at: time(row, "due_at")?,
        available_at: time(row, "available_at")?,
        done_at: done_at.map(Timestamp::from_micros),
        locked_by: lossy(row, "locked_by")?,
        last_error: lossy(row, "last_error")?,
        reason: lossy(row, "reason")?,
        handlers: lossy(row, "handlers")?,
        event: event(row),
    })
}

/// The row of an event without what it carries.
pub(crate) fn outline(row: &SqliteRow) -> Result<Outline, sqlx::Error> {
    let status: i64 = row.try_get("status")?;
    let done_at: Option<i64> = row.try_get("done_at")?;
    Ok(Outline {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        event_type: lossy(row, "event_type")?.unwrap_or_default(),
        aggregate_id: lossy(row, "aggregate_id")?,
        key: lossy(row, "event_key")?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        created_at: time(row, "created_at")?,
        done_at: done_at.map(Timestamp::from_micros),
        last_error: lossy(row, "last_error")?,
        reason: lossy(row, "reason")?,
    })
}

/// Finds what the table's CHECK constraints refuse, unless they were switched off.
fn check_state(row: &SqliteRow) -> Result<(), String> {
    let status: i64 = column(row, "status")?;
    if Status::from_code(status).is_none() {
        return Err(format!("the column `status` holds {status}, which is no status"));
    }
    for name in ["attempts", "starts"] {
        let count: i64 = column(row, name)?;
        if u32::try_from(count).is_err() {
            return Err(format!("the column `{name}` holds {count}, which is no count"));
        }
    }
    Ok(())
}

fn event(row: &SqliteRow) -> Result<Event, String> {
    let payload = match column::<Option<String>>(row, "payload")? {
        Some(json) => Payload::Json(json),
        None => Payload::Bytes(column(row, "payload_bytes")?),
    };
    Ok(Event::restore(EventParts {
        id: column(row, "event_id")?,
        event_type: column(row, "event_type")?,
        aggregate_type: column(row, "aggregate_type")?,
        aggregate_id: column(row, "aggregate_id")?,
        key: column(row, "event_key")?,
        tenant_id: column(row, "tenant_id")?,
        occurred_at: Timestamp::from_micros(column(row, "occurred_at")?),
        headers: headers(row, "headers")?,
        context: headers(row, "context")?,
        payload,
    }))
}

fn headers(row: &SqliteRow, name: &str) -> Result<Headers, String> {
    let json: Option<&str> = column(row, name)?;
    Headers::from_json(json).map_err(|error| format!("the column `{name}` cannot be read: {error}"))
}

/// A value, or a reason that names the column.
fn column<'r, T>(row: &'r SqliteRow, name: &str) -> Result<T, String>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    row.try_get(name).map_err(|error| match error {
        sqlx::Error::ColumnDecode { source, .. } => format!("the column `{name}` cannot be read: {source}"),
        other => format!("the column `{name}` cannot be read: {other}"),
    })
}

/// The id of an event, as well as it can be read.
pub(crate) fn event_id(row: &SqliteRow) -> Result<String, sqlx::Error> {
    Ok(lossy(row, "event_id")?.unwrap_or_default())
}

/// A text for people, whatever bytes it is made of.
pub(crate) fn lossy(row: &SqliteRow, name: &str) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get(name)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// The key, if the row has one that is a text: any other belongs to no event.
pub(crate) fn key(row: &SqliteRow) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get("event_key")?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes.to_owned()).ok()))
}

fn count(row: &SqliteRow, name: &str) -> Result<u32, sqlx::Error> {
    let count: i64 = row.try_get(name)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

fn time(row: &SqliteRow, name: &str) -> Result<Timestamp, sqlx::Error> {
    row.try_get(name).map(Timestamp::from_micros)
}

/// A span of microseconds; none, if it is negative.
pub(crate) fn span(row: &SqliteRow, name: &str) -> Result<Duration, sqlx::Error> {
    Ok(Duration::from_micros(u64::try_from(row.try_get::<i64, _>(name)?).unwrap_or(0)))
}
