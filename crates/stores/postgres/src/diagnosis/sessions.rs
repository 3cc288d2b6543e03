//! Who is in the way: open and prepared transactions, and slots that nobody reads.

use std::time::Duration;

use pillarbox::store::{Check, Mode};
use pillarbox_sql::diagnosis::{self, OpenTransaction, failed, size, time};
use pillarbox_sql::quoted;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::PostgresStore;

/// A slot that keeps more of the log than this can fill the disk.
const MUCH_LOG: i64 = 1 << 30;

/// A prepared transaction that is this old was forgotten.
const FORGOTTEN: Duration = Duration::from_secs(5);

impl PostgresStore {
    pub(super) async fn transactions(&self, mode: Mode) -> Check {
        let looked = self.look(|inner| inner.query(&inner.statements.examined_transactions)).await;
        let found =
            looked.and_then(|rows| self.read(rows.iter().map(Session::of).collect::<Result<Vec<_>, _>>()));
        let user = self.inner.line.options.get_username();
        match found {
            Ok(sessions) => transactions(sessions, mode, user),
            Err(error) => failed("transactions", &error),
        }
    }

    pub(super) async fn prepared(&self) -> Check {
        let looked = self.look(|_| sqlx::query(include_str!("prepared.sql"))).await;
        let found =
            looked.and_then(|rows| self.read(rows.iter().map(Prepared::of).collect::<Result<Vec<_>, _>>()));
        match found {
            Ok(prepared) => judge_prepared(&prepared),
            Err(error) => failed("prepared", &error),
        }
    }

    pub(super) async fn slots(&self) -> Check {
        let looked = self.look(|_| sqlx::query(include_str!("slots.sql"))).await;
        let found =
            looked.and_then(|rows| self.read(rows.iter().map(Slot::of).collect::<Result<Vec<_>, _>>()));
        match found {
            Ok(slots) => judge_slots(&slots),
            Err(error) => failed("slots", &error),
        }
    }
}

/// A session that is in a transaction, or that does not show whether it is.
struct Session {
    pid: i32,
    transaction: OpenTransaction,
    is_hidden: bool,
}

impl Session {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        let (pid, role): (i32, String) = (row.try_get("pid")?, row.try_get("role")?);
        let program: String = row.try_get("program")?;
        let program = if program.is_empty() { String::new() } else { format!(", `{program}`") };
        let transaction = OpenTransaction {
            who: format!("pid {pid} (`{role}`{program})"),
            state: row.try_get("state")?,
            age: micros(row.try_get("age")?),
            has_written: row.try_get("has_written")?,
        };
        Ok(Self { pid, transaction, is_hidden: row.try_get("is_hidden")? })
    }
}

fn micros(micros: Option<i64>) -> Duration {
    Duration::from_micros(u64::try_from(micros.unwrap_or(0)).unwrap_or(0))
}

fn transactions(sessions: Vec<Session>, mode: Mode, user: &str) -> Check {
    let holds = match mode {
        Mode::Claims => "it has written to the outbox",
        Mode::Ownership => "it has written to the outbox and holds the floor, not the delivery",
    };
    let (hidden, shown): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|session| session.is_hidden);
    let shown: Vec<OpenTransaction> = shown.into_iter().map(|session| session.transaction).collect();
    let check = diagnosis::transactions(&shown, holds);
    if hidden.is_empty() || check.health != pillarbox::store::Health::Ok {
        return check;
    }
    let writers = hidden.iter().filter(|session| session.transaction.has_written);
    let writers: Vec<String> = writers.map(|session| format!("pid {}", session.pid)).collect();
    let writers = match writers.as_slice() {
        [] => String::new(),
        writers => format!("; {} has written to the outbox and not ended", writers.join(", ")),
    };
    let found =
        format!("{} sessions of other roles do not show since when they are open{writers}", hidden.len());
    Check::unknown("transactions", found)
        .remedy(format!("give `GRANT pg_read_all_stats TO {}`", quoted(user)))
}

struct Prepared {
    gid: String,
    role: String,
    age: Duration,
}

