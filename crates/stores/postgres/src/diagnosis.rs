//! What an operator should know about the database.

mod plan;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Check, Diagnosis, Mode, StoreError};
use pillarbox_sql::diagnosis::{self, PATIENCE, failed, size, time};
use pillarbox_sql::{Names, quoted};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::migration;
use crate::mode::indexes_of;
use crate::store::{Inner, Query};
use crate::time::Instant;
use crate::{PostgresOptions, PostgresStore};

/// As many dead versions of rows, if they are more than the rows, should have been cleared away.
const MANY_DEAD: i64 = 50_000;

/// Indexes that the table has in both modes.
const OF_BOTH: [&str; 4] =
    ["outbox_event_pkey", "outbox_event_event_id_key", "outbox_event_aggregate", "outbox_event_dead"];

impl PostgresOptions {
    /// Looks whether the database can be reached and is fit for an outbox, whether what should be there is, who holds up
    /// whom, and which settings weaken the promise. Nothing is locked or changed, no statement reads the whole table, and
    /// none takes longer than three seconds.
    ///
    /// What cannot be looked at is [unknown](pillarbox::store::Health::Unknown), with the privilege that is missing;
    /// `pg_read_all_stats` is enough for all. Fails with [`StoreError::Config`] if the options make no sense.
    pub async fn examine(self) -> Result<Diagnosis, StoreError> {
        let store = self.impatient(PATIENCE).unconnected()?;
        let checks = store.examine().await;
        let database = store.inner.line.place.to_string();
        store.close().await;
        Ok(Diagnosis { database, checks })
    }
}

impl PostgresStore {
    async fn examine(&self) -> Vec<Check> {
        let looked = self.look_at_server().await;
        let mut checks = vec![diagnosis::reached(&self.inner.line.place.to_string(), &looked)];
        if looked.is_err() {
            return checks;
        }
        let judged = self.check().await;
        checks.extend([diagnosis::schema(&judged), self.clock().await]);
        checks.extend(self.durability().await);
        if judged.is_err() {
            return checks;
        }
        checks.extend(diagnosis::operation(&self.stats().await, &self.census().await));
        match self.look_at_mode().await {
            Ok(mode) => {
                checks.extend([self.indexes(mode).await, self.plan(mode).await]);
                checks.extend([self.numbering(mode).await, self.transactions(mode).await]);
            }
            Err(error) => checks.extend(["indexes", "transactions"].map(|name| failed(name, &error))),
        }
        checks.extend([self.bloat().await, self.prepared().await, self.slots().await]);
        checks
    }

    async fn clock(&self) -> Check {
        let asked = self.run(
            |inner| &inner.operating,
            |connection| {
                Box::pin(async move {
                    let before = diagnosis::machine_micros();
                    let clock = include_str!("diagnosis/clock.sql");
                    let now: Instant =
                        sqlx::query_scalar(clock).persistent(false).fetch_one(connection).await?;
                    Ok((before, now, diagnosis::machine_micros()))
                })
            },
        );
        match asked.await {
            Ok((before, now, after)) => {
                diagnosis::clock(before, pillarbox::Timestamp::from(now).as_micros(), after)
            }
            Err(error) => failed("clock", &error),
        }
    }

    /// The settings that decide what a commit is worth, and whether somebody clears away behind it.
    async fn durability(&self) -> Vec<Check> {
        let looked = self.look(|_| sqlx::query(include_str!("diagnosis/settings.sql"))).await;
        let settings = looked.and_then(|rows| self.read(rows.first().map_or(Err(missing()), Settings::of)));
        match settings {
            Ok(settings) => vec![settings.durability(), settings.vacuum()],
            Err(error) => ["durability", "vacuum"].map(|name| failed(name, &error)).to_vec(),
        }
    }

    async fn indexes(&self, mode: Mode) -> Check {
        let looked = self.look(|inner| inner.query(&inner.statements.examined_indexes)).await;
        let read = |row: &PgRow| Ok::<_, sqlx::Error>((row.try_get("name")?, row.try_get("is_valid")?));
        let found: Result<Vec<(String, bool)>, StoreError> =
            looked.and_then(|rows| self.read(rows.iter().map(read).collect::<Result<Vec<_>, _>>()));
        let names = self.names();
        match found {
            Ok(found) => indexes(names, mode, &found),
            Err(error) => failed("indexes", &error),
        }
    }

    async fn numbering(&self, mode: Mode) -> Check {
        let looked = self.look(|inner| inner.query(&inner.statements.standing)).await;
        let read =
            |row: &PgRow| Ok::<(i64, i64), sqlx::Error>((row.try_get("increment")?, row.try_get("cache")?));
        let found = looked.and_then(|rows| self.read(rows.first().map_or(Err(missing()), read)));
        match found {
            Ok((increment, cache)) => numbers(self.names(), mode, increment, cache),
            Err(error) => failed("numbers", &error),
        }
    }

    async fn bloat(&self) -> Check {
        let looked = self.look(|inner| inner.query(&inner.statements.examined_bloat)).await;
        let found = looked.and_then(|rows| self.read(rows.first().map_or(Err(missing()), Bloat::of)));
        match found {
            Ok(bloat) => bloat.judge(&self.names().table("outbox_event")),
            Err(error) => failed("bloat", &error),
        }
    }

    /// The rows of one statement, which commits by itself.
    async fn look(
        &self,
        query: impl Fn(&Inner) -> Query + Send + Sync + 'static,
    ) -> Result<Vec<PgRow>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.run(
            |inner| &inner.operating,
            move |connection| Box::pin(query(&inner).persistent(false).fetch_all(connection)),
        )
        .await
    }
}

