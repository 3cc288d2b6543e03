//! `pillarbox dead`: events that were given up.

mod filter;
mod list;
mod selection;
mod show;
mod steps;
mod walk;

use clap::{Args, Subcommand};

use crate::command;
use crate::exit::Unusable;

const EXAMPLES: &str = "\
Examples:
  pillarbox dead list --db shop.db
  pillarbox dead show --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead replay --db shop.db --type 'Order*' --since 2h --dry-run
  pillarbox dead replay --db shop.db --all --rate 500
  pillarbox dead discard --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
";

/// List, show, replay and discard dead events
///
/// An event is dead when its last attempt failed, when no retry could help, or when it has no listener. It stays
/// so until you replay or discard it.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Dead {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Show(show::Show),
    Replay(selection::Replay),
    Discard(selection::Discard),
}

/// The answer to one who would delete these and has not said --yes.
pub(crate) fn not_without_yes(which: &str) -> Unusable {
    Unusable(format!(
        "this would delete {which} for good; add --yes if you mean it, or --dry-run to see what would go"
    ))
}

impl Dead {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List(list) => list.run().await,
            Action::Show(show) => show.run().await,
            Action::Replay(replay) => replay.run().await,
            Action::Discard(discard) => discard.run().await,
        }
    }
}
