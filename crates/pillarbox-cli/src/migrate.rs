//! `pillarbox migrate`: makes the outbox, or brings it up to date.

use clap::Args;
use pillarbox::store::StoreError;
use serde::Serialize;

use crate::command;
use crate::database::Database;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  pillarbox migrate --db shop.db
  pillarbox migrate --db sqlite:///var/lib/shop/shop.db --prefix billing_
";

/// Create the outbox in a database, or bring it up to date
///
/// Makes the file if there is none, and leaves all other tables alone. Running it again changes nothing, and it
/// can run while the outbox is in use.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Migrate {
    #[command(flatten)]
    database: Database,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Migrated {
    database: String,
    /// `null` if there was no outbox.
    from_version: Option<u32>,
    schema_version: u32,
}

impl Migrate {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (store, location) = self.database.open_or_create().await?;
        let name = location.name();
        let before = match store.check().await {
            Ok(version) => Some(version),
            Err(StoreError::OlderSchema { found, .. }) => Some(found),
            Err(StoreError::NotMigrated) => None,
            Err(error) => return Err(location.explain(error)),
        };
        store.migrate().await.map_err(|error| location.explain(error))?;
        let now = store.check().await.map_err(|error| location.explain(error))?;
        store.close().await;
        if self.json {
            return terminal::json(&Migrated { database: name, from_version: before, schema_version: now });
        }
        terminal::print(&match before {
            None => format!("created the outbox in {name} (schema version {now})\n"),
            Some(before) if before == now => format!("{name} is up to date (schema version {now})\n"),
            Some(before) => format!("migrated {name} from schema version {before} to {now}\n"),
        })
    }
}