fn missing() -> sqlx::Error {
    sqlx::Error::RowNotFound
}

/// Settings of the server as our sessions have them.
struct Settings {
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    autovacuum: String,
    track_counts: String,
    /// Roles whose commits do not wait for the disk.
    asynchronous_roles: Vec<String>,
}

impl Settings {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            fsync: row.try_get("fsync")?,
            full_page_writes: row.try_get("full_page_writes")?,
            synchronous_commit: row.try_get("synchronous_commit")?,
            autovacuum: row.try_get("autovacuum")?,
            track_counts: row.try_get("track_counts")?,
            asynchronous_roles: row.try_get("asynchronous_roles")?,
        })
    }

    fn durability(&self) -> Check {
        let lost = "what was committed can be lost when the machine fails, events and orders alike";
        for (name, value) in [("fsync", &self.fsync), ("full_page_writes", &self.full_page_writes)] {
            if value == "off" {
                let found = format!("`{name}` is off: {lost}, and the database be damaged");
                return Check::problem("durability", found).remedy(format!("set `{name} = on` and reload"));
            }
        }
        if self.synchronous_commit == "off" {
            let found =
                format!("`synchronous_commit` is off for this role: {lost}, those of the last moments");
            return Check::warning("durability", found)
                .remedy("set it to `on` for the database and the roles that write events");
        }
        if !self.asynchronous_roles.is_empty() {
            let found = format!(
                "`synchronous_commit` is off for `{}`: what they commit can be lost when the machine fails",
                self.asynchronous_roles.join("`, `")
            );
            return Check::warning("durability", found)
                .remedy("set it to `on`, if they write events or what belongs to them");
        }
        Check::ok(
            "durability",
            format!("commits are on disk (`fsync` on, `synchronous_commit` {})", self.synchronous_commit),
        )
    }

    fn vacuum(&self) -> Check {
        for (name, value) in [("autovacuum", &self.autovacuum), ("track_counts", &self.track_counts)] {
            if value == "off" {
                let found = format!("`{name}` is off: nobody clears away versions of rows that are dead");
                return Check::warning("vacuum", found).remedy(format!("set `{name} = on` and reload"));
            }
        }
        Check::ok("vacuum", "`autovacuum` is on")
    }
}

/// What `pg_stat_user_tables` tells of the table.
struct Bloat {
    live: i64,
    dead: i64,
    vacuumed_ago: Option<i64>,
    size: i64,
    /// Whether the table is left out by autovacuum.
    is_left_out: bool,
}

impl Bloat {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            live: row.try_get("live")?,
            dead: row.try_get("dead")?,
            vacuumed_ago: row.try_get("vacuumed_ago")?,
            size: row.try_get("size")?,
            is_left_out: row.try_get("is_left_out")?,
        })
    }

    fn judge(&self, table: &str) -> Check {
        let Self { live, dead, vacuumed_ago, size: bytes, is_left_out } = self;
        let vacuumed = match vacuumed_ago {
            None => "never vacuumed".to_owned(),
            Some(micros) => {
                format!("vacuumed {} ago", time(Duration::from_micros(micros.unsigned_abs())))
            }
        };
        let found = format!(
            "{dead} dead versions of rows to {live} live ones, {} with indexes, {vacuumed}",
            size(bytes.unsigned_abs())
        );
        if *is_left_out {
            return Check::warning("bloat", format!("{found}; autovacuum leaves the table out"))
                .remedy(format!("run `ALTER TABLE {table} RESET (autovacuum_enabled)`"));
        }
        if *dead >= MANY_DEAD && dead > live {
            return Check::warning("bloat", found).remedy(format!(
                "run `VACUUM {table}`; if that changes nothing, an open transaction or a replication slot keeps them alive"
            ));
        }
        Check::ok("bloat", found)
    }
}

fn numbers(names: &Names, mode: Mode, increment: i64, cache: i64) -> Check {
    let found = format!("the sequence has the increment {increment} and the cache {cache}");
    if mode == Mode::Ownership && (increment, cache) != (1, 1) {
        let sequence = names.table("outbox_event_seq_seq");
        return Check::problem(
            "numbers",
            format!("{found}: owners may read past events that are committed later"),
        )
        .remedy(format!("run `ALTER SEQUENCE {sequence} INCREMENT 1 CACHE 1`"));
    }
    Check::ok("numbers", found)
}

/// The indexes of the mode, each of which must be there and valid.
fn indexes(names: &Names, mode: Mode, found: &[(String, bool)]) -> Check {
    let needed = OF_BOTH.iter().chain(indexes_of(mode)).map(|name| format!("{}{name}", names.prefix()));
    let needed: Vec<String> = needed.collect();
    let there: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
    let is_invalid = |(name, is_valid): &&(String, bool)| !is_valid && needed.contains(name);
    if let Some((name, _)) = found.iter().find(is_invalid) {
        let schema = names.schema_in_sql().map(|schema| format!("{schema}.")).unwrap_or_default();
        return Check::problem(
            "indexes",
            format!("`{name}` is invalid: it was not built to its end, and nobody uses it"),
        )
        .remedy(format!("run `REINDEX INDEX CONCURRENTLY {schema}{}`", quoted(name)));
    }
    diagnosis::indexes(&needed, &there, |missing| {
        let made = missing.iter().map(|name| match migration::definition(names, name) {
            Some(definition) => format!("`{definition}`"),
            None => format!("what `pillarbox migrate --print` says about `{name}`"),
        });
        format!("run {}", made.collect::<Vec<_>>().join(", then "))
    })
}

#[cfg(test)]
mod tests;
