//! `pillarbox status`: what waits, what is dead, and who takes part.

mod census;
mod handlers;

use std::fmt::{self, Write};

use clap::Args;
use pillarbox::store::{Administration, HandlerCensus, Stats};
use pillarbox_any::Kind;
use serde::Serialize;

use crate::command;
use crate::database::{Database, Opened};
use crate::handlers::COUNTED;
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox status --db shop.db
  pillarbox status --db postgres://shop@localhost/shop --schema billing
  pillarbox status --db shop.db --json | jq .oldest_due_seconds
  pillarbox status --db shop.db --json | jq '.instances[] | {name, partitions, is_alive}'
  pillarbox status --db shop.db --json | jq '.handlers[] | select(.unknown > 0)'
";

/// Show how many events wait, are done and are dead, and who takes part
///
/// The number of done events is an estimate, because counting them would read the whole table. Where partitions are owned
/// it also shows who owns how many, what waits in them, and how many keys wait. Handlers that events wait for are named; of
/// one that is unknown, the instance that looked last had none.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Status {
    #[command(flatten)]
    database: Database,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    database: String,
    /// `sqlite`, `postgres` or `mysql`.
    store: &'static str,
    schema_version: u32,
    new: u64,
    retry: u64,
    pending: u64,
    dead: u64,
    done_estimate: u64,
    /// `null` if nothing is due.
    oldest_due_seconds: Option<f64>,
    #[serde(flatten)]
    census: census::Shown,
    #[serde(flatten)]
    handlers: handlers::Shown,
}

impl Status {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, version, name } = self.database.open().await?;
        let (stats, census) = (store.stats().await?, store.census().await?);
        let owed = HandlerCensus::take(&store, COUNTED).await?;
        let kind = store.kind();
        store.close().await;
        if self.json {
            return terminal::json(&Shown {
                database: name,
                store: kind.word(),
                schema_version: version,
                new: stats.new,
                retry: stats.retry,
                pending: stats.pending(),
                dead: stats.dead,
                done_estimate: stats.done_estimate,
                oldest_due_seconds: stats.oldest_due_for.map(|lag| lag.as_secs_f64()),
                census: census::Shown::of(&census),
                handlers: handlers::Shown::of(&owed),
            });
        }
        let counts = table(&name, kind, version, &stats)?;
        terminal::print(&format!("{counts}\n{}{}", handlers::table(&owed)?, census::table(&census)?))
    }
}

fn table(name: &str, kind: Kind, version: u32, stats: &Stats) -> Result<String, fmt::Error> {
    let lag = stats.oldest_due_for.map_or_else(|| "–".to_owned(), figure::time);
    let mut table = String::new();
    writeln!(table, "{name}, {kind}, schema version {version}\n")?;
    for (label, value, remark) in [
        ("new", figure::count(stats.new), "never tried"),
        ("retry", figure::count(stats.retry), "to be tried again"),
        ("dead", figure::count(stats.dead), "given up; see `pillarbox dead list`"),
        ("done", format!("~{}", figure::count(stats.done_estimate)), "delivered; an estimate"),
        ("oldest due", lag, "how long the oldest has been waiting"),
    ] {
        write_line(&mut table, label, &value, remark)?;
    }
    Ok(table)
}

fn write_line(table: &mut String, label: &str, value: &str, remark: &str) -> fmt::Result {
    writeln!(table, "  {label:<10} {value:>14}   {remark}")
}
