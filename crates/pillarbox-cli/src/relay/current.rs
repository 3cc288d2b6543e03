//! What a relay runs with, and how that is changed while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pillarbox::{Route, Routing, Settings};
use tokio::sync::watch;

use super::config::Config;
use super::log::Log;
use super::sinks::{self, Made};
use super::{routing, usable};

/// Options that count from the next start on: another table, or another way to take from it, is another outbox.
const FIXED: [&str; 2] = ["mode", "ordered"];

/// What an outbox runs with.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    pub(crate) routing: Routing,
}

/// What a relay runs with.
pub(crate) struct Current {
    /// What it was started with.
    started: Config,
    sinks: Vec<Made>,
    log: Log,
    plans: BTreeMap<String, watch::Sender<Plan>>,
}

/// What becomes of one outbox.
enum Change {
    /// Its routes are set; nothing is interrupted.
    Routes(Vec<Route>),
    /// It ends and goes on with these.
    Plan(Plan),
}

impl Current {
    /// What the file says. What breaks the promise of a sink is refused.
    pub(crate) async fn begin(config: Config, log: Log) -> anyhow::Result<Self> {
        usable(config.check_outboxes())?;
        let messages = usable(config.messages())?;
        let sinks = usable(sinks::make_all(&config, &messages))?;
        sinks::check_all(&sinks).await?;
        let plan = |(name, settings): &(String, Settings)| {
            let routing = usable(routing(&config, name, &sinks))?;
            Ok((name.clone(), watch::Sender::new(Plan { settings: settings.clone(), routing })))
        };
        let plans = config.outboxes.iter().map(plan).collect::<anyhow::Result<_>>()?;
        Ok(Self { started: config, sinks, log, plans })
    }

    /// What each outbox runs with, now and later.
    pub(crate) fn plans(&self) -> impl Iterator<Item = (&String, watch::Receiver<Plan>)> {
        self.plans.iter().map(|(name, plan)| (name, plan.subscribe()))
    }

    pub(crate) fn sinks(&self) -> usize {
        self.sinks.len()
    }

    /// Reads the file anew and changes what can be changed; what cannot is logged by its key. If anything is wrong with
    /// the file, nothing is changed.
    pub(crate) async fn reload(&mut self, file: &Path) -> anyhow::Result<()> {
        let next = usable(Config::read(file))?;
        usable(next.check_outboxes())?;
        let messages = usable(next.messages())?;
        let mut sinks = usable(sinks::make_all(&next, &messages))?;
        for made in &mut sinks {
            made.sink = match self.sinks.iter().find(|old| old.name == made.name && old.print == made.print) {
                Some(old) => old.sink.clone(),
                None => {
                    sinks::check_all(std::slice::from_ref(made)).await?;
                    made.sink.clone()
                }
            };
        }
        let are_same = |(new, old): (&Made, &Made)| new.name == old.name && Arc::ptr_eq(&new.sink, &old.sink);
        let has_same_sinks = sinks.len() == self.sinks.len() && sinks.iter().zip(&self.sinks).all(are_same);
        let mut changes = Vec::new();
        for (name, plan) in &self.plans {
            changes.push((plan, self.change(&next, name, &plan.borrow(), &sinks, has_same_sinks)?));
        }

        for (plan, change) in changes {
            match change {
                Change::Routes(routes) => plan.borrow().routing.set_routes(routes)?,
                Change::Plan(new) => drop(plan.send_replace(new)),
            }
        }
        self.log.set(&next.log);
        self.tell_of_the_rest(&next);
        self.sinks = sinks;
        Ok(())
    }

    /// What the file has for an outbox that runs.
    fn change(
        &self,
        next: &Config,
        name: &str,
        plan: &Plan,
        sinks: &[Made],
        has_same_sinks: bool,
    ) -> anyhow::Result<Change> {
        let new = next.outboxes.iter().find(|(there, _)| there == name).map(|(_, settings)| settings);
        let differing = new.map(|new| differing(&plan.settings, new)).unwrap_or_default();
        let fixed: Vec<&str> = differing.iter().copied().filter(is_fixed).collect();
        if !fixed.is_empty() {
            tracing::warn!(
                outbox = name,
                options = fixed.join(", "),
                "these count from the next start on; until then all options of the outbox stay as they are"
            );
        }
        let settings = new.filter(|_| fixed.is_empty()).unwrap_or(&plan.settings);
        if has_same_sinks && (differing.is_empty() || !fixed.is_empty()) {
            let routes = usable(next.routes_of(name))?;
            usable(plan.routing.check_routes(&routes).map_err(|error| next.misrouted(&error)))?;
            return Ok(Change::Routes(routes));
        }
        let routing = usable(routing(next, name, sinks))?;
        routing.set_paused(plan.routing.paused());
        Ok(Change::Plan(Plan { settings: settings.clone(), routing }))
    }

    /// Says what counts from the next start on.
    fn tell_of_the_rest(&self, next: &Config) {
        let names = |config: &Config| -> BTreeSet<String> {
            config.outboxes.iter().map(|(name, _)| name.clone()).collect()
        };
        let (old, new) = (names(&self.started), names(next));
        let mut later: Vec<String> =
            old.symmetric_difference(&new).map(|name| format!("outboxes.{name}")).collect();
        let (old, new) = (&self.started.http, &next.http);
        let tables = [
            ("http.enabled", old.enabled != new.enabled),
            ("http.listen", old.listen != new.listen),
            ("log.format", self.started.log.format != next.log.format),
        ];
        later.extend(tables.iter().filter(|(_, differs)| *differs).map(|(key, _)| (*key).to_owned()));
        if !later.is_empty() {
            tracing::warn!(options = later.join(", "), "these count from the next start on");
        }
    }
}

fn is_fixed(option: &&str) -> bool {
    option.starts_with("store.") || FIXED.contains(option)
}

/// The options whose values differ.
fn differing(old: &Settings, new: &Settings) -> Vec<&'static str> {
    let values = |settings: &Settings| -> BTreeMap<&'static str, Option<String>> {
        settings.options().into_iter().map(|option| (option.name, option.value)).collect()
    };
    let (before, after) = (values(old), values(new));
    let names: BTreeSet<&'static str> = before.keys().chain(after.keys()).copied().collect();
    let differs = |name: &&'static str| match *name {
        // Not among the values, for it is secret.
        "store.url" => old.store().url != new.store().url,
        name => before.get(name) != after.get(name),
    };
    names.into_iter().filter(differs).collect()
}
