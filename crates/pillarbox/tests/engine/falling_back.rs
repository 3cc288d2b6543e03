//! What is left to be done when a handler has failed for good.

use pillarbox::store::Status;
use pillarbox::{Delivery, Event, Failure, Handlers, ListenerError, Retry, before};
use serde::{Deserialize, Serialize};

use crate::handling::{OrderPlaced, each_second, noting, noting_any, placed};
use crate::stage::{HOUR, Notes, SECOND, Stage, write};

/// L4, T3: the fallback has the last word when retries are exhausted, and the event is done.
#[tokio::test(start_paused = true)]
async fn fallback_runs_when_retries_are_exhausted() {
    let (stage, notes, failures) = (Stage::set(), Notes::<String>::new(), Notes::<String>::new());
    let noted = failures.clone();
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 9))
        .handler("mail", noting(&notes, 0))
        .fallback(move |event: OrderPlaced, failure: Failure| {
            let context = failure.context().get("region").unwrap_or_default().to_owned();
            noted.note(format!(
                "{} {} {} {} {:?} {context} {}",
                failure.handler_id().unwrap_or_default(),
                event.order,
                failure.failures(),
                failure.error(),
                failure.key(),
                failure.created_at(),
            ));
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let created_at = stage.row("order-1").await.created_at;
    assert_eq!(failures.all(), [format!(r#"billing order-1 3 503 Some("order-1") eu {created_at}"#)]);
    assert_eq!(notes.len(), 4);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// L3, L4: the pass that ends with a fallback is one in which a handler failed, though the event is done.
#[tokio::test(start_paused = true)]
async fn pass_that_falls_back_counts_as_failed() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 9))
        .fallback(|_: OrderPlaced, _| std::future::ready(Ok::<(), ListenerError>(())));
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), 3));
    assert_eq!(row.last_error.as_deref(), Some("handler `billing`: 503"));
    let counts = outbox.counts();
    assert_eq!((counts.failed, counts.done, counts.dead), (3, 1, 0));
}

/// L4: it runs at once for an error that no retry can cure; if it fails itself, the event is dead.
#[tokio::test(start_paused = true)]
async fn failed_fallback_leaves_the_event_dead() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .on("billing", |_: OrderPlaced| std::future::ready(Err::<(), _>(ListenerError::permanent("410"))))
        .fallback(move |_: OrderPlaced, failure: Failure| {
            noted.note(format!("{}", failure.failures()));
            std::future::ready(Err::<(), _>(ListenerError::new("the queue of the dead is full")))
        });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(notes.all(), ["1"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1));
    let error = "fallback of handler `billing`: the queue of the dead is full";
    assert_eq!(row.last_error.as_deref(), Some(error));
}

