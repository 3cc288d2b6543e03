//! One outbox of a relay: connected, delivering, watched.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use pillarbox::store::{Administration, StoreError};
use pillarbox::{ConfigError, Outbox, StoreSettings};
use pillarbox_any::AnyStore;
use pillarbox_metrics::{Metrics, record_stats};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::config::store;
use super::current::Plan;
use super::pauses::Pauses;
use super::state::Relays;
use crate::database::{self, Tables, explain};
use crate::exit::Unusable;

/// How long to wait before a database is tried again that could not be reached.
const PAUSE: Duration = Duration::from_secs(5);
/// How often events are counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(15);

/// The task of one outbox.
pub(crate) struct Task {
    pub(crate) name: String,
    /// What it runs with; it goes on with another as soon as there is one.
    pub(crate) plan: watch::Receiver<Plan>,
    pub(crate) relays: Arc<Relays>,
    pub(crate) end: CancellationToken,
}

impl Task {
    /// Runs until the relay ends, or until the outbox stops by itself.
    pub(crate) async fn run(mut self) -> anyhow::Result<()> {
        let Some(store) = self.connect().await? else { return Ok(()) };
        let ended = self.deliver(&store).await;
        store.close().await;
        ended.with_context(|| format!("outbox `{}`", self.name))
    }

    /// Delivers by one plan after the other. In between what is under way is finished and the rest given back, as if the
    /// relay ended.
    async fn deliver(&mut self, store: &AnyStore) -> anyhow::Result<()> {
        let mut before: Option<Plan> = None;
        loop {
            let plan = self.plan.borrow_and_update().clone();
            let (outbox, plan) = match (self.start(store, &plan), before.take()) {
                (Ok(outbox), _) => (outbox, plan),
                (Err(error), Some(before)) => {
                    let name = &self.name;
                    tracing::error!(outbox = name, %error, "the outbox goes on with the options before");
                    (self.start(store, &before)?, before)
                }
                (Err(error), None) => return Err(error.into()),
            };
            self.relays.started(&self.name, &outbox, &plan.routing);
            tracing::info!(outbox = self.name, "the outbox delivers");
            let counting = tokio::spawn(count(self.name.clone(), outbox.clone(), self.relays.clone()));
            let (end, changed) = (self.end.clone(), &mut self.plan);
            let stop = async move {
                tokio::select! {
                    () = end.cancelled() => {}
                    Ok(()) = changed.changed() => {}
                }
            };
            let following = tokio::spawn(Pauses::new(&self.name, &plan.routing).follow(outbox.clone()));
            let ended = outbox.run(stop).await;
            counting.abort();
            following.abort();
            ended.context("it has stopped")?;
            if self.end.is_cancelled() {
                return Ok(());
            }
            before = Some(plan);
        }
    }

    fn start(&self, store: &AnyStore, plan: &Plan) -> Result<Outbox<AnyStore>, ConfigError> {
        Outbox::builder(store.clone())
            .settings(plan.settings.clone())
            .poller_only()
            .routing(&plan.routing)
            .metrics(Metrics::of(&self.name))
            .start()
    }

    /// Connects to the database, again and again while it cannot be reached, and learns which routes are paused. None if
    /// the relay ends meanwhile.
    async fn connect(&self) -> anyhow::Result<Option<AnyStore>> {
        let Plan { settings, routing } = self.plan.borrow().clone();
        let mut pauses = Pauses::new(&self.name, &routing);
        loop {
            let error = match open(&settings.store(), &mut pauses).await {
                Ok(store) => return Ok(Some(store)),
                Err(error) => error,
            };
            if !matches!(error.downcast_ref(), Some(StoreError::Unavailable { .. })) {
                return Err(error.context(format!("outbox `{}`", self.name)));
            }
            tracing::error!(outbox = self.name, %error, "the database cannot be reached; trying again");
            self.relays.in_trouble(&self.name, Some(error.to_string()));
            tokio::select! {
                () = self.end.cancelled() => return Ok(None),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}

/// Opens the outbox that these settings are about, and learns which of its routes are paused. A file that is not there is
/// created only if they ask for it, or for tables in it.
async fn open(settings: &StoreSettings, pauses: &mut Pauses) -> anyhow::Result<AnyStore> {
    let url = store::url(settings).map_err(|error| Unusable(error.to_string()))?;
    let mut options = AnyStore::options(&url);
    if let Some(file) = database::file_at(&url)? {
        let may_create = settings.create_if_missing.unwrap_or(settings.migrate);
        if !may_create {
            file.check_exists()?;
        }
        options = options.create_if_missing(may_create);
    }
    let store = options.settings(settings).connect().await?;
    let Err(error) = look(&store, settings.migrate, pauses).await else { return Ok(store) };
    let tables = Tables::new(settings.schema.clone(), settings.prefix.clone());
    let place = tables.place(&store.name());
    store.close().await;
    Err(explain(error, &place))
}

async fn look(store: &AnyStore, migrate: bool, pauses: &mut Pauses) -> Result<(), StoreError> {
    if migrate {
        store.migrate().await?;
    }
    store.check().await?;
    pauses.look(store).await
}

/// Counts events for the metrics now and then; a count that fails is unknown, and the outbox not ready.
async fn count(name: String, outbox: Outbox<AnyStore>, relays: Arc<Relays>) {
    loop {
        let stats = outbox.store().stats().await;
        record_stats(&name, stats.as_ref().ok());
        relays.in_trouble(&name, stats.err().map(|error| error.to_string()));
        // These are told to the exporter of the outbox.
        let _ = outbox.census().await;
        let _ = outbox.handlers().await;
        tokio::time::sleep(COUNT_EVERY).await;
    }
}
