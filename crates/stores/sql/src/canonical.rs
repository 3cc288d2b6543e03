//! The canonical INSERT: how adapters write events through a driver that is not ours.
//!
//! It is what the guide tells writers in other languages, with every value bound. An adapter asks for the text,
//! binds [`values`] of each event in order, and puts what the driver answers into our words by [`Insert::failed`].

mod failure;

use std::borrow::Cow;
use std::fmt::Write;

use pillarbox::{Event, IntoEvent, Outbox, Payload, Schedule, Store, WriteError, partition_of};

pub use failure::Cause;

use crate::{Names, chunks, micros, repeated_id};

/// How many values one event is bound as.
pub const VALUES: usize = 14;

/// Before the statements of a call that needs several, where a failed one leaves the transaction open: so all
/// events of the call are written or none.
pub const SAVEPOINT: &str = "SAVEPOINT outbox_write";

/// After the last of these statements.
pub const KEEP: &str = "RELEASE SAVEPOINT outbox_write";

/// After one that failed.
pub const UNDO: &str = "ROLLBACK TO SAVEPOINT outbox_write";

/// The first and the last due time that every database can hold: the years 1000 to 9999.
const EARLIEST: i64 = -30_610_224_000_000_000;
const LATEST: i64 = 253_402_300_799_999_999;

/// Where the tables of an outbox are: known to an [`Outbox`], to its store, and to [`Names`] by themselves.
pub trait Tables {
    /// Schema and prefix.
    fn names(&self) -> &Names;
}

impl Tables for Names {
    fn names(&self) -> &Names {
        self
    }
}

impl<S: Store + Tables> Tables for Outbox<S> {
    fn names(&self) -> &Names {
        self.store().names()
    }
}

/// The databases that have a canonical INSERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// PostgreSQL. Values are `$1`, `$2`, … of the types `text`, `bytea` and `bigint`.
    Postgres,
    /// MySQL and MariaDB. Values are `?`.
    MySql,
    /// SQLite. Values are `?1`, `?2`, ….
    Sqlite,
}

impl Database {
    const fn sql(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("canonical/postgres.sql"),
            Self::MySql => include_str!("canonical/mysql.sql"),
            Self::Sqlite => include_str!("canonical/sqlite.sql"),
        }
    }
}

/// A value as it is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'e> {
    /// Text, or NULL.
    Text(Option<Cow<'e, str>>),
    /// Bytes, or NULL.
    Bytes(Option<&'e [u8]>),
    /// A whole number, or NULL; times are microseconds, since 1970 or from now.
    Number(Option<i64>),
}

/// The values of an event in the order in which they are bound.
pub fn values(event: &Event) -> [Value<'_>; VALUES] {
    let text = |text| Value::Text(Some(Cow::Borrowed(text)));
    let perhaps = |text: Option<_>| Value::Text(text.map(Cow::Borrowed));
    let (json, bytes) = match event.payload() {
        Payload::Json(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(bytes.as_slice())),
    };
    let (due_at, due_in) = match event.schedule() {
        Schedule::Now => (None, 0),
        Schedule::After(delay) => (None, micros(delay).min(LATEST / 2)),
        Schedule::At(at) => (Some(at.as_micros().clamp(EARLIEST, LATEST)), 0),
    };
    [
        text(event.id()),
        text(event.event_type()),
        text(event.aggregate_type()),
        perhaps(event.aggregate_id()),
        perhaps(event.tenant_id()),
        perhaps(event.key()),
        Value::Number(event.key().map(|key| i64::from(partition_of(key)))),
        Value::Number(Some(event.occurred_at().as_micros())),
        Value::Text(event.headers().to_json().map(Cow::Owned)),
        Value::Text(event.context().to_json().map(Cow::Owned)),
        perhaps(json),
        Value::Bytes(bytes),
        Value::Number(due_at),
        Value::Number(Some(due_in)),
    ]
}

/// The events of one call: each is within all limits, and no id comes twice.
pub fn checked<E: IntoEvent>(events: impl IntoIterator<Item = E>) -> Result<Vec<Event>, WriteError> {
    let events: Vec<Event> = events.into_iter().map(IntoEvent::into_event).collect::<Result<_, _>>()?;
    match repeated_id(&events) {
        Some(id) => Err(WriteError::DuplicateId { id }),
        None => Ok(events),
    }
}

/// A part of the SQL for one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'s> {
    /// SQL as it stands.
    Sql(&'s str),
    /// The place of the value with this number, counted from 0.
    Value(usize),
}

/// The canonical INSERT of a database, for an outbox whose tables have certain names.
#[derive(Clone, Debug)]
pub struct Insert {
    database: Database,
    table: String,
}

impl Insert {
    /// The INSERT into the table that `names` lead to.
    pub fn new(database: Database, names: &Names) -> Self {
        let table = match database {
            Database::Postgres => names.quoted().table("outbox_event"),
            Database::MySql | Database::Sqlite => names.table("outbox_event"),
        };
        Self { database, table }
    }

    /// Whether `events` need the [`SAVEPOINT`]: they make several statements, and the database goes on after one
    /// that failed. PostgreSQL does not.
    pub fn needs_savepoint(&self, events: &[Event]) -> bool {
        self.database != Database::Postgres && chunks(events).nth(1).is_some()
    }

    /// The table's full name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What stands before the rows: `INSERT INTO … VALUES` and a space.
    pub fn head(&self) -> String {
        let (head, _) = self.parts();
        head.replace("outbox_event", &self.table)
    }

    /// One row, with brackets. Rows are parted by commas.
    pub fn row(&self) -> impl Iterator<Item = Piece<'static>> + use<> {
        Pieces { rest: self.parts().1, values: 0 }
    }

    /// The statement for `events` events at once.
    pub fn for_events(&self, events: usize) -> String {
        let mut sql = self.head();
        for event in 0..events {
            if event > 0 {
                sql.push_str(", ");
            }
            for piece in self.row() {
                match (piece, self.database) {
                    (Piece::Sql(text), _) => sql.push_str(text),
                    (Piece::Value(_), Database::MySql) => sql.push('?'),
                    (Piece::Value(value), database) => {
                        let sign = if database == Database::Postgres { '$' } else { '?' };
                        // Writing to a string does not fail.
                        let _ = write!(sql, "{sign}{}", event * VALUES + value + 1);
                    }
                }
            }
        }
        sql
    }

    fn parts(&self) -> (&'static str, &'static str) {
        let sql = self.database.sql().trim_end();
        sql.split_at(sql.find("VALUES").map_or(0, |at| at + "VALUES ".len()))
    }
}

/// Goes through a row; `?` without a number stands for the value after the last.
struct Pieces {
    rest: &'static str,
    values: usize,
}

impl Iterator for Pieces {
    type Item = Piece<'static>;

    fn next(&mut self) -> Option<Piece<'static>> {
        let Some(from_sign) = self.rest.strip_prefix(['$', '?']) else {
            let (sql, rest) = self.rest.split_at(self.rest.find(['$', '?']).unwrap_or(self.rest.len()));
            self.rest = rest;
            return (!sql.is_empty()).then_some(Piece::Sql(sql));
        };
        let end = from_sign.find(|character: char| !character.is_ascii_digit()).unwrap_or(from_sign.len());
        let (number, rest) = from_sign.split_at(end);
        self.rest = rest;
        self.values += 1;
        Some(Piece::Value(number.parse().unwrap_or(self.values) - 1))
    }
}

#[cfg(test)]
mod tests;
