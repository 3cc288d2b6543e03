//! `pillarbox handlers list`: which handlers events name that are not done.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{HandlerCensus, HandlerCount};
use serde::Serialize;

use super::{COUNTED, Line};
use crate::command;
use crate::database::Database;
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox handlers list --db shop.db
  pillarbox handlers list --db shop.db --json | jq -r '.handlers[] | select(.unknown > 0).id'
";

/// List handlers that are named by events which are not done
///
/// An event names its handlers once one of them has failed. A handler counts as unknown in events of which the instance
/// that looked last had no handler of this id. At most 10,000 events are counted; it says so if there are more.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct List {
    #[command(flatten)]
    database: Database,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    handlers: Vec<Line>,
    /// How many events were counted.
    events: u64,
    unreadable: u64,
    /// Whether that is all of them; otherwise every number is a lower bound.
    is_complete: bool,
}

impl List {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let store = self.database.look().await?.store;
        let census = HandlerCensus::take(&store, COUNTED).await?;
        store.close().await;
        if self.json {
            return terminal::json(&Listed {
                handlers: census.handlers.iter().map(Line::of).collect(),
                events: census.events,
                unreadable: census.unreadable,
                is_complete: census.is_complete,
            });
        }
        terminal::print(&table(&census)?)
    }
}

fn table(census: &HandlerCensus) -> Result<String, std::fmt::Error> {
    let mut table = String::new();
    if census.handlers.is_empty() {
        writeln!(table, "no event names a handler")?;
    } else {
        let ids: Vec<String> = census.handlers.iter().map(|handler| figure::plain(&handler.id)).collect();
        let width = ids.iter().map(|id| id.chars().count()).chain(["HANDLER".len()]).max().unwrap_or(0);
        writeln!(
            table,
            "{:<width$}  {:>9}  {:>9}  {:>9}  {:>12}",
            "HANDLER", "OWED", "DEAD", "DONE", "OLDEST"
        )?;
        for (id, handler) in ids.iter().zip(&census.handlers) {
            let [owed, dead, done] = [handler.owed, handler.dead, handler.done].map(figure::count);
            let oldest = handler.oldest.map_or_else(|| "–".to_owned(), figure::time);
            let line =
                format!("{id:<width$}  {owed:>9}  {dead:>9}  {done:>9}  {oldest:>12}  {}", remark(handler));
            writeln!(table, "{}", line.trim_end())?;
        }
        let count = if census.is_complete { "" } else { "at least: there are more than " };
        writeln!(table, "\n{count}{} that are not done", figure::events(census.events))?;
    }
    if census.unreadable > 0 {
        writeln!(table, "{} of them cannot be read", figure::count(census.unreadable))?;
    }
    Ok(table)
}

/// What is to be said of a handler that nobody knew.
pub(super) fn remark(handler: &HandlerCount) -> String {
    match handler.unknown {
        0 => String::new(),
        all if all == handler.owed => "unknown where it was last looked for".to_owned(),
        some => format!("unknown in {} of them where it was last looked for", figure::count(some)),
    }
}
