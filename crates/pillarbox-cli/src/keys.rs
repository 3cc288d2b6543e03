//! `pillarbox keys`: keys that must not go on, and where keys belong.

mod free;
mod list;
mod partition;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use pillarbox::store::{Administration, Blocked, Mode, Ownership};
use pillarbox_any::AnyStore;

use crate::command;
use crate::exit::Unusable;

const EXAMPLES: &str = "\
Examples:
  pillarbox keys list --db shop.db --parked
  pillarbox keys resume --db shop.db order-17
  pillarbox keys skip --db shop.db order-17
  pillarbox keys partition order-17
";

const NO_ORDER: &str = "no key waits here, for no order is kept: the mode of this outbox is `claims`; with `ordered` in the \
                        configuration of all who deliver it is";

/// List keys that wait, let parked ones go on, and tell the partition of any
///
/// Where order is kept, an event that failed holds up those of its key that follow, until it is done or dead. With the
/// policy `park` its key stays held up when it is dead, until you resume or skip it. Discarding the dead event, or
/// replaying it, frees its key as well.
///
/// Where keys hold back nothing (`stop_on_first_failure = false`, or partitions without order) the table looks the same:
/// each key with an event that waits for another attempt is listed and counted, though nothing waits behind it.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Keys {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::List),
    Resume(free::Resume),
    Skip(free::Skip),
    Partition(partition::Partition),
}

impl Keys {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        match self.action {
            Action::List(list) => list.run().await,
            Action::Resume(resume) => resume.run().await,
            Action::Skip(skip) => skip.run().await,
            Action::Partition(partition) => partition.run(),
        }
    }
}

/// The ids of dead events that keys are parked for: nobody deletes them but by the key.
pub(crate) async fn parked_for(store: &AnyStore) -> anyhow::Result<BTreeSet<String>> {
    if store.census().await?.mode == Mode::Claims {
        return Ok(BTreeSet::new());
    }
    Ok(blocked(store).await?.into_iter().filter_map(|blocked| blocked.parked_for).collect())
}

/// All keys that must not go on, in the order of their names.
async fn blocked(store: &AnyStore) -> anyhow::Result<Vec<Blocked>> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut blocked = match store.blocked(&all).await {
        Err(_) if store.census().await?.mode == Mode::Claims => {
            return Err(Unusable(NO_ORDER.to_owned()).into());
        }
        blocked => blocked?,
    };
    blocked.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(blocked)
}
