//! `pillarbox status`: what waits, what is dead, and who takes part.

mod census;
mod handlers;
mod reading;
mod relay;
mod screen;
mod watch;

use std::fmt::{self, Write};

use clap::Args;

use self::reading::{Place, Reading};
use self::relay::RelayUrl;
use self::watch::Watch;
use crate::age::Age;
use crate::command;
use crate::database::{Database, Opened};
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  pillarbox status --db shop.db
  pillarbox status --db postgres://shop@localhost/shop --schema billing
  pillarbox status --db shop.db --watch             the same every 2 seconds, with rates
  pillarbox status --db shop.db --watch=10s --json  an object a line
  pillarbox status --db shop.db --relay http://127.0.0.1:9464
  pillarbox status --db shop.db --json | jq .oldest_due_seconds
  pillarbox status --db shop.db --json | jq '.instances[] | {name, partitions, is_alive}'
  pillarbox status --db shop.db --json | jq '.handlers[] | select(.unknown > 0)'
";

/// Show how many events wait, are done and are dead, and who takes part
///
/// The number of done events is an estimate, because counting them would read the whole table. Where partitions are owned
/// it also shows who owns how many, what waits in them, and how many keys wait. Handlers that events wait for are named; of
/// one that is unknown, the instance that looked last had none.
///
/// With --watch it goes on until Ctrl-C: in a terminal as a table that is drawn anew, elsewhere a line for each reading. A
/// reading that fails is shown as unknown, and tried again. How many were written in a second follows from the highest
/// number, how many were delivered is estimated from that and from what waits.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Status {
    #[command(flatten)]
    database: Database,

    /// Show it again and again, every 2 seconds or as often as given
    #[arg(
        long,
        value_name = "EVERY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = watch::every
    )]
    watch: Option<Age>,

    /// Ask a running relay too how its sinks are doing: the address of its `http.listen`
    #[arg(long, env = "PILLARBOX_RELAY", value_name = "URL")]
    relay: Option<RelayUrl>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, version, name } = self.database.look().await?;
        let place = Place { name, kind: store.kind(), version };
        if let Some(every) = self.watch {
            let watch = Watch { store, place, relay: self.relay, every, json: self.json };
            return watch.run().await;
        }
        let reading = Reading::take(&store, self.relay.as_ref()).await?;
        store.close().await;
        if self.json {
            terminal::json(&reading.shown(&place))?;
        } else {
            terminal::print(&reading.table(&place, None)?)?;
        }
        match reading.relay.as_ref().and_then(relay::Answer::error) {
            Some(reason) => anyhow::bail!(reason),
            None => Ok(()),
        }
    }
}

fn write_line(table: &mut String, label: &str, value: &str, remark: &str) -> fmt::Result {
    writeln!(table, "  {label:<10} {value:>14}   {remark}")
}
