//! The versions of the outbox tables.

use std::sync::Arc;

use pillarbox::store::StoreError;
use pillarbox_sql::Names;
use sqlx::sqlite::SqliteConnection;

use crate::fault;
use crate::statements::Statements;
use crate::store::Inner;

/// Every migration, in order; the first makes version 1.
const MIGRATIONS: [&str; 2] =
    [include_str!("../migrations/0001_outbox.sql"), include_str!("../migrations/0002_ownership.sql")];

/// The version that this program needs.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// The SQL that makes the outbox tables of the newest version, for tools that run migrations.
///
/// It does what [`SqliteStore::migrate`](crate::SqliteStore::migrate) does to a database without an outbox. It
/// begins no transaction, because such tools do; run by hand, put it into one. SQLite has no schemas: that of
/// `names` plays no part.
pub fn migrations_sql(names: &Names) -> String {
    let tables: String =
        MIGRATIONS.iter().map(|migration| format!("{}\n", names.fill(migration, &[]).as_str())).collect();
    let set_version = Statements::new(names).set_version.as_str().replace("?1", &format!("'{NEWEST}'"));
    format!("{tables}{set_version}")
}

/// Applies what is missing, inside the transaction of `connection`, and returns the version that results; the
/// one that was found, as an error, if this program does not know it.
pub(crate) async fn migrate(
    inner: Arc<Inner>,
    connection: &mut SqliteConnection,
) -> Result<Result<u32, u32>, sqlx::Error> {
    let found = version(connection, &inner.statements).await?.unwrap_or(0);
    if found > NEWEST {
        return Ok(Err(found));
    }
    for migration in &MIGRATIONS[found as usize..] {
        sqlx::raw_sql(inner.names.fill(migration, &[])).execute(&mut *connection).await?;
    }
    if found < NEWEST {
        let set_version = inner.statements.set_version.clone();
        sqlx::query(set_version).bind(NEWEST.to_string()).execute(connection).await?;
        tracing::info!(path = %inner.path.display(), from = found, to = NEWEST, "migrated the outbox");
    }
    Ok(Ok(NEWEST))
}

/// The version of the tables; `None` if there are none.
pub(crate) async fn version(
    connection: &mut SqliteConnection,
    statements: &Statements,
) -> Result<Option<u32>, sqlx::Error> {
    let found = sqlx::query_scalar(statements.version.clone()).fetch_optional(connection).await;
    match found {
        Ok(found) => found.map(|text: String| text.parse().map_err(|_| unreadable(&text))).transpose(),
        Err(error) if fault::is_missing_table(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this program can work with the version that was found.
pub(crate) fn judge(found: Option<u32>) -> Result<u32, StoreError> {
    match found {
        None => Err(StoreError::NotMigrated),
        Some(found) if found > NEWEST => Err(newer(found)),
        Some(found) if found < NEWEST => Err(StoreError::OlderSchema { found, needed: NEWEST }),
        Some(found) => Ok(found),
    }
}

/// The tables have a version that this program does not know.
pub(crate) fn newer(found: u32) -> StoreError {
    StoreError::NewerSchema { found, known: NEWEST }
}

fn unreadable(text: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the row `schema_version` says `{text}`, which is not a version").into())
}
