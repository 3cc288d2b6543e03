//! Traces on their way from the writer to the receiver, with a tracing of the test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pillarbox::store::Status;
use pillarbox::{
    BoxFuture, Delivery, Event, Failure, GLOBAL, Handlers, Headers, ListenerError, Run, Sink, TraceContext,
    Tracing, after, before,
};
use tracing::subscriber::DefaultGuard;
use tracing::{Level, Span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;

use crate::handling::{self, OrderPlaced};
use crate::logs::Logs;
use crate::stage::{Notes, SECOND, Stage, orders, placed, placing, write, write_all};

/// The name of a span, and what makes it this one.
type Seen = (&'static str, Option<tracing::Id>);

/// The span that the current task is in.
fn current() -> Seen {
    seen(&Span::current())
}

fn seen(span: &Span) -> Seen {
    (span.metadata().map_or("none", |metadata| metadata.name()), span.id())
}

/// Numbers its captures, and notes which spans were to be children of what.
#[derive(Clone)]
struct Numbering {
    captures: Arc<AtomicU32>,
    adopted: Notes<(Seen, String)>,
}

impl Numbering {
    fn new() -> Self {
        Self { captures: Arc::default(), adopted: Notes::new() }
    }

    fn adopted(&self) -> Vec<(&'static str, String)> {
        self.adopted.all().into_iter().map(|((name, _), parent)| (name, parent)).collect()
    }

    fn spans(&self) -> Vec<Seen> {
        self.adopted.all().into_iter().map(|(seen, _)| seen).collect()
    }
}

impl Tracing for Numbering {
    fn capture(&self) -> Option<TraceContext> {
        let number = self.captures.fetch_add(1, Ordering::Relaxed) + 1;
        Some(TraceContext { traceparent: format!("writer-{number}"), tracestate: Some("shop=17".to_owned()) })
    }

    fn adopt(&self, span: &Span, parent: &TraceContext) {
        self.adopted.note((seen(span), parent.traceparent.clone()));
    }
}

/// A tracing that finds or adopts in a way of its own.
struct Other<C, A>(C, A);

impl<C, A> Tracing for Other<C, A>
where
    C: Fn() -> Option<TraceContext> + Send + Sync + 'static,
    A: Fn() + Send + Sync + 'static,
{
    fn capture(&self) -> Option<TraceContext> {
        (self.0)()
    }

    fn adopt(&self, _: &Span, _: &TraceContext) {
        (self.1)()
    }
}

/// Somebody who listens to spans, for as long as it lives.
fn listening() -> DefaultGuard {
    tracing::subscriber::set_default(tracing_subscriber::registry())
}

fn context(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
    Some(TraceContext { traceparent: traceparent.to_owned(), tracestate: tracestate.map(str::to_owned) })
}

async fn trace_of(stage: &Stage, id: &str) -> Option<TraceContext> {
    TraceContext::of(stage.row(id).await.event.unwrap().headers())
}

/// X2: where the writer is is captured once for a call, and stands in the headers of all its events.
#[tokio::test(start_paused = true)]
async fn writer_is_captured_once_for_a_call() {
    let stage = Stage::set();
    let outbox = stage.outbox().tracing(Numbering::new()).poller_only().start().unwrap();

    write_all(&outbox, &orders(2)).await;
    let mut tx = stage.store.open();
    let receipt = outbox.write_in(&mut tx, [placed("order-3")]).await.unwrap();
    tx.commit().unwrap();
    outbox.committed(receipt);

    for (order, writer) in [("order-1", "writer-1"), ("order-2", "writer-1"), ("order-3", "writer-2")] {
        assert_eq!(trace_of(&stage, order).await, context(writer, Some("shop=17")), "{order}");
    }
    assert_eq!(stage.row("order-1").await.event.unwrap().context().len(), 0, "it is no context");
}

/// X2: a writer who is in no trace leaves nothing behind, and so does an outbox without tracing.
#[tokio::test(start_paused = true)]
async fn writer_without_a_trace_leaves_nothing_behind() {
    let stage = Stage::set();
    let without = stage.outbox().tracing(Other(|| None, || ())).poller_only().start().unwrap();
    let untraced = stage.outbox().poller_only().start().unwrap();

    write(&without, placed("order-1")).await;
    write(&untraced, placed("order-2")).await;

    for order in ["order-1", "order-2"] {
        assert_eq!(stage.row(order).await.event.unwrap().headers(), &Headers::new());
    }
}

/// X2: an event that says something of a trace keeps it as it is: two traces are never mixed.
#[tokio::test(start_paused = true)]
async fn trace_given_by_hand_is_kept() {
    let stage = Stage::set();
    let outbox = stage.outbox().tracing(Numbering::new()).poller_only().start().unwrap();
    let provider = || Headers::from_iter([("traceparent", "provided")]);
    let provided = stage.outbox().tracing(Numbering::new()).context(provider).poller_only().start().unwrap();

    write(&outbox, placing("order-1").header("traceparent", "by hand")).await;
    write(&outbox, placing("order-2").trace_context(context("by hand", Some("its=own")))).await;
    write(&outbox, placing("order-3").context("traceparent", "by hand")).await;
    write(&outbox, placing("order-4").header("tracestate", "by=hand")).await;
    write(&outbox, placing("order-5").trace_context(None)).await;
    write(&provided, placed("order-6")).await;

    let event = async |order| stage.row(order).await.event.unwrap();
    assert_eq!(event("order-1").await.trace_context(), context("by hand", None));
    assert_eq!(event("order-2").await.trace_context(), context("by hand", Some("its=own")));
    assert_eq!(event("order-3").await.trace_context(), context("by hand", None));
    assert_eq!(event("order-3").await.headers().len(), 0);
    assert_eq!(event("order-4").await.trace_context(), None);
    assert_eq!(event("order-5").await.trace_context(), context("writer-5", Some("shop=17")));
    assert_eq!(event("order-6").await.trace_context(), context("provided", None));
}

/// X2, V6: a trace that exceeds the limits of headers stays out, first its state and then all of it, and no write fails.
#[tokio::test(start_paused = true)]
async fn trace_that_does_not_fit_fails_no_write() {
    let stage = Stage::set();
    let long = || context("writer", Some(&"x".repeat(4_097)));
    let outbox = stage.outbox().tracing(Other(long, || ())).poller_only().start().unwrap();
    let full = (0..64).fold(placing("order-2"), |event, number| event.header(format!("h{number}"), ""));

    write(&outbox, placed("order-1")).await;
    write(&outbox, full).await;

    assert_eq!(trace_of(&stage, "order-1").await, context("writer", None));
    assert_eq!(stage.row("order-2").await.event.unwrap().headers().len(), 64);
    assert_eq!(trace_of(&stage, "order-2").await, None);
}

/// X2: a listener runs in a span that is its writer's child, whichever way the event came and whoever wrote it.
#[tokio::test(start_paused = true)]
async fn listener_runs_in_a_span_of_its_own() {
    let (stage, tracing, spans, _guard) = (Stage::set(), Numbering::new(), Notes::<Seen>::new(), listening());
    let noted = spans.clone();
    let listener = move |_: Delivery| {
        let noted = noted.clone();
        async move {
            noted.note(current());
            tokio::task::yield_now().await;
            noted.note(current());
            Ok::<(), ListenerError>(())
        }
    };
    let by_hand = placing("order-2").context("traceparent", "another program").build().unwrap();
    stage.insert(vec![by_hand, placed("order-3")]).await;

    let outbox =
        stage.outbox().tracing(tracing.clone()).workers(1).on("OrderPlaced", listener).start().unwrap();
    stage.quiet().await;
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let parents =
        [("pillarbox.deliver", "another program".to_owned()), ("pillarbox.deliver", "writer-1".to_owned())];
    assert_eq!(tracing.adopted(), parents);
    let (spans, adopted) = (spans.all(), tracing.spans());
    assert_eq!(spans[..2], [adopted[0].clone(), adopted[0].clone()], "before and after an await");
    assert_eq!(spans[2].0, "pillarbox.deliver", "without a trace it has a span all the same");
    assert_eq!(spans[4..], [adopted[1].clone(), adopted[1].clone()]);
    assert_eq!(outbox.counts().done, 3);
}

/// X2: each attempt has its own span under the same writer, handlers each for themselves, and fallbacks too.
#[tokio::test(start_paused = true)]
async fn handlers_and_fallbacks_run_in_spans_of_their_own() {
    let (stage, tracing, spans, _guard) = (Stage::set(), Numbering::new(), Notes::<Seen>::new(), listening());
    let note = |answer: fn(&Delivery) -> Result<(), ListenerError>| {
        let noted = spans.clone();
        move |delivery: Delivery| {
            noted.note(current());
            std::future::ready(answer(&delivery))
        }
    };
    let noted = spans.clone();
    let handlers = Handlers::new()
        .on_any("audit", note(|_| Ok(())))
        .on_any(
            "mail",
            note(|delivery| match delivery.attempt() {
                1 => Err(ListenerError::new("no answer")),
                _ => Err(ListenerError::permanent("no such address")),
            }),
        )
        .fallback(move |_: OrderPlaced, _: Failure| {
            noted.note(current());
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = stage.outbox().tracing(tracing.clone()).handlers(handlers).start().unwrap();

    write(&outbox, handling::placed("order-1")).await;
    stage.pass(SECOND).await;

    let names = ["pillarbox.deliver", "pillarbox.deliver", "pillarbox.deliver", "pillarbox.fallback"];
    assert_eq!(tracing.adopted(), names.map(|name| (name, "writer-1".to_owned())));
    assert_eq!(spans.all(), tracing.spans());
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// Answers all, and notes the span that it runs in.
struct Noting(Notes<Seen>);

impl Sink for Noting {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        self.0.note(current());
        Box::pin(async move {
            self.0.note(current());
            run.answer_rest(&Ok(()));
        })
    }
}

/// X2: each event of a run has a span of its writer's trace; the sink runs in one for the run, or for an event alone in
/// that of the event.
#[tokio::test(start_paused = true)]
async fn sink_runs_in_a_span_for_the_run() {
    let (stage, tracing, spans, _guard) = (Stage::set(), Numbering::new(), Notes::<Seen>::new(), listening());
    let from = |order: &str, writer: &str| placing(order).header("traceparent", writer).build().unwrap();
    stage.insert(vec![from("order-1", "one"), from("order-2", "two")]).await;

    let sink = Noting(spans.clone());
    let outbox =
        stage.outbox().tracing(tracing.clone()).on_sink(GLOBAL, "OrderPlaced", sink).start().unwrap();
    stage.quiet().await;
    write(&outbox, placed("order-3")).await;
    stage.quiet().await;

    let parents = ["one", "two", "writer-1"].map(|parent| ("pillarbox.publish", parent.to_owned()));
    assert_eq!(tracing.adopted(), parents);
    let spans = spans.all();
    assert_eq!((spans[0].0, &spans[0]), ("pillarbox.run", &spans[1]));
    assert_eq!(spans[2..], [tracing.spans()[2].clone(), tracing.spans()[2].clone()]);
}

/// X2: a tracing that panics fails neither a transaction nor a delivery.
#[tokio::test(start_paused = true)]
async fn panicking_tracing_fails_nothing() {
    let (stage, logs, spans) = (Stage::set(), Logs::collect(), Notes::<Seen>::new());
    let noted = spans.clone();
    let outbox = stage
        .outbox()
        .tracing(Other(|| panic!("no tracer"), || panic!("no layer")))
        .on("OrderPlaced", move |_: Delivery| {
            noted.note(current());
            std::future::ready(Ok::<(), ListenerError>(()))
        })
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    write(&outbox, placing("order-2").header("traceparent", "by hand")).await;
    stage.quiet().await;

    assert_eq!(outbox.counts().done, 2);
    assert_eq!(spans.all().iter().map(|seen| seen.0).collect::<Vec<_>>(), ["pillarbox.deliver"; 2]);
    let lines = logs.at(Level::ERROR);
    assert!(lines.iter().any(|line| line.contains("capturing a trace panicked")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("adopting a trace panicked")), "{lines:?}");
}

/// X2: without tracing no delivery has a span, whoever listens; with it, none that nobody listens to is adopted.
#[tokio::test(start_paused = true)]
async fn there_are_no_spans_unless_asked_for() {
    let (stage, tracing, spans) = (Stage::set(), Numbering::new(), Notes::<Seen>::new());
    let listener = |spans: &Notes<Seen>| {
        let noted = spans.clone();
        move |_: Delivery| {
            noted.note(current());
            std::future::ready(Ok::<(), ListenerError>(()))
        }
    };

    {
        let _guard = listening();
        let untraced = stage.outbox().on("OrderPlaced", listener(&spans)).start().unwrap();
        write(&untraced, placing("order-1").header("traceparent", "by hand")).await;
        stage.quiet().await;
        untraced.close().await;
    }
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(LevelFilter::OFF));
    let traced = stage.outbox().tracing(tracing.clone()).on("OrderPlaced", listener(&spans)).start().unwrap();
    write(&traced, placed("order-2")).await;
    stage.quiet().await;

    assert_eq!(spans.all(), [("none", None), ("none", None)]);
    assert_eq!(tracing.adopted(), []);
    assert_eq!(trace_of(&stage, "order-2").await, context("writer-1", Some("shop=17")));
}

/// X2, D6: interceptors run outside of the span, which is the listener's.
#[tokio::test(start_paused = true)]
async fn interceptors_run_outside_of_the_span() {
    let (stage, spans, _guard) = (Stage::set(), Notes::<Seen>::new(), listening());
    let (first, last) = (spans.clone(), spans.clone());
    let outbox = stage
        .outbox()
        .tracing(Numbering::new())
        .interceptor(before(move |_| {
            let first = first.clone();
            async move {
                first.note(current());
                Ok(())
            }
        }))
        .interceptor(after(move |_, _| {
            let last = last.clone();
            async move {
                last.note(current());
                Ok(())
            }
        }))
        .on("OrderPlaced", |_: Delivery| std::future::ready(Ok::<(), ListenerError>(())))
        .start()
        .unwrap();

    write(&outbox, Event::of_json("OrderPlaced", "{}").unwrap()).await;
    stage.quiet().await;

    assert_eq!(spans.all(), [("none", None), ("none", None)]);
}
