//! What PostgreSQL says, in the words of the store contracts.

use std::time::Duration;

use pillarbox::store::{CommitError, StoreError};
use pillarbox_sql::{Names, quoted};
use sqlx::postgres::{PgConnectOptions, PgDatabaseError, PgSeverity};

/// The tables of owned partitions.
const OWNERS: [&str; 3] = ["outbox_instance", "outbox_partition", "outbox_parked"];

/// The database that the words are about. It knows no password.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Host and port, or the directory of the socket.
    server: String,
    database: String,
    user: String,
    names: Names,
}

impl Place {
    pub(crate) fn new(options: &PgConnectOptions, names: Names) -> Self {
        let server = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let user = options.get_username().to_owned();
        let database = options.get_database().unwrap_or(&user).to_owned();
        Self { server, database, user, names }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// What a call that failed with `error` answers.
    pub(crate) fn store(&self, error: sqlx::Error) -> StoreError {
        match &error {
            sqlx::Error::PoolClosed => StoreError::unavailable("the store is closed"),
            sqlx::Error::PoolTimedOut => StoreError::unavailable(format!(
                "no connection to `{self}` came free in time; keep transactions short, raise `max_connections`, or see whether the server has none left"
            )),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                refused(format!("`{self}` answered what this program cannot read"), error)
            }
            sqlx::Error::Database(said) => {
                let code = said.code().unwrap_or_default().into_owned();
                let text = said.message().to_owned();
                self.said(&code, &text, error)
            }
            _ => unavailable(format!("the connection to `{self}` failed"), error),
        }
    }

    /// What an error of the server means, by its SQLSTATE.
    fn said(&self, code: &str, text: &str, error: sqlx::Error) -> StoreError {
        match code {
            "42P01" => StoreError::NotMigrated,
            "42501" => self.missing_privilege(text, error),
            "25P02" => refused(
                "the transaction failed at an earlier statement; roll it back and begin a new one".to_owned(),
                error,
            ),
            "25006" => self.read_only(error),
            "23514" if text.contains("outbox_event_endless") => {
                refused("an event that does not wait for its key is set aside with an end".to_owned(), error)
            }
            "40001" | "40P01" => {
                unavailable(format!("another transaction on `{self}` stood in the way"), error)
            }
            "55P03" => unavailable(
                format!(
                    "`{self}` has rows that are locked for too long; keep transactions short, or raise `lock_timeout`"
                ),
                error,
            ),
            "57014" => unavailable(
                format!("a statement on `{self}` took too long or was cancelled; see `statement_timeout`"),
                error,
            ),
            "53100" => unavailable(format!("the disk of `{self}` is full; free some space"), error),
            "53300" => unavailable(
                format!(
                    "`{self}` has no connection left; raise its `max_connections`, or lower that of its clients"
                ),
                error,
            ),
            "57P01" | "57P02" | "57P03" => {
                unavailable(format!("`{self}` stops, starts, or ended the connection by hand"), error)
            }
            "26000" | "42P05" => unavailable(
                format!(
                    "`{self}` mixes up prepared statements, as a pooler in transaction mode does; set `pooled(true)`, or `statement-cache-capacity=0` in the URL"
                ),
                error,
            ),
            _ if speaks_of_the_statement(code) => refused(format!("a statement on `{self}` failed"), error),
            _ => unavailable(format!("a statement on `{self}` failed"), error),
        }
    }

    fn read_only(&self, error: sqlx::Error) -> StoreError {
        let reason = format!(
            "`{self}` is read-only; it became a standby, or its `default_transaction_read_only` is on"
        );
        unavailable(reason, error)
    }

    /// A migration that was undone because others had locked what it changes.
    pub(crate) fn migration_locked_out(&self, error: StoreError) -> StoreError {
        let reason = format!(
            "the migration of `{self}` waited too long for a lock, and nothing was changed; end transactions that use the outbox's tables, or raise `lock_timeout`, and migrate again"
        );
        StoreError::Unavailable { reason, source: Some(Box::new(error)) }
    }

    /// The server names the object; what to give for it is known.
    fn missing_privilege(&self, text: &str, error: sqlx::Error) -> StoreError {
        let Self { user, names, .. } = self;
        let [event, meta, numbers] = ["outbox_event", "outbox_meta", "outbox_event_seq_seq"];
        let is_about = |name: &str| text.contains(&format!("{}{name}", names.prefix()));
        let role = quoted(user);
        let grant =
            |privileges: &str, name: &str| format!("`GRANT {privileges} ON {} TO {role}`", names.table(name));
        let grants = if let Some(name) = OWNERS.iter().find(|name| is_about(name)) {
            format!("{} to a relay", grant("SELECT, INSERT, UPDATE, DELETE", name))
        } else if is_about(meta) {
            format!("{} (an operator who pauses routes needs INSERT and DELETE too)", grant("SELECT", meta))
        } else if is_about(numbers) {
            grant("SELECT", numbers)
        } else if is_about(event) {
            format!(
                "{} to a writer, {} to a relay or an operator",
                grant("INSERT", event),
                grant("SELECT, UPDATE, DELETE", event)
            )
        } else {
            let schema = names.schema_in_sql().unwrap_or("public".into());
            format!("`GRANT USAGE ON SCHEMA {schema} TO {role}`, and CREATE to who migrates")
        };
        refused(format!("the role `{user}` lacks a privilege on `{self}`; give {grants}"), error)
    }

