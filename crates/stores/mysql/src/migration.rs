//! The versions of the outbox tables.

use std::fmt::Write;
use std::sync::Arc;

use pillarbox::store::StoreError;
use pillarbox_sql::Names;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Row, SqlSafeStr, SqlStr};

use crate::MySqlStore;
use crate::fault::{self, Place};
use crate::statements::{QUALIFIED, Statements};
use crate::store::Inner;

/// What makes one version of the one before. Definitions are not part of transactions here: each statement may
/// be repeated, and the version is written last, so that a migration that was cut off is completed by the next.
///
/// Every one of them, in order; the first makes version 1.
const MIGRATIONS: [&str; 2] =
    [include_str!("../migrations/0001_outbox.sql"), include_str!("../migrations/0002_ownership.sql")];

/// Made after the tables of version 1; needs a privilege that not everybody has.
const TRIGGER: &str = include_str!("../migrations/0001_trigger.sql");

/// The version that this program needs.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// How long to wait for another process that migrates, in seconds.
const PATIENCE: u32 = 20;

/// The SQL that makes the outbox tables of the newest version, for a migration tool of yours or the `mysql` and
/// `mariadb` clients.
///
/// It does what [`MySqlStore::migrate`] does to a database without an outbox. The database must exist. The
/// lines with `DELIMITER` are for the clients and for tools that follow them, like Flyway.
pub fn migrations_sql(names: &Names) -> String {
    let statements = Statements::new(names);
    let mut sql = String::new();
    for (version, migration) in (1_u32..).zip(MIGRATIONS) {
        // Writing to a string does not fail.
        let _ = writeln!(sql, "{}", filled(migration, names));
        if version == 1 {
            let drop = statements.drop_trigger.as_str().trim_end();
            let trigger = names.fill(TRIGGER, &QUALIFIED);
            let _ =
                writeln!(sql, "{drop};\n\nDELIMITER //\n{}//\nDELIMITER ;\n", trigger.as_str().trim_end());
        }
        let version = statements.set_version.as_str().replace('?', &format!("'{version}'"));
        let _ = writeln!(sql, "{};\n", version.trim_end());
    }
    sql.truncate(sql.trim_end().len() + 1);
    sql
}

/// A migration with the names of the tables, and with those by which it asks what there is already.
fn filled(migration: &'static str, names: &Names) -> String {
    let filled = names.fill(migration, &QUALIFIED);
    filled.as_str().replace(":database", &database(names)).replace(":prefix", names.prefix())
}

/// The database that the tables are in, as an expression.
pub(crate) fn database(names: &Names) -> String {
    names.schema().map_or("DATABASE()".to_owned(), |schema| format!("'{schema}'"))
}

/// Applies what is missing, and returns the version that results.
pub(crate) async fn migrate(store: &MySqlStore) -> Result<u32, StoreError> {
    let inner = Arc::clone(&store.inner);
    let migrated = store.run(
        |inner| &inner.operating,
        move |connection| {
            let inner = Arc::clone(&inner);
            Box::pin(async move { alone(&inner, connection).await })
        },
    );
    match migrated.await? {
        Migrated::Now => Ok(NEWEST),
        Migrated::Newer(found) => Err(newer(found)),
        Migrated::Elsewhere => Err(elsewhere(&store.inner.line.place)),
    }
}

/// Why nothing was migrated.
pub(crate) fn elsewhere(place: &Place) -> StoreError {
    StoreError::unavailable(format!(
        "another process has been migrating `{place}` for {PATIENCE} seconds; try again when it is done"
    ))
}

/// How a migration went.
enum Migrated {
    Now,
    Newer(u32),
    Elsewhere,
}

/// Migrates while no other process migrates the same outbox.
async fn alone(inner: &Inner, connection: &mut MySqlConnection) -> Result<Migrated, sqlx::Error> {
    if !lock(inner, connection).await? {
        return Ok(Migrated::Elsewhere);
    }
    // On an error the connection is closed, which gives up the lock.
    let migrated = upgrade(inner, connection).await?;
    unlock(inner, connection).await?;
    Ok(migrated)
}

/// Keeps other processes from migrating the same outbox, unless one does and goes on for long.
pub(crate) async fn lock(inner: &Inner, connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let lock = by_name(inner, &inner.statements.lock, "").bind(PATIENCE);
    let locked: Option<i64> = lock.fetch_one(connection).await?.try_get(0)?;
    Ok(locked == Some(1))
}

pub(crate) async fn unlock(inner: &Inner, connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    by_name(inner, &inner.statements.unlock, "").execute(connection).await.map(drop)
}

