//! The command line.

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::exit::{self, Verdict};
use crate::{dead, demo, migrate, purge, status};

const EXAMPLES: &str = "\
Examples:
  pillarbox demo                                watch orders commit and events arrive
  pillarbox demo --crash                        kill it in the middle; nothing is lost
  pillarbox migrate --db shop.db                make the outbox in your database
  pillarbox status --db shop.db                 what waits, what is dead
  PILLARBOX_DB=shop.db pillarbox dead list      what was given up, and why
";

/// A transactional outbox: a demo, and the operator's tool.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, max_term_width = 100, after_help = help(EXAMPLES))]
pub(crate) struct Pillarbox {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Migrate(migrate::Migrate),
    Status(status::Status),
    Dead(dead::Dead),
    Purge(purge::Purge),
    #[command(hide = true)]
    DemoChild(demo::Child),
}

/// Examples and exit codes, for the end of a command's help.
pub(crate) fn help(examples: &str) -> String {
    format!("{examples}\n{}", exit::HELP)
}

impl Pillarbox {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<Verdict> {
        self.command.log();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.command.run())
    }
}

impl Command {
    /// Sends the log to stderr. The demo fails deliveries on purpose and stays silent unless `RUST_LOG` is set.
    fn log(&self) {
        let quiet = if matches!(self, Self::Demo(_) | Self::DemoChild(_)) { "off" } else { "error" };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }

    async fn run(self) -> anyhow::Result<Verdict> {
        match self {
            Self::Demo(demo) => return demo.run().await,
            Self::DemoChild(child) => child.run().await?,
            Self::Migrate(migrate) => migrate.run().await?,
            Self::Status(status) => status.run().await?,
            Self::Dead(dead) => dead.run().await?,
            Self::Purge(purge) => purge.run().await?,
        }
        Ok(Verdict::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        use clap::CommandFactory;

        Pillarbox::command().debug_assert();
    }
}