    /// One of several events was there already, and the server does not say which.
    pub(crate) fn repeated_id(&self, error: sqlx::Error) -> StoreError {
        let table = self.names.table("outbox_event");
        refused(format!("an event id is in `{table}` already; give every event its own id"), error)
    }

    /// Of a transaction that the driver has rolled back by itself.
    pub(crate) fn ended_before(&self) -> String {
        format!(
            "the transaction on `{self}` had ended before, as one inside of it failed to begin or was given up while it did; begin it anew"
        )
    }

    /// Of a transaction that cannot be committed as it is.
    pub(crate) fn open_inside(&self) -> String {
        format!(
            "a transaction inside of the one on `{self}` was neither committed nor rolled back; end it first"
        )
    }

    /// What a commit that failed with `error` answers.
    pub(crate) fn commit(&self, error: sqlx::Error) -> CommitError {
        // An error of the transaction is an answer, and the answer is no. Who ends the session says nothing
        // about what it did before.
        let is_certain = postgres(&error)
            .is_some_and(|said| said.severity() == PgSeverity::Error && said.code() != "40003");
        if is_certain {
            let reason = format!("`{self}` refused the commit");
            return CommitError::RolledBack { reason, source: Some(Box::new(error)) };
        }
        let reason = format!("the answer of `{self}` was lost");
        CommitError::Unknown { reason, source: Some(Box::new(error)) }
    }

    /// Why no connection could be made.
    pub(crate) fn connect(&self, error: sqlx::Error) -> StoreError {
        let Self { server, database, user, .. } = self;
        match &error {
            sqlx::Error::Configuration(reason) => StoreError::Config(format!("`{self}`: {reason}")),
            sqlx::Error::Tls(_) => self.no_encryption(error),
            sqlx::Error::Io(cause) if cause.kind() == std::io::ErrorKind::InvalidData => {
                self.no_encryption(error)
            }
            sqlx::Error::Io(_) => unavailable(
                format!("`{server}` cannot be reached; see whether it runs, and correct the URL"),
                error,
            ),
            _ => match postgres(&error).map(|said| said.code().to_owned()).as_deref() {
                Some("28P01") => refused(
                    format!("the password of `{user}` at `{server}` is wrong; correct the URL"),
                    error,
                ),
                Some("28000") => refused(
                    format!(
                        "`{server}` does not let `{user}` in like this; see its `pg_hba.conf`, and whether it wants `sslmode=require`"
                    ),
                    error,
                ),
                Some("3D000") => refused(
                    format!("there is no database `{database}` at `{server}`; create it, or correct the URL"),
                    error,
                ),
                _ => self.store(error),
            },
        }
    }

    /// The server has no TLS, or a certificate that nobody vouches for.
    fn no_encryption(&self, error: sqlx::Error) -> StoreError {
        let server = &self.server;
        let reason = format!(
            "no encrypted connection to `{server}` can be made; look at TLS there, and at `sslmode` and `sslrootcert` in the URL"
        );
        refused(reason, error)
    }

    /// The server did not answer at all.
    pub(crate) fn silent(&self, patience: Duration) -> StoreError {
        let server = &self.server;
        StoreError::unavailable(format!(
            "`{server}` did not answer within {patience:?}; see whether it runs, and correct the URL"
        ))
    }
}

impl std::fmt::Display for Place {
    /// `host:port/database`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.server, self.database)
    }
}

/// Whether the whole statement was rolled back because of another one, so that the same may pass now.
pub(crate) fn is_collision(error: &sqlx::Error) -> bool {
    matches!(code(error), Some("40001" | "40P01"))
}

/// Whether a step was given up because somebody else has locked what it needs.
pub(crate) fn is_lock_timeout(error: &StoreError) -> bool {
    is_said(error, "55P03")
}

/// Whether the server gave up a step because it took too long, or because somebody asked it to.
pub(crate) fn is_cancelled(error: &StoreError) -> bool {
    is_said(error, "57014")
}

/// Whether the connection is gone, as opposed to an answer that was an error. A server that lets nobody in ends the
/// connection, too, but does the same to the next.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    match postgres(error) {
        Some(said) => said.severity() != PgSeverity::Error && is_about_the_connection(said.code()),
        None => matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_)),
    }
}

/// Errors about a connection that was ended: by an operator, by a time limit, or on the way.
fn is_about_the_connection(code: &str) -> bool {
    ["08", "57P"].iter().any(|class| code.starts_with(class))
}

/// Classes of errors that are about the statement itself: data, constraints, syntax, features, raised by hand.
/// All else may pass.
fn speaks_of_the_statement(code: &str) -> bool {
    ["0A", "21", "22", "23", "42", "44", "P0"].iter().any(|class| code.starts_with(class))
}

fn is_said(error: &StoreError, asked: &str) -> bool {
    let StoreError::Unavailable { source: Some(source), .. } = error else { return false };
    source.downcast_ref().and_then(code) == Some(asked)
}

fn code(error: &sqlx::Error) -> Option<&str> {
    postgres(error).map(PgDatabaseError::code)
}

fn postgres(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn unavailable(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Unavailable { reason, source: Some(Box::new(source)) }
}

fn refused(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Refused { reason, source: Some(Box::new(source)) }
}
