//! What an operator should know about the database.

mod plan;
mod sessions;

use std::sync::Arc;

use pillarbox::store::{Administration, Check, Diagnosis, Mode, StoreError};
use pillarbox_sql::Names;
use pillarbox_sql::diagnosis::{self, PATIENCE, failed, size};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

use crate::migration::by_name;
use crate::mode::{self, Stored};
use crate::statements::MySqlQuery;
use crate::store::Inner;
use crate::{MySqlOptions, MySqlStore};

/// Room in the file of the table that is worth being given back, if it is more than what is used.
const MUCH_ROOM: i64 = 64 << 20;

/// What one INSERT of ours comes to at most, and what stands around it.
const LARGEST_STATEMENT: i64 = (4 << 20) + (1 << 20);

/// Indexes that the table has in both modes, and those of each.
const OF_BOTH: [&str; 3] = ["outbox_event_id", "outbox_event_dead", "outbox_event_aggregate"];
const OF_CLAIMS: [&str; 1] = ["outbox_event_pending"];
const OF_OWNERSHIP: [&str; 3] = ["outbox_event_fresh", "outbox_event_aside", "outbox_event_key"];

impl MySqlOptions {
    /// Looks whether the database can be reached and is fit for an outbox, whether what should be there is, who holds up
    /// whom, and which settings weaken the promise. Nothing is locked or changed, no statement reads the whole table, and
    /// none takes longer than three seconds.
    ///
    /// What cannot be looked at is [unknown](pillarbox::store::Health::Unknown), with the privilege that is missing;
    /// open transactions take `PROCESS`. Fails with [`StoreError::Config`] if the options make no sense.
    pub async fn examine(self) -> Result<Diagnosis, StoreError> {
        let store = self.impatient(PATIENCE).unconnected()?;
        let checks = store.examine().await;
        let database = store.inner.line.place.to_string();
        store.close().await;
        Ok(Diagnosis { database, checks })
    }
}

impl MySqlStore {
    async fn examine(&self) -> Vec<Check> {
        let looked = self.look_at_server().await;
        let mut checks = vec![diagnosis::reached(&self.inner.line.place.to_string(), &looked)];
        if looked.is_err() {
            return checks;
        }
        let judged = self.check().await;
        checks.extend([diagnosis::schema(&judged), self.clock().await]);
        checks.extend(self.settings().await);
        if judged.is_err() {
            return checks;
        }
        checks.extend(diagnosis::operation(&self.stats().await, &self.census().await));
        match self.stored_mode().await {
            Ok(Stored::Is(mode)) => {
                checks.extend([self.indexes(mode).await, self.plan(mode).await, self.numbering(mode).await]);
            }
            Ok(Stored::Becomes(mode)) => checks.push(half_changed(mode)),
            Err(error) => checks.push(failed("indexes", &error)),
        }
        checks.extend([self.bloat().await, self.history().await, self.transactions().await]);
        checks
    }

    async fn clock(&self) -> Check {
        let asked = self.run(
            |inner| &inner.operating,
            |connection| {
                Box::pin(async move {
                    let before = diagnosis::machine_micros();
                    let clock = include_str!("diagnosis/clock.sql");
                    let now: i64 = sqlx::query_scalar(clock).persistent(false).fetch_one(connection).await?;
                    Ok((before, now, diagnosis::machine_micros()))
                })
            },
        );
        match asked.await {
            Ok((before, now, after)) => diagnosis::clock(before, now, after),
            Err(error) => failed("clock", &error),
        }
    }

    /// The settings that decide what a commit is worth, and how large a statement may be.
    async fn settings(&self) -> Vec<Check> {
        let settings =
            self.look_at(|_| sqlx::query(include_str!("diagnosis/settings.sql")), Settings::of).await;
        match settings {
            Ok(settings) => vec![settings.durability(), settings.packet()],
            Err(error) => ["durability", "packet"].map(|name| failed(name, &error)).to_vec(),
        }
    }

    async fn indexes(&self, mode: Mode) -> Check {
        let rows = self.look(|inner| by_name(inner, &inner.statements.indexes, "outbox_event")).await;
        let read =
            |rows: Vec<MySqlRow>| rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>();
        let found = rows.and_then(|rows| read(rows).map_err(|error| self.inner.line.place.store(error)));
        match found {
            Ok(found) => indexes(self.names(), mode, &found),
            Err(error) => failed("indexes", &error),
        }
    }

    async fn numbering(&self, mode: Mode) -> Check {
        let inner = Arc::clone(&self.inner);
        let increment = self.run(
            |inner| &inner.operating,
            move |connection| {
                let inner = Arc::clone(&inner);
                Box::pin(async move { mode::increment(connection, &inner.statements).await })
            },
        );
        match increment.await {
            Ok(increment) => numbers(mode, increment.unwrap_or(1)),
            Err(error) => failed("numbers", &error),
        }
    }

    async fn bloat(&self) -> Check {
        let rows = self.look(|inner| by_name(inner, &inner.statements.examined_bloat, "outbox_event")).await;
        let read =
            |row: &MySqlRow| Ok::<(i64, i64), sqlx::Error>((row.try_get("size")?, row.try_get("free")?));
        let sizes = rows.and_then(|rows| {
            rows.first().map(read).transpose().map_err(|error| self.inner.line.place.store(error))
        });
        let table = self.names().table("outbox_event");
        match sizes {
            Ok(Some((size, free))) => bloat(&table, size, free),
            Ok(None) => Check::unknown("bloat", "the size of the table is not shown to this user")
                .remedy(format!("give `GRANT SELECT ON {table}`")),
            Err(error) => failed("bloat", &error),
        }
    }

