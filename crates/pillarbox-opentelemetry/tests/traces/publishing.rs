//! Runs of events to a sink.

use opentelemetry::trace::{SpanKind, Status};
use pillarbox::{BoxFuture, Event, GLOBAL, MemorySink, Run, Sink, SinkError};
use tracing::{Instrument, info_span};

use crate::stage::{Stage, attribute, parent, place, placed, write};

/// A sink with a span of its own, that rejects `order-2`.
struct Broker(MemorySink);

impl Broker {
    fn new() -> Self {
        Self(MemorySink::answering(|delivery| match delivery.id() {
            "order-2" => Err(SinkError::rejected("too large for the topic")),
            _ => Ok(()),
        }))
    }
}

impl Sink for Broker {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(self.0.publish(run).instrument(info_span!("send")))
    }
}

/// `order-1` to `order-n`, each written in a request of its own and waiting in the table.
async fn requested(stage: &Stage, orders: usize) {
    let writer = stage.outbox().writer_only().start().unwrap();
    for number in 1..=orders {
        write(&writer, placed(&format!("order-{number}"))).instrument(info_span!("request")).await;
    }
}

/// X2: each event of a run has a span in its writer's trace, which is linked to the one span of the run; what the sink
/// does belongs to the run.
#[tokio::test(start_paused = true)]
async fn each_event_of_a_run_is_in_its_own_trace() {
    let stage = Stage::set();
    requested(&stage, 3).await;

    let _outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", Broker::new()).start().unwrap();
    stage.quiet().await;

    let (requests, events) = (stage.spans("request"), stage.spans("pillarbox.publish"));
    let (run, send) = (stage.span("pillarbox.run"), stage.span("send"));
    assert_eq!(events.iter().map(parent).collect::<Vec<_>>(), requests.iter().map(place).collect::<Vec<_>>());
    for event in &events {
        let links: Vec<_> = event.links.iter().map(|link| &link.span_context).collect();
        assert_eq!(links, [&run.span_context]);
        assert_eq!(event.span_kind, SpanKind::Client);
    }
    assert_eq!(parent(&send), place(&run));
    assert!(requests.iter().all(|request| place(request).0 != place(&run).0), "it is in no request's trace");
    assert_eq!(attribute(&run, "events").as_deref(), Some("3"));
}

/// X2: an event that the sink rejects says so in its span, and its neighbours do not.
#[tokio::test(start_paused = true)]
async fn rejected_event_says_so_in_its_span() {
    let stage = Stage::set();
    requested(&stage, 3).await;

    let _outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", Broker::new()).start().unwrap();
    stage.quiet().await;

    let said = stage
        .spans("pillarbox.publish")
        .into_iter()
        .map(|event| (attribute(&event, "event_id").unwrap(), attribute(&event, "error"), event.status));
    let why = Some("too large for the topic".to_owned());
    let expected = [
        ("order-1".to_owned(), None, Status::Unset),
        ("order-2".to_owned(), why, Status::error("")),
        ("order-3".to_owned(), None, Status::Unset),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

/// X2: an event that goes out alone needs no span for the run: what the sink does is in the writer's trace.
#[tokio::test(start_paused = true)]
async fn event_that_goes_out_alone_takes_the_sink_along() {
    let stage = Stage::set();
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", Broker::new()).start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.quiet().await;

    let event = stage.span("pillarbox.publish");
    assert_eq!(parent(&event), place(&stage.span("request")));
    assert_eq!(parent(&stage.span("send")), place(&event));
    assert_eq!(stage.spans("pillarbox.run"), []);
}

/// X2: however long a run is, none of its events loses its link: a span of the SDK has 128 at most.
#[tokio::test(start_paused = true)]
async fn long_run_loses_no_link() {
    let stage = Stage::set();
    stage.insert((0..300).map(|_| Event::of_json("OrderPlaced", "{}").unwrap()).collect()).await;

    let _outbox =
        stage.outbox().batch_size(300).on_sink(GLOBAL, "OrderPlaced", Broker::new()).start().unwrap();
    stage.quiet().await;

    let (run, events) = (stage.span("pillarbox.run"), stage.spans("pillarbox.publish"));
    assert_eq!(attribute(&run, "events").as_deref(), Some("300"));
    let linked =
        events.iter().filter(|event| event.links.iter().any(|link| link.span_context == run.span_context));
    assert_eq!(linked.count(), 300);
}

/// X2, L6: what a sink sends on names the writer, not the outbox: headers are those of the write.
#[tokio::test(start_paused = true)]
async fn broker_gets_the_writers_trace() {
    let (stage, sink) = (Stage::set(), MemorySink::new());
    let outbox = stage.outbox().on_sink(GLOBAL, "OrderPlaced", sink.clone()).start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.quiet().await;

    let request = stage.span("request").span_context;
    let traceparent = format!("00-{}-{}-01", request.trace_id(), request.span_id());
    assert_eq!(sink.published()[0].headers().get("traceparent"), Some(traceparent.as_str()));
}
