//! The trace of a request goes on in whoever gets its events.

use std::time::Duration;

use opentelemetry::trace::{SpanId, SpanKind, Status};
use pillarbox::{Delivery, DomainEvent, Failure, Handlers, Json, ListenerError, Retry, Source};
use tracing::{Instrument, info_span};

use crate::stage::{Notes, Stage, attribute, parent, place, placed, write};

const HOUR: Duration = Duration::from_secs(3_600);

/// A listener that notes which way events come, and charges for them in a span of its own.
fn charging(
    sources: &Notes<Source>,
) -> impl Fn(Delivery) -> std::pin::Pin<Box<dyn Future<Output = Result<(), ListenerError>> + Send>> + use<> {
    let sources = sources.clone();
    move |delivery| {
        sources.note(delivery.source());
        Box::pin(
            async {
                tokio::task::yield_now().await;
                Ok(())
            }
            .instrument(info_span!("charge")),
        )
    }
}

/// X2: one trace spans the request, the write, the delivery from memory and what the listener does.
#[tokio::test(start_paused = true)]
async fn one_trace_spans_request_and_delivery() {
    let (stage, sources) = (Stage::set(), Notes::new());
    let outbox = stage.outbox().on("OrderPlaced", charging(&sources)).start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.quiet().await;

    let (request, deliver) = (stage.span("request"), stage.span("pillarbox.deliver"));
    assert_eq!(parent(&deliver), place(&request));
    assert!(deliver.parent_span_is_remote);
    assert_eq!(parent(&stage.span("charge")), place(&deliver));
    assert_eq!(sources.all(), [Source::Hot]);
}

/// X2: the span of a delivery says what is delivered, and of which kind it is.
#[tokio::test(start_paused = true)]
async fn span_says_what_is_delivered() {
    let (stage, sources) = (Stage::set(), Notes::new());
    let outbox = stage.outbox().on("OrderPlaced", charging(&sources)).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let deliver = stage.span("pillarbox.deliver");
    let said = ["event_id", "event_type", "attempt", "handler_id", "error"];
    let said = said.map(|name| attribute(&deliver, name).unwrap_or_default());
    assert_eq!(said, ["order-1", "OrderPlaced", "1", "", ""]);
    assert_eq!((deliver.span_kind, deliver.status), (SpanKind::Consumer, Status::Unset));
}

/// X2: another process that takes the event from the table later goes on with the same trace.
#[tokio::test(start_paused = true)]
async fn trace_outlives_the_process() {
    let (stage, sources) = (Stage::set(), Notes::new());
    let outbox = stage.outbox().writer_only().start().unwrap();
    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    outbox.close().await;
    drop(outbox);
    stage.pass(HOUR).await;

    let _next = stage.outbox().on("OrderPlaced", charging(&sources)).start().unwrap();
    stage.quiet().await;

    let (request, deliver) = (stage.span("request"), stage.span("pillarbox.deliver"));
    assert_eq!(parent(&deliver), place(&request));
    assert_eq!(parent(&stage.span("charge")), place(&deliver));
    assert_eq!(sources.all(), [Source::Cold]);
}

