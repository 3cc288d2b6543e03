//! What MySQL and MariaDB say, in the words of the store contracts.

use std::io::ErrorKind;
use std::time::Duration;

use pillarbox::store::{CommitError, StoreError};
use pillarbox_sql::Names;
use sqlx::mysql::{MySqlConnectOptions, MySqlDatabaseError, MySqlSslMode};

const ER_DBACCESS_DENIED: u16 = 1044;
const ER_ACCESS_DENIED: u16 = 1045;
const ER_BAD_DB: u16 = 1049;
const ER_DISK_FULL: u16 = 1021;
const ER_GET_ERRNO: u16 = 1030;
const ER_CON_COUNT: u16 = 1040;
const ER_DUP_ENTRY: u16 = 1062;
const ER_RECORD_FILE_FULL: u16 = 1114;
const ER_HOST_NOT_PRIVILEGED: u16 = 1130;
const ER_TABLEACCESS_DENIED: u16 = 1142;
const ER_COLUMNACCESS_DENIED: u16 = 1143;
const ER_NO_SUCH_TABLE: u16 = 1146;
const ER_NET_PACKET_TOO_LARGE: u16 = 1153;
const ER_KEY_DOES_NOT_EXIST: u16 = 1176;
const ER_TOO_MANY_USER_CONNECTIONS: u16 = 1203;
const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
const ER_LOCK_DEADLOCK: u16 = 1213;
const ER_USER_LIMIT_REACHED: u16 = 1226;
const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;
const ER_OPTION_PREVENTS_STATEMENT: u16 = 1290;
const ER_SP_DOES_NOT_EXIST: u16 = 1305;
const ER_QUERY_INTERRUPTED: u16 = 1317;
const ER_BINLOG_CREATE_ROUTINE_NEED_SUPER: u16 = 1419;
const ER_NO_SUCH_USER: u16 = 1449;
const ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: u16 = 1665;
const ER_ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
const ER_READ_ONLY_MODE: u16 = 1836;
/// Of MariaDB.
const ER_STATEMENT_TIMEOUT: u16 = 1969;
/// Of MySQL.
const ER_QUERY_TIMEOUT: u16 = 3024;
/// Of MySQL.
const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;

/// Statements of less than a megabyte are taken by every server that is not set up strangely.
const SMALLEST_PACKET: usize = 1024 * 1024;

/// The database that the words are about. It knows no password.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Host and port, or the path of the socket.
    server: String,
    database: Option<String>,
    user: String,
    /// Whether the URL forbids encrypted connections.
    is_plain: bool,
    names: Names,
}

impl Place {
    pub(crate) fn new(options: &MySqlConnectOptions, names: Names) -> Self {
        let server = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let database = options.get_database().map(str::to_owned);
        let is_plain = matches!(options.get_ssl_mode(), MySqlSslMode::Disabled);
        Self { server, database, user: options.get_username().to_owned(), is_plain, names }
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Whether it is known which database the tables are in.
    pub(crate) fn has_database(&self) -> bool {
        self.database.is_some() || self.names.schema().is_some()
    }

    /// What a call that failed with `error` answers.
    pub(crate) fn store(&self, error: sqlx::Error) -> StoreError {
        match &error {
            sqlx::Error::PoolClosed => StoreError::unavailable("the store is closed"),
            sqlx::Error::PoolTimedOut => StoreError::unavailable(format!(
                "no connection to `{self}` came free in time; see whether it runs, keep transactions short, or raise `max_connections`"
            )),
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                refused(format!("`{self}` answered what this program cannot read"), error)
            }
            sqlx::Error::Database(_) => self.said(error),
            _ => unavailable(format!("the connection to `{self}` failed"), error),
        }
    }

    /// What an error of the server means.
    fn said(&self, error: sqlx::Error) -> StoreError {
        match number(&error) {
            Some(ER_NO_SUCH_TABLE | ER_BAD_DB) => StoreError::NotMigrated,
            Some(_) if is_denied(&error) => self.missing_privilege(error),
            Some(ER_LOCK_DEADLOCK) => {
                unavailable(format!("another transaction on `{self}` stood in the way"), error)
            }
            Some(ER_LOCK_WAIT_TIMEOUT) => unavailable(
                format!(
                    "`{self}` has rows that are locked for too long; keep transactions short, or raise `lock_timeout`"
                ),
                error,
            ),
            Some(ER_STATEMENT_TIMEOUT | ER_QUERY_TIMEOUT | ER_QUERY_INTERRUPTED) => unavailable(
                format!("a statement on `{self}` took too long or was cancelled; see `statement_timeout`"),
                error,
            ),
            Some(ER_DISK_FULL | ER_RECORD_FILE_FULL | ER_GET_ERRNO) => unavailable(
                format!("the disk of `{self}` is full or failed; free some space, and see the server's log"),
                error,
            ),
            Some(ER_OPTION_PREVENTS_STATEMENT | ER_READ_ONLY_MODE) => {
                unavailable(format!("`{self}` is read-only; it may have become a replica"), error)
            }
            Some(ER_CON_COUNT | ER_TOO_MANY_USER_CONNECTIONS | ER_USER_LIMIT_REACHED) => unavailable(
                format!(
                    "`{}` has no connection left; raise its `max_connections`, or lower that of its clients",
                    self.server
                ),
                error,
            ),
            Some(
                ER_SP_DOES_NOT_EXIST
                | ER_NET_PACKET_TOO_LARGE
                | ER_NO_SUCH_USER
                | ER_BINLOG_STMT_MODE_AND_ROW_ENGINE,
            ) => refused(self.remedy(&error), error),
            _ if speaks_of_the_statement(&error) => refused(format!("a statement on `{self}` failed"), error),
            _ => unavailable(format!("a statement on `{self}` failed"), error),
        }
    }

