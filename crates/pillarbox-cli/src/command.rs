//! The command line.

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::exit::{self, Verdict};
use crate::{
    bench, config, dead, demo, doctor, handlers, keys, migrate, pause, purge, relay, routes, status, tail,
    terminal,
};

const EXAMPLES: &str = "\
Examples:
  pillarbox demo                                watch orders commit and events arrive
  pillarbox demo --crash                        kill it in the middle; nothing is lost
  pillarbox migrate --db shop.db                make the outbox in your database
  pillarbox relay --config pillarbox.toml       deliver its events to brokers and webhooks
  pillarbox status --db shop.db                 what waits, what is dead
  pillarbox status --db postgres://shop@db/shop the same in PostgreSQL; mysql:// in MySQL and MariaDB
  PILLARBOX_DB=shop.db pillarbox dead list      what was given up, and why
  pillarbox doctor --config pillarbox.toml      what does not work, or weakens what is promised
";

/// A transactional outbox: a demo, the relay, and the operator's tool.
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, long_version = VERSION.as_str(), max_term_width = 100, after_help = help(EXAMPLES))]
pub(crate) struct Pillarbox {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Demo),
    Migrate(migrate::Migrate),
    Relay(relay::Relay),
    Config(config::Command),
    Routes(routes::Routes),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Status(status::Status),
    Tail(tail::Tail),
    Doctor(doctor::Doctor),
    Dead(Box<dead::Dead>),
    Keys(keys::Keys),
    Handlers(handlers::Handlers),
    Purge(purge::Purge),
    Bench(bench::Bench),
    #[command(hide = true)]
    DemoChild(demo::Child),
}

/// The version, and what this program was built with.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let stores: Vec<&str> = pillarbox_any::kinds().into_iter().map(|kind| kind.word()).collect();
    let sinks = relay::sinks::built_with();
    format!("{}\ndatabases: {}\nsinks: {}", env!("CARGO_PKG_VERSION"), stores.join(", "), sinks.join(", "))
});

/// Examples and exit codes, for the end of a command's help.
pub(crate) fn help(examples: &str) -> String {
    format!("{examples}\n{}", exit::HELP)
}

impl Pillarbox {
    /// Reads the command line, or says what is wrong with it.
    pub(crate) fn read() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            let text = error.render().to_string();
            let arguments: Vec<String> =
                std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
            let shown = without_urls(&text, &arguments);
            if shown == text {
                error.exit();
            }
            terminal::say(shown.trim_end());
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        })
    }

    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<Verdict> {
        // Libraries install none; it fails only if there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        self.command.log();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.command.run())
    }
}

impl Command {
    /// Sends the log to stderr. The demo fails deliveries on purpose and stays silent unless `RUST_LOG` is set; how the
    /// relay logs stands in its file.
    fn log(&self) {
        if matches!(self, Self::Relay(_)) {
            return;
        }
        let quiet = if matches!(self, Self::Demo(_) | Self::DemoChild(_)) { "off" } else { "error" };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(quiet));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }

    async fn run(self) -> anyhow::Result<Verdict> {
        match self {
            Self::Demo(demo) => return demo.run().await,
            Self::DemoChild(child) => child.run().await?,
            Self::Migrate(migrate) => migrate.run().await?,
            Self::Relay(relay) => relay.run().await?,
            Self::Config(config) => config.run()?,
            Self::Routes(routes) => return routes.run(),
            Self::Pause(pause) => pause.run().await?,
            Self::Resume(resume) => resume.run().await?,
            Self::Status(status) => status.run().await?,
            Self::Tail(tail) => tail.run().await?,
            Self::Doctor(doctor) => return doctor.run().await,
            Self::Dead(dead) => dead.run().await?,
            Self::Keys(keys) => keys.run().await?,
            Self::Handlers(handlers) => return handlers.run().await,
            Self::Purge(purge) => purge.run().await?,
            Self::Bench(bench) => bench.run().await?,
        }
        Ok(Verdict::Good)
    }
}

/// `text` without those of `arguments` that are, or end with, a URL: there may be a password in it.
fn without_urls(text: &str, arguments: &[String]) -> String {
    let mut shown = text.to_owned();
    for argument in arguments {
        let value = match argument.split_once('=') {
            Some((option, value)) if option.starts_with('-') => value,
            _ => argument,
        };
        let has_password =
            matches!((value.find(':'), value.rfind('@')), (Some(colon), Some(at)) if colon < at);
        if has_password || value.contains("://") {
            shown = shown.replace(value, "…");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_in_the_wrong_place_is_not_repeated() {
        let url = "postgres://shop:secret@localhost/shop";
        let arguments = ["pillarbox", "status", url, &format!("--dbx={url}"), "shop:secret@home", "order-17"];
        let arguments = arguments.map(str::to_owned);

        let shown = without_urls(&arguments.join("' '"), &arguments);

        assert_eq!(shown, "pillarbox' 'status' '…' '--dbx=…' '…' 'order-17");
    }

    /// Nothing that is made of the command line shows the URL in it.
    #[test]
    fn a_url_is_shown_by_no_command() {
        let url = "postgres://shop:seventeen@localhost/shop";
        for command in [
            "demo",
            "migrate",
            "status",
            "purge --older-than 1d",
            "dead list",
            "keys list",
            "handlers list",
            "bench",
            "doctor",
            "tail",
            "resume --all",
        ] {
            let line = format!("pillarbox {command} --db {url}");

            let read = Pillarbox::try_parse_from(line.split(' ')).unwrap();

            assert!(!format!("{read:?}").contains("seventeen"), "{read:?}");
        }
    }

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        use clap::CommandFactory;

        Pillarbox::command().debug_assert();
    }
}
