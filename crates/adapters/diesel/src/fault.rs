//! What diesel says, in the words of the outbox.

use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error};
use pillarbox::{Event, WriteError};
use pillarbox_sql::canonical::{Cause, Insert};

/// Why a statement for `events` failed.
pub(crate) fn failed(insert: &Insert, events: &[Event], error: Error) -> WriteError {
    let Error::DatabaseError(kind, information) = &error else {
        // What is left is about the query itself.
        return insert.failed(events, Cause::Refused, None, error);
    };
    let cause = cause(kind, information.message());
    let said = said(&**information).map(str::to_owned);
    insert.failed(events, cause, said.as_deref(), error)
}

/// Diesel keeps no SQLSTATE, so the words have to do for what it has no kind for.
fn cause(kind: &DatabaseErrorKind, message: &str) -> Cause {
    match kind {
        DatabaseErrorKind::UniqueViolation => Cause::Repeated,
        DatabaseErrorKind::ForeignKeyViolation
        | DatabaseErrorKind::NotNullViolation
        | DatabaseErrorKind::CheckViolation
        | DatabaseErrorKind::RestrictViolation
        | DatabaseErrorKind::ExclusionViolation => Cause::Refused,
        DatabaseErrorKind::Unknown if is_about_a_missing_table(message) => Cause::Missing,
        DatabaseErrorKind::Unknown if is_about_a_privilege(message) => Cause::Denied,
        DatabaseErrorKind::Unknown if message.starts_with("SAVEPOINT ") => Cause::Ended,
        _ => Cause::Unavailable,
    }
}

fn is_about_a_missing_table(message: &str) -> bool {
    message.contains("outbox_event")
        && (message.ends_with("does not exist") || message.ends_with("doesn't exist"))
}

fn is_about_a_privilege(message: &str) -> bool {
    message.starts_with("permission denied") || message.contains(" command denied to user ")
}

/// The text that has the repeated id in it: PostgreSQL's details, or MySQL's message, which comes without any.
fn said(information: &dyn DatabaseErrorInformation) -> Option<&str> {
    let is_mysql = information.message().starts_with("Duplicate entry");
    if is_mysql { Some(information.message()) } else { information.details() }
}
