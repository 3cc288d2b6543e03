//! The trace of whoever writes an event, on its way to whoever gets it.

use std::fmt::Display;
use std::sync::Arc;

use tracing::Span;
use tracing::field::Empty;

use crate::dispatcher::{caught, quietly, shown};
use crate::{Delivery, Event, Headers};

/// A place in a trace, in the form of [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// It travels with an event as the headers `traceparent` and `tracestate`, and so to brokers as well. What stands in them
/// is not looked at here: a value that makes no sense is left to those who read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Trace, span and whether it is sampled, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    pub traceparent: String,
    /// What tracing systems keep along the way, if they do.
    pub tracestate: Option<String>,
}

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

impl TraceContext {
    /// What `headers` say of a trace; `None` without a `traceparent`.
    pub fn of(headers: &Headers) -> Option<Self> {
        let traceparent = headers.get(TRACEPARENT)?.to_owned();
        Some(Self { traceparent, tracestate: headers.get(TRACESTATE).map(str::to_owned) })
    }

    /// Sets both headers; the one for `tracestate` only if there is one.
    pub(crate) fn write_to(&self, headers: &mut Headers) {
        headers.insert(TRACEPARENT, &self.traceparent);
        if let Some(tracestate) = &self.tracestate {
            headers.insert(TRACESTATE, tracestate);
        }
    }

    /// Whether these headers say anything of a trace.
    pub(crate) fn is_in(headers: &Headers) -> bool {
        headers.get(TRACEPARENT).or(headers.get(TRACESTATE)).is_some()
    }
}

/// Carries traces through the outbox: from the span in which an event is written to the span of its delivery.
///
/// `pillarbox-opentelemetry` has one. Once an outbox [has one](crate::OutboxBuilder::tracing), each run of a listener, a
/// handler, a fallback or a sink has a span, of the target `pillarbox::delivery` and the level INFO:
///
/// | span | around | fields |
/// |---|---|---|
/// | `pillarbox.deliver` | a listener, or a handler | `event_id`, `event_type`, `attempt`, `handler_id`; `error` if it failed |
/// | `pillarbox.fallback` | a fallback | the same |
/// | `pillarbox.publish` | an event on its way to a sink, until it is answered | the same, without `handler_id` |
/// | `pillarbox.run` | a sink with more than one event; it belongs to none of their traces | `events` |
///
/// Beside these there are `otel.kind` and `otel.status_code`, in the form that `tracing-opentelemetry` reads.
/// Interceptors run outside of them.
///
/// # Contract
/// - [`capture`](Self::capture) is asked once for every call that writes, on the writer's task, and must be quick.
/// - [`adopt`](Self::adopt) is asked once for each span of an event that names a trace, before anything runs in it, and
///   must be quick too. A span that nobody [listens to](Span::is_disabled) is not shown to it.
/// - What was stored may be anything, for anybody may have written it: what makes no sense is ignored.
/// - A panic in it is logged, and is as if it had done nothing: it fails no transaction and no delivery.
pub trait Tracing: Send + Sync + 'static {
    /// Where in a trace the current task is; `None` if it is in none.
    fn capture(&self) -> Option<TraceContext>;

    /// Makes `span` a child of what was captured when the event was written.
    fn adopt(&self, span: &Span, parent: &TraceContext);
}

/// How an outbox carries traces, if it does.
#[derive(Clone, Default)]
pub(crate) struct Traces(Option<Arc<dyn Tracing>>);

/// A span of one event, outside of whatever the worker is in.
macro_rules! span_of {
    ($name:literal, $kind:literal, $delivery:expr) => {
        tracing::info_span!(
            target: "pillarbox::delivery",
            parent: None,
            $name,
            event_id = $delivery.id(),
            event_type = $delivery.event_type(),
            attempt = $delivery.attempt(),
            handler_id = $delivery.handler_id(),
            error = Empty,
            otel.kind = $kind,
            otel.status_code = Empty,
        )
    };
}

impl Traces {
    pub(crate) fn by(tracing: impl Tracing) -> Self {
        Self(Some(Arc::new(tracing)))
    }

    /// Adds where the writer is to all of these events, but to those that name a trace.
    pub(crate) fn capture(&self, events: &mut [Event]) {
        let Some(tracing) = self.0.as_ref().filter(|_| !events.is_empty()) else { return };
        match caught(|| tracing.capture()) {
            Ok(Some(trace)) => events.iter_mut().for_each(|event| event.add_trace(&trace)),
            Ok(None) => {}
            Err(panic) => tracing::error!(panic, "capturing a trace panicked; the events belong to none"),
        }
    }

    /// The span of a listener, or of a handler.
    pub(crate) fn deliver(&self, delivery: &Delivery) -> Span {
        self.adopted(delivery, || span_of!("pillarbox.deliver", "consumer", delivery))
    }

    /// The span of a fallback.
    pub(crate) fn fall_back(&self, delivery: &Delivery) -> Span {
        self.adopted(delivery, || span_of!("pillarbox.fallback", "consumer", delivery))
    }

    /// The span that is current in a sink, and one for each event that it gets, in their order; none if traces are not
    /// carried.
    pub(crate) fn run<'a>(
        &self,
        deliveries: impl ExactSizeIterator<Item = &'a Delivery>,
    ) -> (Span, Vec<Span>) {
        let events = deliveries.len();
        if self.0.is_none() || events == 0 {
            return (Span::none(), Vec::new());
        }
        // The broker's message names the writer, not this span: for that a client is the kind.
        let publish = |delivery| self.adopted(delivery, || span_of!("pillarbox.publish", "client", delivery));
        let spans: Vec<Span> = deliveries.map(publish).collect();
        if let [alone] = &spans[..] {
            return (alone.clone(), spans);
        }
        let run = tracing::info_span!(target: "pillarbox::delivery", parent: None, "pillarbox.run", events);
        // Not the other way round: a span has only so many links.
        for span in &spans {
            span.follows_from(&run);
        }
        (run, spans)
    }

    fn adopted(&self, delivery: &Delivery, span: impl FnOnce() -> Span) -> Span {
        let Some(tracing) = &self.0 else { return Span::none() };
        let span = span();
        if span.is_disabled() {
            return span;
        }
        if let Some(parent) = delivery.trace_context() {
            quietly("adopting a trace", || tracing.adopt(&span, &parent));
        }
        span
    }
}

/// Notes in a span why its run failed.
pub(crate) fn failed(span: &Span, error: &dyn Display) {
    if !span.is_disabled() {
        span.record("error", shown(error)).record("otel.status_code", "ERROR");
    }
}

/// Why a span ended without an answer.
pub(crate) const CUT_OFF: &str = "cut off by the shutdown, or by the end of the lease";
