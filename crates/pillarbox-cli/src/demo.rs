//! `pillarbox demo`: an order service on a SQLite file, and a ledger that must balance.

mod crash;
mod journal;
mod ledger;
mod orders;
mod progress;
mod report;
mod run;
mod shop;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use pillarbox_sqlite::SqliteStore;
use tempfile::TempDir;

use self::crash::Crash;
use self::journal::Journal;
use self::ledger::{Books, Ledger};
use self::progress::Progress;
use self::run::Run;
use self::shop::Shop;
use crate::database::{Location, SqliteFile, explain};
use crate::exit::{self, Verdict};
use crate::{command, figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox demo
  pillarbox demo --crash                          kill it in the middle; nothing is lost
  pillarbox demo --crash --crashes 5 --events 20000
  pillarbox demo --rate 100 --events 1000         watch it at a slower pace
  pillarbox demo --db demo.db                     keep the file, to look into it afterwards
  pillarbox demo --json | jq .balanced
";

/// Play an order service and check that nothing is lost
///
/// Orders are placed in transactions on a SQLite file, each with an event in the same transaction. Some roll
/// back; one listener is flaky, one is slow, and one never succeeds, so that its events end dead. At the end the
/// orders, what the listeners wrote down and the rows of the outbox are compared, and the exit code is 1 if they
/// do not agree.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Demo {
    /// Orders to place, those that roll back included
    #[arg(long, default_value_t = 2_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    events: u64,

    /// Which SQLite file: a path, or a URL that begins with `sqlite:`; a temporary file if not given
    // Taken as text: clap would repeat a URL that it refuses, and the password in it.
    #[arg(long, env = "PILLARBOX_DB", hide_env_values = true, value_name = "PATH|URL")]
    db: Option<Location>,

    /// What the choice of the orders follows from
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,

    /// Run in a process that is killed by SIGKILL in the middle and started again
    #[arg(long)]
    crash: bool,

    /// How often to kill it
    #[arg(long, default_value_t = 1, value_name = "N", requires = "crash", value_parser = clap::value_parser!(u32).range(1..=20))]
    crashes: u32,

    #[command(flatten)]
    pace: Pace,

    /// Print the closing table as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Clone, Copy, Debug)]
struct Pace {
    /// Orders per second; as many as possible if not given
    #[arg(long, value_name = "N[/s]", value_parser = parse_rate)]
    rate: Option<f64>,

    /// Listeners that run at once
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: u16,
}

/// One process of `pillarbox demo --crash`; not for people.
#[derive(Args, Debug)]
pub(crate) struct Child {
    #[arg(long)]
    db: SqliteFile,
    #[arg(long)]
    run: i64,
    #[arg(long)]
    journal: PathBuf,
    #[arg(long)]
    incarnation: u32,
    #[command(flatten)]
    pace: Pace,
}

impl Demo {
    pub(crate) async fn run(self) -> anyhow::Result<Verdict> {
        // Holds the journal, and the database unless one was given; removed at the end.
        let directory = tempfile::Builder::new().prefix("pillarbox-demo-").tempdir()?;
        let ledger = tokio::select! {
            ledger = self.play(&directory) => ledger?,
            // Falling out of here removes the directory and kills the child, which exiting would not.
            pressed = tokio::signal::ctrl_c() => {
                pressed?;
                anyhow::bail!("interrupted");
            }
        };
        let verdict = if ledger.balanced { Verdict::Good } else { Verdict::Bad };
        let printed = if self.json {
            terminal::json(&ledger)
        } else {
            terminal::print(&report::table(&ledger, self.given())?)
        };
        match printed {
            // The verdict stands, whether or not anyone reads the table.
            Err(error) if !exit::is_broken_pipe(&error) => Err(error),
            _ => Ok(verdict),
        }
    }

    /// Where the user wants it; an empty variable is as good as none.
    fn given(&self) -> Option<&str> {
        self.db.as_deref().filter(|given| !given.is_empty())
    }

    async fn play(&self, directory: &TempDir) -> anyhow::Result<Ledger> {
        let file = match self.given() {
            Some(given) => given.parse()?,
            None => SqliteFile::of(directory.path().join("demo.db")),
        };
        file.check()?;
        let store = connect(&file).await?;
        let run = Run::begin(&store, &file, self.seed, self.events).await?;
        let journal = directory.path().join("journal");
        let writing = Journal::open(&journal, 1).context("the demo cannot write its journal")?;
        let mut progress = Progress::new(&journal, self.events)?;
        let kept = if self.given().is_some() { "" } else { " (temporary, removed at the end)" };
        progress.say(&format!("{} orders on {}{kept}", figure::count(self.events), file.name()));
        progress.say("  some roll back; one listener is flaky, one is slow, one never succeeds");

        if self.crash {
            // With the last connection gone, the child's death leaves a log that has to be recovered.
            store.close().await;
            let crash = Crash {
                file: file.clone(),
                run,
                journal,
                workers: self.pace.workers.into(),
                rate: self.pace.rate,
                times: self.crashes,
            };
            crash.play(&mut progress).await?;
        } else {
            let shop = self.pace.shop(run, writing);
            tokio::select! {
                played = shop.play(store.clone()) => played?,
                followed = progress.follow() => match followed? {},
            }
        }
        let reader = progress.finish()?;
        let store = if self.crash { connect(&file).await? } else { store };
        let books = Books::read(store.pool(), &run).await?;
        store.close().await;
        let crashes = if self.crash { self.crashes } else { 0 };
        Ok(Ledger::draw_up(&run, &books, &reader.records, crashes))
    }
}

impl Child {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let store = connect(&self.db).await?;
        let run = Run::find(&store, self.run).await?;
        let journal = Journal::open(&self.journal, self.incarnation)?;
        self.pace.shop(run, journal).play(store.clone()).await?;
        store.close().await;
        Ok(())
    }
}

impl Pace {
    fn shop(self, run: Run, journal: Journal) -> Shop {
        Shop { run, workers: self.workers.into(), rate: self.rate, journal: Arc::new(journal) }
    }
}

async fn connect(file: &SqliteFile) -> anyhow::Result<SqliteStore> {
    file.options().watch(false).connect().await.map_err(|error| explain(error, &file.name()))
}

/// Reads `100`, `100/s` or `0.5/s`.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches("/s");
    let rate: Option<f64> = number.parse().ok();
    rate.filter(|rate| (0.001..=1_000_000.0).contains(rate))
        .ok_or_else(|| "give orders per second, for example `100` or `100/s`".to_owned())
}
