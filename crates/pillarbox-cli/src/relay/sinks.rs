//! The sinks that this program was built with, made as the file says. The only place that looks at features.

#[cfg(feature = "http")]
mod http;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
#[cfg(any(feature = "http", feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod option;
#[cfg(any(feature = "kafka", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod pair;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
mod slashes;
mod stdout;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::spelling::nearest;
use pillarbox::{BoxFuture, Event, Sink, Template};
use pillarbox_message::{Finding, Messages, Severity};

use super::config::{Config, SinkTable};
use super::document::{Mistake, discreet};
use super::fingerprint;
use crate::exit::Unusable;

/// How long a sink may take to find out about its server.
const CHECK_FOR: Duration = Duration::from_secs(10);

/// Makes a sink as its table says.
type Maker = fn(&Config, &SinkTable, Messages) -> Result<(Arc<dyn Checked>, Own), Mistake>;

/// The sinks that this program was built with.
const MAKERS: &[(&str, Maker)] = &[
    #[cfg(feature = "http")]
    ("http", http::make),
    #[cfg(feature = "kafka")]
    ("kafka", kafka::make),
    #[cfg(feature = "nats")]
    ("nats", nats::make),
    #[cfg(feature = "rabbitmq")]
    ("rabbitmq", rabbitmq::make),
    #[cfg(feature = "redis")]
    ("redis", redis::make),
    ("stdout", stdout::make),
];

/// All sinks that there are, whether this program has them or not.
const KINDS: [&str; 6] = ["http", "kafka", "nats", "rabbitmq", "redis", "stdout"];

/// A sink that can be asked how its server is set up.
pub(crate) trait Checked: Sink {
    /// What weakens the promise, or does not work.
    fn findings(&self) -> BoxFuture<'_, Vec<Finding>>;
}

/// What a sink makes of an event besides what its route says.
#[derive(Default)]
pub(crate) struct Own {
    /// Its address, for events whose route gives none; a sink that has none goes nowhere in particular.
    address: Option<Template>,
    /// What it fills for all of them, as the exchange of RabbitMQ.
    always: Option<Template>,
}

impl Own {
    /// Where the sink sends an event whose route gives it an address or not, as far as the sink itself says it; or why it
    /// cannot. Of a URL only the host is shown.
    pub(crate) fn explain(&self, event: &Event, has_address: bool) -> Result<Option<String>, String> {
        let filled = |template: &Template| {
            let filled = template.fill(event);
            filled.map(|text| discreet(&text)).map_err(|error| {
                let shown = discreet(&error.template);
                error.to_string().replace(&error.template, &shown)
            })
        };
        self.always.as_ref().map(filled).transpose()?;
        self.address.as_ref().filter(|_| !has_address).map(filled).transpose()
    }
}

/// A sink, made.
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) sink: Arc<dyn Checked>,
    pub(crate) own: Own,
    /// What it is made of.
    pub(crate) print: u64,
}

/// The names of the sinks that this program was built with.
pub(crate) fn built_with() -> Vec<&'static str> {
    MAKERS.iter().map(|(kind, _)| *kind).collect()
}

/// Makes all sinks of a configuration. None of their servers need be there.
pub(crate) fn make_all(config: &Config, messages: &Messages) -> Result<Vec<Made>, Mistake> {
    config.sinks.iter().map(|table| make(config, table, messages)).collect()
}

/// Makes one sink of a configuration.
pub(crate) fn make(config: &Config, table: &SinkTable, messages: &Messages) -> Result<Made, Mistake> {
    let Some((_, make)) = MAKERS.iter().find(|(kind, _)| *kind == table.kind) else {
        return Err(config.wrong(table, unknown(&table.kind)));
    };
    let (sink, own) = make(config, table, messages.clone())?;
    Ok(Made { name: table.name.clone(), sink, own, print: fingerprint::of(config, table) })
}

/// What a sink finds out about its server; `None` if that takes too long.
pub(crate) async fn findings(made: &Made) -> Option<Vec<Finding>> {
    tokio::time::timeout(CHECK_FOR, made.sink.findings()).await.ok()
}

/// Asks all sinks how their servers are set up. What weakens the promise is logged, what would break it is refused; a
/// server that does not answer in time is left for later.
pub(crate) async fn check_all(sinks: &[Made]) -> anyhow::Result<()> {
    for made in sinks {
        let name = &made.name;
        let Some(findings) = findings(made).await else {
            tracing::warn!(
                sink = name,
                "the server does not answer; whether its settings keep the promise is not known"
            );
            continue;
        };
        for Finding { severity, text } in findings {
            match severity {
                Severity::Refusal => return Err(Unusable(format!("sink `{name}`: {text}")).into()),
                Severity::Unknown | Severity::Warning | Severity::Unreachable => {
                    tracing::warn!(sink = name, "{text}");
                }
            }
        }
    }
    Ok(())
}

fn unknown(kind: &str) -> String {
    if KINDS.contains(&kind) {
        return format!(
            "this program was built without `{kind}`; build it with `cargo build --release -p pillarbox-cli --features \
             {kind}`"
        );
    }
    let hint = match nearest(kind, &KINDS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are `{}`", KINDS.join("`, `")),
    };
    format!("`{kind}` is no type of a sink; {hint}")
}
