//! `pillarbox routes`: where events would go.

mod given;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pillarbox::{Event, Explanation};
use serde::Serialize;

use self::given::Given;
use crate::exit::{Unusable, Verdict};
use crate::relay::config::Config;
use crate::relay::sinks::{self, Made};
use crate::relay::{self, usable};
use crate::{command, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox routes test event.json --config pillarbox.toml
  echo '{\"event_type\": \"OrderPlaced\", \"key\": \"order-17\"}' | pillarbox routes test -
";

/// Show where events would go
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Routes {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Test(Test),
}

/// Show where one event would go; exit code 1 if nowhere
///
/// The event is a JSON object with `event_type` and, as far as it has them, `event_id`, `aggregate_type`, `aggregate_id`,
/// `key`, `tenant_id`, `headers` and `payload`.
#[derive(Args, Debug)]
struct Test {
    /// The event, or `-` for standard input
    event: PathBuf,

    /// The configuration file
    #[arg(long, env = "PILLARBOX_CONFIG", value_name = "FILE", default_value = "pillarbox.toml")]
    config: PathBuf,

    /// Which outbox it comes from, if there are several; by default the first
    #[arg(long)]
    outbox: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    /// `null` if no route takes the event.
    route: Option<String>,
    sinks: Vec<ShownSink>,
}

#[derive(Serialize)]
struct ShownSink {
    sink: String,
    /// `null` if the sink's own address counts.
    address: Option<String>,
    /// The sink's own address, if that counts and it has one; of a URL scheme and host only.
    own_address: Option<String>,
    /// Why the address cannot be made of this event.
    error: Option<String>,
}

impl Routes {
    pub(crate) fn run(self) -> anyhow::Result<Verdict> {
        let Action::Test(test) = self.action;
        test.run()
    }
}

impl Test {
    fn run(self) -> anyhow::Result<Verdict> {
        let event: Event = Given::read(&self.event)?.event()?;
        let config = usable(Config::read(&self.config))?;
        let messages = usable(config.messages())?;
        let sinks = usable(sinks::make_all(&config, &messages))?;
        let outbox = self.outbox_of(&config)?;
        let explained = usable(relay::routing(&config, &outbox, &sinks))?.explain(&event);
        let shown = Shown::of(&event, explained.as_ref(), &sinks);
        let verdict = match shown.sinks.is_empty() || shown.sinks.iter().any(|sink| sink.error.is_some()) {
            true => Verdict::Bad,
            false => Verdict::Good,
        };
        if self.json {
            terminal::json(&shown)?;
        } else {
            terminal::print(&shown.text())?;
        }
        Ok(verdict)
    }

    fn outbox_of(&self, config: &Config) -> anyhow::Result<String> {
        let names: Vec<&str> = config.outboxes.iter().map(|(name, _)| name.as_str()).collect();
        match &self.outbox {
            None => Ok(names.first().copied().unwrap_or_default().to_owned()),
            Some(outbox) if names.contains(&outbox.as_str()) => Ok(outbox.clone()),
            Some(outbox) => {
                Err(Unusable(format!("there is no outbox `{outbox}`; there are `{}`", names.join("`, `")))
                    .into())
            }
        }
    }
}

impl Shown {
    fn of(event: &Event, explained: Option<&Explanation>, made: &[Made]) -> Self {
        let Some(explained) = explained else { return Self { route: None, sinks: Vec::new() } };
        let sink = |(sink, address): &(String, Option<Result<String, String>>)| {
            let made = made.iter().find(|made| made.name == *sink);
            let own = made.map_or(Ok(None), |made| made.own.explain(event, address.is_some()));
            let address = address.clone().transpose();
            ShownSink {
                sink: sink.clone(),
                own_address: own.clone().unwrap_or_default(),
                error: address.clone().err().or(own.err()),
                address: address.unwrap_or_default(),
            }
        };
        Self { route: Some(explained.route.clone()), sinks: explained.sinks.iter().map(sink).collect() }
    }

    fn text(&self) -> String {
        let Some(route) = &self.route else {
            return "no route takes it: it is unroutable, and what becomes of it says `unroutable`\n"
                .to_owned();
        };
        let line = |sink: &ShownSink| match (&sink.address, &sink.error) {
            (_, Some(error)) => format!("  {}: dead, for {error}\n", sink.sink),
            (Some(address), None) => format!("  {} at `{address}`\n", sink.sink),
            (None, None) => match &sink.own_address {
                Some(address) => format!("  {} at its own address, `{address}`\n", sink.sink),
                None => format!("  {} at its own address\n", sink.sink),
            },
        };
        format!("route `{route}` takes it to\n{}", self.sinks.iter().map(line).collect::<String>())
    }
}
