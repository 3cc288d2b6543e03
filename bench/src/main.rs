//! Measures an outbox against hand-written SQL through the same driver, and checks the goals.

mod cases;
mod database;
mod measure;
mod mysql;
mod owned;
mod postgres;
mod process;
mod raw;
mod report;
mod server;
mod sqlite;
mod statements;

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::cases::Case;
use crate::database::Database;
use crate::measure::Scale;
use crate::mysql::MySqlServer;
use crate::postgres::PostgresServer;
use crate::process::Role;
use crate::report::Report;
use crate::sqlite::SqliteFiles;

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
  pillarbox-bench sqlite --case drain --case write --dir /dev/shm
  pillarbox-bench postgres --json results.json --check
  pillarbox-bench mysql --url mysql://user:password@localhost/test --case claimers

On a server every outbox is in a database of its own, called `pillarbox_bench_...`, which is dropped afterwards:
the user of the URL must be allowed to create databases.";

#[derive(Subcommand)]
enum Command {
    /// Measures the SQLite store.
    Sqlite {
        /// Where the databases are made; the speed of this disk is part of every number [default: the system's
        /// directory for temporary files]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        #[command(flatten)]
        options: Options,
    },
    /// Measures the PostgreSQL store.
    Postgres {
        /// The server
        #[arg(long, env = "PILLARBOX_TEST_POSTGRES_URL", hide_env_values = true)]
        url: String,
        #[command(flatten)]
        options: Options,
    },
    /// Measures the MySQL store, on MySQL or MariaDB.
    Mysql {
        /// The server
        #[arg(long, env = "PILLARBOX_TEST_MYSQL_URL", hide_env_values = true)]
        url: String,
        #[command(flatten)]
        options: Options,
    },
    /// A part of a case that needs a process of its own; started by the program itself.
    #[command(hide = true)]
    Process {
        /// The kind of database.
        kind: Kind,
        /// What to do.
        role: Role,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Sqlite,
    Postgres,
    Mysql,
}

#[derive(Args)]
struct Options {
    /// Write the results to this file, as an array of JSON objects
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run every case at a fraction of its size, most at a fiftieth
    #[arg(long)]
    quick: bool,
    /// Run this case only; can be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<Case>,
    /// Exit with 1 if a goal is not met
    #[arg(long)]
    check: bool,
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
    statements::listen()?;
    let runtime = Runtime::new()?;
    // As tasks, like the handlers of a service: `block_on` itself runs on a thread apart from the others.
    let result = match cli.command {
        Command::Sqlite { dir, options } => {
            let place = SqliteFiles::in_dir(dir)?;
            runtime.block_on(runtime.spawn(measure(place, options)))?
        }
        Command::Postgres { url, options } => {
            let place = runtime.block_on(PostgresServer::connect(url))?;
            runtime.block_on(runtime.spawn(measure(place, options)))?
        }
        Command::Mysql { url, options } => {
            let place = runtime.block_on(MySqlServer::connect(url))?;
            runtime.block_on(runtime.spawn(measure(place, options)))?
        }
        Command::Process { kind, role } => {
            let played = match kind {
                Kind::Sqlite => runtime.block_on(runtime.spawn(role.play::<SqliteFiles>())),
                Kind::Postgres => runtime.block_on(runtime.spawn(role.play::<PostgresServer>())),
                Kind::Mysql => runtime.block_on(runtime.spawn(role.play::<MySqlServer>())),
            };
            played?.map(|()| ExitCode::SUCCESS)
        }
    };
    // Reading from a process that goes on would never end.
    runtime.shutdown_background();
    result
}

/// Completes when somebody wants the program to end.
async fn stopped() -> anyhow::Error {
    let stopped = async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::io::Result::Ok(())
    };
    match stopped.await {
        Ok(()) => anyhow::anyhow!("interrupted"),
        Err(error) => error.into(),
    }
}

/// Runs the chosen cases, and leaves nothing behind.
async fn measure<D: Database>(place: D, options: Options) -> Result<ExitCode> {
    let scale = Scale::new(options.quick);
    let chosen = if options.cases.is_empty() { D::CASES.to_vec() } else { options.cases };
    if let Some(case) = chosen.iter().find(|case| !D::CASES.contains(case)) {
        let known: Vec<String> = D::CASES.iter().map(|case| case.name()).collect();
        bail!("there is no case `{}` for {}; there are {}", case.name(), D::NAME, known.join(", "));
    }

    let mut report = Report::default();
    let mut failed = None;
    for case in chosen {
        let lines = tokio::select! {
            lines = place.measure(case, scale) => lines.with_context(|| case.name()),
            stopped = stopped() => Err(stopped),
        };
        let cleared = place.clear().await.context("not everything that was made could be removed");
        match lines.and_then(|lines| cleared.map(|()| lines)) {
            Ok(lines) => report.extend(lines),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }

    // What was measured before a failure holds all the same.
    report.print(&mut std::io::stdout().lock())?;
    if let Some(file) = options.json {
        let out = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        report.write_json(BufWriter::new(out))?;
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(ExitCode::from(u8::from(options.check && !report.all_goals_met()))),
    }
}
