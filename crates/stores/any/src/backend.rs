//! The databases that this build knows: the one place that looks at features.

use pillarbox::store::{Diagnosis, StoreError};
use pillarbox_sql::Names;

use crate::options::check_schema;
use crate::tx::Open;
use crate::{AnyOptions, Kind};

#[cfg(not(any(feature = "sqlite", feature = "postgres", feature = "mysql")))]
compile_error!("`pillarbox-any` needs at least one of its features `sqlite`, `postgres` and `mysql`");

#[cfg(feature = "mysql")]
use pillarbox_mysql::{MySqlOptions, MySqlStore, MySqlTx};
#[cfg(feature = "postgres")]
use pillarbox_postgres::{PostgresOptions, PostgresStore, PostgresTx};
#[cfg(feature = "sqlite")]
use pillarbox_sqlite::{SqliteOptions, SqliteStore, SqliteTx};
#[cfg(feature = "mysql")]
use sqlx::MySql;
#[cfg(feature = "postgres")]
use sqlx::Postgres;
#[cfg(feature = "sqlite")]
use sqlx::Sqlite;

/// An outbox in the database that a URL names. Clones are handles to one store.
///
/// It is the database's own store, and keeps all promises of that one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// In a SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
    /// In MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(MySqlStore),
}

/// An open transaction on the database of an [`AnyStore`]: one that [`begin`](pillarbox::store::TxStore::begin)
/// opened, or one of your own `sqlx`.
///
/// Statements of yours run on what is in it:
///
/// ```
/// # use pillarbox_any::AnyTx;
/// # async fn example(tx: &mut AnyTx) -> Result<(), sqlx::Error> {
/// match tx {
///     # #[cfg(feature = "sqlite")]
///     AnyTx::Sqlite(tx) => {
///         sqlx::query("INSERT INTO orders (id) VALUES (?1)").bind(17).execute(&mut **tx).await?;
///     }
///     # #[cfg(feature = "postgres")]
///     AnyTx::Postgres(tx) => {
///         sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(17).execute(&mut **tx).await?;
///     }
///     # #[cfg(feature = "mysql")]
///     AnyTx::MySql(tx) => {
///         sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(17).execute(&mut **tx).await?;
///     }
///     _ => unreachable!("these are all that this program was built with"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyTx {
    /// On a SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(Open<SqliteStore, Sqlite>),
    /// On PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(Open<PostgresStore, Postgres>),
    /// On MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    MySql(Open<MySqlStore, MySql>),
}

/// Does the same with whatever is in `$value`, which is an [`AnyStore`] or an [`AnyTx`].
macro_rules! on_each {
    ($any:ident, $value:expr, $inner:ident => $call:expr) => {
        match $value {
            #[cfg(feature = "sqlite")]
            $any::Sqlite($inner) => $call,
            #[cfg(feature = "postgres")]
            $any::Postgres($inner) => $call,
            #[cfg(feature = "mysql")]
            $any::MySql($inner) => $call,
        }
    };
}

/// Does the same with a store and a transaction that is its own; `$otherwise` with one that is not.
macro_rules! on_both {
    ($store:expr, $tx:expr, ($inner:ident, $open:ident) => $call:expr, else $otherwise:expr) => {
        match ($store, $tx) {
            #[cfg(feature = "sqlite")]
            (AnyStore::Sqlite($inner), AnyTx::Sqlite($open)) => $call,
            #[cfg(feature = "postgres")]
            (AnyStore::Postgres($inner), AnyTx::Postgres($open)) => $call,
            #[cfg(feature = "mysql")]
            (AnyStore::MySql($inner), AnyTx::MySql($open)) => $call,
            #[allow(unreachable_patterns, reason = "with one feature there is no other")]
            _ => $otherwise,
        }
    };
}

pub(crate) use {on_both, on_each};

macro_rules! conversions {
    ($($feature:tt $variant:ident $store:ident $tx:ident $driver:ident)*) => {$(
        #[cfg(feature = $feature)]
        impl From<$store> for AnyStore {
            fn from(store: $store) -> Self {
                Self::$variant(store)
            }
        }

        #[cfg(feature = $feature)]
        impl From<$tx> for AnyTx {
            fn from(tx: $tx) -> Self {
                Self::$variant(Open::ours(tx))
            }
        }

        #[cfg(feature = $feature)]
        impl From<sqlx::Transaction<'static, $driver>> for AnyTx {
            /// Takes a transaction that you began on a pool.
            fn from(tx: sqlx::Transaction<'static, $driver>) -> Self {
                Self::$variant(Open::yours(tx))
            }
        }
    )*};
}

conversions! {
    "sqlite" Sqlite SqliteStore SqliteTx Sqlite
    "postgres" Postgres PostgresStore PostgresTx Postgres
    "mysql" MySql MySqlStore MySqlTx MySql
}

