//! What is called, in which order, how often, and how it ends; by the real builder with all that it can.

use std::sync::Arc;

use pillarbox::store::{Administration, Selection};
use pillarbox::testing::{Answer, Attempt, TestOutbox};
use pillarbox::{
    Delivery, Event, FanOut, Handlers, Headers, ListenerError, MemoryConnection, MemorySink, Run, Sink,
    SinkError, WriteError,
};

use crate::shop::{Notes, OrderPlaced, failing, mailing, place_order, placed, plain, write};

/// Handler, attempt and answer of each call.
fn calls(attempts: &[Attempt]) -> Vec<(String, u32, Answer)> {
    let call = |attempt: &Attempt| {
        let fallback = if attempt.is_fallback() { " (fallback)" } else { "" };
        let who = format!("{}{fallback}", attempt.handler_id().unwrap_or("-"));
        (who, attempt.attempt(), attempt.answer().clone())
    };
    attempts.iter().map(call).collect()
}

/// L3, L4: handlers and their fallback are told apart.
#[tokio::test]
async fn every_handler_has_its_own_attempts() {
    let handlers = mailing(failing(1))
        .on("bill", |_: OrderPlaced| async { Err::<(), _>(ListenerError::permanent("no such customer")) })
        .on_any("audit", |_: Delivery| async { Ok::<(), ListenerError>(()) })
        .fallback(|_: OrderPlaced, _| async { Ok::<(), ListenerError>(()) });
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers));
    let id = place_order(&outbox, "order-17").await;

    outbox.drain_all().await;

    let failed = |text: &str| Answer::Failed(text.to_owned());
    let expected = [
        ("mail", 1, failed("no stamps")),
        ("bill", 1, failed("no such customer")),
        ("bill (fallback)", 1, Answer::Succeeded),
        ("audit", 1, Answer::Succeeded),
        ("mail", 2, Answer::Succeeded),
    ];
    assert_eq!(calls(&outbox.attempts()), expected.map(|(who, attempt, how)| (who.to_owned(), attempt, how)));
    assert_eq!(outbox.assert_delivered_to(&id, "mail").attempt(), 2);
    assert!(outbox.delivered_to("bill").is_empty());
    outbox.assert_delivered(&id);
}

/// D10: the panic is told to the test, and to the engine as it was.
#[tokio::test]
async fn panic_of_a_listener_is_written_down() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.on("OrderPlaced", |_: Delivery| async {
            assert!(std::hint::black_box(false), "seventeen");
            Ok::<(), ListenerError>(())
        })
    });
    write(&outbox, plain("order-17")).await;

    outbox.drain().await;

    assert_eq!(outbox.attempts()[0].answer(), &Answer::Panicked("seventeen".to_owned()));
    assert_eq!(outbox.pending()[0].last_error.as_deref(), Some("the listener panicked: seventeen"));
}

#[tokio::test]
async fn runs_of_a_sink_are_seen_event_by_event() {
    let sink = MemorySink::answering(|delivery| match delivery.id() {
        "order-2" => Err(SinkError::rejected("too long")),
        _ => Ok(()),
    });
    let outbox = TestOutbox::start(|outbox| outbox.on_sink(pillarbox::GLOBAL, "OrderPlaced", sink.clone()));

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, ["order-1", "order-2", "order-3"].map(plain)).await.unwrap();
    tx.commit().await.unwrap();
    outbox.drain().await;

    let answers: Vec<_> =
        outbox.attempts().iter().map(|attempt| (attempt.id().to_owned(), attempt.answer().clone())).collect();
    let rejected = Answer::Failed("too long".to_owned());
    let expected = [("order-1", Answer::Succeeded), ("order-2", rejected), ("order-3", Answer::Succeeded)];
    assert_eq!(answers, expected.map(|(id, answer)| (id.to_owned(), answer)));
    assert_eq!(sink.published().len(), 2);
    assert_eq!(outbox.pending()[0].event_id, "order-2");
}

/// Answers the first event of a run, and panics.
struct Stumbling;

