//! What SeaORM says, in the words of the outbox.

use pillarbox::{Event, WriteError};
use pillarbox_sql::canonical::{Cause, Insert};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseTransaction, DbErr, RuntimeErr, Statement};
use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;

/// Why the INSERT of `events` failed.
pub(crate) async fn insert_failed(
    tx: &DatabaseTransaction,
    insert: &Insert,
    events: &[Event],
    error: DbErr,
) -> WriteError {
    let cause = cause(&error);
    let said = match (cause, tx.get_database_backend()) {
        (Cause::Repeated, DatabaseBackend::Sqlite) => find_repeated(tx, insert, events).await,
        (Cause::Repeated, _) => database_error(&error).and_then(said),
        _ => None,
    };
    insert.failed(events, cause, said.as_deref(), error)
}

/// Why another statement around it failed.
pub(crate) fn failed(insert: &Insert, error: DbErr) -> WriteError {
    insert.failed(&[], cause(&error), None, error)
}

fn cause(error: &DbErr) -> Cause {
    let Some(error) = database_error(error) else { return Cause::Unavailable };
    if let Some(error) = error.try_downcast_ref::<MySqlDatabaseError>() {
        return Cause::of_mysql(error.number(), error.code().unwrap_or_default());
    }
    match error.code().as_deref() {
        _ if error.is_unique_violation() => Cause::Repeated,
        _ if error.message().starts_with("no such table") => Cause::Missing,
        // SQLite has numbers in place of a SQLSTATE, and these speak of the statement itself.
        Some(code) if code.len() != 5 => Cause::of_sqlite(code),
        Some(state) => Cause::of_sqlstate(state),
        None => Cause::Unavailable,
    }
}

fn database_error(error: &DbErr) -> Option<&dyn DatabaseError> {
    let (DbErr::Exec(RuntimeErr::SqlxError(error))
    | DbErr::Query(RuntimeErr::SqlxError(error))
    | DbErr::Conn(RuntimeErr::SqlxError(error))) = error
    else {
        return None;
    };
    error.as_database_error()
}

/// The text that has the repeated id in it.
fn said(error: &dyn DatabaseError) -> Option<String> {
    match error.try_downcast_ref::<PgDatabaseError>() {
        Some(error) => error.detail().map(str::to_owned),
        None => Some(error.message().to_owned()),
    }
}

/// SQLite does not say which id it was, and goes on in the transaction.
async fn find_repeated(tx: &DatabaseTransaction, insert: &Insert, events: &[Event]) -> Option<String> {
    let places = vec!["?"; events.len()].join(", ");
    let sql = format!("SELECT event_id FROM {} WHERE event_id IN ({places})", insert.table());
    let ids = events.iter().map(|event| event.id().into());
    let found = tx.query_one_raw(Statement::from_sql_and_values(DatabaseBackend::Sqlite, sql, ids)).await;
    let id: String = found.ok()??.try_get("", "event_id").ok()?;
    Some(format!("'{id}'"))
}
