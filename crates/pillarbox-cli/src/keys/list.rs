//! `pillarbox keys list`: which keys wait, and what for.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::Blocked;
use serde::Serialize;

use crate::command;
use crate::database::Database;
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox keys list --db shop.db
  pillarbox keys list --db shop.db --parked
  pillarbox keys list --db shop.db --parked --json | jq -r '.keys[].key'
";

/// List keys that wait for one of their events
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct List {
    #[command(flatten)]
    database: Database,

    /// Only those that wait for you
    #[arg(long)]
    parked: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    keys: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    key: String,
    partition: u8,
    /// The id of the dead event that the key is parked for; `null` if it is not.
    parked_for: Option<String>,
    /// The number of its first event that waits; `null` if none does.
    first_number: Option<i64>,
    /// How long that one waits for its next attempt; 0 if it waits for nothing but its key.
    ready_in_seconds: f64,
}

impl From<Blocked> for Line {
    fn from(blocked: Blocked) -> Self {
        Self {
            key: blocked.key,
            partition: blocked.partition,
            parked_for: blocked.parked_for,
            first_number: blocked.first,
            ready_in_seconds: blocked.ready_in.as_secs_f64(),
        }
    }
}

impl List {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let store = self.database.look().await?.store;
        let mut blocked = super::blocked(&store).await?;
        store.close().await;
        blocked.retain(|blocked| !self.parked || blocked.parked_for.is_some());
        if self.json {
            return terminal::json(&Listed { keys: blocked.into_iter().map(Line::from).collect() });
        }
        terminal::print(&table(&blocked, self.parked)?)
    }
}

fn table(blocked: &[Blocked], parked: bool) -> Result<String, std::fmt::Error> {
    if blocked.is_empty() {
        return Ok(if parked { "no parked keys\n" } else { "no keys wait\n" }.to_owned());
    }
    let keys: Vec<String> = blocked.iter().map(|blocked| figure::plain(&blocked.key)).collect();
    let width = keys.iter().map(|key| key.chars().count()).chain(["KEY".len()]).max().unwrap_or(0);
    let mut table = String::new();
    writeln!(table, "{:<width$}  PARTITION  WAITS", "KEY")?;
    for (key, blocked) in keys.iter().zip(blocked) {
        let why = match &blocked.parked_for {
            Some(event_id) => format!("for you: parked for the dead event {}", figure::plain(event_id)),
            None if blocked.ready_in.is_zero() => "for its turn".to_owned(),
            None => format!("for another attempt, in {}", figure::time(blocked.ready_in)),
        };
        writeln!(table, "{key:<width$}  {:>9}  {why}", blocked.partition)?;
    }
    Ok(table)
}
