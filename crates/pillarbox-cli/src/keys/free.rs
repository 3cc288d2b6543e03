//! `pillarbox keys resume` and `pillarbox keys skip`: letting parked keys go on.

use std::collections::BTreeMap;

use clap::Args;
use pillarbox::store::{Administration, Ownership, Selection};
use pillarbox_any::AnyStore;
use serde::Serialize;

use crate::command;
use crate::database::{Database, Opened};
use crate::exit::NotFound;
use crate::{figure, terminal};

const RESUME_EXAMPLES: &str = "\
Examples:
  pillarbox keys resume --db shop.db order-17
  pillarbox keys resume --db shop.db --all
";

const SKIP_EXAMPLES: &str = "\
Examples:
  pillarbox keys skip --db shop.db order-17
  pillarbox keys skip --db shop.db --all
";

/// Try the dead events of parked keys again, and then what follows them
///
/// The dead event comes first, with all attempts before it, and those behind it keep their order. If one of the keys is
/// not parked, nothing is done.
#[derive(Args, Debug)]
#[command(after_help = command::help(RESUME_EXAMPLES))]
pub(super) struct Resume {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Let parked keys go on without their dead events
///
/// The dead event stays dead; those behind it keep their order. If one of the keys is not parked, nothing is done.
#[derive(Args, Debug)]
#[command(after_help = command::help(SKIP_EXAMPLES))]
pub(super) struct Skip {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which parked keys are meant.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Meant {
    /// The keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,

    /// All that are parked now
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Resumed {
    resumed: u64,
}

#[derive(Serialize)]
struct Skipped {
    skipped: u64,
}

impl Resume {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.open().await?;
        let parked = self.meant.parked(&store, &name).await?;
        let resumed = store.replay(&Selection::Ids(parked.into_values().collect())).await?;
        store.close().await;
        if self.json {
            return terminal::json(&Resumed { resumed });
        }
        terminal::print(&format!("resumed {}\n", keys(resumed)))
    }
}

impl Skip {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.open().await?;
        let parked: Vec<String> = self.meant.parked(&store, &name).await?.into_keys().collect();
        let skipped = store.skip(&parked).await?;
        store.close().await;
        if self.json {
            return terminal::json(&Skipped { skipped });
        }
        terminal::print(&format!("skipped {}\n", keys(skipped)))
    }
}

impl Meant {
    /// The keys that are meant, each with the id of the event that it is parked for.
    async fn parked(&self, store: &AnyStore, name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let blocked = super::blocked(store).await?;
        let mut parked: BTreeMap<String, String> =
            blocked.into_iter().filter_map(|blocked| Some((blocked.key, blocked.parked_for?))).collect();
        if self.all {
            return Ok(parked);
        }
        if let Some(key) = self.keys.iter().find(|key| !parked.contains_key(*key)) {
            let key = figure::plain(key);
            let reason =
                format!("the key `{key}` is not parked in {name}; see `pillarbox keys list --parked`");
            return Err(NotFound(reason).into());
        }
        parked.retain(|key, _| self.keys.contains(key));
        Ok(parked)
    }
}

fn keys(number: u64) -> String {
    if number == 1 { "1 key".to_owned() } else { format!("{} keys", figure::count(number)) }
}