    /// What one statement finds.
    async fn look(
        &self,
        query: impl Fn(&Inner) -> MySqlQuery<'static> + Send + Sync + 'static,
    ) -> Result<Vec<MySqlRow>, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.run(
            |inner| &inner.operating,
            move |connection| Box::pin(query(&inner).persistent(false).fetch_all(connection)),
        )
        .await
    }

    /// What is in the only row that a statement finds.
    async fn look_at<T>(
        &self,
        query: impl Fn(&Inner) -> MySqlQuery<'static> + Send + Sync + 'static,
        read: impl FnOnce(&MySqlRow) -> Result<T, sqlx::Error>,
    ) -> Result<T, StoreError> {
        let rows = self.look(query).await?;
        let read = rows.first().map_or(Err(sqlx::Error::RowNotFound), read);
        read.map_err(|error| self.inner.line.place.store(error))
    }
}

fn half_changed(mode: Mode) -> Check {
    Check::problem(
        "indexes",
        format!("the mode is being changed to `{mode}`, or somebody died over that: nobody can join"),
    )
    .remedy(format!("wait, or run `pillarbox migrate --mode {mode}` to complete it"))
}

/// Settings of the server.
struct Settings {
    flush_log: i64,
    has_binlog: bool,
    sync_binlog: i64,
    doublewrite: String,
    packet: i64,
}

impl Settings {
    fn of(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            flush_log: row.try_get("flush_log")?,
            has_binlog: row.try_get::<i64, _>("log_bin")? != 0,
            sync_binlog: row.try_get("sync_binlog")?,
            doublewrite: row.try_get("doublewrite")?,
            packet: row.try_get("packet")?,
        })
    }

    fn durability(&self) -> Check {
        let Self { flush_log, has_binlog, sync_binlog, doublewrite, .. } = self;
        // 3 is 1 with one more sync, and of MariaDB.
        if ![1, 3].contains(flush_log) {
            return Check::warning(
                "durability",
                format!(
                    "`innodb_flush_log_at_trx_commit` is {flush_log}: what was committed in the last second, events and \
                     orders alike, can be lost when the machine fails"
                ),
            )
            .remedy("set it to 1");
        }
        if *has_binlog && *sync_binlog != 1 {
            return Check::warning(
                "durability",
                format!(
                    "`sync_binlog` is {sync_binlog}: when the machine fails, replicas and change readers can miss what was \
                     committed, or a failover lose it"
                ),
            )
            .remedy("set it to 1");
        }
        if ["0", "OFF"].contains(&doublewrite.to_uppercase().as_str()) {
            return Check::warning(
                "durability",
                "`innodb_doublewrite` is off: a page that is half written is damaged",
            )
            .remedy("set it to ON, unless the file system writes whole pages");
        }
        Check::ok("durability", format!("commits are on disk (`innodb_flush_log_at_trx_commit` {flush_log})"))
    }

    /// Whether the largest events can be written.
    fn packet(&self) -> Check {
        let found = format!("`max_allowed_packet` is {}", size(self.packet.unsigned_abs()));
        if self.packet < LARGEST_STATEMENT {
            return Check::warning(
                "packet",
                format!("{found}: large events, or many in one call, cannot be written"),
            )
            .remedy("set it to 16 MiB or more");
        }
        Check::ok("packet", found)
    }
}

fn indexes(names: &Names, mode: Mode, found: &[String]) -> Check {
    if found.is_empty() {
        return Check::unknown("indexes", "the indexes of the table are not shown to this user")
            .remedy(format!("give `GRANT SELECT ON {}`", names.table("outbox_event")));
    }
    let of_mode: &[&str] = match mode {
        Mode::Claims => &OF_CLAIMS,
        Mode::Ownership => &OF_OWNERSHIP,
    };
    let named = |name: &&str| format!("{}{name}", names.prefix());
    let needed: Vec<String> = OF_BOTH.iter().chain(of_mode).map(named).collect();
    diagnosis::indexes(&needed, found, |missing| {
        let are_of_mode = missing.iter().all(|name| of_mode.iter().any(|of_mode| name.ends_with(of_mode)));
        if are_of_mode {
            format!("run `pillarbox migrate --mode {mode}`")
        } else {
            "make it as `pillarbox migrate --print --dialect mysql` says".to_owned()
        }
    })
}

fn numbers(mode: Mode, increment: i64) -> Check {
    let found = format!("`auto_increment_increment` is {increment}");
    if mode == Mode::Ownership && increment != 1 {
        return Check::problem(
            "numbers",
            format!("{found}, and owners rely on numbers that are given one by one"),
        )
        .remedy("set it to 1, or use the mode `claims`");
    }
    Check::ok("numbers", found)
}

fn bloat(table: &str, used: i64, free: i64) -> Check {
    let found = format!("{} with indexes, {} free", size(used.unsigned_abs()), size(free.unsigned_abs()));
    if free >= MUCH_ROOM && free > used {
        return Check::warning("bloat", found).remedy(format!(
            "it is used again by later events; to give it back run `OPTIMIZE TABLE {table}`, which writes the table anew"
        ));
    }
    Check::ok("bloat", found)
}

#[cfg(test)]
mod tests;
