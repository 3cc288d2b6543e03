//! The versions of the outbox tables.

mod watch;

use std::sync::Arc;

use pillarbox::store::StoreError;
use pillarbox_sql::{Names, quoted, refusal};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::PostgresStore;
use crate::fault;
use crate::lane::{Manner, milliseconds};
use crate::statements::QUALIFIED;
use crate::store::Inner;

/// Every migration, in order; the first makes version 1.
const MIGRATIONS: [&str; 2] =
    [include_str!("../migrations/0001_outbox.sql"), include_str!("../migrations/0002_ownership.sql")];

/// The version that this program needs.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Those who migrate at the same time wait for each other here. Held by a transaction and not by a session,
/// which a pooler might share.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7308324466019300722)";

/// What who reads the printed migrations has to know.
const IN_ONE_TRANSACTION: &str = "-- To be run in one transaction: tools that run migrations open it, `psql` does with --single-transaction.\n\n";

/// The SQL that brings an empty database to the newest version, for tools that run migrations.
///
/// To be run as a whole and in one transaction, which it neither begins nor ends: Flyway, Liquibase and sqlx-cli do
/// that themselves, `psql` with `--single-transaction`. It creates the schema if `names` has one.
pub fn migrations_sql(names: &Names) -> String {
    let names = names.quoted();
    let schema = names.schema_in_sql().map(|schema| format!("CREATE SCHEMA IF NOT EXISTS {schema};\n\n"));
    let tables: Vec<String> = steps(&names, 0).collect();
    format!("{IN_ONE_TRANSACTION}{}{}", schema.unwrap_or_default(), tables.join("\n"))
}

/// The migrations behind version `found`, each with the version that it makes.
fn steps(names: &Names, found: u32) -> impl Iterator<Item = String> {
    let set_version = names.fill(include_str!("migration/set_version.sql"), &QUALIFIED);
    MIGRATIONS.iter().zip(1..).skip(found as usize).map(move |(migration, version)| {
        let (tables, set_version) = (names.fill(migration, &QUALIFIED), set_version.as_str());
        format!("{}\n{}", tables.as_str(), set_version.replace("'0'", &format!("'{version}'")))
    })
}

/// The statement that makes an index anew beside those who write, if it has one of its own.
pub(crate) fn definition(names: &Names, index: &str) -> Option<String> {
    let [claims, ownership] =
        [include_str!("mode/index_claims.sql"), include_str!("mode/index_ownership.sql")];
    let named = format!(" {} ON ", quoted(index));
    [MIGRATIONS[0], claims, ownership].into_iter().find_map(|sql| {
        let sql = names.fill(sql, &QUALIFIED);
        let lines = sql.as_str().lines().filter(|line| !line.trim_start().starts_with("--"));
        let sql = lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
        let made = sql.split("; ").find(|made| made.starts_with("CREATE INDEX") && made.contains(&named))?;
        let made = made.replacen("IF NOT EXISTS ", "", 1).replacen("INDEX ", "INDEX CONCURRENTLY ", 1);
        Some(made.trim_end_matches(';').to_owned())
    })
}

/// Applies what is missing in one transaction, and returns the version that results.
pub(crate) async fn migrate(store: &PostgresStore) -> Result<u32, StoreError> {
    let inner = Arc::clone(&store.inner);
    let migrated = store.steps(
        |inner| &inner.operating,
        Manner::Patiently,
        move |connection| {
            let inner = Arc::clone(&inner);
            Box::pin(async move {
                let session = session(connection).await?;
                watched(&inner, session, apply(&inner, connection)).await
            })
        },
    );
    match migrated.await {
        Ok(Migrated::To(version)) => Ok(version),
        Ok(Migrated::Newer(found)) => Err(newer(found)),
        Ok(Migrated::NoSchema) => Err(refusal(format!(
            "there is no schema `{}`, and this role may not create it; let its owner run `{}`",
            store.names().schema().unwrap_or_default(),
            create_schema(store.names())
        ))),
        Err(error) if fault::is_lock_timeout(&error) => {
            Err(store.inner.line.place.migration_locked_out(error))
        }
        Err(error) => Err(error),
    }
}

