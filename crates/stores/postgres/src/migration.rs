//! The versions of the outbox tables.

use std::sync::Arc;

use pillarbox::store::StoreError;
use pillarbox_sql::{Names, refusal};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::PostgresStore;
use crate::statements::QUALIFIED;
use crate::store::Inner;

/// Every migration, in order; the first makes version 1.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_outbox.sql")];

/// The version that this program needs.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Those who migrate at the same time wait for each other here. Held by a transaction and not by a session,
/// which a pooler might share.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7308324466019300722)";

/// The SQL that brings an empty database to the newest version, for tools that run migrations: one transaction,
/// to be run as a whole. It creates the schema if `names` has one.
pub fn migrations_sql(names: &Names) -> String {
    let schema = names.schema().map(|schema| format!("CREATE SCHEMA IF NOT EXISTS {schema};\n\n"));
    let tables: String = steps(names, 0).map(|step| format!("{step}\n")).collect();
    format!("BEGIN;\n\n{}{tables}COMMIT;\n", schema.unwrap_or_default())
}

/// The migrations behind version `found`, each with the version that it makes.
fn steps(names: &Names, found: u32) -> impl Iterator<Item = String> {
    let meta = names.table("outbox_meta");
    MIGRATIONS.iter().zip(1..).skip(found as usize).map(move |(migration, version)| {
        let filled = names.fill(migration, &QUALIFIED);
        format!(
            "{}\nINSERT INTO {meta} (name, value)\nVALUES ('schema_version', '{version}')\nON CONFLICT (name) DO UPDATE SET value = excluded.value;\n",
            filled.as_str()
        )
    })
}

/// Applies what is missing in one transaction, and returns the version that results.
pub(crate) async fn migrate(store: &PostgresStore) -> Result<u32, StoreError> {
    let inner = Arc::clone(&store.inner);
    let migrated = store.step(
        |inner| &inner.operating,
        true,
        move |connection| {
            let inner = Arc::clone(&inner);
            Box::pin(async move { apply(&inner, connection).await })
        },
    );
    match migrated.await? {
        Migrated::To(version) => Ok(version),
        Migrated::Newer(found) => Err(newer(found)),
        Migrated::NoSchema(schema) => Err(refusal(format!(
            "there is no schema `{schema}`, and this role may not create it; let its owner run `CREATE SCHEMA {schema}`"
        ))),
    }
}

/// How a migration ended.
enum Migrated {
    To(u32),
    Newer(u32),
    NoSchema(String),
}

async fn apply(inner: &Inner, connection: &mut PgConnection) -> Result<Migrated, sqlx::Error> {
    let names = inner.line.place.names();
    // Building an index on a large table takes its time, and so does waiting for another who does.
    connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0").await?;
    connection.execute(LOCK).await?;
    if let Some(schema) = names.schema()
        && !ensure_schema(inner, connection, schema).await?
    {
        return Ok(Migrated::NoSchema(schema.to_owned()));
    }
    let found = found(inner, connection).await?.unwrap_or(0);
    if found > NEWEST {
        return Ok(Migrated::Newer(found));
    }
    for step in steps(names, found) {
        connection.execute(sqlx::raw_sql(AssertSqlSafe(step))).await?;
    }
    if found < NEWEST {
        tracing::info!(database = %inner.line.place, from = found, to = NEWEST, "migrated the outbox");
    }
    Ok(Migrated::To(NEWEST))
}

/// Creates the schema if it does not exist; false if the role may not. (`IF NOT EXISTS` asks for the privilege
/// even if the schema is there.)
async fn ensure_schema(
    inner: &Inner,
    connection: &mut PgConnection,
    schema: &str,
) -> Result<bool, sqlx::Error> {
    let look = "SELECT to_regnamespace($1) IS NOT NULL, has_database_privilege(current_database(), 'CREATE')";
    let row =
        sqlx::query(look).bind(schema).persistent(!inner.line.pooled).fetch_one(&mut *connection).await?;
    let (exists, may_create): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if !exists && may_create {
        connection.execute(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).await?;
    }
    Ok(exists || may_create)
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
