//! What is made of what stands in the table, whoever wrote it.

use opentelemetry::trace::{SpanId, TraceContextExt};
use pillarbox::{Delivery, ListenerError};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::stage::{ELSEWHERE, Notes, SPAN, Stage, TRACE, parent, placed, write};

/// X2: a row of another program is restored, whether its trace stands in the headers or in the context; headers win.
#[tokio::test(start_paused = true)]
async fn row_of_another_program_is_restored() {
    let stage = Stage::set();
    let other = ELSEWHERE.replace("4bf92f", "5bf92f");
    stage
        .insert(vec![
            placed("order-1").header("traceparent", ELSEWHERE).build().unwrap(),
            placed("order-2").context("traceparent", ELSEWHERE).build().unwrap(),
            placed("order-3").header("traceparent", ELSEWHERE).context("traceparent", other).build().unwrap(),
        ])
        .await;

    let listener = |_: Delivery| async { Ok::<(), ListenerError>(()) };
    let _outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    stage.quiet().await;

    let parents: Vec<_> = stage.spans("pillarbox.deliver").iter().map(parent).collect();
    assert_eq!(parents, [(TRACE, SPAN); 3]);
}

/// X2: a trace that is not sampled stays so, and its listener is in it all the same.
#[tokio::test(start_paused = true)]
async fn unsampled_trace_stays_unsampled() {
    let (stage, seen) = (Stage::set(), Notes::new());
    let noted = seen.clone();
    let listener = move |_: Delivery| {
        let noted = noted.clone();
        async move {
            let context = Span::current().context();
            let place = context.span().span_context().clone();
            noted.note((place.trace_id(), place.is_sampled()));
            Ok::<(), ListenerError>(())
        }
    };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1").header("traceparent", ELSEWHERE.replace("-01", "-00"))).await;
    stage.quiet().await;

    assert_eq!(seen.all(), [(TRACE, false)]);
    assert_eq!(stage.spans("pillarbox.deliver"), []);
}

/// X2: what tracing systems keep along the way reaches the delivery.
#[tokio::test(start_paused = true)]
async fn tracestate_reaches_the_delivery() {
    let stage = Stage::set();
    let listener = |_: Delivery| async { Ok::<(), ListenerError>(()) };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let event = placed("order-1").header("traceparent", ELSEWHERE).header("tracestate", "rojo=1,congo=2");

    write(&outbox, event).await;
    stage.quiet().await;

    let state = stage.span("pillarbox.deliver").span_context.trace_state().header();
    assert_eq!(state, "rojo=1,congo=2");
}

/// X2: a malformed `traceparent` is ignored, with a line at DEBUG: the delivery begins a trace of its own.
#[tokio::test(start_paused = true)]
async fn malformed_traceparent_is_ignored() {
    let stage = Stage::set();
    let listener = |_: Delivery| async { Ok::<(), ListenerError>(()) };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1").header("traceparent", "order 17")).await;
    stage.quiet().await;

    assert_eq!(outbox.counts().done, 1);
    let deliver = stage.span("pillarbox.deliver");
    assert!(deliver.span_context.is_valid());
    assert_eq!(deliver.parent_span_id, SpanId::INVALID);
    assert_eq!(stage.debug_lines(), ["ignored: this is no `traceparent`"]);
}

/// X2: a malformed `tracestate` costs itself only.
#[tokio::test(start_paused = true)]
async fn malformed_tracestate_is_ignored() {
    let stage = Stage::set();
    let listener = |_: Delivery| async { Ok::<(), ListenerError>(()) };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let event = placed("order-1").header("traceparent", ELSEWHERE).header("tracestate", "no list");

    write(&outbox, event).await;
    stage.quiet().await;

    let deliver = stage.span("pillarbox.deliver");
    assert_eq!(parent(&deliver), (TRACE, SPAN));
    assert_eq!(deliver.span_context.trace_state().header(), "");
    assert_eq!(stage.debug_lines(), ["ignored: this is no `tracestate`"]);
}

/// X2: without the layer of `tracing-opentelemetry` everything is delivered as it is without tracing.
#[tokio::test(start_paused = true)]
async fn missing_layer_fails_nothing() {
    let stage = Stage::set();
    let _without_layer = tracing::subscriber::set_default(tracing_subscriber::registry());
    let listener = |_: Delivery| async { Ok::<(), ListenerError>(()) };
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();

    write(&outbox, placed("order-1").header("traceparent", ELSEWHERE)).await;
    stage.quiet().await;

    assert_eq!(outbox.counts().done, 1);
    assert_eq!(stage.spans("pillarbox.deliver"), []);
}
