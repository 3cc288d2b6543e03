//! The retry policy of a file or of the environment.

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kinds;
use super::{Filtered, Retry, RetryError, RetryPolicy};
use crate::config::ConfigError;

/// What a policy begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RetryKind {
    /// [`Retry::default`].
    #[default]
    Default,
    /// [`Retry::exponential`].
    Exponential,
    /// [`Retry::fixed`].
    Fixed,
}

/// The options in the table `retry`; what is `None` is as the kind says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RetryConfig {
    pub(crate) kind: RetryKind,
    pub(crate) initial: Option<Duration>,
    pub(crate) max: Option<Duration>,
    pub(crate) multiplier: Option<f64>,
    pub(crate) jitter: Duration,
    pub(crate) spread: Option<bool>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) only: Vec<String>,
    pub(crate) never: Vec<String>,
}

impl RetryConfig {
    /// The policy without its filters, if it makes sense.
    pub(crate) fn policy(&self) -> Result<Retry, ConfigError> {
        let kind = self.kind;
        let mut retry = match kind {
            RetryKind::Default => Retry::default(),
            RetryKind::Exponential => Retry::exponential(),
            RetryKind::Fixed => Retry::fixed(Retry::DEFAULT_FIXED),
        };
        if kind == RetryKind::Fixed {
            let remedy =
                "with the `retry.kind` \"fixed\" delays do not grow; leave it out, or use \"exponential\"";
            if let Some(max) = self.max {
                return Err(ConfigError::invalid("retry.max", format_args!("{max:?}"), remedy));
            }
            if let Some(multiplier) = self.multiplier {
                return Err(ConfigError::invalid("retry.multiplier", multiplier, remedy));
            }
        }
        retry.initial = self.initial.unwrap_or(retry.initial);
        retry.max = self.max.unwrap_or(retry.max);
        retry.multiplier = self.multiplier.unwrap_or(retry.multiplier);
        retry.spread = self.spread.unwrap_or(retry.spread);
        retry.jitter = self.jitter;
        retry.max_attempts = self.max_attempts;
        retry.max_retries = self.max_retries;
        retry.check().map_err(refused)?;
        Ok(retry)
    }

    /// The policy, filtered by the kinds of errors that it names.
    pub(crate) fn filtered(&self, kinds: &Kinds) -> Result<Arc<dyn RetryPolicy>, ConfigError> {
        let mut policy = Filtered::new(self.policy()?);
        for kind in &self.only {
            let matches = kinds.find(kind).map_err(|hint| unknown("retry.only", kind, hint))?;
            policy = policy.only_if(move |error| matches(error));
        }
        for kind in &self.never {
            let matches = kinds.find(kind).map_err(|hint| unknown("retry.never", kind, hint))?;
            policy = policy.never_if(move |error| matches(error));
        }
        Ok(Arc::new(policy))
    }
}

fn unknown(option: &'static str, kind: &str, hint: String) -> ConfigError {
    ConfigError::UnknownKind { option, kind: kind.to_owned(), hint, origins: Vec::new() }
}

/// What a policy refuses, in the names of options.
fn refused(error: RetryError) -> ConfigError {
    match error {
        RetryError::NoAttempts => ConfigError::invalid(
            "retry.max_attempts",
            0,
            "the first delivery counts too; set it to 1 for no retries",
        ),
        RetryError::Multiplier { multiplier } => {
            ConfigError::invalid("retry.multiplier", multiplier, "it must be a number that is at least 1")
        }
        RetryError::MaxBelowInitial { initial, max } => ConfigError::invalid(
            "retry.max",
            format_args!("{max:?}"),
            format_args!("it is shorter than `retry.initial`, {initial:?}; raise the one or lower the other"),
        ),
        other => other.into(),
    }
}
