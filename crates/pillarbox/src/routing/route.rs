//! A rule that sends events to sinks.

use std::sync::Arc;

use super::RoutingError;
use super::pattern::Pattern;
use crate::{Event, Template, TemplateError};

/// A rule that sends events to sinks: which events, and where to. Without conditions it takes all.
///
/// ```
/// use pillarbox::Route;
///
/// let route = Route::new("orders")
///     .event_type("Order*")
///     .header("region", "eu-*")
///     .to("audit")
///     .to_address("kafka", "shop.{aggregate_type}".parse()?);
/// # Ok::<(), pillarbox::TemplateError>(())
/// ```
///
/// Each condition may be given several times: one of its patterns must match. All conditions must hold. In a pattern `*`
/// stands for any characters; case matters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a route does nothing until it is part of a routing"]
pub struct Route {
    pub(super) name: Arc<str>,
    event_types: Vec<Pattern>,
    aggregate_types: Vec<Pattern>,
    tenants: Vec<Pattern>,
    headers: Vec<(String, Vec<Pattern>)>,
    pub(super) to: Vec<(String, Option<Arc<Template>>)>,
}

impl Route {
    /// A route of this name: 1 to 64 letters, digits, `.`, `_` and `-`. By it operators pause it.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into().into(),
            event_types: Vec::new(),
            aggregate_types: Vec::new(),
            tenants: Vec::new(),
            headers: Vec::new(),
            to: Vec::new(),
        }
    }

    /// Whether a route can have this name.
    pub fn check_name(name: &str) -> Result<(), RoutingError> {
        super::check_name(name)
    }

    /// Only events of this type.
    pub fn event_type(mut self, pattern: &str) -> Self {
        self.event_types.push(Pattern::new(pattern));
        self
    }

    /// Only events of this aggregate type. Those that name none have [`GLOBAL`](crate::GLOBAL).
    pub fn aggregate_type(mut self, pattern: &str) -> Self {
        self.aggregate_types.push(Pattern::new(pattern));
        self
    }

    /// Only events of this tenant; those without one match nothing, `*` included.
    pub fn tenant(mut self, pattern: &str) -> Self {
        self.tenants.push(Pattern::new(pattern));
        self
    }

    /// Only events with this header; `*` for any value.
    pub fn header(mut self, name: &str, pattern: &str) -> Self {
        let pattern = Pattern::new(pattern);
        match self.headers.iter_mut().find(|(known, _)| known == name) {
            Some((_, patterns)) => patterns.push(pattern),
            None => self.headers.push((name.to_owned(), vec![pattern])),
        }
        self
    }

    /// Sends them to the sink of this name, at the sink's own address.
    pub fn to(mut self, sink: impl Into<String>) -> Self {
        self.to.push((sink.into(), None));
        self
    }

    /// Sends them to the sink of this name, at this address: a topic, a subject, a routing key, a stream, a path.
    pub fn to_address(mut self, sink: impl Into<String>, address: Template) -> Self {
        self.to.push((sink.into(), Some(Arc::new(address))));
        self
    }

    /// The same, where the address is given as text.
    pub fn to_at(self, sink: impl Into<String>, address: &str) -> Result<Self, TemplateError> {
        Ok(self.to_address(sink, address.parse()?))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it takes this event.
    pub fn takes(&self, event: &Event) -> bool {
        let any = |patterns: &[Pattern], name: Option<&str>| {
            patterns.is_empty()
                || name.is_some_and(|name| patterns.iter().any(|pattern| pattern.matches(name)))
        };
        any(&self.event_types, Some(event.event_type()))
            && any(&self.aggregate_types, Some(event.aggregate_type()))
            && any(&self.tenants, event.tenant_id())
            && self.headers.iter().all(|(name, patterns)| any(patterns, event.headers().get(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_placed() -> Event {
        let event = Event::builder("OrderPlaced").aggregate("Order", "17").tenant("acme");
        event.header("region", "eu-west").json_text("{}").build().unwrap()
    }

    /// K1: all conditions must hold, and of each one of its patterns.
    #[test]
    fn all_conditions_must_hold() {
        let event = order_placed();

        assert!(Route::new("all").takes(&event));
        assert!(Route::new("one").event_type("Invoice*").event_type("Order*").takes(&event));
        assert!(!Route::new("two").event_type("Order*").aggregate_type("Invoice").takes(&event));
        assert!(
            Route::new("three")
                .tenant("acme")
                .header("region", "us-*")
                .header("region", "eu-*")
                .takes(&event)
        );
        assert!(!Route::new("four").header("region", "eu-*").header("shard", "*").takes(&event));
    }

    /// K1: what an event does not have matches no pattern.
    #[test]
    fn absent_values_match_nothing() {
        let event = Event::of_json("Ping", "{}").unwrap();

        assert!(!Route::new("tenants").tenant("*").takes(&event));
        assert!(Route::new("global").aggregate_type(crate::GLOBAL).takes(&event));
    }
}