impl Sink for Stumbling {
    fn publish<'a>(&'a self, run: &'a Run) -> pillarbox::BoxFuture<'a, ()> {
        run.answer(0, Ok(()));
        panic!("the broker said something odd")
    }
}

/// As in production: what was answered counts, and the rest comes again.
#[tokio::test]
async fn answers_of_a_sink_that_panics_count() {
    let outbox = TestOutbox::start(|outbox| outbox.on_sink(pillarbox::GLOBAL, "OrderPlaced", Stumbling));

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, ["order-1", "order-2"].map(plain)).await.unwrap();
    tx.commit().await.unwrap();
    outbox.drain().await;

    outbox.assert_delivered("order-1");
    let answers: Vec<_> = outbox.attempts().iter().map(|attempt| attempt.answer().clone()).collect();
    assert_eq!(answers, [Answer::Succeeded, Answer::CutOff]);
    let pending = outbox.pending();
    let error = pending[0].last_error.as_deref();
    assert_eq!(error, Some("the sink panicked: the broker said something odd"));
}

/// L2: a registry of the user's own is one receiver.
#[tokio::test]
async fn registry_of_the_users_own_is_observed() {
    let seen = Notes::<&'static str>::new();
    let (first, second) = (seen.clone(), seen.clone());
    let registry = FanOut::new()
        .on("OrderPlaced", move |_: Delivery| {
            first.note("first");
            std::future::ready(Ok::<(), ListenerError>(()))
        })
        .on_any(move |_: Delivery| {
            second.note("any");
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = TestOutbox::start(|outbox| outbox.registry(registry));

    write(&outbox, plain("order-17")).await;
    outbox.drain().await;

    assert_eq!(seen.all(), ["first", "any"]);
    assert_eq!(outbox.delivered().len(), 1);
}

/// X1, W9: providers and subscribers are those of the real builder.
#[tokio::test]
async fn context_and_subscribers_are_those_of_the_application() {
    let subscribed = Notes::<OrderPlaced>::new();
    let noted = subscribed.clone();
    let outbox = TestOutbox::start(|outbox| {
        outbox.handlers(mailing(|_| Ok(()))).context(|| Headers::from_iter([("request", "r-1")])).subscribe(
            move |order: OrderPlaced, _: &mut MemoryConnection| {
                let noted = noted.clone();
                Box::pin(async move {
                    if order.order_id == "order-0" {
                        return Err(ListenerError::new("there is no such order"));
                    }
                    noted.note(order);
                    Ok(())
                })
            },
        )
    });

    write(&outbox, Event::of(&placed("order-17")).header("source", "web")).await;
    let mut tx = outbox.begin().await.unwrap();
    let refused = outbox.write(&mut tx, placed("order-0")).await;
    drop(tx);

    assert!(matches!(refused, Err(WriteError::Subscriber(_))), "{refused:?}");
    let event = outbox.assert_written(&placed("order-17"));
    assert_eq!((event.context().get("request"), event.headers().get("source")), (Some("r-1"), Some("web")));
    assert_eq!(event.key(), Some("order-17"));
    assert_eq!(subscribed.all(), [placed("order-17")]);
    assert_eq!(outbox.events().len(), 1);
}

/// What an operator does is seen as well.
#[tokio::test]
async fn dead_event_is_replayed() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_broken = broken.clone();
    let handlers = Handlers::new().on("mail", move |_: OrderPlaced| {
        let is_broken = is_broken.load(std::sync::atomic::Ordering::Relaxed);
        async move { if is_broken { Err(ListenerError::permanent("no printer")) } else { Ok(()) } }
    });
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers));
    let id = place_order(&outbox, "order-17").await;
    outbox.drain().await;
    outbox.assert_dead(&id);

    broken.store(false, std::sync::atomic::Ordering::Relaxed);
    outbox.store().replay(&Selection::Ids(vec![id.clone()])).await.unwrap();
    outbox.drain().await;

    outbox.assert_delivered_to(&id, "mail");
    assert!(outbox.dead().is_empty());
}
