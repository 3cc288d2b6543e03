//! `pillarbox purge`: deletes old done events.

mod dry_run;

use std::time::Duration;

use clap::Args;
use pillarbox::store::{self, Administration};
use pillarbox_any::AnyStore;
use serde::Serialize;

use crate::age::Age;
use crate::command;
use crate::database::Database;
use crate::dead::not_without_yes;
use crate::{figure, terminal};

/// Rows looked at in one step, and the pause between steps that leaves the database to others.
const STEP: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(5);

const EXAMPLES: &str = "\
Examples:
  pillarbox purge --db shop.db --older-than 30d --dry-run
  pillarbox purge --db shop.db --older-than 30d
  pillarbox purge --db shop.db --older-than 90d --dead-too --yes
";

/// Delete old done events
///
/// Works in small steps, so that delivery goes on meanwhile. Events that wait are never deleted, dead ones only
/// when asked, with --yes, and never those that a key is parked for. It can be interrupted at any time and run again.
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

    /// Do not ask: delete dead events too
    #[arg(long, requires = "dead_too")]
    yes: bool,

    /// Delete nothing, and count what would be deleted, by the clock of this machine
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Purged {
    purged: u64,
    dead_too: bool,
}

/// What a dry run found.
#[derive(Serialize)]
struct Found {
    dry_run: bool,
    matching: u64,
    dead_too: bool,
}

impl Purge {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let store = self.database.look_or_open(self.dry_run).await?.store;
        let done = if self.dry_run { self.look(&store).await } else { self.delete(&store).await };
        store.close().await;
        done
    }

    async fn look(&self, store: &AnyStore) -> anyhow::Result<()> {
        let matching = dry_run::count(store, self.older_than.duration, self.dead_too).await?;
        if self.json {
            return terminal::json(&Found { dry_run: true, matching, dead_too: self.dead_too });
        }
        self.tell("would purge", matching)
    }

    async fn delete(&self, store: &AnyStore) -> anyhow::Result<()> {
        if self.dead_too && !self.yes {
            let dead = figure::count(store.stats().await?.dead);
            let which = format!("dead events older than {} too ({dead} are dead)", self.older_than);
            return Err(not_without_yes(&which).into());
        }
        let purged = self.purge(store).await?;
        if self.json {
            return terminal::json(&Purged { purged, dead_too: self.dead_too });
        }
        self.tell("purged", purged)
    }

    fn tell(&self, what: &str, events: u64) -> anyhow::Result<()> {
        let kind = if self.dead_too { "done and dead" } else { "done" };
        let events = figure::events(events);
        terminal::print(&format!("{what} {events}: {kind}, older than {}\n", self.older_than))
    }

    /// Deletes what is old, step by step, and returns how many events that were.
    async fn purge(&self, store: &AnyStore) -> anyhow::Result<u64> {
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
        Ok(purged)
    }
}
