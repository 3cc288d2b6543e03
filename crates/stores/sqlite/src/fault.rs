//! What SQLite says, in the words of the store contracts.

use std::path::Path;

use pillarbox::store::{CommitError, Mode, StoreError};
use pillarbox_sql::members::other;
use pillarbox_sql::refusal;
use sqlx::error::ErrorKind;

const SQLITE_ERROR: u32 = 1;
const SQLITE_BUSY: u32 = 5;
const SQLITE_LOCKED: u32 = 6;
const SQLITE_READONLY: u32 = 8;
/// A transaction that was not ended must be rolled back first.
const SQLITE_READONLY_ROLLBACK: u32 = 776;
const SQLITE_IOERR: u32 = 10;
const SQLITE_CORRUPT: u32 = 11;
const SQLITE_FULL: u32 = 13;
const SQLITE_CANTOPEN: u32 = 14;
const SQLITE_TOOBIG: u32 = 18;
const SQLITE_CONSTRAINT: u32 = 19;
const SQLITE_MISMATCH: u32 = 20;
const SQLITE_RANGE: u32 = 25;
const SQLITE_NOTADB: u32 = 26;

/// The database that the words are about.
pub(crate) struct Fault<'a> {
    path: &'a Path,
}

impl<'a> Fault<'a> {
    /// Faults of the database at `path`.
    pub(crate) fn of(path: &'a Path) -> Self {
        Self { path }
    }

    /// What a call that failed with `error` answers.
    pub(crate) fn store(&self, error: sqlx::Error) -> StoreError {
        if let sqlx::Error::InvalidArgument(reason) = error {
            return refusal(reason);
        }
        if let Some(needed) = mode_of_missing_index(&error) {
            return missing_index(needed);
        }
        let path = self.path.display();
        match code(&error) {
            Some(SQLITE_ERROR) if is_missing_table(&error) => StoreError::NotMigrated,
            Some(SQLITE_BUSY | SQLITE_LOCKED) => unavailable(
                format!(
                    "`{path}` is locked by another transaction; keep transactions short, or raise `busy_timeout`"
                ),
                error,
            ),
            Some(SQLITE_FULL) => {
                unavailable(format!("the disk or the size limit of `{path}` is full; free some space"), error)
            }
            Some(SQLITE_READONLY) => unavailable(
                format!("`{path}` is read-only; make the file and its directory writable for this process"),
                error,
            ),
            Some(SQLITE_CORRUPT) => unavailable(
                format!("`{path}` is damaged; restore it from a backup, or try `.recover`"),
                error,
            ),
            Some(SQLITE_NOTADB) => unavailable(
                format!("`{path}` is no longer a SQLite database; restore it from a backup"),
                error,
            ),
            Some(SQLITE_CANTOPEN) => {
                unavailable(format!("`{path}` cannot be opened; look at the file and its directory"), error)
            }
            Some(SQLITE_IOERR) => unavailable(format!("reading or writing `{path}` failed"), error),
            // Only these speak of the statement itself; all else may pass.
            Some(SQLITE_ERROR | SQLITE_TOOBIG | SQLITE_CONSTRAINT | SQLITE_MISMATCH | SQLITE_RANGE) => {
                refused(format!("a statement on `{path}` failed"), error)
            }
            Some(_) => unavailable(format!("a statement on `{path}` failed"), error),
            None => unavailable(format!("the connection to `{path}` failed"), error),
        }
    }

    /// What a commit that failed with `error` answers.
    pub(crate) fn commit(&self, error: sqlx::Error) -> CommitError {
        let path = self.path.display();
        // After a failed sync the log may still hold the commit; recovery would find it.
        let is_certain = matches!(code(&error), Some(SQLITE_BUSY | SQLITE_FULL | SQLITE_CONSTRAINT));
        if is_certain {
            let reason = match code(&error) {
                Some(SQLITE_FULL) => {
                    format!("the disk or the size limit of `{path}` is full; free some space")
                }
                _ => format!("`{path}` refused the commit"),
            };
            return CommitError::RolledBack { reason, source: Some(Box::new(error)) };
        }
        let reason = match code(&error) {
            Some(SQLITE_ERROR) => format!("the transaction on `{path}` was ended by other means"),
            Some(SQLITE_IOERR) => format!("writing `{path}` failed; look at its disk and its limits"),
            _ => format!("the answer of `{path}` was lost"),
        };
        CommitError::Unknown { reason, source: Some(Box::new(error)) }
    }

