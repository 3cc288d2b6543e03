//! Options that several sinks have.

use pillarbox::{Template, TemplateError};

use crate::relay::config::{Config, SinkTable};
use crate::relay::document::{Mistake, discreet};
use crate::relay::secret::Secret;

/// An address.
pub(super) fn template(
    config: &Config,
    table: &SinkTable,
    option: &str,
    text: &str,
) -> Result<Template, Mistake> {
    text.parse().map_err(|error: TemplateError| {
        wrong_in(config, table, option, error.to_string().replace(text, &discreet(text)))
    })
}

/// A secret, from wherever it is.
pub(super) fn revealed(
    config: &Config,
    table: &SinkTable,
    option: &str,
    secret: &Secret,
) -> Result<String, Mistake> {
    secret.reveal().map_err(|error| wrong_in(config, table, option, error))
}

/// A mistake in one option of a sink, which may stand in tables of it, as `sasl.password` does.
pub(super) fn wrong_in(
    config: &Config,
    table: &SinkTable,
    option: &str,
    text: impl std::fmt::Display,
) -> Mistake {
    let at = config.document.place_of(&["sinks", &table.name], option).unwrap_or(table.at);
    config.document.mistake(at, format!("sink `{}`: `{option}`: {text}", table.name))
}
