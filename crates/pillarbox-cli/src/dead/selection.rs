//! `pillarbox dead replay` and `pillarbox dead discard`: the dead events that an operator means.

use clap::Args;
use pillarbox::store::{Administration, Page, Selection, Status};
use pillarbox_any::AnyStore;
use serde::Serialize;

use crate::command;
use crate::database::{Database, Opened};
use crate::exit::{NotFound, Unusable};
use crate::{figure, terminal};

/// Numbers in one step through all dead events.
const STEP: i64 = 10_000;

const REPLAY_EXAMPLES: &str = "\
Examples:
  pillarbox dead replay --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead replay --db shop.db --all
";

const DISCARD_EXAMPLES: &str = "\
Examples:
  pillarbox dead discard --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead discard --db shop.db --all --yes
";

/// Make dead events pending again
///
/// They are due at once, with all attempts before them; the last error is kept. If one of the ids is unknown or
/// not dead, nothing is replayed.
#[derive(Args, Debug)]
#[command(after_help = command::help(REPLAY_EXAMPLES))]
pub(super) struct Replay {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Delete dead events for good
///
/// If one of the ids is unknown or not dead, nothing is deleted.
#[derive(Args, Debug)]
#[command(after_help = command::help(DISCARD_EXAMPLES))]
pub(super) struct Discard {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    /// Do not ask: delete all of them
    #[arg(long)]
    yes: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which dead events are meant.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Meant {
    /// The ids of events
    #[arg(value_name = "EVENT_ID")]
    ids: Vec<String>,

    /// All that are dead when the command begins
    #[arg(long)]
    all: bool,
}

#[derive(Serialize)]
struct Replayed {
    replayed: u64,
}

#[derive(Serialize)]
struct Discarded {
    discarded: u64,
    event_ids: Vec<String>,
}

impl Replay {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.open().await?;
        let mut replayed = 0;
        let mut steps = self.meant.steps(&store, &name).await?;
        while let Some(selection) = steps.next(&store).await? {
            replayed += store.replay(&selection).await?;
        }
        store.close().await;
        if self.json {
            return terminal::json(&Replayed { replayed });
        }
        terminal::print(&format!("replayed {}\n", figure::events(replayed)))
    }
}

impl Discard {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.open().await?;
        if self.meant.all && !self.yes {
            let dead = figure::count(store.stats().await?.dead);
            store.close().await;
            let reason =
                format!("this would delete all dead events ({dead}) for good; add --yes if you mean it");
            return Err(Unusable(reason).into());
        }
        let mut event_ids = Vec::new();
        let mut steps = self.meant.steps(&store, &name).await?;
        while let Some(selection) = steps.next(&store).await? {
            event_ids.extend(store.discard(&selection).await?);
        }
        store.close().await;
        let discarded = event_ids.len() as u64;
        if self.json {
            return terminal::json(&Discarded { discarded, event_ids });
        }
        terminal::print(&format!("discarded {}\n", figure::events(discarded)))
    }
}

impl Meant {
    /// Where to begin; refuses ids that are unknown or not dead.
    async fn steps(&self, store: &AnyStore, name: &str) -> anyhow::Result<Steps> {
        if self.all {
            return Ok(Steps::Numbers { after: 0, highest: store.highest().await? });
        }
        for id in &self.ids {
            let found = store.find(id).await?;
            let id = figure::plain(id);
            match found.map(|stored| stored.status) {
                Some(Ok(Status::Dead)) => {}
                Some(Ok(status)) => {
                    return Err(NotFound(format!("the event `{id}` is {status}, not DEAD")).into());
                }
                Some(Err(code)) => {
                    return Err(NotFound(format!(
                        "the event `{id}` has the unknown status {code}, not DEAD"
                    ))
                    .into());
                }
                None => return Err(NotFound(format!("no event `{id}` in {name}")).into()),
            }
        }
        Ok(Steps::Ids(Some(self.ids.clone())))
    }
}

/// The selections that together are what was meant.
enum Steps {
    Ids(Option<Vec<String>>),
    /// Upwards to the highest number of the beginning: events that die meanwhile, or again, are not meant.
    Numbers {
        after: i64,
        highest: i64,
    },
}

impl Steps {
    async fn next(&mut self, store: &AnyStore) -> anyhow::Result<Option<Selection>> {
        let (after, highest) = match self {
            Self::Ids(ids) => return Ok(ids.take().map(Selection::Ids)),
            Self::Numbers { after, highest } => (after, *highest),
        };
        // Jumps to the next one that is dead: between two of them there may be millions that are not.
        let next = store.dead(Page { after: *after, limit: 1 }).await?;
        let Some(from) = next.first().map(|stored| stored.seq).filter(|&seq| seq <= highest) else {
            return Ok(None);
        };
        let to = from.saturating_add(STEP - 1).min(highest);
        *after = to;
        Ok(Some(Selection::Numbers { from, to }))
    }
}
