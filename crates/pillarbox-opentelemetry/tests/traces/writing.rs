//! What is captured when an event is written.

use std::str::FromStr;

use opentelemetry::trace::{SpanContext, TraceContextExt, TraceFlags, TraceState, Tracer, TracerProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use pillarbox::TraceContext;
use tracing::{Instrument, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::stage::{ELSEWHERE, SPAN, Stage, TRACE, placed, write};

/// X2: all events of a call name the span in which they were written, as headers and not as context.
#[tokio::test(start_paused = true)]
async fn current_span_is_captured() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();

    let writing = async {
        let mut tx = outbox.begin().await.unwrap();
        outbox.write_all(&mut tx, [placed("order-1"), placed("order-2")]).await.unwrap();
        tx.commit().await.unwrap();
    };
    writing.instrument(info_span!("request")).await;

    let request = stage.span("request").span_context;
    let traceparent = format!("00-{}-{}-01", request.trace_id(), request.span_id());
    for order in ["order-1", "order-2"] {
        let event = stage.stored(order).await;
        assert_eq!(event.headers().iter().collect::<Vec<_>>(), [("traceparent", traceparent.as_str())]);
        assert_eq!(event.context().len(), 0);
    }
}

/// X2: of nested spans the innermost is the writer.
#[tokio::test(start_paused = true)]
async fn innermost_span_is_captured() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();

    let saving = async { write(&outbox, placed("order-1")).instrument(info_span!("save")).await };
    saving.instrument(info_span!("request")).await;

    let stored = stage.stored("order-1").await.trace_context().unwrap();
    assert!(
        stored.traceparent.contains(&stage.span("save").span_context.span_id().to_string()),
        "{stored:?}"
    );
}

/// X2: outside of a span, or in one that nobody exports, nothing is stored.
#[tokio::test(start_paused = true)]
async fn without_a_span_nothing_is_stored() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();

    write(&outbox, placed("order-1")).await;
    {
        let _without_layer = tracing::subscriber::set_default(tracing_subscriber::registry());
        write(&outbox, placed("order-2")).instrument(info_span!("request")).await;
    }

    for order in ["order-1", "order-2"] {
        assert!(stage.stored(order).await.headers().is_empty(), "{order}");
    }
}

/// X2: that a trace is not sampled is captured, too.
#[tokio::test(start_paused = true)]
async fn unsampled_flag_is_captured() {
    let stage = Stage::sampling(Sampler::AlwaysOff);
    let outbox = stage.outbox().writer_only().start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;

    let stored = stage.stored("order-1").await.trace_context().unwrap();
    assert!(stored.traceparent.ends_with("-00"), "{stored:?}");
}

/// X2: what tracing systems keep along the way is captured.
#[tokio::test(start_paused = true)]
async fn tracestate_is_captured() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let state = TraceState::from_str("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE").unwrap();
    let caller = SpanContext::new(TRACE, SPAN, TraceFlags::SAMPLED, true, state);
    let request = info_span!("request");
    request.set_parent(opentelemetry::Context::new().with_remote_span_context(caller)).unwrap();

    write(&outbox, placed("order-1")).instrument(request).await;

    let stored = stage.stored("order-1").await.trace_context().unwrap();
    assert_eq!(stored.tracestate.as_deref(), Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
    assert!(stored.traceparent.contains(&TRACE.to_string()), "{stored:?}");
}

/// X2: a trace given by hand is kept, and gets nothing of the current one.
#[tokio::test(start_paused = true)]
async fn trace_given_by_hand_is_kept() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let by_hand = placed("order-1").header("traceparent", ELSEWHERE);

    write(&outbox, by_hand).instrument(info_span!("request")).await;

    let kept = TraceContext { traceparent: ELSEWHERE.to_owned(), tracestate: None };
    assert_eq!(stage.stored("order-1").await.trace_context(), Some(kept));
}

/// X2: a program that uses OpenTelemetry without `tracing` is in a trace as well.
#[tokio::test(start_paused = true)]
async fn span_of_opentelemetry_itself_is_captured() {
    let stage = Stage::set();
    let outbox = stage.outbox().writer_only().start().unwrap();
    let provider = SdkTracerProvider::builder().build();
    let span = provider.tracer("by hand").start("request");
    let context = opentelemetry::Context::new().with_span(span);
    let span_id = context.span().span_context().span_id();

    {
        // The runtime has one thread, so that it stays attached.
        let _attached = context.attach();
        write(&outbox, placed("order-1")).await;
    }

    let stored = stage.stored("order-1").await.trace_context().unwrap();
    assert!(stored.traceparent.contains(&span_id.to_string()), "{stored:?}");
}
