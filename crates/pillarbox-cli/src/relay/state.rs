//! What a relay knows of its outboxes while it runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pillarbox::{Health, Outbox, Routing, SinkHealth};
use pillarbox_any::AnyStore;
use serde::Serialize;

use super::outages::Outages;

/// The outboxes of a relay.
#[derive(Default)]
pub(crate) struct Relays(Mutex<BTreeMap<String, Running>>);

/// One of them.
struct Running {
    routing: Routing,
    outages: Outages,
    /// None while its database cannot be reached.
    outbox: Option<Outbox<AnyStore>>,
    /// What those counted that ran before it, with other options.
    before: Tally,
    /// Why it does not deliver.
    trouble: Option<String>,
}

/// What became of deliveries.
#[derive(Clone, Copy, Default)]
struct Tally {
    delivered: u64,
    failed: u64,
    dead: u64,
    unanswered: u64,
}

/// How an outbox is doing, for people and probes.
#[derive(Serialize)]
pub(crate) struct OutboxState {
    name: String,
    /// Why it does not deliver; none if it does.
    pub(crate) trouble: Option<String>,
    delivered: u64,
    failed: u64,
    dead: u64,
    /// How often a sink left an event unanswered, which may have arrived and comes again.
    unanswered: u64,
    /// Routes that an operator has paused.
    paused_routes: Vec<String>,
    sinks: Vec<SinkState>,
}

#[derive(Serialize)]
struct SinkState {
    name: String,
    state: &'static str,
    /// Since when it is not well, as far as this relay has seen.
    down_since: Option<String>,
    last_error: Option<String>,
}

impl Relays {
    /// An outbox is going to be started.
    pub(crate) fn expect(&self, name: &str, routing: &Routing) {
        let trouble = Some("it is being started".to_owned());
        let (routing, outages) = (routing.clone(), Outages::default());
        let running = Running { routing, outages, outbox: None, before: Tally::default(), trouble };
        self.lock().insert(name.to_owned(), running);
    }

    /// An outbox delivers, in place of the one before.
    pub(crate) fn started(&self, name: &str, outbox: &Outbox<AnyStore>, routing: &Routing) {
        if let Some(running) = self.lock().get_mut(name) {
            running.before = running.tally();
            running.routing = routing.clone();
            running.outbox = Some(outbox.clone());
            running.trouble = None;
        }
    }

    pub(crate) fn in_trouble(&self, name: &str, trouble: Option<String>) {
        if let Some(running) = self.lock().get_mut(name) {
            running.trouble = trouble;
        }
    }

    pub(crate) fn routings(&self) -> Vec<(String, Routing)> {
        self.lock().iter().map(|(name, running)| (name.clone(), running.routing.clone())).collect()
    }

    pub(crate) fn states(&self) -> Vec<OutboxState> {
        self.look();
        self.lock().iter().map(|(name, running)| running.state(name)).collect()
    }

    /// Notes which sinks are down.
    pub(crate) fn look(&self) {
        for running in self.lock().values_mut() {
            running.outages.look(&running.routing.health());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn tally(&self) -> Tally {
        let (before, now) = (self.before, self.outbox.as_ref().map(Outbox::counts).unwrap_or_default());
        Tally {
            delivered: before.delivered + now.done,
            failed: before.failed + now.failed,
            dead: before.dead + now.dead,
            unanswered: before.unanswered + now.unanswered,
        }
    }

    fn state(&self, name: &str) -> OutboxState {
        let Tally { delivered, failed, dead, unanswered } = self.tally();
        let sink = |sink: SinkHealth| SinkState {
            down_since: self.outages.since(&sink.name).map(|since| since.to_string()),
            name: sink.name,
            state: match sink.health {
                Health::Well => "well",
                Health::Trying => "trying",
                _ => "down",
            },
            last_error: sink.last_error,
        };
        OutboxState {
            name: name.to_owned(),
            trouble: self.trouble.clone(),
            delivered,
            failed,
            dead,
            unanswered,
            paused_routes: self.routing.paused(),
            sinks: self.routing.health().into_iter().map(sink).collect(),
        }
    }
}
