//! Options that come from elsewhere, and what is made of all of them together.

use std::error::Error;
use std::sync::Arc;

use super::{OutboxBuilder, Store};
use crate::config::{Config, ConfigError};
use crate::retry::{ErrorKind, RetryPolicy};
use crate::settings::{Draft, EffectiveOption, Origins, Settings, effective};

/// What the policy of the program takes the place of.
const RETRY: &str = "retry.";

impl<S: Store> OutboxBuilder<S> {
    /// Takes options from a file or from the environment; what the program sets itself wins, before this call and after
    /// it. Called again, it [merges](Settings::merge).
    ///
    /// A retry policy of the program takes the place of all of `retry`.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = std::mem::take(&mut self.settings).merge(settings);
        self
    }

    /// Whether the outbox does anything; default true. If not, nothing is delivered, polled or registered, no task runs,
    /// and writing fails with [`WriteError::Disabled`](crate::WriteError::Disabled), unless events are
    /// [discarded](Self::discard_when_disabled). Transactions can be begun all the same.
    pub fn enabled(self, enabled: bool) -> Self {
        self.set("enabled", |config| config.enabled = enabled)
    }

    /// Whether an outbox that is not [enabled](Self::enabled) takes events and throws them away, with a single warning;
    /// default false. [Subscribers](Self::subscribe) are told as ever: they are part of the transaction, and no delivery.
    pub fn discard_when_disabled(self, discard: bool) -> Self {
        self.set("discard_when_disabled", |config| config.discard_when_disabled = discard)
    }

    /// Makes the kinds known that errors of type `E` have, for `retry.only` and `retry.never` of [`Settings`]; `io`,
    /// `panic` and `timeout` always are.
    pub fn error_kinds<E: ErrorKind>(mut self) -> Self {
        self.kinds.add_all::<E>();
        self
    }

    /// Makes a kind of errors known, for types of others; an error is of it if any of those match that were given the name.
    pub fn error_kind(
        mut self,
        name: impl Into<String>,
        matches: impl Fn(&(dyn Error + 'static)) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.kinds.add(name.into(), matches);
        self
    }

    /// All options that are plain values, as they are now, and where each comes from; for a log or a check of files. What
    /// is secret is left out.
    ///
    /// ```
    /// use pillarbox::{MemoryStore, Origin, Outbox};
    ///
    /// let builder = Outbox::builder(MemoryStore::new()).workers(16);
    /// let workers = builder.effective().into_iter().find(|option| option.name == "workers").unwrap();
    ///
    /// assert_eq!((workers.value.as_deref(), workers.origin), (Some("16"), Origin::Program));
    /// ```
    pub fn effective(&self) -> Vec<EffectiveOption> {
        let mut options = effective(&self.draft(), &self.settings, |name| self.is_by_program(name));
        for option in
            options.iter_mut().filter(|option| self.retry.is_some() && option.name.starts_with(RETRY))
        {
            option.value = None;
        }
        options
    }

    /// Sets an option for the program.
    pub(super) fn set(mut self, option: &'static str, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self.by_program.insert(option);
        self
    }

    /// Puts everything together, and returns the policy by which events are retried.
    pub(super) fn resolve(&mut self) -> Result<Arc<dyn RetryPolicy>, ConfigError> {
        self.settings.check_store()?;
        let draft = self.draft();
        self.config = draft.config;
        match &self.retry {
            Some(policy) => Ok(policy.clone()),
            None => draft.retry.filtered(&self.kinds).map_err(|error| self.with_origins(error)),
        }
    }

    /// Says where the options come from that `error` speaks of.
    pub(super) fn with_origins(&self, error: ConfigError) -> ConfigError {
        let mut origins: Origins = self.settings.origins();
        origins.retain(|name, _| !self.is_by_program(name));
        let others: &[&str] = match &error {
            ConfigError::Invalid { option: "on", .. } => &["topology"],
            ConfigError::Invalid { option: "poller_handler", .. } => &["mode", "ordered"],
            _ => &[],
        };
        error.with_origins(&origins, others)
    }

    fn draft(&self) -> Draft {
        let mut draft = Draft { config: self.config.clone(), ..Draft::default() };
        self.settings.apply(&mut draft, |name| self.is_by_program(name));
        draft
    }

    fn is_by_program(&self, option: &str) -> bool {
        self.by_program.contains(option) || self.retry.is_some() && option.starts_with(RETRY)
    }
}
