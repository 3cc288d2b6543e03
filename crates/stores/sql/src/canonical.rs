//! The canonical INSERT: how adapters write events through a driver that is not ours.
//!
//! It is what the guide tells writers in other languages, with every value bound. An adapter asks for the text,
//! binds [`Insert::bound`] of each event in order, and puts what the driver answers into our words by
//! [`Insert::failed`].

mod failure;

use std::borrow::Cow;
use std::fmt::Write;

use pillarbox::store::StoreError;
use pillarbox::{Event, IntoEvent, Outbox, Payload, Schedule, Store, Timestamp, WriteError};

pub use failure::Cause;

use crate::{Names, chunks, micros, refusal, repeated_id};

/// How many values one event has.
pub const VALUES: usize = 14;

const SAVEPOINT: &str = "SAVEPOINT outbox_write";

/// MySQL answers a savepoint outside of a transaction with nothing done; to release it is an error then.
const SAVEPOINT_IN_TRANSACTION: &str =
    "SAVEPOINT outbox_write; RELEASE SAVEPOINT outbox_write; SAVEPOINT outbox_write";

/// After the last of the statements that follow [`Insert::savepoint`].
pub const KEEP: &str = "RELEASE SAVEPOINT outbox_write";

/// After one that failed.
pub const UNDO: &str = "ROLLBACK TO SAVEPOINT outbox_write";

/// The first and the last time that every database can hold: the years 1000 to 9999.
const EARLIEST: i64 = -30_610_224_000_000_000;
const LATEST: i64 = 253_402_300_799_999_999;

/// The first that PostgreSQL can hold: 24 November 4714 BC. The last lies behind what a [`Timestamp`] can be.
const EARLIEST_IN_POSTGRES: i64 = -210_866_803_200_000_000;

/// Where the tables of an outbox are: known to an [`Outbox`], to its store, and to [`Names`] by themselves.
pub trait Tables {
    /// Schema and prefix.
    fn names(&self) -> &Names;

    /// Whether what is written gets there, which only an outbox can deny; an error if nothing may be written.
    fn stores(&self) -> Result<bool, WriteError>;
}

impl Tables for Names {
    fn names(&self) -> &Names {
        self
    }

    fn stores(&self) -> Result<bool, WriteError> {
        Ok(true)
    }
}

impl<S: Store + Tables> Tables for Outbox<S> {
    fn names(&self) -> &Names {
        self.store().names()
    }

    fn stores(&self) -> Result<bool, WriteError> {
        self.stores()
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

    /// Refuses events whose `occurred_at` a column cannot hold.
    pub fn check_times(self, events: &[Event]) -> Result<(), StoreError> {
        for event in events {
            if let Some(objection) = self.objection(event.occurred_at()) {
                return Err(refusal(format!("`occurred_at` of `{}` lies {objection}", event.id())));
            }
        }
        Ok(())
    }

    /// Why a column cannot hold this point in time, if it cannot.
    fn objection(self, at: Timestamp) -> Option<&'static str> {
        match self {
            Self::Postgres if at.as_micros() < EARLIEST_IN_POSTGRES => Some("before the year 4713 BC"),
            Self::MySql if !(EARLIEST..=LATEST).contains(&at.as_micros()) => {
                Some("outside the years 1000 to 9999")
            }
            _ => None,
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

/// The values of an event by their numbers.
pub fn values(event: &Event) -> [Value<'_>; VALUES] {
    let text = |text| Value::Text(Some(Cow::Borrowed(text)));
    let perhaps = |text: Option<_>| Value::Text(text.map(Cow::Borrowed));
    let (json, bytes) = match event.payload() {
        Payload::Json(text) => (Some(text.as_str()), None),
        Payload::Bytes(bytes) => (None, Some(bytes.as_slice())),
    };
    let (due_at, due_in) = match event.schedule() {
        Schedule::Now => (None, 0),
        Schedule::After(delay) => (None, micros(delay)),
        Schedule::At(at) => (Some(at.as_micros().clamp(EARLIEST, LATEST)), 0),
    };
    [
        text(event.id()),
        text(event.event_type()),
        text(event.aggregate_type()),
        perhaps(event.aggregate_id()),
        perhaps(event.tenant_id()),
        perhaps(event.key()),
        Value::Number(Some(i64::from(event.partition()))),
        Value::Number(Some(event.occurred_at().as_micros())),
        Value::Text(event.headers().to_json().map(Cow::Owned)),
        Value::Text(event.context().to_json().map(Cow::Owned)),
        perhaps(json),
        Value::Bytes(bytes),
        Value::Number(due_at),
        Value::Number(Some(due_in)),
    ]
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

    /// The events of one call that are to be written: each is within all limits, no id comes twice, and the database can
    /// hold when each occurred. None if the outbox of `tables` stores none.
    pub fn checked<E: IntoEvent>(
        &self,
        tables: &impl Tables,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Vec<Event>, WriteError> {
        let events: Vec<Event> = events.into_iter().map(IntoEvent::into_event).collect::<Result<_, _>>()?;
        if let Some(id) = repeated_id(&events) {
            return Err(WriteError::DuplicateId { id });
        }
        self.database.check_times(&events).map_err(WriteError::Store)?;
        Ok(if tables.stores()? { events } else { Vec::new() })
    }

    /// What comes before the statements for `events`, if there are several and the database goes on after one that
    /// failed (PostgreSQL does not): so all of them are written or none. On MySQL it fails outside of a transaction.
    pub fn savepoint(&self, events: &[Event]) -> Option<&'static str> {
        chunks(events).nth(1)?;
        match self.database {
            Database::Postgres => None,
            Database::MySql => Some(SAVEPOINT_IN_TRANSACTION),
            Database::Sqlite => Some(SAVEPOINT),
        }
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
        Pieces(self.parts().1)
    }

    /// The values of an event in the order in which [`for_events`](Self::for_events) has places for them. MySQL's have
    /// no numbers: what stands twice is bound twice.
    pub fn bound<'e>(&self, event: &'e Event) -> Vec<Value<'e>> {
        let values = values(event);
        if self.database != Database::MySql {
            return values.into();
        }
        let places = self.row().filter_map(|piece| match piece {
            Piece::Sql(_) => None,
            Piece::Value(value) => Some(values[value].clone()),
        });
        places.collect()
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

/// Goes through a row, whose values are `$1` or `?1`.
struct Pieces(&'static str);

impl Iterator for Pieces {
    type Item = Piece<'static>;

    fn next(&mut self) -> Option<Piece<'static>> {
        let Some(from_sign) = self.0.strip_prefix(['$', '?']) else {
            let (sql, rest) = self.0.split_at(self.0.find(['$', '?']).unwrap_or(self.0.len()));
            self.0 = rest;
            return (!sql.is_empty()).then_some(Piece::Sql(sql));
        };
        let end = from_sign.find(|character: char| !character.is_ascii_digit()).unwrap_or(from_sign.len());
        let (number, rest) = from_sign.split_at(end);
        self.0 = rest;
        Some(Piece::Value(number.parse::<usize>().map_or(0, |number| number - 1)))
    }
}

#[cfg(test)]
mod tests;