impl Prepared {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { gid: row.try_get("gid")?, role: row.try_get("role")?, age: micros(row.try_get("age")?) })
    }
}

fn judge_prepared(prepared: &[Prepared]) -> Check {
    match prepared.iter().find(|prepared| prepared.age >= FORGOTTEN) {
        None => Check::ok("prepared", format!("{} transactions are prepared", prepared.len())),
        Some(Prepared { gid, role, age }) => {
            let gid = gid.replace('\'', "''");
            let found = format!("`{gid}` of `{role}` was prepared {} ago and not ended", time(*age));
            Check::warning("prepared", found)
                .remedy(format!("run `COMMIT PREPARED '{gid}'`, or `ROLLBACK PREPARED '{gid}'`"))
        }
    }
}

struct Slot {
    name: String,
    keeps_rows: bool,
    keeps_log: i64,
}

impl Slot {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            name: row.try_get("name")?,
            keeps_rows: row.try_get("keeps_rows")?,
            keeps_log: row.try_get("keeps_log")?,
        })
    }
}

fn judge_slots(slots: &[Slot]) -> Check {
    match slots.iter().find(|slot| slot.keeps_rows || slot.keeps_log >= MUCH_LOG) {
        None => Check::ok("slots", "no replication slot is kept without a reader"),
        Some(Slot { name, keeps_rows, keeps_log }) => {
            let rows = if *keeps_rows { "old versions of rows and " } else { "" };
            let log = size(keeps_log.unsigned_abs());
            let found =
                format!("nobody reads the replication slot `{name}`: it keeps {rows}{log} of the log");
            Check::warning("slots", found)
                .remedy(format!("start its reader, or run `SELECT pg_drop_replication_slot('{name}')`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::store::Health;

    use super::*;

    fn session(pid: i32, seconds: u64, has_written: bool, is_hidden: bool) -> Session {
        let who = format!("pid {pid} (`shop`)");
        let (state, age) = ("idle in transaction".to_owned(), Duration::from_secs(seconds));
        Session { pid, transaction: OpenTransaction { who, state, age, has_written }, is_hidden }
    }

    /// What is not shown is unknown, with the privilege and with those of whom something is known nevertheless.
    #[test]
    fn hidden_sessions_are_unknown() {
        let sessions =
            vec![session(17, 0, true, true), session(18, 0, false, true), session(19, 1, false, false)];

        let check = transactions(sessions, Mode::Claims, "relay");

        assert_eq!(check.health, Health::Unknown);
        assert_eq!(
            check.to_string(),
            "transactions: 2 sessions of other roles do not show since when they are open; pid 17 has written to the \
             outbox and not ended; give `GRANT pg_read_all_stats TO relay`"
        );
    }

    /// DESIGN: an open writer holds the floor, not the delivery; its pid is named.
    #[test]
    fn writer_that_holds_the_floor_is_named() {
        let check = transactions(vec![session(17, 9, true, false)], Mode::Ownership, "relay");

        assert_eq!(check.health, Health::Warning);
        assert!(check.found.contains("pid 17 (`shop`) has been open for 9.0 s"), "{check}");
        assert!(check.found.contains("holds the floor, not the delivery"), "{check}");
    }

    #[test]
    fn forgotten_transactions_and_slots_are_named() {
        let prepared = |seconds| Prepared {
            gid: "it's".to_owned(),
            role: "shop".to_owned(),
            age: Duration::from_secs(seconds),
        };
        let slot = |keeps_rows, keeps_log| Slot { name: "cdc".to_owned(), keeps_rows, keeps_log };

        assert_eq!(judge_prepared(&[prepared(1)]).health, Health::Ok);
        assert!(judge_prepared(&[prepared(90)]).to_string().contains("ROLLBACK PREPARED 'it''s'"));
        assert_eq!(judge_slots(&[slot(false, 17)]).health, Health::Ok);
        assert!(judge_slots(&[slot(true, 17)]).to_string().contains("`cdc`: it keeps old versions of rows"));
        assert!(judge_slots(&[slot(false, 2 << 30)]).to_string().contains("it keeps 2.0 GiB of the log"));
    }
}
