//! Rows as they come from the table.

use std::time::Duration;

use pillarbox::store::{Lease, Outline, Status, StoredEvent, Taken, Token};
use pillarbox::{Event, EventParts, Headers, Payload, Timestamp};
use sqlx::mysql::{MySql, MySqlRow};
use sqlx::{Decode, Row, Type};

use crate::time::Moment;

/// The row of an event that is handed out under `token`.
pub(crate) fn taken(row: &MySqlRow, token: Token) -> Result<Taken, sqlx::Error> {
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
        due_for: wait(row, "due_for")?.unwrap_or_default(),
        handlers: lossy(row, "handlers")?,
        event: check_state(row).and_then(|()| event(row)),
    })
}

/// The row of an event as an operator sees it.
pub(crate) fn stored(row: &MySqlRow) -> Result<StoredEvent, sqlx::Error> {
    let status: i64 = row.try_get("status")?;
    Ok(StoredEvent {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        starts: count(row, "starts")?,
        created_at: time(row, "created_at")?,
        due_at: time(row, "due_at")?,
        available_at: time(row, "available_at")?,
        done_at: row.try_get::<Option<Moment>, _>("done_at")?.map(|Moment(at)| at),
        locked_by: lossy(row, "locked_by")?,
        last_error: lossy(row, "last_error")?,
        reason: lossy(row, "reason")?,
        handlers: lossy(row, "handlers")?,
        event: event(row),
    })
}

/// The row of an event without what it carries.
pub(crate) fn outline(row: &MySqlRow) -> Result<Outline, sqlx::Error> {
    let status: i64 = row.try_get("status")?;
    Ok(Outline {
        seq: row.try_get("seq")?,
        event_id: event_id(row)?,
        event_type: lossy(row, "event_type")?.unwrap_or_default(),
        aggregate_id: lossy(row, "aggregate_id")?,
        key: key(row)?,
        status: Status::from_code(status).ok_or(status),
        attempts: count(row, "attempts")?,
        created_at: time(row, "created_at")?,
        done_at: row.try_get::<Option<Moment>, _>("done_at")?.map(|Moment(at)| at),
        last_error: lossy(row, "last_error")?,
        reason: lossy(row, "reason")?,
    })
}

/// Finds what the table's CHECK constraints refuse, unless they were switched off.
fn check_state(row: &MySqlRow) -> Result<(), String> {
    for name in ["attempts", "starts"] {
        let count: i64 = column(row, name)?;
        if u32::try_from(count).is_err() {
            return Err(format!("the column `{name}` holds {count}, which is no count"));
        }
    }
    Ok(())
}

fn event(row: &MySqlRow) -> Result<Event, String> {
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
        occurred_at: column::<Moment>(row, "occurred_at")?.0,
        headers: headers(row, "headers")?,
        context: headers(row, "context")?,
        payload,
    }))
}

fn headers(row: &MySqlRow, name: &str) -> Result<Headers, String> {
    let json: Option<&str> = column(row, name)?;
    Headers::from_json(json).map_err(|error| format!("the column `{name}` cannot be read: {error}"))
}

/// A value, or a reason that names the column.
fn column<'r, T>(row: &'r MySqlRow, name: &str) -> Result<T, String>
where
    T: Decode<'r, MySql> + Type<MySql>,
{
    row.try_get(name).map_err(|error| match error {
        sqlx::Error::ColumnDecode { source, .. } => format!("the column `{name}` cannot be read: {source}"),
        other => format!("the column `{name}` cannot be read: {other}"),
    })
}

/// The id of an event, as well as it can be read.
pub(crate) fn event_id(row: &MySqlRow) -> Result<String, sqlx::Error> {
    Ok(lossy(row, "event_id")?.unwrap_or_default())
}

/// The key of an event, as well as it can be read.
pub(crate) fn key(row: &MySqlRow) -> Result<Option<String>, sqlx::Error> {
    lossy(row, "event_key")
}

/// A text for people, whatever bytes it is made of.
pub(crate) fn lossy(row: &MySqlRow, name: &str) -> Result<Option<String>, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get(name)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Microseconds, of which less than none are none; `None` if there is no value.
pub(crate) fn wait(row: &MySqlRow, name: &str) -> Result<Option<Duration>, sqlx::Error> {
    let micros: Option<i64> = row.try_get(name)?;
    Ok(micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0))))
}

fn count(row: &MySqlRow, name: &str) -> Result<u32, sqlx::Error> {
    let count: i64 = row.try_get(name)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// A time that the database wrote. A zero date, which a careless session can put there, counts as 1970: one such
/// row must not stand in the way of all others.
pub(crate) fn time(row: &MySqlRow, name: &str) -> Result<Timestamp, sqlx::Error> {
    match row.try_get(name) {
        Ok(Moment(at)) => Ok(at),
        Err(sqlx::Error::ColumnDecode { .. }) => Ok(Timestamp::from_micros(0)),
        Err(error) => Err(error),
    }
}
