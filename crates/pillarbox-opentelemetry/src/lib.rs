//! One [OpenTelemetry](opentelemetry) trace from the request that writes an event to whoever gets it.
//!
//! ```
//! use pillarbox::{Delivery, ListenerError, MemoryStore, Outbox};
//! use pillarbox_opentelemetry::OpenTelemetry;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = Outbox::builder(MemoryStore::new())
//!     .tracing(OpenTelemetry::new())
//!     .on("OrderPlaced", |order: Delivery| async move {
//!         tracing::info!(order = order.id(), "in the trace of whoever placed it");
//!         Ok::<(), ListenerError>(())
//!     })
//!     .start()?;
//! # outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`OpenTelemetry`] is all there is. Which spans there are, and what is in them, stands at [`Tracing`].
//!
//! Where spans go is your program's to say, by a [`tracing_opentelemetry::layer`] with a tracer of its own; this crate sets
//! up none, and asks for no SDK. The layer's version is the one that this crate is built with, 0.34, on `opentelemetry`
//! 0.33: spans of another version are not seen.

mod w3c;

use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use pillarbox::{TraceContext, Tracing};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Carries the traces of OpenTelemetry through an outbox, in the form of
/// [W3C Trace Context](https://www.w3.org/TR/trace-context/).
///
/// - **Captured** is the current `tracing` span; where that belongs to no trace, for instance because nothing exports it,
///   the span that is current for OpenTelemetry itself. If neither is there, nothing is. Of a trace that is not sampled
///   it is captured that it is not.
/// - **Adopted** is what the event's headers say or, if they say nothing, its context. A `traceparent` that is malformed is
///   ignored, with a line at DEBUG, and the span begins a trace of its own; of a `tracestate` that is malformed only the
///   `tracestate` is lost.
///
/// Baggage is not carried: it is the application's, and for that there is
/// [`context`](pillarbox::OutboxBuilder::context).
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenTelemetry(());

impl OpenTelemetry {
    /// There is nothing to be set.
    pub fn new() -> Self {
        Self(())
    }
}

impl Tracing for OpenTelemetry {
    fn capture(&self) -> Option<TraceContext> {
        let of_span = Span::current().context();
        w3c::written(of_span.span().span_context())
            .or_else(|| Context::map_current(|current| w3c::written(current.span().span_context())))
    }

    fn adopt(&self, span: &Span, parent: &TraceContext) {
        let Some(remote) = w3c::read(parent) else {
            let traceparent = parent.traceparent.as_str();
            tracing::debug!(traceparent, "ignored: this is no `traceparent`");
            return;
        };
        if let Err(error) = span.set_parent(Context::new().with_remote_span_context(remote)) {
            tracing::debug!(%error, "the delivery is not part of its writer's trace");
        }
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/tracing.md")]
struct Guide;