impl AnyStore {
    /// The kind of database that it is in.
    pub fn kind(&self) -> Kind {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Kind::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Kind::Postgres,
            #[cfg(feature = "mysql")]
            Self::MySql(_) => Kind::MySql,
        }
    }

    /// Where its tables are: the schema that was given, and in MySQL otherwise the database of the connection.
    pub(crate) fn schema(&self) -> Option<String> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => None,
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.names().schema().map(str::to_owned),
            #[cfg(feature = "mysql")]
            Self::MySql(store) => {
                let options = store.pool().connect_options();
                store.names().schema().or(options.get_database()).map(str::to_owned)
            }
        }
    }

    /// The database, for people and without a password: `shop.db`, `postgres://shop@localhost:5432/shop`.
    pub fn name(&self) -> String {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.path().display().to_string(),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => {
                let options = store.pool().connect_options();
                let user = options.get_username();
                let database = options.get_database().unwrap_or(user);
                match options.get_socket() {
                    Some(socket) => format!("postgres://{user}@/{database}?host={}", socket.display()),
                    None => {
                        format!("postgres://{user}@{}:{}/{database}", options.get_host(), options.get_port())
                    }
                }
            }
            #[cfg(feature = "mysql")]
            Self::MySql(store) => {
                let options = store.pool().connect_options();
                let (user, host) = (options.get_username(), options.get_host());
                let database = store.names().schema().or(options.get_database()).unwrap_or_default();
                match options.get_socket() {
                    Some(socket) => format!("mysql://{user}@{host}/{database}?socket={}", socket.display()),
                    None => format!("mysql://{user}@{host}:{}/{database}", options.get_port()),
                }
            }
        }
    }
}

/// Whether a server says that it has no such database.
pub fn is_missing_database(error: &(dyn std::error::Error + 'static)) -> bool {
    let Some(sqlx::Error::Database(said)) = error.downcast_ref() else { return false };
    #[cfg(feature = "mysql")]
    if let Some(said) = said.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return said.number() == 1049;
    }
    said.code().as_deref() == Some("3D000")
}

/// The databases that this build knows.
pub fn kinds() -> Vec<Kind> {
    vec![
        #[cfg(feature = "sqlite")]
        Kind::Sqlite,
        #[cfg(feature = "postgres")]
        Kind::Postgres,
        #[cfg(feature = "mysql")]
        Kind::MySql,
    ]
}

/// Connects to a database of this kind with options that it has.
pub(crate) async fn connect(kind: Kind, options: AnyOptions) -> Result<AnyStore, StoreError> {
    match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => of_sqlite(options).connect().await.map(AnyStore::from),
        #[cfg(feature = "postgres")]
        Kind::Postgres => of_postgres(options).connect().await.map(AnyStore::from),
        #[cfg(feature = "mysql")]
        Kind::MySql => of_mysql(options).connect().await.map(AnyStore::from),
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        absent => Err(absent.absent()),
    }
}

/// Examines a database of this kind.
pub(crate) async fn examine(kind: Kind, options: AnyOptions) -> Result<Diagnosis, StoreError> {
    match kind {
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => of_sqlite(options).examine().await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => of_postgres(options).examine().await,
        #[cfg(feature = "mysql")]
        Kind::MySql => of_mysql(options).examine().await,
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        absent => Err(absent.absent()),
    }
}

#[cfg(feature = "sqlite")]
fn of_sqlite(options: AnyOptions) -> SqliteOptions {
    let mut chosen = SqliteStore::options(options.url).prefix(options.prefix.unwrap_or_default());
    if let Some(create_if_missing) = options.create_if_missing {
        chosen = chosen.create_if_missing(create_if_missing);
    }
    if let Some(max_connections) = options.max_connections {
        chosen = chosen.max_connections(max_connections);
    }
    if let Some(lock_timeout) = options.lock_timeout {
        chosen = chosen.busy_timeout(lock_timeout);
    }
    chosen.read_only(options.read_only).watch(options.wake_up.unwrap_or(true))
}

#[cfg(feature = "postgres")]
fn of_postgres(options: AnyOptions) -> PostgresOptions {
    let mut chosen = PostgresStore::options(options.url).prefix(options.prefix.unwrap_or_default());
    if let Some(schema) = options.schema {
        chosen = chosen.schema(schema);
    }
    if let Some(max_connections) = options.max_connections {
        chosen = chosen.max_connections(max_connections);
    }
    if let Some(lock_timeout) = options.lock_timeout {
        chosen = chosen.lock_timeout(lock_timeout);
    }
    chosen.wake_up(options.wake_up.unwrap_or(true))
}

#[cfg(feature = "mysql")]
fn of_mysql(options: AnyOptions) -> MySqlOptions {
    let mut chosen = MySqlStore::options(options.url).prefix(options.prefix.unwrap_or_default());
    if let Some(schema) = options.schema {
        chosen = chosen.schema(schema);
    }
    if let Some(max_connections) = options.max_connections {
        chosen = chosen.max_connections(max_connections);
    }
    if let Some(lock_timeout) = options.lock_timeout {
        chosen = chosen.lock_timeout(lock_timeout);
    }
    if let Some(longest_transaction) = options.longest_transaction {
        chosen = chosen.longest_transaction(longest_transaction);
    }
    chosen
}

impl Kind {
    /// The SQL that makes the outbox tables of the newest version in a database of this kind, for tools that run
    /// migrations themselves. Nothing is connected to.
    ///
    /// Fails like [`AnyOptions::connect`] if schema or prefix make no sense, or if this program was built without
    /// this kind of database.
    pub fn migrations_sql(self, schema: Option<&str>, prefix: &str) -> Result<String, StoreError> {
        check_schema(self, schema)?;
        let names = Names::new(schema, prefix)?;
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite => Ok(pillarbox_sqlite::migrations_sql(&names)),
            #[cfg(feature = "postgres")]
            Self::Postgres => Ok(pillarbox_postgres::migrations_sql(&names)),
            #[cfg(feature = "mysql")]
            Self::MySql => Ok(pillarbox_mysql::migrations_sql(&names)),
            #[allow(unreachable_patterns, reason = "with all features there is no other")]
            absent => Err(absent.absent()),
        }
    }
}
