//! `pillarbox migrate`: makes the outbox, brings it up to date, or prints how.

use clap::{Args, ValueEnum};
use pillarbox::store::StoreError;
use pillarbox_any::Kind;
use serde::Serialize;

use crate::command;
use crate::database::{Database, Location, Tables, explain};
use crate::exit::Unusable;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  pillarbox migrate --db shop.db
  pillarbox migrate --db sqlite:///var/lib/shop/shop.db --prefix billing_
  pillarbox migrate --db postgres://shop@localhost/shop --schema billing
  pillarbox migrate --db postgres://shop@localhost/shop --mode ownership
  pillarbox migrate --print --dialect postgres > V7__outbox.sql
  pillarbox migrate --print --dialect mysql | mariadb shop
";

/// Create the outbox in a database, or bring it up to date
///
/// Makes the file, or the schema, if there is none, and leaves all other tables alone. Running it again changes
/// nothing, and it can run while the outbox is in use.
///
/// With --print it connects to nothing and prints the SQL that makes the outbox in a database without one, for
/// Flyway or any other tool that runs migrations itself.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Migrate {
    /// The database: a path, or a URL (`sqlite:PATH`, `postgres://…`, `mysql://…`)
    // Taken as text: clap would repeat a URL that it refuses, and the password in it.
    #[arg(
        long,
        env = "PILLARBOX_DB",
        hide_env_values = true,
        value_name = "URL|PATH",
        required_unless_present = "dialect"
    )]
    db: Option<Location>,

    #[command(flatten)]
    tables: Tables,

    /// Give the outbox the indexes of this way to take work; by default they stay as they are
    ///
    /// An instance does it by itself when it starts, if its user may. All instances of the other mode must be stopped.
    #[arg(long, value_name = "MODE", conflicts_with = "print")]
    mode: Option<Mode>,

    /// Print the SQL, and connect to nothing
    #[arg(long, conflicts_with = "json")]
    print: bool,

    /// Whose SQL to print; if not given, that of --db
    #[arg(long, requires = "print", value_name = "DATABASE")]
    dialect: Option<Dialect>,

    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// How work is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Row by row; no order is kept
    Claims,
    /// By partitions, each of which one instance owns; order by key can be had
    Ownership,
}

impl From<Mode> for pillarbox::store::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Claims => Self::Claims,
            Mode::Ownership => Self::Ownership,
        }
    }
}

/// Whose SQL is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dialect {
    Sqlite,
    Postgres,
    /// MariaDB too
    Mysql,
}

impl From<Dialect> for Kind {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sqlite => Self::Sqlite,
            Dialect::Postgres => Self::Postgres,
            Dialect::Mysql => Self::MySql,
        }
    }
}

#[derive(Serialize)]
struct Migrated {
    database: String,
    /// `sqlite`, `postgres` or `mysql`.
    store: &'static str,
    /// `null` if there was no outbox.
    from_version: Option<u32>,
    schema_version: u32,
}

impl Migrate {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        if self.print {
            return terminal::print(&self.sql()?);
        }
        let db = self.db.ok_or_else(|| Unusable("give --db".to_owned()))?;
        let store = Database::new(db, self.tables).open_or_create().await?;
        let name = store.name();
        let checked = store.check().await;
        if terminal::is_watched() {
            announce(&name, &checked, self.mode);
        }
        let before = match checked {
            Ok(version) => Some(version),
            Err(StoreError::OlderSchema { found, .. }) => Some(found),
            Err(StoreError::NotMigrated) => None,
            Err(error) => return Err(explain(error, &name)),
        };
        let migrated = match self.mode {
            Some(mode) => store.migrate_to(mode.into()).await,
            None => store.migrate().await,
        };
        migrated.map_err(|error| explain(error, &name))?;
        let now = store.check().await.map_err(|error| explain(error, &name))?;
        let store_kind = store.kind().word();
        store.close().await;
        if self.json {
            return terminal::json(&Migrated {
                database: name,
                store: store_kind,
                from_version: before,
                schema_version: now,
            });
        }
        terminal::print(&match before {
            None => format!("created the outbox in {name} (schema version {now})\n"),
            Some(before) if before == now => format!("{name} is up to date (schema version {now})\n"),
            Some(before) => format!("migrated {name} from schema version {before} to {now}\n"),
        })
    }

    /// What a database without an outbox needs.
    fn sql(&self) -> anyhow::Result<String> {
        let kind = match (self.dialect, &self.db) {
            (Some(dialect), _) => dialect.into(),
            (None, db) => Kind::of(db.as_deref().unwrap_or_default())?,
        };
        let sql = self.tables.migrations_sql(kind)?;
        let version = env!("CARGO_PKG_VERSION");
        Ok(format!(
            "-- The outbox of Pillarbox in {kind}, as `pillarbox migrate` {version} makes it.\n\n{sql}"
        ))
    }
}

/// Says what is going to be done, for on a large table it takes its time.
fn announce(name: &str, checked: &Result<u32, StoreError>, mode: Option<Mode>) {
    match checked {
        Err(StoreError::NotMigrated) => terminal::say(&format!("creating the outbox in {name} …")),
        Err(StoreError::OlderSchema { found, needed }) => {
            terminal::say(&format!("bringing {name} from schema version {found} to {needed} …"));
        }
        _ => {}
    }
    if let Some(mode) = mode.map(pillarbox::store::Mode::from) {
        terminal::say(&format!("giving {name} the indexes of the mode `{mode}`, unless it has them …"));
    }
}
