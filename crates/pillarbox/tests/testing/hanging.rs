//! What hangs is named, and nothing waits for it for ever.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::testing::{Answer, TestOutbox};
use pillarbox::{Delivery, Handlers, ListenerError, before};

use crate::shop::{OrderPlaced, SECOND, mailing, panic_in, place_order, plain, write};

fn hanging() -> Handlers {
    Handlers::new().on("mail", |_: OrderPlaced| std::future::pending::<Result<(), ListenerError>>())
}

#[tokio::test(start_paused = true)]
async fn drain_names_the_event_and_the_handler_that_hangs() {
    let outbox = Arc::new(TestOutbox::start(|outbox| outbox.handlers(hanging())));
    let id = place_order(&outbox, "order-17").await;

    let shared = outbox.clone();
    let panic = panic_in(async move { shared.drain().await }).await;

    let expected = format!("`OrderPlaced` of `Order` `order-17` ({id}): handler `mail`, attempt 1, runs");
    assert!(panic.contains(&expected), "{panic}");
    assert!(panic.contains("hanging.rs") && panic.contains("for 10s"), "{panic}");
}

#[tokio::test(start_paused = true)]
async fn advance_names_it_too_and_has_not_moved() {
    let outbox = Arc::new(TestOutbox::start(|outbox| outbox.handlers(hanging())));
    let noon = outbox.now();
    place_order(&outbox, "order-17").await;

    let shared = outbox.clone();
    let panic = panic_in(async move { shared.advance(60 * SECOND).await }).await;

    assert!(panic.contains("handler `mail`"), "{panic}");
    assert_eq!(outbox.now(), noon);
}

#[tokio::test(start_paused = true)]
async fn drain_names_the_event_over_which_an_interceptor_hangs() {
    let outbox = TestOutbox::start(|outbox| {
        let hanging = before(|_: Delivery| std::future::pending::<Result<(), ListenerError>>());
        outbox.handlers(mailing(|_| Ok(()))).interceptor(hanging)
    });
    let id = place_order(&outbox, "order-17").await;

    let stuck = outbox.try_drain().await.unwrap_err();

    assert!(stuck.running().is_empty());
    assert_eq!(stuck.events()[0].event_id, id);
    assert!(stuck.to_string().contains("an interceptor may"), "{stuck}");
}

#[tokio::test(start_paused = true)]
async fn fallback_that_hangs_is_named() {
    let handlers = mailing(|_| Err(ListenerError::permanent("no such customer")))
        .fallback(|_: OrderPlaced, _| std::future::pending::<Result<(), ListenerError>>());
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers));
    place_order(&outbox, "order-17").await;

    let stuck = outbox.try_drain().await.unwrap_err();

    assert!(stuck.to_string().contains("fallback of handler `mail`, attempt 1, runs"), "{stuck}");
}

/// An outbox that has three orders to deliver, one after the other, each for 8 s of tokio's time.
async fn slow_outbox(patience: Duration) -> TestOutbox {
    let outbox = TestOutbox::builder().patience(patience).start(|outbox| {
        outbox.workers(1).on("OrderPlaced", |_: Delivery| async {
            tokio::time::sleep(8 * SECOND).await;
            Ok::<(), ListenerError>(())
        })
    });
    for order in ["order-17", "order-18", "order-19"] {
        write(&outbox, plain(order)).await;
    }
    outbox
}

/// The patience is for one result, not for all of them.
#[tokio::test(start_paused = true)]
async fn slow_listeners_are_waited_for() {
    let outbox = slow_outbox(10 * SECOND).await;

    outbox.drain().await;

    outbox.assert_all_delivered();
}

#[tokio::test(start_paused = true)]
async fn patience_is_as_long_as_was_said() {
    let outbox = slow_outbox(7 * SECOND).await;

    let stuck = outbox.try_drain().await.unwrap_err();

    assert_eq!(stuck.running()[0].id(), "order-17");
}

/// In real time: what is always busy lets no paused clock move.
#[tokio::test]
async fn event_that_is_retried_at_once_for_ever_is_named() {
    let at_once = |_: &Delivery| Err(ListenerError::not_now(Duration::ZERO, "closed on Sundays"));
    let outbox = TestOutbox::builder()
        .patience(Duration::from_millis(20))
        .start(|outbox| outbox.handlers(mailing(at_once)));
    let id = place_order(&outbox, "order-17").await;

    let stuck = outbox.try_drain().await.unwrap_err();

    assert!(stuck.to_string().contains(&id), "{stuck}");
}

#[tokio::test(start_paused = true)]
async fn close_cuts_off_what_hangs() {
    let outbox = TestOutbox::start(|outbox| outbox.handlers(hanging()));
    let id = place_order(&outbox, "order-17").await;

    outbox.close().await;

    assert_eq!(outbox.attempts()[0].answer(), &Answer::CutOff);
    let pending = outbox.pending();
    assert_eq!((pending[0].event_id.as_str(), pending[0].attempts), (id.as_str(), 0));
}

/// D8: who runs when it is closed comes to its end.
#[tokio::test]
async fn close_waits_for_what_runs() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.on("OrderPlaced", |_: Delivery| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<(), ListenerError>(())
        })
    });
    write(&outbox, plain("order-17")).await;
    outbox.advance_regardless(Duration::ZERO).await;

    outbox.close().await;

    outbox.assert_delivered("order-17");
}

#[tokio::test]
async fn closed_outbox_can_be_drained() {
    let outbox = TestOutbox::start(|outbox| outbox.handlers(mailing(|_| Ok(()))));

    outbox.close().await;
    place_order(&outbox, "order-17").await;
    outbox.drain().await;

    assert_eq!(outbox.pending().len(), 1);
}