    /// Why the database could not be opened for reading.
    pub(crate) fn read(&self, error: sqlx::Error) -> StoreError {
        let is_log = matches!(code(&error), Some(SQLITE_CANTOPEN | SQLITE_READONLY))
            && extended_code(&error) != Some(SQLITE_READONLY_ROLLBACK);
        if !is_log || std::fs::File::open(self.path).is_err() {
            return self.open(error);
        }
        let reason = format!(
            "`{}` is in WAL mode, and the files of its log (`-wal`, `-shm`) can be neither read nor made; look as a user who \
             may write to its directory, or while the outbox runs",
            self.path.display()
        );
        refused(reason, error)
    }

    /// Why the database could not be opened.
    pub(crate) fn open(&self, error: sqlx::Error) -> StoreError {
        let path = self.path.display();
        if let sqlx::Error::Configuration(reason) = &error {
            return StoreError::Config(format!("`{path}`: {reason}"));
        }
        match code(&error) {
            Some(SQLITE_CANTOPEN) => {}
            // A file that never was a database will not become one.
            Some(SQLITE_NOTADB) => {
                let reason = format!("`{path}` is not a SQLite database; give the path of another file");
                return refused(reason, error);
            }
            _ => return self.store(error),
        }
        let directory = self.path.parent().filter(|directory| !directory.as_os_str().is_empty());
        match directory {
            Some(missing) if !missing.exists() => StoreError::Config(format!(
                "`{path}` cannot be opened: there is no directory `{}`; create it, or correct the path",
                missing.display()
            )),
            _ if self.path.is_dir() => StoreError::Config(format!("`{path}` is a directory; give a file")),
            _ if !self.path.exists() => StoreError::Config(format!(
                "there is no database file `{path}`, or it may not be created; correct the path, or allow `create_if_missing`"
            )),
            _ => self.store(error),
        }
    }
}

/// Whether another transaction stands in the way.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(SQLITE_BUSY | SQLITE_LOCKED))
}

/// Whether a transaction could not begin because the connection is in one already, by the driver's account or
/// by SQLite's.
pub(crate) fn is_in_transaction(error: &sqlx::Error) -> bool {
    let in_sqlite = "cannot start a transaction within a transaction";
    matches!(error, sqlx::Error::InvalidSavePointStatement)
        || error.as_database_error().is_some_and(|error| error.message() == in_sqlite)
}

/// Whether a table that the statement names is missing.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message().starts_with("no such table"))
}

/// Whether a column that must have a value was given none.
pub(crate) fn is_missing_value(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.kind() == ErrorKind::NotNullViolation)
}

/// Whether an index that the statement names is missing.
pub(crate) fn is_missing_index(error: &sqlx::Error) -> bool {
    mode_of_missing_index(error).is_some()
}

/// The mode that has the index which the statement names and the table has not.
fn mode_of_missing_index(error: &sqlx::Error) -> Option<Mode> {
    let index = error.as_database_error()?.message().strip_prefix("no such index: ")?;
    Some(if index.ends_with("outbox_event_pending") { Mode::Claims } else { Mode::Ownership })
}

/// The indexes of a mode come and go with it.
fn missing_index(needed: Mode) -> StoreError {
    let mode = other(needed);
    StoreError::Config(format!(
        "the outbox has no index of the mode `{needed}`: its mode is `{mode}`, or somebody dropped the index; start the \
         instance in the mode `{mode}`, or run `pillarbox migrate --mode {needed}`"
    ))
}

/// The primary result code; the extended one has more in its upper bits.
fn code(error: &sqlx::Error) -> Option<u32> {
    extended_code(error).map(|extended| extended & 0xff)
}

fn extended_code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn unavailable(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Unavailable { reason, source: Some(Box::new(source)) }
}

fn refused(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Refused { reason, source: Some(Box::new(source)) }
}
