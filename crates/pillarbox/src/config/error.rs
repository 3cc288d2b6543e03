//! What is wrong with options, and where they come from.

use std::fmt;

use crate::handler::HandlersError;
use crate::registry::AlreadyRegistered;
use crate::retry::RetryError;
use crate::settings::{Origin, Origins};

/// An option, or a combination of options, that makes no sense.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An option has a value that cannot work.
    #[error("`{option}` is {value}: {remedy}{}", Comes(origins))]
    Invalid {
        /// The option, named after its setter.
        option: &'static str,
        /// Its value.
        value: String,
        /// What would work.
        remedy: String,
        /// Where the values come from that were not set by the program.
        origins: Vec<(&'static str, Origin)>,
    },
    /// The retry policy of a file or variable names a kind of errors that nobody knows.
    #[error(
        "`{option}` names errors of the kind `{kind}`, which nobody registered; {hint}{}",
        Comes(origins)
    )]
    UnknownKind {
        /// The option.
        option: &'static str,
        /// The kind.
        kind: String,
        /// The kinds that are known.
        hint: String,
        /// Where the option was set.
        origins: Vec<(&'static str, Origin)>,
    },
    /// Two listeners want the same events.
    #[error(transparent)]
    Listener(#[from] AlreadyRegistered),
    /// The retry policy makes no sense.
    #[error(transparent)]
    Retry(#[from] RetryError),
    /// The handlers make no sense.
    #[error(transparent)]
    Handlers(#[from] HandlersError),
}

impl ConfigError {
    /// The option, which has this value, cannot work.
    pub(crate) fn invalid(option: &'static str, value: impl fmt::Display, remedy: impl fmt::Display) -> Self {
        Self::Invalid { option, value: value.to_string(), remedy: remedy.to_string(), origins: Vec::new() }
    }

    /// Says where the options come from that it speaks of, and `others` that have to do with it.
    pub(crate) fn with_origins(mut self, known: &Origins, others: &[&str]) -> Self {
        match &mut self {
            Self::Invalid { option, remedy, origins, .. } => {
                let speaks_of = |name: &str| {
                    name == *option || others.contains(&name) || remedy.contains(&format!("`{name}`"))
                };
                let named = known.iter().filter(|(name, _)| speaks_of(name));
                *origins = named.map(|(name, origin)| (*name, origin.clone())).collect();
            }
            Self::UnknownKind { option, origins, .. } => {
                let named = known.get_key_value(option);
                *origins = named.map(|(name, origin)| (*name, origin.clone())).into_iter().collect();
            }
            _ => {}
        }
        self
    }
}

/// Where options come from, at the end of a sentence about them.
struct Comes<'a>(&'a [(&'static str, Origin)]);

impl fmt::Display for Comes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (option, origin)) in self.0.iter().enumerate() {
            let before = if number == 0 { " (" } else { ", " };
            write!(f, "{before}`{option}` comes from {origin}")?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ")" })
    }
}
