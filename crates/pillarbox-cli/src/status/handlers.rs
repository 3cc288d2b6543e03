//! The part of `pillarbox status` about handlers that events wait for.

use std::fmt::{self, Write};

use pillarbox::store::HandlerCensus;
use serde::Serialize;

use crate::figure;
use crate::handlers::Line;

/// What is printed as JSON.
#[derive(Serialize)]
pub(super) struct Shown {
    /// All that events name which are not done.
    handlers: Vec<Line>,
    /// Whether all such events were counted; otherwise every number of `handlers` is a lower bound.
    handlers_are_complete: bool,
}

impl Shown {
    pub(super) fn of(census: &HandlerCensus) -> Self {
        Self {
            handlers: census.handlers.iter().map(Line::of).collect(),
            handlers_are_complete: census.is_complete,
        }
    }
}

/// What is printed for people: those that are owed, and nothing if none is.
pub(super) fn table(census: &HandlerCensus) -> Result<String, fmt::Error> {
    let owed: Vec<_> = census.handlers.iter().filter(|handler| handler.owed > 0).collect();
    let mut table = String::new();
    if owed.is_empty() {
        return Ok(table);
    }
    let limit = if census.is_complete {
        String::new()
    } else {
        format!(", at least: of the first {} that name one", figure::events(census.events))
    };
    writeln!(table, "events that wait for a handler{limit}")?;
    let width = owed.iter().map(|handler| figure::plain(&handler.id).chars().count()).max().unwrap_or(0);
    for handler in owed {
        let oldest = handler.oldest.map_or_else(|| "–".to_owned(), figure::time);
        let unknown = match handler.unknown {
            0 => String::new(),
            unknown => format!("; {} of them unknown, see `pillarbox handlers`", figure::count(unknown)),
        };
        let (id, owed) = (figure::plain(&handler.id), figure::count(handler.owed));
        writeln!(table, "  {id:<width$}  {owed:>9}   oldest {oldest}{unknown}")?;
    }
    writeln!(table)?;
    Ok(table)
}