/// X2: each attempt is a span of its own under the writer's; those that failed say why.
#[tokio::test(start_paused = true)]
async fn each_attempt_is_a_span_of_its_own() {
    let stage = Stage::set();
    let listener = |delivery: Delivery| async move {
        match delivery.attempt() {
            1 => Err(ListenerError::new("503 from the bank")),
            2 => panic!("no account"),
            3 => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let outbox = stage
        .outbox()
        .on("OrderPlaced", listener)
        .retry(Retry::fixed(Duration::from_secs(1)).max_retries(9))
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.pass(HOUR).await;

    let (request, attempts) = (stage.span("request"), stage.spans("pillarbox.deliver"));
    assert!(attempts.iter().all(|attempt| parent(attempt) == place(&request)));
    let said = attempts.iter().map(|attempt| {
        let is_error = matches!(attempt.status, Status::Error { .. });
        (attribute(attempt, "attempt").unwrap(), is_error, attribute(attempt, "error").unwrap_or_default())
    });
    let expected = [
        ("1", true, "503 from the bank"),
        ("2", true, "the listener panicked: no account"),
        ("3", true, "the listener did not answer within 30s"),
        ("4", false, ""),
    ];
    let expected = expected.map(|(attempt, is_error, why)| (attempt.to_owned(), is_error, why.to_owned()));
    assert_eq!(said.collect::<Vec<_>>(), expected);
}

/// X2: a delivery that the shutdown cuts off says so.
#[tokio::test(start_paused = true)]
async fn delivery_that_is_cut_off_says_so() {
    let stage = Stage::set();
    let hanging = |_: Delivery| std::future::pending::<Result<(), ListenerError>>();
    let outbox = stage.outbox().on("OrderPlaced", hanging).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;

    let why = "cut off by the shutdown, or by the end of the lease";
    assert_eq!(attribute(&stage.span("pillarbox.deliver"), "error").as_deref(), Some(why));
}

#[derive(serde::Serialize, serde::Deserialize)]
struct OrderPlaced {}

impl DomainEvent for OrderPlaced {
    const EVENT_TYPE: &'static str = "OrderPlaced";
    type Codec = Json;
}

/// X2: every handler has a span of its own, and so has a fallback.
#[tokio::test(start_paused = true)]
async fn handlers_and_fallbacks_are_in_the_trace() {
    let stage = Stage::set();
    let handlers = Handlers::new()
        .on("billing", |_: OrderPlaced| async { Ok::<(), ListenerError>(()) }.instrument(info_span!("bill")))
        .on("mail", |_: OrderPlaced| async { Err::<(), _>(ListenerError::permanent("no such address")) })
        .fallback(|_: OrderPlaced, _: Failure| {
            async { Ok::<(), ListenerError>(()) }.instrument(info_span!("post a letter"))
        });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.quiet().await;

    let request = stage.span("request");
    let [billing, mail] = &stage.spans("pillarbox.deliver")[..] else { panic!("two handlers") };
    let fallback = stage.span("pillarbox.fallback");
    for (span, id, error) in
        [(billing, "billing", None), (mail, "mail", Some("no such address")), (&fallback, "mail", None)]
    {
        assert_eq!(parent(span), place(&request));
        assert_eq!(attribute(span, "handler_id").as_deref(), Some(id));
        assert_eq!(attribute(span, "error").as_deref(), error);
    }
    assert_eq!(parent(&stage.span("bill")), place(billing));
    assert_eq!(parent(&stage.span("post a letter")), place(&fallback));
}

/// X2: an event that a listener writes belongs to the listener's span, and so the trace goes on.
#[tokio::test(start_paused = true)]
async fn trace_goes_on_from_event_to_event() {
    let stage = Stage::set();
    let writer = stage.outbox().writer_only().start().unwrap();
    let handlers = Handlers::new().on_any("chain", move |delivery: Delivery| {
        let writer = writer.clone();
        async move {
            if delivery.id() == "order-1" {
                write(&writer, placed("order-2")).await;
            }
            Ok::<(), ListenerError>(())
        }
    });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
    stage.pass(HOUR).await;

    let [first, second] = &stage.spans("pillarbox.deliver")[..] else { panic!("two deliveries") };
    assert_eq!(parent(first), place(&stage.span("request")));
    assert_eq!(parent(second), place(first));
}

/// X2: a span that somebody has left open on the thread of a worker is no parent of what is delivered there.
#[tokio::test(start_paused = true)]
async fn span_that_others_left_open_is_no_parent() {
    let (stage, sources) = (Stage::set(), Notes::new());
    let outbox = stage.outbox().on("OrderPlaced", charging(&sources)).start().unwrap();
    stage.insert(vec![placed("order-1").build().unwrap()]).await;

    let left_open = info_span!("left open").entered();
    outbox.poll().await.unwrap();
    stage.quiet().await;
    drop(left_open);

    let (deliver, open) = (stage.span("pillarbox.deliver"), stage.span("left open"));
    assert_eq!(deliver.parent_span_id, SpanId::INVALID);
    assert_ne!(place(&deliver).0, place(&open).0);
    assert_eq!(parent(&stage.span("charge")), place(&deliver));
}

/// X2: a filter that keeps the spans of deliveries out cuts the trace there, and does no other harm; by the name that the
/// guide gives they are let in.
#[tokio::test(start_paused = true)]
async fn filter_that_keeps_spans_out_cuts_the_trace() {
    for (filter, is_whole) in [("warn,traces=info", false), ("warn,traces=info,pillarbox=info", true)] {
        let (stage, sources) = (Stage::filtering(filter), Notes::new());
        let outbox = stage.outbox().on("OrderPlaced", charging(&sources)).start().unwrap();

        write(&outbox, placed("order-1")).instrument(info_span!("request")).await;
        stage.quiet().await;

        assert_eq!(outbox.counts().done, 1);
        assert_eq!(stage.spans("pillarbox.deliver").len(), usize::from(is_whole), "{filter}");
        let (request, charge) = (stage.span("request"), stage.span("charge"));
        assert_eq!(place(&charge).0 == place(&request).0, is_whole, "{filter}");
    }
}
