//! Where the tests play: a memory store in paused time, and a tracer whose spans are kept.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::trace::{SpanId, TraceId, TracerProvider};
use opentelemetry_sdk::trace::{InMemorySpanExporter, Sampler, SdkTracerProvider, SpanData};
use pillarbox::store::{Administration, TxStore};
use pillarbox::{Event, EventBuilder, IntoEvent, MemoryStore, Outbox, OutboxBuilder, Runtime};
use pillarbox_opentelemetry::OpenTelemetry;
use pillarbox_testkit::paused;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// A `traceparent` from elsewhere.
pub(crate) const ELSEWHERE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// Its trace.
pub(crate) const TRACE: TraceId =
    TraceId::from_bytes(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
/// Its span.
pub(crate) const SPAN: SpanId = SpanId::from_bytes(0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());

/// A store, a tracer, and the lines that are logged, all for the current thread.
pub(crate) struct Stage {
    pub(crate) store: MemoryStore,
    runtime: Runtime,
    exporter: InMemorySpanExporter,
    lines: Notes<(Level, String)>,
    _provider: SdkTracerProvider,
    _guard: DefaultGuard,
}

impl Stage {
    pub(crate) fn set() -> Self {
        Self::sampling(Sampler::AlwaysOn)
    }

    /// A stage on which traces that begin here are sampled as `roots` says, and others as they were before.
    pub(crate) fn sampling(roots: Sampler) -> Self {
        Self::with(roots, "trace")
    }

    /// A stage on which only those spans and lines are seen that `filter` lets through.
    pub(crate) fn filtering(filter: &str) -> Self {
        Self::with(Sampler::AlwaysOn, filter)
    }

    fn with(roots: Sampler, filter: &str) -> Self {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(exporter.clone())
            .with_sampler(Sampler::ParentBased(Box::new(roots)))
            .build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        let lines = Notes::new();
        let subscriber = tracing_subscriber::registry()
            .with(EnvFilter::new(filter))
            .with(layer)
            .with(Lines(lines.clone()));
        let runtime = paused::runtime(17);
        Self {
            store: MemoryStore::with_clock(runtime.clock.clone()),
            runtime,
            exporter,
            lines,
            _provider: provider,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// An outbox on this stage that carries traces.
    pub(crate) fn outbox(&self) -> OutboxBuilder<MemoryStore> {
        Outbox::builder(self.store.clone()).runtime(self.runtime.clone()).tracing(OpenTelemetry::new())
    }

    /// Lets time pass; all that is due meanwhile happens.
    pub(crate) async fn pass(&self, time: Duration) {
        self.runtime.clock.sleep(time).await;
    }

    /// Lets everything happen that does not wait for a timer of its own.
    pub(crate) async fn quiet(&self) {
        self.pass(Duration::from_millis(100)).await;
    }

    /// Commits events past every outbox, as a program with plain SQL would.
    pub(crate) async fn insert(&self, events: Vec<Event>) {
        let mut tx = self.store.open();
        self.store.insert(tx.connection(), &events, None).await.unwrap();
        tx.commit().unwrap();
    }

    /// The event as it stands in the table.
    pub(crate) async fn stored(&self, event_id: &str) -> Event {
        self.store.find(event_id).await.unwrap().expect("the row exists").event.unwrap()
    }

    /// The spans of this name that have ended, in the order of their ends.
    pub(crate) fn spans(&self, name: &str) -> Vec<SpanData> {
        let spans = self.exporter.get_finished_spans().unwrap();
        spans.into_iter().filter(|span| span.name == name).collect()
    }

    /// The only span of this name.
    pub(crate) fn span(&self, name: &str) -> SpanData {
        let mut spans = self.spans(name);
        assert_eq!(spans.len(), 1, "one span is called `{name}`");
        spans.remove(0)
    }

    /// The lines that this crate logged at DEBUG.
    pub(crate) fn debug_lines(&self) -> Vec<String> {
        self.lines
            .all()
            .into_iter()
            .filter(|(level, _)| *level == Level::DEBUG)
            .map(|(_, line)| line)
            .collect()
    }
}

/// What a span says of itself under this name.
pub(crate) fn attribute(span: &SpanData, name: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key.as_str() == name).map(|pair| pair.value.to_string())
}

/// A trace, and a span in it.
pub(crate) fn place(span: &SpanData) -> (TraceId, SpanId) {
    (span.span_context.trace_id(), span.span_context.span_id())
}

/// Which trace a span belongs to, and which span it is a child of.
pub(crate) fn parent(span: &SpanData) -> (TraceId, SpanId) {
    (span.span_context.trace_id(), span.parent_span_id)
}

/// `OrderPlaced`, with the order as event id.
pub(crate) fn placed(order: &str) -> EventBuilder {
    Event::builder("OrderPlaced").id(order).json_text("{}")
}

/// Writes one event in a transaction of its own.
pub(crate) async fn write(outbox: &Outbox<MemoryStore>, event: impl IntoEvent) {
    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
}

/// A list that listeners write down what they see in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn note(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// Notes what this crate logs.
struct Lines(Notes<(Level, String)>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("pillarbox_opentelemetry") {
            let mut line = Line(String::new());
            event.record(&mut line);
            self.0.note((*event.metadata().level(), line.0));
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
