//! What is wrong with a file that could be read, and where it stands.

use pillarbox::{ConfigError, Origin, RoutingError, Settings, SettingsError};

use super::store::{self, Nowhere};
use super::{Config, SinkTable};
use crate::relay::document::{Document, Mistake};

impl Config {
    /// A mistake in the options of a sink.
    pub(crate) fn wrong(&self, sink: &SinkTable, text: impl std::fmt::Display) -> Mistake {
        self.document.mistake(sink.at, format!("sink `{}`: {text}", sink.name))
    }

    /// What is wrong with sinks and routes, and where.
    pub(crate) fn misrouted(&self, error: &RoutingError) -> Mistake {
        let of_route = |name: &String| {
            // Of two that have one name, the second is one too many.
            let named = self.routes.iter().rev().find(|route| route.name.get_ref() == name);
            named.map(|route| (route.name.span().start, route.to.span().start))
        };
        let at = match error {
            RoutingError::SameRoute { name } | RoutingError::BadName { name } => of_route(name)
                .map(|(name, _)| name)
                .or_else(|| self.sinks.iter().find(|sink| sink.name == *name).map(|sink| sink.at)),
            RoutingError::NoSinks { route }
            | RoutingError::SinkTwice { route, .. }
            | RoutingError::NoSuchSink { route, .. } => of_route(route).map(|(_, to)| to),
            _ => None,
        };
        match at {
            Some(at) => self.document.mistake(at, error.to_string()),
            None => self.document.whole(&error.to_string()),
        }
    }

    /// Options of outboxes that make no sense, as far as that can be said without their databases.
    pub(crate) fn check_outboxes(&self) -> Result<(), Mistake> {
        for (name, settings) in &self.outboxes {
            settings.check().map_err(|error| {
                let origins = match &error {
                    ConfigError::Invalid { origins, .. } | ConfigError::UnknownKind { origins, .. } => {
                        origins.as_slice()
                    }
                    _ => &[],
                };
                let place = origins.iter().find_map(|(_, origin)| place_of(origin));
                let text = format!("outbox `{name}`: {error}");
                Mistake { file: self.document.file.clone(), place, text }
            })?;
            store::url(&settings.store()).map_err(|error| self.nowhere(name, settings, &error))?;
        }
        Ok(())
    }

    /// An outbox whose database is nowhere: at the option that says where it is, or at the table that lacks one.
    fn nowhere(&self, name: &str, settings: &Settings, error: &Nowhere) -> Mistake {
        let Some(option) = error.option else {
            let table = ["outboxes", name];
            let at = self.document.place_of(&table, "").or_else(|| self.document.place_of(&["outbox"], ""));
            return self.document.mistake(at.unwrap_or_default(), format!("outbox `{name}`: {error}"));
        };
        let set = settings.options().into_iter().find(|set| set.name == option);
        let (place, from) = match set.map(|set| set.origin) {
            Some(Origin::Variable { name }) => (None, format!("the variable `{name}`, ")),
            origin => (origin.as_ref().and_then(place_of), String::new()),
        };
        Mistake { file: self.document.file.clone(), place, text: format!("outbox `{name}`: {from}{error}") }
    }
}

/// What cannot be understood, at its place if it is in the file.
pub(super) fn misunderstood(document: &Document, error: &SettingsError) -> Mistake {
    let origin = match error {
        SettingsError::Syntax { origin, .. }
        | SettingsError::Unknown { origin, .. }
        | SettingsError::Invalid { origin, .. } => Some(origin),
        _ => None,
    };
    let (place, text) = (origin.and_then(place_of), error.to_string());
    // The place is said once.
    let said = origin.filter(|_| place.is_some()).map(|origin| format!("{origin}: ")).unwrap_or_default();
    let text = text.strip_prefix(&said).map(str::to_owned).unwrap_or(text);
    Mistake { file: document.file.clone(), place, text }
}

/// Line and column of an option that stands in the file.
fn place_of(origin: &Origin) -> Option<(usize, usize)> {
    match origin {
        Origin::Text { line, column, .. } => Some((*line, *column)),
        _ => None,
    }
}
