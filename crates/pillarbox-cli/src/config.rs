//! `pillarbox config`: whether a relay's file is right, and one to start from.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pillarbox::Settings;

use crate::relay::config::Config;
use crate::relay::{self, sinks, usable};
use crate::{command, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox config --print-defaults > pillarbox.toml
  pillarbox config check --config pillarbox.toml
";

/// The relay's part of a file to start from; the options of the outbox follow it.
const TEMPLATE: &str = include_str!("config/template.toml");

/// Check the configuration of a relay, or print one to start from
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES), args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Command {
    /// Print all options with their defaults and what they mean
    #[arg(long)]
    print_defaults: bool,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Check(Check),
}

/// Say what is wrong with a configuration, without connecting to anything
#[derive(Args, Debug)]
struct Check {
    /// The configuration file
    #[arg(long, env = "PILLARBOX_CONFIG", value_name = "FILE", default_value = "pillarbox.toml")]
    config: PathBuf,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.action {
            Some(Action::Check(check)) => check.run(),
            None => terminal::print(&defaults()),
        }
    }
}

impl Check {
    fn run(self) -> anyhow::Result<()> {
        let file = self.config.display();
        let config = usable(Config::read(&self.config))?;
        let messages = usable(config.messages())?;
        let sinks = usable(sinks::make_all(&config, &messages))?;
        usable(config.check_outboxes())?;
        for (name, _) in &config.outboxes {
            drop(usable(relay::routing(&config, name, &sinks))?);
        }
        let (outboxes, routes) = (config.outboxes.len(), config.routes.len());
        terminal::print(&format!(
            "{file} is right: {outboxes} outboxes, {} sinks, {routes} routes\n",
            sinks.len()
        ))
    }
}

/// All options: those of the relay, then those of an outbox, each under its table.
fn defaults() -> String {
    let mut text = TEMPLATE.to_owned();
    for line in Settings::template().lines() {
        text.push_str(&within_outbox(line));
        text.push('\n');
    }
    text
}

/// A line of the template of an outbox, its tables put under `[outbox]`.
fn within_outbox(line: &str) -> String {
    match line.strip_prefix('[').or(line.strip_prefix("# [")) {
        Some(table) if line.starts_with('[') => format!("[outbox.{table}"),
        Some(table) => format!("# [outbox.{table}"),
        None => line.to_owned(),
    }
}
