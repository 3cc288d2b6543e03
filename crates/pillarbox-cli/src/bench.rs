//! `pillarbox bench`: how fast events are written and delivered on a database.

mod measure;
mod pulse;
mod report;
mod scratch;

use clap::Args;
use pillarbox::store::{Administration, Mode, StoreError};
use pillarbox_any::AnyStore;
use serde::Serialize;

use self::measure::Load;
use self::report::Report;
use self::scratch::Scratch;
use crate::command;
use crate::database::Database;
use crate::exit::{self, Unusable};
use crate::interrupt::Interrupt;
use crate::{figure, migrate, terminal};

/// Keys in an ordered bench that does not say how many.
const KEYS: u32 = 1_000;
/// How many of the instances that are alive are named.
const NAMED: usize = 3;

const EXAMPLES: &str = "\
Examples:
  pillarbox bench --db shop.db
  pillarbox bench --db postgres://shop@localhost/shop --events 50000 --payload-bytes 1024
  pillarbox bench --db shop.db --ordered --keys 500 --batch 10
  pillarbox bench --db shop.db --clean              remove what a bench left that was killed
  pillarbox bench --db shop.db --json | jq .delivered_per_second
";

/// Measure how fast events are written and delivered on this database
///
/// It makes tables of its own in the database (their names begin with `pillarbox_bench_`), writes marked events into them,
/// delivers those to nobody, and drops the tables at the end. So it never writes into the outbox that is there, nor takes an
/// event from it, whatever the options are. But it keeps the database busy: if that outbox has events that wait or are dead,
/// or instances that are alive, it refuses without --force.
///
/// Written and delivered are events per second; the time from commit to listener is that of events that are committed one by
/// one. Each is compared with a bare INSERT of the same payload into a plain table, a transaction each, in the same run.
///
/// Interrupted or failed, it drops its tables too. Killed, it cannot; --clean drops what was left. A SQLite file that has
/// grown keeps its size until VACUUM.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Bench {
    #[command(flatten)]
    database: Database,

    /// Events to write and deliver
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    events: u32,

    /// The size of their payloads
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_048_576))]
    payload_bytes: u32,

    /// Events in one transaction when they are written
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,

    /// How events are taken; if not given, `ownership` with --ordered, and `claims` without
    #[arg(long, value_enum)]
    mode: Option<migrate::Mode>,

    /// Keep the order of each key
    #[arg(long)]
    ordered: bool,

    /// Give events so many keys in turn; if not given, 1000 with --ordered, and none without
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    keys: Option<u32>,

    /// Even if the outbox in this database is not empty, or in use
    #[arg(long)]
    force: bool,

    /// Drop the tables of benches that were killed, and measure nothing
    #[arg(long)]
    clean: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Cleaned {
    /// What the names of the tables began with, of each bench.
    removed: Vec<String>,
    /// Of benches that are alive.
    kept: Vec<String>,
}

impl Bench {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let load = self.load()?;
        let store = self.database.reach().await?;
        if self.clean {
            return self.clean_up(&store).await;
        }
        if !self.force {
            self.check_idle(&store).await?;
        }
        for left in scratch::left_over(&store).await? {
            terminal::say(&format!(
                "there are tables `{left}…` of another bench; if none is running, `pillarbox bench --clean` drops them"
            ));
        }
        let interrupt = Interrupt::listen()?;
        let scratch = Scratch::make(&self.database, &store, load.mode).await?;
        // A measurement is finished or given up; either way nothing of it is left behind.
        let measured = measure::run(&scratch, &load, &interrupt).await;
        let removed = scratch.remove().await;
        if let (Err(error), Err(_)) = (&measured, &removed) {
            terminal::say(&format!("the bench failed: {}", exit::text(error)));
        }
        removed?;
        let figures = measured?;
        let report = Report::of(&store, &load, figures);
        store.close().await;
        if self.json {
            return terminal::json(&report);
        }
        terminal::print(&report.text()?)
    }

    /// What is to be measured; refuses what contradicts itself.
    fn load(&self) -> Result<Load, Unusable> {
        let mode = match (self.mode, self.ordered) {
            (Some(migrate::Mode::Claims), true) => {
                let reason = "--mode claims keeps no order; leave out --ordered, or give --mode ownership";
                return Err(Unusable(reason.to_owned()));
            }
            (Some(mode), _) => mode.into(),
            (None, true) => Mode::Ownership,
            (None, false) => Mode::Claims,
        };
        Ok(Load {
            events: u64::from(self.events),
            payload_bytes: self.payload_bytes as usize,
            batch: u64::from(self.batch.min(self.events)),
            mode,
            ordered: self.ordered,
            keys: self.keys.or(self.ordered.then_some(KEYS)).map(u64::from),
        })
    }

    /// Refuses an outbox that somebody uses. That there is none is as good as an empty one.
    async fn check_idle(&self, store: &AnyStore) -> anyhow::Result<()> {
        let name = store.name();
        match store.check().await {
            Ok(_) => {}
            Err(StoreError::NotMigrated) => return Ok(()),
            Err(error) => return Err(crate::database::explain(error, &name)),
        }
        let (stats, census) = (store.stats().await?, store.census().await?);
        let remedy = "a bench would keep it busy; take another database, or add --force if you mean it \
                      (its events are not touched)";
        if stats.pending() + stats.dead > 0 {
            return Err(Unusable(format!(
                "the outbox in {name} is not empty: {} wait, {} dead; {remedy}",
                figure::count(stats.pending()),
                figure::count(stats.dead)
            ))
            .into());
        }
        let alive: Vec<String> =
            census.alive().take(NAMED).map(|instance| figure::plain(instance.owner.name())).collect();
        if !alive.is_empty() {
            let alive = alive.join("`, `");
            return Err(Unusable(format!("the outbox in {name} is in use by `{alive}`; {remedy}")).into());
        }
        Ok(())
    }

    /// Drops what benches have left behind.
    async fn clean_up(&self, store: &AnyStore) -> anyhow::Result<()> {
        let mut cleaned = Cleaned { removed: Vec::new(), kept: Vec::new() };
        for left in scratch::left_over(store).await? {
            if !self.force && scratch::is_alive(&self.database, &left).await? {
                cleaned.kept.push(left);
                continue;
            }
            store.remove(&left).await?;
            cleaned.removed.push(left);
        }
        store.close().await;
        if self.json {
            return terminal::json(&cleaned);
        }
        let mut text = match cleaned.removed.len() {
            0 => "no bench has left anything to drop\n".to_owned(),
            1 => "dropped the tables of 1 bench\n".to_owned(),
            many => format!("dropped the tables of {many} benches\n"),
        };
        for kept in &cleaned.kept {
            text.push_str(&format!(
                "kept `{kept}…`: its bench was alive less than a minute ago; try again later, or add --force\n"
            ));
        }
        terminal::print(&text)
    }
}