    /// What stands in the way of every such statement, and what can be done about it.
    fn remedy(&self, error: &sqlx::Error) -> String {
        let table = self.names.table("outbox_event");
        match number(error) {
            Some(ER_SP_DOES_NOT_EXIST) => format!(
                "the transaction on `{self}` had ended before, by a deadlock or a statement that commits, and nothing was written; begin it anew"
            ),
            Some(ER_NET_PACKET_TOO_LARGE) => format!(
                "a statement is larger than `{self}` takes; raise its `max_allowed_packet`, to 16 MiB at least"
            ),
            Some(ER_NO_SUCH_USER) => format!(
                "the trigger of `{table}` runs with the rights of a user who is gone; drop the trigger on `{self}`, and migrate again as one who stays"
            ),
            _ => format!(
                "`{self}` has `binlog_format` STATEMENT, which cannot log what is done at READ COMMITTED; set it to ROW or MIXED"
            ),
        }
    }

    /// The server names the user, who is another than ours where a trigger runs with the rights of its definer.
    fn missing_privilege(&self, error: sqlx::Error) -> StoreError {
        let Self { user, names, .. } = self;
        let text = mysql(&error).map(|said| said.message()).unwrap_or_default();
        let others = ["outbox_meta", "outbox_instance", "outbox_partition", "outbox_parked"];
        let table = others.into_iter().find(|table| text.contains(table)).unwrap_or("outbox_event");
        let table = names.table(table);
        let denied = text.split_once(" command denied to user '");
        let denied = denied.and_then(|(privilege, rest)| Some((privilege, rest.split_once('\'')?.0)));
        // Who may lock rows is who may change them.
        let denied = denied.map(|(privilege, user)| match privilege {
            "SELECT with locking clause" => ("UPDATE", user),
            _ => (privilege, user),
        });
        let reason = match denied {
            Some((privilege, denied)) if denied == user => format!(
                "the user `{user}` may not do this on `{self}`; give `GRANT {privilege} ON {table}` to it"
            ),
            Some((privilege, definer)) => format!(
                "the trigger of `{table}` on `{self}` runs with the rights of `{definer}`, who may not do this; give `GRANT {privilege} ON {table}` to it, or drop the trigger and migrate again as one who may"
            ),
            None => format!("the user `{user}` may not do this on `{self}`; give it the grants of the guide"),
        };
        refused(reason, error)
    }

    /// What an INSERT of so many bytes of payload in a transaction of the user's that failed with `error` answers.
    pub(crate) fn insert(&self, error: sqlx::Error, bytes: usize) -> StoreError {
        // A server that does not take a statement closes the connection, often before the reason is heard.
        if is_lost(&error) && bytes >= SMALLEST_PACKET {
            let reason = format!(
                "the connection to `{self}` failed at {bytes} bytes of payload; see whether its `max_allowed_packet` is 16 MiB at least"
            );
            return unavailable(reason, error);
        }
        if number(&error) == Some(ER_LOCK_WAIT_TIMEOUT) {
            let reason = format!(
                "the INSERT waited too long for what another transaction on `{self}` has locked; keep transactions short, or raise `innodb_lock_wait_timeout`"
            );
            return unavailable(reason, error);
        }
        self.store(error)
    }

    /// What a commit that failed with `error` answers.
    pub(crate) fn commit(&self, error: sqlx::Error) -> CommitError {
        if is_collision(&error) {
            let reason = format!("another transaction on `{self}` stood in the way");
            return CommitError::RolledBack { reason, source: Some(Box::new(error)) };
        }
        let reason = match number(&error) {
            Some(ER_SP_DOES_NOT_EXIST) => format!(
                "it had ended before on `{self}`: a deadlock rolled it back, or a statement like COMMIT or CREATE TABLE committed it"
            ),
            _ => format!("the answer of `{self}` was lost"),
        };
        CommitError::Unknown { reason, source: Some(Box::new(error)) }
    }

