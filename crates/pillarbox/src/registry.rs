//! Which listener or sink gets an event.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::destination::{Destinations, SinkSet};
use crate::handler::HandlerSet;
use crate::listener::SharedListener;
use crate::{AggregateType, Delivery, Event, EventType, GLOBAL, Listener, ListenerError, Sink};

/// Finds the receiver of an event.
///
/// # Contract
/// The same event finds the same receiver as long as the registry lives. No receiver means that the event
/// is unroutable.
pub trait Registry: Send + Sync + 'static {
    /// The receiver of `event`, if there is one.
    fn route(&self, event: &Event) -> Option<Target>;
}

/// A receiver: a listener, or a sink.
#[derive(Clone)]
pub struct Target(pub(crate) Receiver);

#[derive(Clone)]
pub(crate) enum Receiver {
    Listener(SharedListener),
    Handlers(Arc<HandlerSet>),
    Sinks(Arc<SinkSet>),
    /// Nobody for now: the route of this name is paused, and its events are looked at again after this time.
    Paused(Arc<str>, Duration),
}

impl Target {
    /// A listener, which gets events one at a time.
    pub fn listener(listener: impl Listener) -> Self {
        Self(Receiver::Listener(Arc::new(listener)))
    }

    /// A sink, which gets events in runs. Clone the target to route several types to one sink.
    pub fn sink(sink: impl Sink) -> Self {
        Self(Receiver::Sinks(Arc::new(SinkSet::of(Box::new(sink)))))
    }

    pub(crate) fn goes_to(&self, other: &Arc<SinkSet>) -> bool {
        matches!(&self.0, Receiver::Sinks(set) if Arc::ptr_eq(set, other))
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Receiver::Listener(_) => "Target::Listener",
            Receiver::Handlers(_) => "Target::Handlers",
            Receiver::Sinks(_) => "Target::Sink",
            Receiver::Paused(..) => "Target::Paused",
        })
    }
}

/// A second receiver for the same aggregate type and event type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a listener for aggregate type `{aggregate_type}` and event type `{event_type}` is registered already; \
     use `Handlers` or `FanOut` for several listeners of one event"
)]
pub struct AlreadyRegistered {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
}

/// The strict registry: exactly one receiver per aggregate type and event type.
///
/// The match is exact: [`GLOBAL`] is the aggregate type of events that name none, and no wildcard.
#[derive(Clone, Debug, Default)]
pub struct Listeners {
    targets: HashMap<String, HashMap<String, Target>>,
}

impl Listeners {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// All destinations, if there is nothing but sinks; otherwise none.
    pub(crate) fn destinations(&self) -> Destinations {
        let legs = |target: &Target| match &target.0 {
            Receiver::Sinks(set) => {
                Some(set.legs.iter().map(|leg| leg.destination.clone()).collect::<Vec<_>>())
            }
            Receiver::Listener(_) | Receiver::Handlers(_) | Receiver::Paused(..) => None,
        };
        let all: Option<Vec<_>> = self.targets.values().flat_map(HashMap::values).map(legs).collect();
        Destinations(all.unwrap_or_default().into_iter().flatten().collect())
    }

    /// Registers a receiver for events of `event_type` that name no aggregate type.
    pub fn register(&mut self, event_type: impl EventType, target: Target) -> Result<(), AlreadyRegistered> {
        self.register_for(GLOBAL, event_type, target)
    }

    /// Registers a receiver for events of `aggregate_type` and `event_type`.
    pub fn register_for(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        target: Target,
    ) -> Result<(), AlreadyRegistered> {
        let (aggregate_type, event_type) = (aggregate_type.name(), event_type.name());
        let of_aggregate = self.targets.entry(aggregate_type.to_owned()).or_default();
        if of_aggregate.contains_key(event_type) {
            return Err(AlreadyRegistered {
                aggregate_type: aggregate_type.to_owned(),
                event_type: event_type.to_owned(),
            });
        }
        of_aggregate.insert(event_type.to_owned(), target);
        Ok(())
    }
}

impl Registry for Listeners {
    fn route(&self, event: &Event) -> Option<Target> {
        self.targets.get(event.aggregate_type())?.get(event.event_type()).cloned()
    }
}

/// The fan-out registry: all listeners of an event type in the order of registration, then those of any type.
///
/// They run one after the other. The first failure fails the event, and on the next attempt all of them run
/// again.
#[derive(Clone, Default)]
pub struct FanOut {
    by_type: HashMap<String, Vec<SharedListener>>,
    any: Vec<SharedListener>,
}

impl FanOut {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a listener for events of `event_type`, whatever their aggregate type.
    #[must_use]
    pub fn on(mut self, event_type: impl EventType, listener: impl Listener) -> Self {
        self.by_type.entry(event_type.name().to_owned()).or_default().push(Arc::new(listener));
        self
    }

    /// Adds a listener for all events.
    #[must_use]
    pub fn on_any(mut self, listener: impl Listener) -> Self {
        self.any.push(Arc::new(listener));
        self
    }
}

impl Registry for FanOut {
    fn route(&self, event: &Event) -> Option<Target> {
        let of_type = self.by_type.get(event.event_type()).map_or(&[][..], Vec::as_slice);
        let all: Vec<_> = of_type.iter().chain(&self.any).cloned().collect();
        (!all.is_empty()).then(|| Target::listener(InTurn(all)))
    }
}

impl std::fmt::Debug for FanOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FanOut").finish_non_exhaustive()
    }
}

/// Several listeners, one after the other.
struct InTurn(Vec<SharedListener>);

impl Listener for InTurn {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        for listener in &self.0 {
            listener.on_event_boxed(delivery.clone()).await?;
        }
        Ok(())
    }
}