/// How a migration ended.
enum Migrated {
    To(u32),
    Newer(u32),
    NoSchema,
}

/// The session of this connection, as the server knows it.
pub(crate) async fn session(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar("SELECT pg_backend_pid()").persistent(false).fetch_one(connection).await
}

/// What `work` in a session answers, for as long as the session lives.
pub(crate) async fn watched<T>(
    inner: &Inner,
    session: i32,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::select! {
        answer = work => answer,
        () = watch::watch(inner, session) => Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())),
    }
}

async fn apply(inner: &Inner, connection: &mut PgConnection) -> Result<Migrated, sqlx::Error> {
    let names = inner.line.place.names();
    // Building an index on a large table takes its time, and so does waiting for another who does.
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await?;
    connection.execute(LOCK).await?;
    // Behind one who waits for a table everybody else waits, so that must not be for long.
    let lock_timeout = milliseconds(inner.line.lock_timeout);
    connection.execute(AssertSqlSafe(format!("SET LOCAL lock_timeout = {lock_timeout}"))).await?;
    if !ensure_schema(connection, names).await? {
        return Ok(Migrated::NoSchema);
    }
    let found = found(inner, connection).await?.unwrap_or(0);
    if found > NEWEST {
        return Ok(Migrated::Newer(found));
    }
    for (step, version) in steps(names, found).zip(found + 1..) {
        tracing::info!(database = %inner.line.place, version, of = NEWEST, "migrating the outbox");
        connection.execute(sqlx::raw_sql(AssertSqlSafe(step))).await?;
    }
    if found < NEWEST {
        tracing::info!(database = %inner.line.place, from = found, to = NEWEST, "migrated the outbox");
    }
    Ok(Migrated::To(NEWEST))
}

/// Creates the schema if it does not exist; false if the role may not. (`IF NOT EXISTS` asks for the privilege
/// even if the schema is there.)
async fn ensure_schema(connection: &mut PgConnection, names: &Names) -> Result<bool, sqlx::Error> {
    let Some(schema) = names.schema() else { return Ok(true) };
    let look = sqlx::query_as(include_str!("migration/schema.sql")).bind(schema).persistent(false);
    let (is_there, may_be_created): (bool, bool) = look.fetch_one(&mut *connection).await?;
    if !is_there && may_be_created {
        connection.execute(AssertSqlSafe(create_schema(names))).await?;
    }
    Ok(is_there || may_be_created)
}

fn create_schema(names: &Names) -> String {
    format!("CREATE SCHEMA {}", names.schema_in_sql().unwrap_or_default())
}

/// The version of the tables, asked for inside a transaction, which a missing table must not fail.
async fn found(inner: &Inner, connection: &mut PgConnection) -> Result<Option<u32>, sqlx::Error> {
    let meta = inner.line.place.names().table("outbox_meta");
    let look = sqlx::query("SELECT to_regclass($1) IS NOT NULL").bind(meta).persistent(!inner.line.pooled);
    match look.fetch_one(&mut *connection).await?.try_get(0)? {
        true => read(inner, connection).await,
        false => Ok(None),
    }
}

/// The version of the tables; `None` if there are none.
pub(crate) async fn version(store: &PostgresStore) -> Result<Option<u32>, StoreError> {
    let inner = Arc::clone(&store.inner);
    let version = store.run(
        |inner| &inner.operating,
        move |connection| {
            let inner = Arc::clone(&inner);
            Box::pin(async move { read(&inner, connection).await })
        },
    );
    match version.await {
        Err(StoreError::NotMigrated) => Ok(None),
        version => version,
    }
}

async fn read(inner: &Inner, connection: &mut PgConnection) -> Result<Option<u32>, sqlx::Error> {
    let row = inner.query(&inner.statements.version).fetch_optional(connection).await?;
    let Some(row) = row else { return Ok(None) };
    let text: String = row.try_get(0)?;
    let version = text.parse().map_err(|_| {
        sqlx::Error::Decode(format!("the row `schema_version` says `{text}`, which is not a version").into())
    })?;
    Ok(Some(version))
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
fn newer(found: u32) -> StoreError {
    StoreError::NewerSchema { found, known: NEWEST }
}
