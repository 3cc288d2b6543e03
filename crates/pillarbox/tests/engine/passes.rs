//! One pass of an event over its handlers, and what is left for the next.

use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::{Delivery, Event, Failure, Handlers, ListenerError, Retry, Unroutable};
use serde::{Deserialize, Serialize};

use crate::handling::{OrderPlaced, noting, noting_any, placed};
use crate::stage::{Notes, SECOND, Stage, write};

#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderShipped", aggregate = "Order")]
struct OrderShipped;

/// L3: handlers of one event run one after the other on one worker, while another event has another worker.
#[tokio::test(start_paused = true)]
async fn handlers_of_one_event_share_a_worker() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let slow = || {
        let (notes, clock) = (notes.clone(), stage.runtime.clock.clone());
        move |event: OrderPlaced, delivery: Delivery| {
            let (notes, clock) = (notes.clone(), clock.clone());
            async move {
                let handler = delivery.handler_id().unwrap_or_default().to_owned();
                notes.note(format!("{} {handler} begins", event.order));
                clock.sleep(SECOND).await;
                notes.note(format!("{} {handler} ends", event.order));
                Ok::<(), ListenerError>(())
            }
        }
    };
    let handlers = Handlers::new().handler("billing", slow()).handler("mail", slow());
    let outbox = stage.outbox().handlers(handlers).workers(2).start().unwrap();

    write(&outbox, placed("order-1")).await;
    write(&outbox, placed("order-2")).await;
    stage.pass(2 * SECOND + SECOND / 2).await;

    for order in ["order-1", "order-2"] {
        let of_order: Vec<String> = notes.all().into_iter().filter(|note| note.starts_with(order)).collect();
        let expected = ["billing begins", "billing ends", "mail begins", "mail ends"];
        assert_eq!(of_order, expected.map(|note| format!("{order} {note}")), "at once on two workers");
    }
}

/// L3: a generic handler gets events of every type, a typed one those of its aggregate type and event type only.
#[tokio::test(start_paused = true)]
async fn generic_handler_gets_events_of_every_type() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new().handler("billing", noting(&notes, 0)).on_any("audit", noting_any(&notes));
    let outbox = stage.outbox().handlers(handlers).workers(1).start().unwrap();

    write(&outbox, Event::builder("StockTaken").id("stock-1").json_text("17")).await;
    write(&outbox, Event::builder("OrderPlaced").id("order-1").json_text(r#"{"order":"order-1"}"#)).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["audit stock-1 1", "audit order-1 1"]);
}

/// L3: an event's attempts count the passes in which a handler failed, and it is due when the first of those owed is.
#[tokio::test(start_paused = true)]
async fn attempts_of_an_event_count_its_passes() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 2))
        .handler("mail", noting(&notes, 1))
        .retry_for("billing", Retry::fixed(10 * SECOND))
        .retry_for("mail", Retry::fixed(30 * SECOND));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    let seen = async || {
        let row = stage.row("order-1").await;
        let due_in = Duration::from_micros((row.due_at.as_micros() - row.created_at.as_micros()) as u64);
        (row.status.unwrap(), row.attempts, due_in.as_secs())
    };

    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND).await;
    assert_eq!(seen().await, (Status::Retry, 1, 10), "both failed in one pass");
    stage.pass(10 * SECOND).await;
    assert_eq!(seen().await, (Status::Retry, 2, 20), "one of them failed again");
    stage.pass(10 * SECOND).await;
    assert_eq!(seen().await, (Status::Retry, 2, 30), "nobody failed, and the other is owed");
    stage.pass(10 * SECOND).await;

    assert_eq!((stage.status("order-1").await, stage.row("order-1").await.attempts), (Status::Done, 2));
    let expected =
        ["billing order-1 1", "mail order-1 1", "billing order-1 2", "billing order-1 3", "mail order-1 2"];
    assert_eq!(notes.all(), expected);
}

