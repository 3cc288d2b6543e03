//! `pillarbox handlers drop` and `pillarbox handlers rename`: for handlers that are gone.

use std::time::Duration;

use clap::Args;
use pillarbox::HandlersError;
use pillarbox::spelling::nearest;
use pillarbox::store::{HandlerCensus, HandlerChange, HandlersChanged, Progress};
use pillarbox_any::AnyStore;
use serde::Serialize;

use super::COUNTED;
use crate::command;
use crate::database::{Database, Opened};
use crate::exit::{NotFound, Unusable, Verdict};
use crate::{figure, terminal};

/// Events that are looked for at once, and that are changed in one transaction.
const LOOKED_FOR: usize = 100_000;
const STEP: usize = 500;

/// How often events that are busy are tried again, and after which pause.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// How many of the ids that there are are named.
const NAMED: usize = 10;

const DROP_EXAMPLES: &str = "\
Examples:
  pillarbox handlers drop --db shop.db search --dry-run
  pillarbox handlers drop --db shop.db search --yes
";

const RENAME_EXAMPLES: &str = "\
Examples:
  pillarbox handlers rename --db shop.db search full-text --dry-run
  pillarbox handlers rename --db shop.db search full-text --yes
";

/// Take a handler out of all events that are not done
///
/// They wait for it no more: one that nobody else is owed is done when it is next looked at, and one that was dead for
/// this handler alone is tried again, by those of its handlers that are not done. Instances may run meanwhile. Where
/// rows are claimed, an event that one of them works on is left alone; run it again then. Where partitions are owned it is
/// changed, and what the instance has to record of it is not: it is delivered again. A handler of this id that is
/// registered later, or still, gets what is pending.
#[derive(Args, Debug)]
#[command(after_help = command::help(DROP_EXAMPLES))]
pub(super) struct Drop {
    #[command(flatten)]
    database: Database,

    /// The id of the handler
    #[arg(value_name = "ID")]
    id: String,

    #[command(flatten)]
    how: How,
}

/// Give a handler another id in all events that are not done
///
/// The new one has the progress of the old one: where that was done it is done, where that was owed it is owed, with as
/// many failures. Instances may run meanwhile. Where rows are claimed, an event that one of them works on is left alone; run
/// it again then. Where partitions are owned it is changed, and what the instance has to record of it is not: it is
/// delivered again. An event that names both is left alone.
#[derive(Args, Debug)]
#[command(after_help = command::help(RENAME_EXAMPLES))]
pub(super) struct Rename {
    #[command(flatten)]
    database: Database,

    /// The id that it had
    #[arg(value_name = "OLD")]
    old: String,

    /// The id that it has now
    #[arg(value_name = "NEW")]
    new: String,

    #[command(flatten)]
    how: How,
}

#[derive(Args, Debug)]
struct How {
    /// Change nothing, and say what would be changed
    #[arg(long)]
    dry_run: bool,

    /// Do not ask: change all of them
    #[arg(long)]
    yes: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is to be changed, and the words for it.
struct Plan {
    id: String,
    new: Option<String>,
    change: HandlerChange,
}

#[derive(Serialize)]
struct Changed<'a> {
    handler: &'a str,
    /// `null` if it is dropped.
    renamed_to: Option<&'a str>,
    dry_run: bool,
    changed: u64,
    replayed: u64,
    busy: u64,
    has_both: u64,
}

impl Drop {
    pub(super) async fn run(self) -> anyhow::Result<Verdict> {
        let change = HandlerChange::drop(&self.id).map_err(unusable)?;
        Plan { id: self.id, new: None, change }.run(self.database, &self.how).await
    }
}

impl Rename {
    pub(super) async fn run(self) -> anyhow::Result<Verdict> {
        let change = HandlerChange::rename(&self.old, &self.new).map_err(unusable)?;
        if self.old == self.new {
            return Err(Unusable(format!("`{}` is the id that it has already", self.old)).into());
        }
        Plan { id: self.old, new: Some(self.new), change }.run(self.database, &self.how).await
    }
}

fn unusable(error: HandlersError) -> Unusable {
    // An id that is none can have anything in it.
    Unusable(figure::plain(&error.to_string()))
}

