//! `pillarbox dead replay` and `pillarbox dead discard`: the dead events that an operator means.

use clap::Args;
use pillarbox::store::{Administration, Status, StoredEvent};
use pillarbox_any::AnyStore;
use serde::Serialize;

use super::filter::{Filter, Sieve};
use super::list::{self, Line};
use super::not_without_yes;
use super::steps::{Steps, Work};
use super::walk::Walk;
use crate::command;
use crate::database::{Database, Opened};
use crate::exit::{NotFound, Unusable};
use crate::pace::Rate;
use crate::{figure, terminal};

/// How many of those that are meant a dry run shows.
const SHOWN: usize = 10;

const REPLAY_EXAMPLES: &str = "\
Examples:
  pillarbox dead replay --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead replay --db shop.db --type 'Order*' --since 2h --error 'timed out' --dry-run
  pillarbox dead replay --db shop.db --until 2026-03-01T12:00:00Z
  pillarbox dead replay --db shop.db --all --rate 500
";

const DISCARD_EXAMPLES: &str = "\
Examples:
  pillarbox dead discard --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead discard --db shop.db --type 'Order*' --until 30d --dry-run
  pillarbox dead discard --db shop.db --all --yes
";

/// Make dead events pending again
///
/// They are due at once, with all attempts before them; the last error is kept. If one of the ids is unknown or
/// not dead, nothing is replayed. Events are chosen by their ids, by what they have in common (all of it must hold), or by
/// --all. Interrupted, it says how far it came; what was replayed stays so.
#[derive(Args, Debug)]
#[command(after_help = command::help(REPLAY_EXAMPLES))]
pub(super) struct Replay {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    #[command(flatten)]
    how: How,
}

/// Delete dead events for good
///
/// If one of the ids is unknown or not dead, nothing is deleted. Events are chosen by their ids, by what they have in
/// common (all of it must hold), or by --all. Interrupted, it says how far it came; what was deleted stays so.
#[derive(Args, Debug)]
#[command(after_help = command::help(DISCARD_EXAMPLES))]
pub(super) struct Discard {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    meant: Meant,

    #[command(flatten)]
    how: How,

    /// Do not ask: delete all of them
    #[arg(long)]
    yes: bool,
}

/// Which dead events are meant.
#[derive(Args, Debug)]
struct Meant {
    /// The ids of events
    #[arg(value_name = "EVENT_ID", conflicts_with_all = ["all", "Filter"])]
    ids: Vec<String>,

    /// All that are dead when the command begins
    #[arg(long, conflicts_with = "Filter")]
    all: bool,

    #[command(flatten)]
    filter: Filter,
}

#[derive(Args, Debug)]
struct How {
    /// Events per second at most, for example `500`; as many as possible if not given
    #[arg(long, value_name = "N[/s]", allow_hyphen_values = true)]
    rate: Option<Rate>,

    /// Change nothing, and show how many and which
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Replayed {
    replayed: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

#[derive(Serialize)]
struct Discarded {
    discarded: u64,
    event_ids: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

/// What a dry run found.
#[derive(Serialize)]
struct Found {
    dry_run: bool,
    matching: u64,
    /// The first of them.
    events: Vec<Line>,
}

impl Replay {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let plan = self.meant.plan()?;
        let Opened { store, name, .. } = self.database.look_or_open(self.how.dry_run).await?;
        let what = plan.what;
        let (steps, total) = plan.steps(&store, &name, &self.how).await?;
        if self.how.dry_run {
            let found = look(&store, steps, total).await?;
            store.close().await;
            return found.tell("replay", what, &name, self.how.json);
        }
        let mut work = Work::begin(steps, self.how.rate, "replaying", total)?;
        while let Some(selection) = told(work.next(&store).await, "replayed", &work)? {
            let replayed = told(store.replay(&selection).await, "replayed", &work)?;
            work.done(replayed);
        }
        store.close().await;
        let (replayed, interrupted) = (work.over, work.end());
        what.found(replayed, interrupted, &name)?;
        if self.how.json {
            terminal::json(&Replayed { replayed, interrupted })?;
        } else {
            terminal::print(&format!("replayed {}\n", figure::events(replayed)))?;
        }
        ended(interrupted)
    }
}

impl Discard {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let plan = self.meant.plan()?;
        let Opened { store, name, .. } = self.database.look_or_open(self.how.dry_run).await?;
        let what = plan.what;
        if what == What::All && !self.yes && !self.how.dry_run {
            let dead = figure::count(store.stats().await?.dead);
            store.close().await;
            return Err(not_without_yes(&format!("all dead events ({dead})")).into());
        }
        let (steps, total) = plan.steps(&store, &name, &self.how).await?;
        if self.how.dry_run || (what == What::Matching && !self.yes) {
            let found = look(&store, steps, total).await?;
            store.close().await;
            if self.how.dry_run || found.matching == 0 {
                return found.tell("discard", what, &name, self.how.json);
            }
            let which = format!("{} that match", figure::dead_events(found.matching));
            return Err(not_without_yes(&which).into());
        }
        let mut event_ids = Vec::new();
        let mut work = Work::begin(steps, self.how.rate, "discarding", total)?;
        while let Some(selection) = told(work.next(&store).await, "discarded", &work)? {
            let discarded = told(store.discard(&selection).await, "discarded", &work)?;
            work.done(discarded.len() as u64);
            event_ids.extend(discarded);
        }
        store.close().await;
        let (discarded, interrupted) = (work.over, work.end());
        what.found(discarded, interrupted, &name)?;
        if self.how.json {
            terminal::json(&Discarded { discarded, event_ids, interrupted })?;
        } else {
            terminal::print(&format!("discarded {}\n", figure::events(discarded)))?;
        }
        ended(interrupted)
    }
}

/// Says how far it came, if it failed on the way.
fn told<T>(result: Result<T, impl Into<anyhow::Error>>, what: &str, work: &Work) -> anyhow::Result<T> {
    result.map_err(|error| match work.over {
        0 => error.into(),
        over => error.into().context(format!("it failed when {} had been {what}", figure::events(over))),
    })
}

fn ended(interrupted: bool) -> anyhow::Result<()> {
    if interrupted {
        anyhow::bail!("interrupted; what was done stays done, and the same command goes on with the rest");
    }
    Ok(())
}

/// How events were chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Named,
    All,
    Matching,
}