/// L4, T3: it runs as soon as the policy says that an error is not worth a retry, however many would be left.
#[tokio::test(start_paused = true)]
async fn fallback_runs_at_once_for_an_error_that_is_never_retried() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .handler("billing", |_: OrderPlaced, delivery: Delivery| {
            std::future::ready(match delivery.attempt() {
                1 => Err::<(), ListenerError>(std::io::Error::other("reset").into()),
                _ => Err(std::fmt::Error.into()),
            })
        })
        .fallback(move |_: OrderPlaced, failure: Failure| {
            noted.note(format!(
                "{} {}",
                failure.failures(),
                failure.error().source().is::<std::fmt::Error>()
            ));
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let policy = Retry::fixed(SECOND).max_retries(9).never::<std::fmt::Error>();
    let outbox = stage.outbox().handlers(handlers).retry_policy(policy).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(SECOND + SECOND / 2).await;

    assert_eq!(notes.all(), ["2 true"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderCancelled", aggregate = "Order")]
struct OrderCancelled {
    // As in `OrderPlaced`, so that a fallback for the wrong type would understand it.
    order: String,
}

/// L4: a fallback serves all handlers of its type, generic ones included, and events of no other type: neither another
/// event type nor the same one of another aggregate type.
#[tokio::test(start_paused = true)]
async fn fallback_serves_its_own_type_only() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let gone = || std::future::ready(Err::<(), _>(ListenerError::permanent("410")));
    let handlers = Handlers::new()
        .on("billing", move |_: OrderPlaced| gone())
        .on("refund", move |_: OrderCancelled| gone())
        .on_any("audit", move |_: Delivery| gone())
        .fallback(move |event: OrderPlaced, failure: Failure| {
            noted.note(format!("{} {}", failure.handler_id().unwrap_or_default(), event.order));
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    let cancelled = write(&outbox, OrderCancelled { order: "order-3".into() }).await;
    let of_nothing = Event::builder("OrderPlaced").json_text(r#"{"order":"order-2"}"#);
    let of_nothing = write(&outbox, of_nothing).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["billing order-1", "audit order-1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(stage.status(&cancelled).await, Status::Dead);
    assert_eq!(stage.status(&of_nothing).await, Status::Dead);
}

/// L4, D8: closing behind one that was given up is no replay: neither it nor its fallback runs again.
#[tokio::test(start_paused = true)]
async fn closing_revives_nobody() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let start = |hangs: bool| {
        let (billing, fallback, mail) = (notes.clone(), notes.clone(), notes.clone());
        let handlers = Handlers::new()
            .on("billing", move |_: OrderPlaced| {
                billing.note("billing");
                std::future::ready(Err::<(), _>(ListenerError::permanent("410")))
            })
            .on("mail", move |_: OrderPlaced| {
                let mail = mail.clone();
                async move {
                    if hangs {
                        std::future::pending::<()>().await;
                    }
                    mail.note("mail");
                    Ok::<(), ListenerError>(())
                }
            })
            .fallback(move |_: OrderPlaced, _: Failure| {
                fallback.note("fallback");
                std::future::ready(Err::<(), _>(ListenerError::new("full")))
            });
        stage.outbox().handlers(handlers).drain_timeout(SECOND).start().unwrap()
    };
    let outbox = start(true);
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 1), "one has failed");

    let outbox = start(false);
    stage.pass(60 * SECOND).await;

    assert_eq!(notes.all(), ["billing", "fallback", "mail"]);
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1));
    assert_eq!(row.last_error.as_deref(), Some("fallback of handler `billing`: full"));
    outbox.close().await;
}

/// L4, D6: an interceptor's error that exhausts the retries of a handler has its fallback called, too.
#[tokio::test(start_paused = true)]
async fn fallback_runs_for_an_interceptors_error() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 0))
        .handler("mail", noting(&notes, 0))
        .fallback(move |_: OrderPlaced, failure: Failure| {
            noted.note(format!("{} {}", failure.handler_id().unwrap_or_default(), failure.error()));
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let hook = before(|_: Delivery| std::future::ready(Err::<(), _>(ListenerError::new("no budget"))));
    let retry = Retry::fixed(SECOND).max_attempts(2);
    let outbox = stage.outbox().handlers(handlers).retry(retry).interceptor(hook).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;

    assert_eq!(notes.all(), ["billing no budget", "mail no budget"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// L4, S5: a slow fallback has the time of a delivery, under a lease that lasts for it.
#[tokio::test(start_paused = true)]
async fn slow_fallback_keeps_its_lease() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let (clock, again) = (stage.runtime.clock.clone(), stage.runtime.clock.clone());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .on("billing", move |_: OrderPlaced| {
            let clock = clock.clone();
            async move {
                clock.sleep(29 * SECOND).await;
                Err::<(), _>(ListenerError::permanent("410"))
            }
        })
        .fallback(move |_: OrderPlaced, _: Failure| {
            let (clock, noted) = (again.clone(), noted.clone());
            async move {
                clock.sleep(29 * SECOND).await;
                noted.note("fallback");
                Ok::<(), ListenerError>(())
            }
        });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    let other = Handlers::new().on_any("other", noting_any(&notes));
    let another = stage.outbox().handlers(other).poll_every(SECOND).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(notes.all(), ["fallback"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(outbox.counts().lost_leases + another.counts().lost_leases, 0);
}

/// L4, D10: a fallback that panics leaves its handler dead, and the next one runs.
#[tokio::test(start_paused = true)]
async fn panicking_fallback_is_given_up() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .on("billing", |_: OrderPlaced| std::future::ready(Err::<(), _>(ListenerError::permanent("410"))))
        .handler("mail", noting(&notes, 0))
        .fallback(|_: OrderPlaced, _: Failure| async { panic!("no paper") as Result<(), ListenerError> });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["mail order-1 1"]);
    let row = stage.row("order-1").await;
    assert_eq!(row.status, Ok(Status::Dead));
    let error = "fallback of handler `billing`: the listener panicked: no paper";
    assert_eq!(row.last_error.as_deref(), Some(error));
}

/// L4: a fallback that hangs leaves its handler dead, and nobody waits for it for longer than a delivery.
#[tokio::test(start_paused = true)]
async fn hanging_fallback_is_given_up() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .on("billing", |_: OrderPlaced| std::future::ready(Err::<(), _>(ListenerError::permanent("410"))))
        .handler("mail", noting(&notes, 0))
        .fallback(|_: OrderPlaced, _: Failure| std::future::pending::<Result<(), ListenerError>>());
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;

    assert_eq!(notes.all(), ["mail order-1 1"]);
    let row = stage.row("order-1").await;
    assert_eq!(row.status, Ok(Status::Dead));
    let error = "fallback of handler `billing`: the listener did not answer within 30s";
    assert_eq!(row.last_error.as_deref(), Some(error));
}

/// L4, D11: who has succeeded runs no more while the process lives, though that could not be recorded, and neither does
/// its fallback.
#[tokio::test(start_paused = true)]
async fn unrecorded_success_is_remembered() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let (builder, faults) = stage.faulty();
    let (billing, fallback) = (notes.clone(), notes.clone());
    let handlers = Handlers::new()
        .on("billing", move |_: OrderPlaced| {
            billing.note("billing");
            let is_first = billing.len() == 1;
            std::future::ready(if is_first { Ok(()) } else { Err(ListenerError::permanent("paid already")) })
        })
        .fallback(move |_: OrderPlaced, _: Failure| {
            fallback.note("fallback");
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = builder.handlers(handlers).start().unwrap();
    let seq = {
        let id = write(&outbox, Event::of(&placed("order-0")).deliver_after(HOUR)).await;
        stage.row(&id).await.seq
    };
    faults.poisoned.store(seq + 1, std::sync::atomic::Ordering::Relaxed);

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;
    assert_eq!(stage.status("order-1").await, Status::New, "it could not be recorded");
    faults.poisoned.store(0, std::sync::atomic::Ordering::Relaxed);
    stage.pass(20 * 60 * SECOND).await;

    assert_eq!(notes.all(), ["billing"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}