impl Plan {
    async fn run(&self, database: Database, how: &How) -> anyhow::Result<Verdict> {
        let Opened { store, name, .. } = database.look_or_open(how.dry_run).await?;
        let found = self.change.look(&store, LOOKED_FOR).await?;
        if found.is_empty() {
            return Err(self.unknown(&store, &name).await?.into());
        }
        let foreseen = self.change.foresee(&found);
        if !how.dry_run && !how.yes {
            store.close().await;
            let reason = format!("this would {}; add --yes if you mean it", self.doing(found.len()));
            return Err(Unusable(reason).into());
        }
        let changed = if how.dry_run { foreseen } else { self.apply(&store, found).await? };
        store.close().await;
        self.tell(changed, how)?;
        let is_complete = changed.busy == 0 && changed.has_both == 0;
        Ok(if how.dry_run || is_complete { Verdict::Good } else { Verdict::Bad })
    }

    /// Changes what was found, and what is found after that; what is busy is tried some times more.
    async fn apply(&self, store: &AnyStore, mut found: Vec<Progress>) -> anyhow::Result<HandlersChanged> {
        let mut all = HandlersChanged::default();
        let mut tries = TRIES;
        loop {
            let round = self.round(store, &found).await?;
            all.changed += round.changed;
            all.replayed += round.replayed;
            (all.busy, all.has_both) = (round.busy, round.has_both);
            let has_more = found.len() == LOOKED_FOR && round.changed > 0;
            if !has_more {
                tries -= 1;
                if round.busy == 0 || tries == 0 {
                    return Ok(all);
                }
                tokio::time::sleep(PAUSE).await;
            }
            found = self.change.look(store, LOOKED_FOR).await?;
        }
    }

    async fn round(&self, store: &AnyStore, found: &[Progress]) -> anyhow::Result<HandlersChanged> {
        let doing = if self.new.is_some() { "renaming" } else { "dropping" };
        let template = format!("  {doing} {{wide_bar}} {{percent}} % · {{msg}}");
        let bar = terminal::bar(found.len() as u64, &template);
        let mut round = HandlersChanged::default();
        for events in found.chunks(STEP) {
            round += self.change.apply(store, events).await?;
            bar.inc(events.len() as u64);
            bar.set_message(figure::events(round.changed));
        }
        bar.finish_and_clear();
        Ok(round)
    }

    /// The answer to an id that no event names, with those that there are.
    async fn unknown(&self, store: &AnyStore, name: &str) -> anyhow::Result<NotFound> {
        let census = HandlerCensus::take(store, COUNTED).await?;
        store.close().await;
        let ids: Vec<&str> = census.handlers.iter().map(|handler| handler.id.as_str()).collect();
        let mut reason = format!("no event of {name} that is not done names the handler `{}`", self.id);
        if !ids.is_empty() {
            let named: Vec<String> =
                ids.iter().take(NAMED).map(|id| format!("`{}`", figure::plain(id))).collect();
            let rest = if ids.len() > NAMED { " and others" } else { "" };
            reason.push_str(&format!("; they name {}{rest}", named.join(", ")));
        }
        if let Some(near) = nearest(&self.id, &ids) {
            reason.push_str(&format!("; did you mean `{}`?", figure::plain(near)));
        }
        Ok(NotFound(reason))
    }

    /// What is done to so many events.
    fn doing(&self, events: usize) -> String {
        let events = figure::events(events as u64);
        match &self.new {
            None => format!("drop `{}` from {events} for good", self.id),
            Some(new) => format!("rename `{}` to `{new}` in {events}", self.id),
        }
    }

    fn tell(&self, changed: HandlersChanged, how: &How) -> anyhow::Result<()> {
        if how.json {
            return terminal::json(&Changed {
                handler: &self.id,
                renamed_to: self.new.as_deref(),
                dry_run: how.dry_run,
                changed: changed.changed,
                replayed: changed.replayed,
                busy: changed.busy,
                has_both: changed.has_both,
            });
        }
        terminal::print(&self.text(changed, how.dry_run))
    }

    fn text(&self, changed: HandlersChanged, dry_run: bool) -> String {
        let events = figure::events(changed.changed);
        let mut text = match (&self.new, dry_run) {
            (None, false) => format!("dropped `{}` from {events}\n", self.id),
            (None, true) => format!("would drop `{}` from {events}\n", self.id),
            (Some(new), false) => format!("renamed `{}` to `{new}` in {events}\n", self.id),
            (Some(new), true) => format!("would rename `{}` to `{new}` in {events}\n", self.id),
        };
        let mut line = |count: u64, what: &str| {
            if count > 0 {
                text.push_str(&format!("{}: {what}\n", figure::events(count)));
            }
        };
        line(changed.replayed, "dead for nobody else, and tried again");
        line(changed.busy, "busy, because an instance works on them; run it again");
        if let Some(new) = &self.new {
            let both = format!(
                "left as they are, because they name `{new}` too; `pillarbox handlers drop` takes `{}` out of them",
                self.id
            );
            line(changed.has_both, &both);
        }
        text
    }
}
