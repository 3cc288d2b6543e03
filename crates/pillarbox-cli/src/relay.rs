//! `pillarbox relay`: from the table to brokers and webhooks.

pub(crate) mod config;
mod current;
pub(crate) mod document;
mod fingerprint;
mod log;
mod outages;
mod outbox;
mod pauses;
mod secret;
mod server;
pub(crate) mod sinks;
mod state;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use metrics_exporter_prometheus::PrometheusBuilder;
use pillarbox::Routing;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use self::config::Config;
use self::current::Current;
use self::log::Log;
use self::server::Served;
use self::sinks::Made;
use self::state::Relays;
use crate::command;
use crate::exit::Unusable;

const EXAMPLES: &str = "\
Examples:
  pillarbox relay --config pillarbox.toml
  pillarbox config --print-defaults > pillarbox.toml    a file to start from
  pillarbox config check --config pillarbox.toml        what is wrong with it
  curl http://127.0.0.1:9464/status                     how outboxes and sinks are doing
  kill -HUP PID                                         read the file anew

It ends at SIGTERM and SIGINT: what is under way is finished within `drain_timeout`, the rest is given
back, and all of it takes no longer than `shutdown_timeout`.
";

/// Deliver events to brokers and webhooks, as a file says
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(crate) struct Relay {
    /// The configuration file
    #[arg(long, env = "PILLARBOX_CONFIG", value_name = "FILE", default_value = "pillarbox.toml")]
    config: PathBuf,
}

impl Relay {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        // Before anything that takes time: a signal that nobody listens for ends the process.
        let signals = Signals::listen()?;
        let config = usable(Config::read(&self.config))?;
        let (log, http) = (Log::start(&config.log), config.http.clone());
        let mut current = Current::begin(config, log).await?;
        // Before any outbox takes an event, which would be cut off.
        let listener = server::listen(&http).await?;
        let page = PrometheusBuilder::new().install_recorder().context("metrics cannot be recorded")?;
        // The page is served before the first outbox is there.
        pillarbox_metrics::describe();
        let (relays, end) = (Arc::new(Relays::default()), CancellationToken::new());
        let mut running = tokio::task::JoinSet::new();
        for (name, plan) in current.plans() {
            relays.expect(name, &plan.borrow().routing);
            let (name, relays, end) = (name.clone(), relays.clone(), end.clone());
            running.spawn(outbox::Task { name, plan, relays, end }.run());
        }
        tokio::spawn(outages::follow(relays.clone(), end.clone()));
        if let Some(listener) = listener {
            server::serve(listener, Served::new(relays.clone(), page), end.clone())?;
        }
        tracing::info!(outboxes = running.len(), sinks = current.sinks(), "the relay runs");

        let ended = tokio::select! {
            ended = running.join_next() => ended,
            () = self.until_told(signals, &mut current) => None,
        };
        end.cancel();
        let mut failed = ended.into_iter().collect::<Vec<_>>();
        while let Some(ended) = running.join_next().await {
            failed.push(ended);
        }
        failed.into_iter().try_for_each(|ended| ended.context("an outbox of the relay panicked")?)
    }

    /// Waits for the signal to stop; reads the file anew at each SIGHUP.
    async fn until_told(&self, mut signals: Signals, current: &mut Current) {
        loop {
            tokio::select! {
                _ = signals.stop.recv() => break,
                _ = signals.interrupt.recv() => break,
                _ = signals.reload.recv() => match current.reload(&self.config).await {
                    Ok(()) => tracing::info!("the file was read anew"),
                    Err(error) => tracing::error!("the options and the routes stay as they are: {error:#}"),
                },
            }
        }
        tracing::info!("the relay stops: what is under way is finished, the rest is given back");
    }
}

/// The signals that a relay obeys.
struct Signals {
    stop: Signal,
    interrupt: Signal,
    reload: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        let [stop, interrupt, reload] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
        Ok(Self { stop: stop?, interrupt: interrupt?, reload: reload? })
    }
}

/// The routes of an outbox, to sinks that all outboxes share.
pub(crate) fn routing(config: &Config, outbox: &str, sinks: &[Made]) -> Result<Routing, document::Mistake> {
    let misrouted = |error: pillarbox::RoutingError| config.misrouted(&error);
    let mut routing = Routing::new().look_again_after(pauses::SAFETY_NET);
    for Made { name, sink, .. } in sinks {
        routing = routing.sink(name, sink.clone()).map_err(misrouted)?;
    }
    routing.routes(config.routes_of(outbox)?).map_err(misrouted)
}

/// What is wrong with the configuration is the user's to mend.
pub(crate) fn usable<T>(result: Result<T, document::Mistake>) -> anyhow::Result<T> {
    result.map_err(|mistake| Unusable(mistake.to_string()).into())
}