impl What {
    /// Refuses a filter that no event has passed.
    fn found(self, events: u64, interrupted: bool, name: &str) -> Result<(), NotFound> {
        if self == Self::Matching && events == 0 && !interrupted {
            return Err(NotFound(format!("no dead event in {name} matches; see `pillarbox dead list`")));
        }
        Ok(())
    }
}

impl Meant {
    /// What to do, as of now; refuses to guess.
    fn plan(self) -> Result<Plan, Unusable> {
        if self.ids.is_empty() && !self.all && self.filter.is_empty() {
            return Err(Unusable(
                "nothing says which dead events are meant; give an EVENT_ID or several, a filter like --type, --since or \
                 --error, or --all"
                    .to_owned(),
            ));
        }
        let what = match (self.all, self.ids.is_empty()) {
            (true, _) => What::All,
            (false, true) => What::Matching,
            (false, false) => What::Named,
        };
        Ok(Plan { what, ids: self.ids, sieve: self.filter.sieve()? })
    }
}

/// Which dead events are meant, as of now.
struct Plan {
    what: What,
    ids: Vec<String>,
    sieve: Sieve,
}

impl Plan {
    /// Where to begin, and about how many there are to go through; refuses ids that are unknown or not dead.
    async fn steps(self, store: &AnyStore, name: &str, how: &How) -> anyhow::Result<(Steps, u64)> {
        if self.what == What::Named {
            for id in &self.ids {
                check_dead(store, name, id).await?;
            }
            let total = self.ids.len() as u64;
            return Ok((Steps::Ids(self.ids.into()), total));
        }
        let (highest, total) = (store.highest().await?, store.stats().await?.dead);
        // Those that nobody looks at one by one go by their numbers, which is faster.
        let steps = if self.what == What::All && how.rate.is_none() && !how.dry_run {
            Steps::Numbers { after: 0, highest }
        } else {
            Steps::Walk(Box::new(Walk::new(self.sieve, 0, highest)))
        };
        Ok((steps, total))
    }
}

async fn check_dead(store: &AnyStore, name: &str, id: &str) -> anyhow::Result<()> {
    let found = store.find(id).await?;
    let id = figure::plain(id);
    match found.map(|stored| stored.status) {
        Some(Ok(Status::Dead)) => Ok(()),
        Some(Ok(status)) => Err(NotFound(format!("the event `{id}` is {status}, not DEAD")).into()),
        Some(Err(code)) => {
            Err(NotFound(format!("the event `{id}` has the unknown status {code}, not DEAD")).into())
        }
        None => Err(NotFound(format!("no event `{id}` in {name}")).into()),
    }
}

/// Goes through what is meant and changes nothing.
async fn look(store: &AnyStore, steps: Steps, total: u64) -> anyhow::Result<Found> {
    let mut found = Found { dry_run: true, matching: 0, events: Vec::new() };
    match steps {
        Steps::Ids(ids) => {
            for id in ids {
                found.add(store.find(&id).await?);
            }
        }
        Steps::Walk(mut walk) => {
            let bar = terminal::bar(total, "  looking {wide_bar} {percent} % · {msg}");
            while let Some(page) = walk.page(store, usize::MAX).await? {
                found.add(page);
                bar.set_position(walk.passed());
                bar.set_message(figure::events(found.matching));
            }
            bar.finish_and_clear();
        }
        // These are not looked at one by one.
        Steps::Numbers { .. } => found.matching = total,
    }
    Ok(found)
}

impl Found {
    fn add(&mut self, events: impl IntoIterator<Item = StoredEvent>) {
        for stored in events {
            self.matching += 1;
            if self.events.len() < SHOWN {
                self.events.push(Line::of(stored));
            }
        }
    }

    fn tell(&self, doing: &str, what: What, name: &str, json: bool) -> anyhow::Result<()> {
        what.found(self.matching, false, name)?;
        if json {
            return terminal::json(self);
        }
        let mut text = format!("would {doing} {}", figure::events(self.matching));
        match self.matching as usize {
            0 => text.push('\n'),
            few if few <= SHOWN => text.push_str(&format!(":\n\n{}", list::table(&self.events)?)),
            _ => text.push_str(&format!("; the first {SHOWN}:\n\n{}", list::table(&self.events)?)),
        }
        terminal::print(&text)
    }
}
