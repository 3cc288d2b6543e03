//! Measures an outbox against hand-written SQL through the same driver, and checks the goals.

mod backlog;
mod database;
mod done_rows;
mod drain;
mod hot_latency;
mod measure;
mod memory;
mod raw;
mod report;
mod run_sink;
mod wake_up;
mod write;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::measure::Scale;
use crate::report::{Line, Report};

/// Measures an outbox against hand-written SQL through the same driver, with the same settings, in the same
/// run.
#[derive(Parser)]
#[command(name = "pillarbox-bench", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  pillarbox-bench sqlite --quick
  pillarbox-bench sqlite --json results.json --check
  pillarbox-bench sqlite --case drain --case write --dir /dev/shm";

#[derive(Subcommand)]
enum Command {
    /// Measures the SQLite store.
    Sqlite(Options),
    /// One half of the case `memory`, in a process of its own; prints the resident set in bytes.
    #[command(hide = true)]
    Resident {
        /// Who holds the events.
        side: memory::Side,
        /// The database.
        path: PathBuf,
    },
}

#[derive(Args)]
struct Options {
    /// Write the results to this file, as an array of JSON objects
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run every case at a fiftieth of the size
    #[arg(long)]
    quick: bool,
    /// Run this case only; can be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<Case>,
    /// Exit with 1 if a goal is not met
    #[arg(long)]
    check: bool,
    /// Where the databases are made; the speed of this disk is part of every number [default: the system's
    /// directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// A business transaction with one event
    Write,
    /// From the commit's return to the listener's start
    HotLatency,
    /// From a commit elsewhere to the listener of a relay on the same file
    WakeUp,
    /// 100,000 pending events
    Drain,
    /// Draining beside 0, 1 and 5 million done events
    DrainDoneRows,
    /// Draining 10,000 and 1 million pending events
    DrainBacklog,
    /// Runs against single deliveries, with a sink that answers after 2 ms
    RunSink,
    /// The resident set with 1 million pending events behind a blocked listener
    Memory,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pillarbox-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match cli.command {
        // As a task, like the handlers of a service: `block_on` itself runs on a thread apart from the others.
        Command::Sqlite(options) => runtime.block_on(runtime.spawn(sqlite(options)))?,
        Command::Resident { side, path } => {
            let resident = runtime.block_on(memory::resident(side, &path))?;
            writeln!(std::io::stdout(), "{resident}")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn sqlite(options: Options) -> Result<ExitCode> {
    let scale = Scale::new(options.quick);
    let parent = options.dir.unwrap_or_else(std::env::temp_dir);
    let chosen = if options.cases.is_empty() { Case::value_variants().to_vec() } else { options.cases };

    let mut report = Report::default();
    for case in chosen {
        let dir = tempfile::tempdir_in(&parent)
            .with_context(|| format!("no databases can be made in {}", parent.display()))?;
        report.extend(measure_case(case, dir.path(), scale).await.with_context(|| format!("{case:?}"))?);
    }

    report.print(&mut std::io::stdout().lock())?;
    if let Some(file) = options.json {
        let out = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        report.write_json(BufWriter::new(out))?;
    }
    let failed = options.check && !report.all_goals_met();
    Ok(ExitCode::from(u8::from(failed)))
}

async fn measure_case(case: Case, dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    match case {
        Case::Write => write::measure(dir, scale).await,
        Case::HotLatency => hot_latency::measure(dir, scale).await,
        Case::WakeUp => wake_up::measure(dir, scale).await,
        Case::Drain => drain::measure(dir, scale).await,
        Case::DrainDoneRows => done_rows::measure(dir, scale).await,
        Case::DrainBacklog => backlog::measure(dir, scale).await,
        Case::RunSink => run_sink::measure(dir, scale).await,
        Case::Memory => memory::measure(dir, scale).await,
    }
}
