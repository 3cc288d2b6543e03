//! `pillarbox handlers`: handlers that events wait for.

mod change;
mod list;

use clap::{Args, Subcommand};
use pillarbox::store::HandlerCount;
use serde::Serialize;

use crate::command;
use crate::exit::Verdict;

/// The most events whose handlers are counted.
pub(crate) const COUNTED: usize = 10_000;

const EXAMPLES: &str = "\
Examples:
  pillarbox handlers list --db shop.db
  pillarbox handlers drop --db shop.db search --dry-run
  pillarbox handlers drop --db shop.db search --yes
  pillarbox handlers rename --db shop.db search full-text --yes
";

/// List handlers that events wait for, and drop or rename one that is gone
///
/// An event whose handlers have not all succeeded stores by their ids who is done, who is owed and who is dead. If one
/// that is owed exists no more, the event waits for it, until it is back or you drop it or give it its new id.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Handlers {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Drop(change::Drop),
    Rename(change::Rename),
}

impl Handlers {
    pub(crate) async fn run(self) -> anyhow::Result<Verdict> {
        match self.action {
            Action::List(list) => list.run().await.map(|()| Verdict::Good),
            Action::Drop(drop) => drop.run().await,
            Action::Rename(rename) => rename.run().await,
        }
    }
}

/// A handler as it is printed as JSON.
#[derive(Serialize)]
pub(crate) struct Line {
    id: String,
    owed: u64,
    /// Those of the owed of which the instance that looked last said that it has no such handler.
    unknown: u64,
    dead: u64,
    done: u64,
    /// `null` if it is neither owed nor dead anywhere.
    oldest_seconds: Option<f64>,
}

impl Line {
    pub(crate) fn of(handler: &HandlerCount) -> Self {
        Self {
            id: handler.id.clone(),
            owed: handler.owed,
            unknown: handler.unknown,
            dead: handler.dead,
            done: handler.done,
            oldest_seconds: handler.oldest.map(|oldest| oldest.as_secs_f64()),
        }
    }
}