async fn upgrade(inner: &Inner, connection: &mut MySqlConnection) -> Result<Migrated, sqlx::Error> {
    let names = inner.line.place.names();
    create_schema(connection, names).await?;
    let found = version(connection, &inner.statements).await?.unwrap_or(0);
    if found > NEWEST {
        return Ok(Migrated::Newer(found));
    }
    for migration in &MIGRATIONS[found as usize..] {
        sqlx::raw_sql(AssertSqlSafe(filled(migration, names))).execute(&mut *connection).await?;
    }
    if found == 0 || !has_trigger(inner, connection).await? {
        create_trigger(inner, connection).await?;
    }
    if found < NEWEST {
        let newest = NEWEST.to_string();
        let set_version = sqlx::query(inner.statements.set_version.clone());
        set_version.bind(newest.clone()).bind(newest).execute(connection).await?;
        tracing::info!(database = %inner.line.place, from = found, to = NEWEST, "migrated the outbox");
    }
    Ok(Migrated::Now)
}

/// Asks first: who may use a database that exists need not be allowed to create it.
async fn create_schema(connection: &mut MySqlConnection, names: &Names) -> Result<(), sqlx::Error> {
    let Some(schema) = names.schema() else { return Ok(()) };
    let exists = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?";
    let exists: i64 = sqlx::query_scalar(exists).bind(schema).fetch_one(&mut *connection).await?;
    if exists == 0 {
        let create = format!("CREATE DATABASE IF NOT EXISTS `{schema}` CHARACTER SET utf8mb4");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(connection).await?;
    }
    Ok(())
}

async fn has_trigger(inner: &Inner, connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let found = by_name(inner, &inner.statements.has_trigger, "outbox_event_partition");
    Ok(found.fetch_one(connection).await?.try_get::<i64, _>(0)? > 0)
}

/// Makes the trigger anew, unless this user may not: only rows of other programs need it.
async fn create_trigger(inner: &Inner, connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    let names = inner.line.place.names();
    for statement in [inner.statements.drop_trigger.clone(), names.fill(TRIGGER, &QUALIFIED)] {
        match sqlx::raw_sql(statement).execute(&mut *connection).await {
            Ok(_) => {}
            Err(error) if fault::is_without_triggers(&error) => {
                tracing::warn!(
                    database = %inner.line.place,
                    %error,
                    "the outbox has no trigger that gives a partition to rows of other programs; grant TRIGGER, and with a binary log set `log_bin_trust_function_creators` to 1, then migrate again"
                );
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The version of the tables; `None` if there are none.
pub(crate) async fn version(
    connection: &mut MySqlConnection,
    statements: &Statements,
) -> Result<Option<u32>, sqlx::Error> {
    let found = sqlx::query_scalar(statements.version.clone()).fetch_optional(connection).await;
    match found {
        Ok(found) => found.map(|text: String| text.parse().map_err(|_| unreadable(&text))).transpose(),
        Err(error) if fault::is_missing_table(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a table that is not kept by InnoDB: others have no transactions.
pub(crate) async fn check_engine(store: &MySqlStore) -> Result<(), StoreError> {
    let inner = Arc::clone(&store.inner);
    let engine = store.run(
        |inner| &inner.operating,
        move |connection| {
            let query = by_name(&inner, &inner.statements.engine, "outbox_event");
            Box::pin(async move {
                let row = query.fetch_optional(connection).await?;
                row.map(|row| row.try_get::<Option<String>, _>(0)).transpose()
            })
        },
    );
    match engine.await?.flatten() {
        Some(engine) if engine != "InnoDB" => Err(StoreError::Config(format!(
            "the table `{}` at `{}` is kept by `{engine}`, which has no transactions; convert it with `ALTER TABLE … ENGINE = InnoDB`",
            store.names().table("outbox_event"),
            store.inner.line.place
        ))),
        _ => Ok(()),
    }
}

/// A query about something of ours, by its schema and its name.
pub(crate) fn by_name<'q>(inner: &Inner, sql: &SqlStr, name: &str) -> crate::statements::MySqlQuery<'q> {
    let names = inner.line.place.names();
    let schema = names.schema().map(str::to_owned);
    sqlx::query(sql.clone().into_sql_str()).bind(schema).bind(format!("{}{name}", names.prefix()))
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

fn newer(found: u32) -> StoreError {
    StoreError::NewerSchema { found, known: NEWEST }
}

fn unreadable(text: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("the row `schema_version` says `{text}`, which is not a version").into())
}