/// L3: an event is pending while one handler is owed, and dead only then when none is.
#[tokio::test(start_paused = true)]
async fn event_is_dead_when_nobody_is_owed() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .on("billing", |_: OrderPlaced| std::future::ready(Err::<(), _>(ListenerError::permanent("410"))))
        .handler("mail", noting(&notes, 1));
    let outbox = stage.outbox().handlers(handlers).retry(Retry::fixed(10 * SECOND)).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::Retry);
    stage.pass(10 * SECOND).await;

    assert_eq!(notes.all(), ["mail order-1 1", "mail order-1 2"]);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// L3: a handler that is added later gets what is pending, and nothing that is done.
#[tokio::test(start_paused = true)]
async fn handler_that_is_added_gets_pending_events_only() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let billing = || {
        Handlers::new().handler("billing", noting(&notes, 1)).retry_for("billing", Retry::fixed(10 * SECOND))
    };
    let outbox = stage.outbox().handlers(billing()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(20 * SECOND).await;
    write(&outbox, placed("order-2")).await;
    stage.pass(SECOND).await;
    outbox.close().await;
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(stage.status("order-2").await, Status::Retry);

    let both = billing().handler("mail", noting(&notes, 0));
    let outbox = stage.outbox().handlers(both).start().unwrap();
    stage.pass(60 * SECOND).await;

    let again = notes.all().split_off(3);
    assert_eq!(again, ["billing order-2 2", "mail order-2 1"]);
    outbox.close().await;
}

/// D13, L3: a handler asks for its own delay, with or without spending an attempt, and no other waits for it.
#[tokio::test(start_paused = true)]
async fn handler_asks_for_its_own_delay() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let (noted, clock, begun) = (notes.clone(), stage.runtime.clock.clone(), stage.now());
    let handlers = Handlers::new()
        .handler("mail", move |_: OrderPlaced, delivery: Delivery| {
            noted.note(format!("{} at {}", delivery.attempt(), (clock.now() - begun).as_secs()));
            std::future::ready(match noted.len() {
                1 => Err(ListenerError::not_now(40 * SECOND, "closed for lunch")),
                3 => Err(ListenerError::retry_after(20 * SECOND, "429")),
                _ => Ok(()),
            })
        })
        .handler("billing", noting(&notes, 0));
    let retry = Retry::fixed(SECOND).max_attempts(2);
    let outbox = stage.outbox().handlers(handlers).retry(retry).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(120 * SECOND).await;

    assert_eq!(notes.all(), ["1 at 0", "billing order-1 1", "1 at 40", "2 at 60"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), 1));
}

/// D5: an event that has no handler is unroutable: dead at once, or held until an instance has one. A fallback is none.
#[tokio::test(start_paused = true)]
async fn event_without_a_handler_is_unroutable() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let without = || {
        let last_word = |_: OrderShipped, _: Failure| std::future::ready(Ok::<(), ListenerError>(()));
        Handlers::new().handler("billing", noting(&notes, 0)).fallback(last_word)
    };

    let strict = stage.outbox().handlers(without()).start().unwrap();
    let dead = write(&strict, OrderShipped).await;
    stage.quiet().await;
    strict.close().await;
    let row = stage.row(&dead).await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 0));
    assert!(row.last_error.unwrap().starts_with("unroutable: "));

    let patient = stage.outbox().handlers(without()).unroutable(Unroutable::Hold).start().unwrap();
    let held = write(&patient, OrderShipped).await;
    stage.pass(90 * SECOND).await;
    patient.close().await;
    let row = stage.row(&held).await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 0));
    assert!(row.reason.unwrap().starts_with("hold: unroutable"));

    let outbox = stage.outbox().handlers(without().on_any("audit", noting_any(&notes))).start().unwrap();
    stage.pass(60 * SECOND).await;
    assert_eq!(notes.all(), [format!("audit {held} 1")]);
    outbox.close().await;
}