    /// Why no connection could be made.
    pub(crate) fn connect(&self, error: sqlx::Error) -> StoreError {
        let Self { server, database, user, .. } = self;
        match (&error, number(&error)) {
            (sqlx::Error::Configuration(reason), _) => StoreError::Config(format!("`{self}`: {reason}")),
            (sqlx::Error::Tls(_), _) => refused(
                format!(
                    "no encrypted connection to `{server}` can be made; switch TLS on there, or change `ssl-mode` in the URL"
                ),
                error,
            ),
            // That is how the driver reports a certificate that it does not accept.
            (sqlx::Error::Io(io), _) if io.kind() == ErrorKind::InvalidData => refused(
                format!(
                    "the certificate of `{server}` is not accepted; set `ssl-ca` in the URL to who has signed it, or change `ssl-mode` there"
                ),
                error,
            ),
            (sqlx::Error::Io(_), _) => unavailable(
                format!("`{server}` cannot be reached; see whether it runs, and correct the URL"),
                error,
            ),
            (_, Some(ER_ACCESS_DENIED | ER_ACCESS_DENIED_NO_PASSWORD)) => {
                // MariaDB says the same to those whom it wants to encrypt their connections.
                let or_encrypt = if self.is_plain {
                    ", or set `ssl-mode=REQUIRED` instead of `DISABLED` there, which the server may want"
                } else {
                    ""
                };
                let reason = format!(
                    "`{server}` does not let `{user}` in; correct the user or the password in the URL{or_encrypt}"
                );
                refused(reason, error)
            }
            (_, Some(ER_SECURE_TRANSPORT_REQUIRED)) => refused(
                format!("`{server}` wants encrypted connections; set `ssl-mode=REQUIRED` in the URL"),
                error,
            ),
            (_, Some(ER_HOST_NOT_PRIVILEGED)) => {
                refused(format!("`{server}` lets nobody in from this host; create a user for it"), error)
            }
            (_, Some(ER_BAD_DB)) => refused(
                format!(
                    "there is no database `{}` at `{server}`; create it, or correct the URL",
                    database.as_deref().unwrap_or("")
                ),
                error,
            ),
            (_, Some(ER_DBACCESS_DENIED)) => refused(
                format!(
                    "the user `{user}` has no privilege on the database `{}` at `{server}`, or there is none",
                    database.as_deref().unwrap_or("")
                ),
                error,
            ),
            _ => self.store(error),
        }
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
        match self.names.schema().or(self.database.as_deref()) {
            Some(database) => write!(f, "{}/{database}", self.server),
            None => f.write_str(&self.server),
        }
    }
}

/// Whether the server rolled this back because of another transaction, so that the same may pass now.
pub(crate) fn is_collision(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(ER_LOCK_DEADLOCK | ER_LOCK_WAIT_TIMEOUT))
}

/// Whether the statement was given up because somebody else has locked what it needs.
pub(crate) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    number(error) == Some(ER_LOCK_WAIT_TIMEOUT)
}

/// Whether a table that the statement names, or the database that it is in, is missing.
pub(crate) fn is_missing_table(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(ER_NO_SUCH_TABLE | ER_BAD_DB))
}

/// Whether the statement names an index that is missing.
pub(crate) fn is_missing_index(error: &StoreError) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    source.and_then(number) == Some(ER_KEY_DOES_NOT_EXIST)
}

/// Whether the user may not do this.
pub(crate) fn is_denied(error: &sqlx::Error) -> bool {
    matches!(
        number(error),
        Some(ER_TABLEACCESS_DENIED | ER_COLUMNACCESS_DENIED | ER_DBACCESS_DENIED | ER_SPECIFIC_ACCESS_DENIED)
    )
}

/// Whether the connection is gone, as opposed to an answer that was an error.
pub(crate) fn is_lost(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_))
}

/// Whether this user may not create triggers, here or at all.
pub(crate) fn is_without_triggers(error: &sqlx::Error) -> bool {
    matches!(
        number(error),
        Some(ER_BINLOG_CREATE_ROUTINE_NEED_SUPER | ER_TABLEACCESS_DENIED | ER_SPECIFIC_ACCESS_DENIED)
    )
}

/// What the server says of a value that was repeated in a unique key.
pub(crate) fn repeated_entry(error: &sqlx::Error) -> Option<&str> {
    let said = mysql(error)?;
    (said.number() == ER_DUP_ENTRY).then(|| said.message())
}

/// Errors that are about the statement itself: data, constraints, syntax, features. All else may pass.
fn speaks_of_the_statement(error: &sqlx::Error) -> bool {
    let state = mysql(error).and_then(MySqlDatabaseError::code).unwrap_or_default();
    ["0A", "21", "22", "23", "42", "45"].iter().any(|class| state.starts_with(class))
        // Refused by a CHECK in MySQL.
        || number(error) == Some(3819)
}

fn number(error: &sqlx::Error) -> Option<u16> {
    mysql(error).map(MySqlDatabaseError::number)
}

fn mysql(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn unavailable(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Unavailable { reason, source: Some(Box::new(source)) }
}

fn refused(reason: String, source: sqlx::Error) -> StoreError {
    StoreError::Refused { reason, source: Some(Box::new(source)) }
}
