//! Which database a command works on, and whether it can.

mod file;
pub(crate) mod url;

use std::fmt;
use std::ops::Deref;

use clap::Args;
use pillarbox::store::{Diagnosis, StoreError};
use pillarbox_any::{AnyOptions, AnyStore, Kind};

pub(crate) use file::SqliteFile;

/// Connections for transactions; a command has one at a time.
const CONNECTIONS: u32 = 1;

/// A path or a URL as it was given. It is shown to nobody: there may be a password in it.
#[derive(Clone)]
pub(crate) struct Location(String);

impl From<String> for Location {
    fn from(given: String) -> Self {
        Self(given)
    }
}

impl Deref for Location {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Where the outbox is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Database {
    /// The database: a path, or a URL (`sqlite:PATH`, `postgres://…`, `mysql://…`)
    // Taken as text: clap would repeat a URL that it refuses, and the password in it.
    #[arg(long, env = "PILLARBOX_DB", hide_env_values = true, value_name = "URL|PATH")]
    db: Location,

    #[command(flatten)]
    tables: Tables,
}

/// Where in it the tables are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Tables {
    /// The schema of the outbox's tables in PostgreSQL, or their database in MySQL and MariaDB
    #[arg(long)]
    schema: Option<String>,

    /// What stands before the names of the outbox's tables
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
}

impl Database {
    pub(crate) fn new(db: Location, tables: Tables) -> Self {
        Self { db, tables }
    }

    /// The same database, and in it the tables with another prefix.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Self {
        let schema = self.tables.schema.clone();
        Self { db: self.db.clone(), tables: Tables { schema, prefix: prefix.to_owned() } }
    }

    /// Opens a database that exists, with or without an outbox in it.
    pub(crate) async fn reach(&self) -> anyhow::Result<AnyStore> {
        self.reach_with(self.options()).await
    }

    async fn reach_with(&self, options: AnyOptions) -> anyhow::Result<AnyStore> {
        let file = self.file()?;
        file.as_ref().map_or(Ok(()), SqliteFile::check_exists)?;
        self.connect(file, options).await
    }

    /// Opens an outbox that exists.
    pub(crate) async fn open(&self) -> anyhow::Result<Opened> {
        self.opened(self.reach().await?).await
    }

    /// Opens an outbox that exists, only to look at it: a file stays as it is, and need not be writable.
    pub(crate) async fn look(&self) -> anyhow::Result<Opened> {
        self.opened(self.reach_with(self.options().read_only(true)).await?).await
    }

    /// Opens an outbox that exists; only to look at it if this is a dry run.
    pub(crate) async fn look_or_open(&self, is_dry_run: bool) -> anyhow::Result<Opened> {
        if is_dry_run { self.look().await } else { self.open().await }
    }

    async fn opened(&self, store: AnyStore) -> anyhow::Result<Opened> {
        let name = store.name();
        match store.check().await {
            Ok(version) => Ok(Opened { store, version, name }),
            Err(error) => {
                store.close().await;
                Err(explain(error, &self.tables.place(&name)))
            }
        }
    }

    /// Opens a database that may have no outbox yet, or, if it is a file, not exist.
    pub(crate) async fn open_or_create(&self) -> anyhow::Result<AnyStore> {
        let file = self.file()?;
        let options = self.options().create_if_missing(file.is_some());
        self.connect(file, options).await
    }

    /// Looks at an outbox, which need not be there, without changing anything.
    pub(crate) async fn examine(&self) -> anyhow::Result<Diagnosis> {
        self.file()?;
        Ok(self.options().examine().await?)
    }

    fn file(&self) -> anyhow::Result<Option<SqliteFile>> {
        file_at(&self.db)
    }

    fn options(&self) -> AnyOptions {
        let options = AnyStore::options(&*self.db)
            .prefix(&self.tables.prefix)
            .max_connections(CONNECTIONS)
            .create_if_missing(false)
            .wake_up(false);
        match &self.tables.schema {
            Some(schema) => options.schema(schema),
            None => options,
        }
    }

    async fn connect(&self, file: Option<SqliteFile>, options: AnyOptions) -> anyhow::Result<AnyStore> {
        // A server that is not connected to is named by its kind: its URL may have a password in it.
        let name = match file {
            Some(file) => file.name(),
            None => Kind::of(&self.db)?.to_string(),
        };
        options.connect().await.map_err(|error| explain(error, &self.tables.place(&name)))
    }
}

/// The file at a path or a URL, if the database is one; refuses what exists and is no SQLite database.
pub(crate) fn file_at(url: &str) -> anyhow::Result<Option<SqliteFile>> {
    if Kind::of(url)? != Kind::Sqlite {
        return Ok(None);
    }
    let file: SqliteFile = url.parse()?;
    file.check()?;
    Ok(Some(file))
}

impl Tables {
    pub(crate) fn new(schema: Option<String>, prefix: Option<String>) -> Self {
        Self { schema, prefix: prefix.unwrap_or_default() }
    }

    /// The database of this name and where in it they are, for people.
    pub(crate) fn place(&self, database: &str) -> String {
        let schema = self.schema.as_ref().map(|schema| format!(", schema `{schema}`")).unwrap_or_default();
        match self.prefix.as_str() {
            "" => format!("{database}{schema}"),
            prefix => format!("{database}{schema}, prefix `{prefix}`"),
        }
    }

    /// The SQL that makes them in a database of this kind.
    pub(crate) fn migrations_sql(&self, kind: Kind) -> Result<String, StoreError> {
        kind.migrations_sql(self.schema.as_deref(), &self.prefix)
    }
}

/// An outbox that exists.
pub(crate) struct Opened {
    pub(crate) store: AnyStore,
    /// The version of its tables.
    pub(crate) version: u32,
    /// The database, for people; without a password.
    pub(crate) name: String,
}

/// Names the database in errors that do not.
pub(crate) fn explain(error: StoreError, name: &str) -> anyhow::Error {
    match error {
        StoreError::NotMigrated | StoreError::OlderSchema { .. } | StoreError::NewerSchema { .. } => {
            anyhow::Error::new(error).context(name.to_owned())
        }
        other => other.into(),
    }
}
