//! Who is in the way: open transactions, and what the server has not cleared away for them.

use std::time::Duration;

use pillarbox::store::{Check, StoreError};
use pillarbox_sql::diagnosis::{self, OpenTransaction, failed};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, Row};

use crate::MySqlStore;
use crate::fault;

/// As many changes that are kept for old snapshots slow every reader down.
const LONG_HISTORY: i64 = 1_000_000;

impl MySqlStore {
    pub(super) async fn transactions(&self) -> Check {
        let schema = self.names().schema().map(str::to_owned);
        let found = self.run(
            |inner| &inner.operating,
            move |connection| {
                let schema = schema.clone();
                Box::pin(async move { open(connection, schema).await })
            },
        );
        match found.await {
            Ok(open) => diagnosis::transactions(&open, "it has written and not ended"),
            Err(error) => self.denied("transactions", &error),
        }
    }

    pub(super) async fn history(&self) -> Check {
        let length = self.look_at(|_| sqlx::query(include_str!("history.sql")), |row| row.try_get(0));
        match length.await {
            Ok(length) => history(length),
            Err(error) => self.denied("history", &error),
        }
    }

    /// What takes the privilege `PROCESS` and could not be looked at.
    fn denied(&self, name: &'static str, error: &StoreError) -> Check {
        let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
        if !source.is_some_and(fault::is_denied) {
            return failed(name, error);
        }
        let user = self.inner.line.options.get_username();
        Check::unknown(name, "this user is not shown the transactions of others")
            .remedy(format!("give `GRANT PROCESS ON *.* TO '{user}'`"))
    }
}

/// The server tells when transactions began in its own time zone, whatever that of the session is.
async fn open(
    connection: &mut MySqlConnection,
    schema: Option<String>,
) -> Result<Vec<OpenTransaction>, sqlx::Error> {
    connection.execute("SET SESSION time_zone = 'SYSTEM'").await?;
    let query = sqlx::query(include_str!("transactions.sql")).bind(schema).persistent(false);
    let rows = query.fetch_all(&mut *connection).await?;
    connection.execute("SET SESSION time_zone = '+00:00'").await?;
    rows.iter().map(transaction).collect()
}

fn transaction(row: &MySqlRow) -> Result<OpenTransaction, sqlx::Error> {
    let (session, user): (i64, String) = (row.try_get("session")?, row.try_get("user")?);
    let age: i64 = row.try_get("age")?;
    Ok(OpenTransaction {
        who: format!("session {session} (`{user}`)"),
        state: row.try_get("state")?,
        age: Duration::from_micros(u64::try_from(age).unwrap_or(0)),
        has_written: row.try_get::<i64, _>("has_written")? != 0,
    })
}

pub(super) fn history(length: i64) -> Check {
    let found = format!("{length} changes are kept for snapshots that are open");
    if length < LONG_HISTORY {
        return Check::ok("history", found);
    }
    Check::warning("history", found).remedy("end old transactions; see `transactions`")
}
