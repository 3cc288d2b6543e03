//! `pillarbox purge`: deletes old done events.

use std::time::Duration;

use clap::Args;
use pillarbox::store::{self, Administration};
use serde::Serialize;

use crate::age::Age;
use crate::command;
use crate::database::Database;
use crate::{figure, terminal};

/// Rows looked at in one step, and the pause between steps that leaves the database to others.
const STEP: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);

const EXAMPLES: &str = "\
Examples:
  pillarbox purge --db shop.db --older-than 30d
  pillarbox purge --db shop.db --older-than 90d --dead-too
";

/// Delete old done events
///
/// Works in small steps, so that delivery goes on meanwhile. Events that wait are never deleted, dead ones only
/// when asked. It can be interrupted at any time and run again.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Purge {
    #[command(flatten)]
    database: Database,

    /// Delete what was done at least this long ago: `30s`, `15m`, `12h`, `30d`
    #[arg(long, value_name = "AGE")]
    older_than: Age,

    /// Delete dead events too that were written at least this long ago
    #[arg(long)]
    dead_too: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Purged {
    purged: u64,
    dead_too: bool,
}

impl Purge {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let store = self.database.open().await?.store;
        let highest = store.highest().await?;
        let bar =
            terminal::bar(u64::try_from(highest).unwrap_or(0), "  purging {wide_bar} {percent} % · {msg}");
        let mut step = store::Purge {
            older_than: self.older_than.duration,
            limit: STEP,
            after: 0,
            dead_too: self.dead_too,
        };
        let mut purged = 0;
        loop {
            let done = store.purge(step).await?;
            purged += done.deleted;
            bar.set_message(figure::events(purged));
            // Behind the highest number of the beginning there is only what came meanwhile.
            let Some(next) = done.next.filter(|&next| next < highest) else { break };
            bar.set_position(u64::try_from(next).unwrap_or(0));
            step.after = next;
            tokio::time::sleep(PAUSE).await;
        }
        bar.finish_and_clear();
        store.close().await;
        if self.json {
            return terminal::json(&Purged { purged, dead_too: self.dead_too });
        }
        let kind = if self.dead_too { "done and dead" } else { "done" };
        terminal::print(&format!(
            "purged {}: {kind}, older than {}\n",
            figure::events(purged),
            self.older_than
        ))
    }
}
