//! What a driver answers to the canonical INSERT, in our words.

use std::error::Error;

use pillarbox::store::StoreError;
use pillarbox::{Event, WriteError};

use super::Insert;

/// Why an INSERT failed, as far as a driver lets one know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An event id is in the table already.
    Repeated,
    /// There is no such table.
    Missing,
    /// The role may not write to the table.
    Denied,
    /// The database cannot do it now, or lost the connection.
    Unavailable,
    /// The transaction had ended before.
    Ended,
    /// The database does not want this statement.
    Refused,
}

impl Cause {
    /// The cause by the SQLSTATE that PostgreSQL, MySQL or MariaDB gave.
    pub fn of_sqlstate(state: &str) -> Self {
        match state {
            "23505" => Self::Repeated,
            "42P01" | "42S02" => Self::Missing,
            "42501" => Self::Denied,
            // A lock that was not to be had, and a server that has become a standby.
            "55P03" | "25006" => Self::Unavailable,
            _ => match state.get(..2) {
                // Lost connections; deadlocks; no resources; the operator's doing; the system's. MySQL has `HY`
                // for all that the standard does not know, the end of a wait for a lock among it.
                Some("08" | "40" | "53" | "57" | "58" | "HY") => Self::Unavailable,
                _ => Self::Refused,
            },
        }
    }

    /// The cause by the number and the SQLSTATE that MySQL or MariaDB gave, which has few states for many errors.
    pub fn of_mysql(number: u16, state: &str) -> Self {
        match number {
            1062 => Self::Repeated,
            1049 | 1146 => Self::Missing,
            1044 | 1142 | 1143 | 1227 | 1370 => Self::Denied,
            1305 => Self::Ended,
            // A definer that is gone, a statement that cannot be logged, one that is too large, a CHECK.
            1153 | 1449 | 1665 | 3819 => Self::Refused,
            _ => Self::of_sqlstate(state),
        }
    }

    /// The cause by the code that SQLite gave, which may be an extended one.
    pub fn of_sqlite(code: &str) -> Self {
        let primary = code.parse::<u32>().map(|code| code & 0xff);
        match primary {
            // ERROR, TOOBIG, CONSTRAINT, MISMATCH and RANGE speak of the statement; all else may pass.
            Ok(1 | 18 | 19 | 20 | 25) => Self::Refused,
            _ => Self::Unavailable,
        }
    }
}

impl Insert {
    /// What the writer of `events` is told when their statement failed. `said` is the driver's text that has
    /// the repeated id in it, if there is one.
    pub fn failed(
        &self,
        events: &[Event],
        cause: Cause,
        said: Option<&str>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> WriteError {
        let table = self.table();
        let reason = match cause {
            Cause::Repeated => match repeated(events, said) {
                Some(id) => return WriteError::DuplicateId { id: id.to_owned() },
                None => {
                    format!("an event id is in `{table}` already; give every event its own id")
                }
            },
            Cause::Missing => return WriteError::Store(StoreError::NotMigrated),
            Cause::Denied => format!("this role may not write to `{table}`; grant it INSERT"),
            Cause::Ended => format!(
                "the transaction around the INSERT into `{table}` had ended before, by a deadlock or a statement that commits, and nothing was written; begin it anew"
            ),
            Cause::Refused => format!("the INSERT into `{table}` failed; roll the transaction back"),
            Cause::Unavailable => {
                format!("the INSERT into `{table}` failed; roll the transaction back and try it again")
            }
        };
        let source = Some(source.into());
        WriteError::Store(match cause {
            Cause::Unavailable => StoreError::Unavailable { reason, source },
            _ => StoreError::Refused { reason, source },
        })
    }
}

/// The id that the database complains about: `(event_id)=(…)` in PostgreSQL's words, `'…'` in MySQL's. A role
/// that may not read the table is not told.
fn repeated<'e>(events: &'e [Event], said: Option<&str>) -> Option<&'e str> {
    let ids = events.iter().map(Event::id);
    match (events, said) {
        ([event], None) => Some(event.id()),
        (_, None) => None,
        (_, Some(said)) => {
            let named = |id: &&str| said.contains(&format!("=({id})")) || said.contains(&format!("'{id}'"));
            // One id may be the beginning of another.
            ids.filter(named).max_by_key(|id| id.len())
        }
    }
}
