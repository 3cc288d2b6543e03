//! Handlers: several for one event, each on its own.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Selection, Status};
use pillarbox::{
    Delivery, DomainEvent, Event, EventBuilder, Failure, Handler, Handlers, HandlersError, Json,
    ListenerError, Retry, RetryError, RetryPolicy, Source, after, before, bound,
};
use serde::{Deserialize, Serialize};

use crate::stage::{HOUR, Notes, SECOND, Stage, write};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OrderPlaced {
    pub(crate) order: String,
}

impl DomainEvent for OrderPlaced {
    const EVENT_TYPE: &'static str = "OrderPlaced";
    const AGGREGATE_TYPE: &'static str = "Order";
    type Codec = Json;

    fn describe(&self, event: EventBuilder) -> EventBuilder {
        event.id(&self.order).aggregate_id(&self.order).context("region", "eu")
    }
}

pub(crate) fn placed(order: &str) -> OrderPlaced {
    OrderPlaced { order: order.to_owned() }
}

/// A handler that notes its id, the order and the attempt, and fails as often as it is told.
pub(crate) fn noting(
    notes: &Notes,
    failures: u32,
) -> impl Fn(OrderPlaced, Delivery) -> std::future::Ready<Result<(), ListenerError>> + use<> {
    let notes = notes.clone();
    move |event, delivery| {
        let handler = delivery.handler_id().expect("a handler has an id");
        notes.note(format!("{handler} {} {}", event.order, delivery.attempt()));
        let fails = delivery.attempt() <= failures;
        std::future::ready(if fails { Err(ListenerError::new("503")) } else { Ok(()) })
    }
}

/// The same for any event.
pub(crate) fn noting_any(
    notes: &Notes,
) -> impl Fn(Delivery) -> std::future::Ready<Result<(), ListenerError>> + use<> {
    let notes = notes.clone();
    move |delivery| {
        let handler = delivery.handler_id().expect("a handler has an id");
        notes.note(format!("{handler} {} {}", delivery.id(), delivery.attempt()));
        std::future::ready(Ok(()))
    }
}

pub(crate) fn each_second() -> Retry {
    Retry::fixed(SECOND).max_attempts(3)
}

/// L3: typed handlers run first, then those of any type, each in the order of registration, and each once.
#[tokio::test(start_paused = true)]
async fn typed_handlers_run_before_generic_ones() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .on_any("audit", noting_any(&notes))
        .handler("billing", noting(&notes, 0))
        .on_any("search", noting_any(&notes))
        .handler("mail", noting(&notes, 0));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["billing order-1 1", "mail order-1 1", "audit order-1 1", "search order-1 1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(stage.row("order-1").await.handlers, None);
}

/// L3: of three handlers the second fails twice: the first and the third run once each.
#[tokio::test(start_paused = true)]
async fn handler_that_failed_is_tried_again_alone() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 0))
        .handler("mail", noting(&notes, 2))
        .handler("audit", noting(&notes, 0));
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 1));
    assert_eq!(row.last_error.as_deref(), Some("handler `mail`: 503"));
    stage.pass(10 * SECOND).await;

    let expected =
        ["billing order-1 1", "mail order-1 1", "audit order-1 1", "mail order-1 2", "mail order-1 3"];
    assert_eq!(notes.all(), expected);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// L3: that holds across a restart.
#[tokio::test(start_paused = true)]
async fn progress_of_handlers_survives_a_restart() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    for _ in 0..3 {
        let handlers = Handlers::new()
            .handler("billing", noting(&notes, 0))
            .handler("mail", noting(&notes, 2))
            .handler("audit", noting(&notes, 0));
        let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();
        if notes.len() == 0 {
            write(&outbox, placed("order-1")).await;
        }
        stage.pass(SECOND + SECOND / 2).await;
        outbox.close().await;
        if stage.status("order-1").await == Status::Done {
            break;
        }
    }

    let runs = |handler: &str| notes.all().iter().filter(|note| note.starts_with(handler)).count();
    assert_eq!((runs("billing"), runs("mail"), runs("audit")), (1, 3, 1), "{:?}", notes.all());
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// L3, L5: each waits as its own policy says, and is given up by it.
#[tokio::test(start_paused = true)]
async fn each_handler_has_its_own_policy() {
    struct Patient(Notes<Duration>, Arc<dyn pillarbox::Clock>);
    impl Handler<OrderPlaced> for Patient {
        async fn handle(&self, _: OrderPlaced, _: Delivery) -> Result<(), ListenerError> {
            self.0.note(self.1.now());
            Err(ListenerError::new("503"))
        }
        fn retry_policy(&self) -> Option<Arc<dyn RetryPolicy>> {
            Some(Arc::new(Retry::fixed(7 * SECOND).max_attempts(3)))
        }
    }
    let stage = Stage::set();
    let times: [Notes<Duration>; 3] = std::array::from_fn(|_| Notes::new());
    let timing = |times: &Notes<Duration>| {
        let (times, clock) = (times.clone(), stage.runtime.clock.clone());
        move |_: OrderPlaced| {
            times.note(clock.now());
            std::future::ready(Err::<(), _>(ListenerError::new("503")))
        }
    };
    let handlers = Handlers::new()
        .handler("brings-its-own", Patient(times[0].clone(), stage.runtime.clock.clone()))
        .on("was-given-one", timing(&times[1]))
        .on("has-that-of-the-outbox", timing(&times[2]))
        .retry_for("brings-its-own", Retry::fixed(SECOND))
        .retry_for("was-given-one", Retry::fixed(3 * SECOND).max_attempts(2));
    let outbox = stage.outbox().handlers(handlers).retry(Retry::fixed(2 * SECOND).max_retries(3));
    let outbox = outbox.start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    let waited = times.map(|times| {
        let times = times.all();
        times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect::<Vec<_>>()
    });
    assert_eq!(waited, [vec![7, 7], vec![3], vec![2, 2, 2]]);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// X3: a payload that cannot be decoded is dead at the first attempt, with what and where; generic handlers get it, the
/// fallback does not, and nobody else is held up.
#[tokio::test(start_paused = true)]
async fn payload_that_cannot_be_decoded_is_dead_at_once() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let noted = notes.clone();
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 0))
        .on_any("audit", noting_any(&notes))
        .fallback(move |_: OrderPlaced, _: Failure| {
            noted.note("fallback");
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    let wrong =
        Event::builder("OrderPlaced").id("order-1").aggregate_type("Order").json_text("{\"total\":17}");
    write(&outbox, wrong).await;
    write(&outbox, placed("order-2")).await;
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1));
    let error =
        "handler `billing`: the payload is no `OrderPlaced`: missing field `order` at line 1 column 12";
    assert_eq!(row.last_error.as_deref(), Some(error));
    assert_eq!(notes.all(), ["audit order-1 1", "billing order-2 1", "audit order-2 1"]);
}

/// X3: who decodes by hand, in a handler for any event, tries it as little again.
#[tokio::test(start_paused = true)]
async fn payload_that_is_decoded_by_hand_is_not_tried_again() {
    let stage = Stage::set();
    let handlers = Handlers::new().on_any("audit", |delivery: Delivery| async move {
        let _order: OrderPlaced = delivery.decode()?;
        Ok::<_, ListenerError>(())
    });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, Event::builder("OrderPlaced").id("order-1").aggregate_type("Order").json_text("{}")).await;
    stage.quiet().await;

    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1));
}

/// L3: an id that exists no more leaves its event pending and visible, and who comes back gets it.
#[tokio::test(start_paused = true)]
async fn handler_that_is_gone_is_waited_for() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let both = || {
        let handlers = Handlers::new().handler("billing", noting(&notes, 0));
        handlers.handler("mail", noting(&notes, 1)).retry_for("mail", each_second())
    };
    let outbox = stage.outbox().handlers(both()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;

    let without = Handlers::new().handler("billing", noting(&notes, 0));
    let outbox = stage.outbox().handlers(without).start().unwrap();
    stage.pass(HOUR).await;
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Retry), 1));
    assert_eq!(row.reason.as_deref(), Some("hold: no handler `mail` is registered here"));
    outbox.close().await;

    let outbox = stage.outbox().handlers(both()).start().unwrap();
    stage.pass(2 * 60 * SECOND).await;
    assert_eq!(notes.all(), ["billing order-1 1", "mail order-1 1", "mail order-1 2"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    outbox.close().await;
}

/// L3: it is waited for though nobody else is registered for the event any more.
#[tokio::test(start_paused = true)]
async fn last_handler_that_is_gone_is_waited_for() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new().handler("mail", noting(&notes, 9)).retry_for("mail", Retry::fixed(SECOND));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;

    let outbox = stage.outbox().handlers(Handlers::new()).start().unwrap();
    stage.pass(HOUR).await;
    outbox.close().await;

    assert_eq!(stage.status("order-1").await, Status::Retry);
}

/// L3: replay runs the dead handlers only, with all attempts anew.
#[tokio::test(start_paused = true)]
async fn replay_runs_dead_handlers_only() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new().handler("billing", noting(&notes, 0)).handler("mail", noting(&notes, 9));
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;
    assert_eq!((stage.status("order-1").await, notes.len()), (Status::Dead, 4));

    stage.store.replay(&Selection::Ids(vec!["order-1".into()])).await.unwrap();
    stage.pass(HOUR).await;

    let again: Vec<String> = notes.all().split_off(4);
    assert_eq!(again, ["mail order-1 1", "mail order-1 2", "mail order-1 3"]);
    assert_eq!(stage.status("order-1").await, Status::Dead);
}

/// D10: a handler that panics or hangs has failed, and the others run.
#[tokio::test(start_paused = true)]
async fn panic_and_silence_are_failures_of_one_handler() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .on("panics", |_: OrderPlaced| async { panic!("no such order") as Result<(), ListenerError> })
        .on("hangs", |_: OrderPlaced| std::future::pending::<Result<(), ListenerError>>())
        .handler("mail", noting(&notes, 0));
    let retry = Retry::fixed(SECOND).max_attempts(1);
    let outbox = stage.outbox().handlers(handlers).retry(retry).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(60 * SECOND).await;

    assert_eq!(notes.all(), ["mail order-1 1"]);
    let row = stage.row("order-1").await;
    assert_eq!(row.status, Ok(Status::Dead));
    assert_eq!(row.last_error.as_deref(), Some("handler `hangs`: the listener did not answer within 30s"));
}

/// D6: interceptors run once per pass; an error before counts for each handler that was due.
#[tokio::test(start_paused = true)]
async fn interceptors_run_once_per_pass() {
    let (stage, notes, seen) = (Stage::set(), Notes::<String>::new(), Notes::<String>::new());
    let handlers = Handlers::new().handler("billing", noting(&notes, 0)).handler("mail", noting(&notes, 2));
    let counted = seen.clone();
    let hook = before(move |delivery: Delivery| {
        counted.note(format!("{} {:?}", delivery.attempt(), delivery.handler_id()));
        let is_first = counted.len() == 1;
        std::future::ready(if is_first { Err(ListenerError::new("not yet")) } else { Ok(()) })
    });
    let outbox = stage.outbox().handlers(handlers).retry(each_second()).interceptor(hook).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(seen.all(), ["1 None", "2 None", "3 None"]);
    assert_eq!(notes.all(), ["billing order-1 2", "mail order-1 2", "mail order-1 3"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
}

/// D8: closing in the middle keeps who is done, and spends nothing.
#[tokio::test(start_paused = true)]
async fn closing_keeps_who_is_done() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new()
        .handler("billing", noting(&notes, 0))
        .on("mail", |_: OrderPlaced| std::future::pending::<Result<(), ListenerError>>());
    let outbox = stage.outbox().handlers(handlers).drain_timeout(SECOND).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;
    let row = stage.row("order-1").await;
    assert_eq!((row.status, row.attempts), (Ok(Status::New), 0));

    let handlers = Handlers::new().handler("billing", noting(&notes, 0)).handler("mail", noting(&notes, 0));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    stage.pass(HOUR).await;

    assert_eq!(notes.all(), ["billing order-1 1", "mail order-1 1"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    outbox.close().await;
}

/// D6: the hooks after run for passes in which something ran, with the error of the event if it has one.
#[tokio::test(start_paused = true)]
async fn hooks_after_follow_what_ran() {
    let (stage, notes, seen) = (Stage::set(), Notes::<String>::new(), Notes::<String>::new());
    let both = Handlers::new().handler("billing", noting(&notes, 0)).handler("mail", noting(&notes, 9));
    let outbox = stage.outbox().handlers(both).retry(Retry::fixed(SECOND)).start().unwrap();
    write(&outbox, placed("order-1")).await;
    stage.quiet().await;
    outbox.close().await;

    let noted = seen.clone();
    let hook = after(move |_: Delivery, error: Option<String>| {
        noted.note(error.unwrap_or_default());
        std::future::ready(Ok::<(), ListenerError>(()))
    });
    let without = Handlers::new().handler("billing", noting(&notes, 0));
    let outbox = stage.outbox().handlers(without).interceptor(hook).start().unwrap();
    stage.pass(10 * 60 * SECOND).await;
    assert_eq!(seen.len(), 0, "it is only held");

    write(&outbox, placed("order-2")).await;
    stage.quiet().await;
    assert_eq!(seen.all(), [""]);
}

/// D10, S5: each handler has the time of a delivery, and the lease is renewed in between.
#[tokio::test(start_paused = true)]
async fn slow_handlers_share_no_time() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let slow = |notes: &Notes| {
        let (notes, clock) = (notes.clone(), stage.runtime.clock.clone());
        move |_: OrderPlaced, delivery: Delivery| {
            let (notes, clock) = (notes.clone(), clock.clone());
            async move {
                clock.sleep(29 * SECOND).await;
                notes.note(delivery.handler_id().unwrap_or_default());
                Ok::<(), ListenerError>(())
            }
        }
    };
    let handlers = Handlers::new()
        .handler("billing", slow(&notes))
        .handler("mail", slow(&notes))
        .handler("audit", slow(&notes));
    let other = Handlers::new().on_any("other", noting_any(&notes));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();
    let another = stage.outbox().handlers(other).poll_every(SECOND).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.pass(HOUR).await;

    assert_eq!(notes.all(), ["billing", "mail", "audit"]);
    assert_eq!(stage.status("order-1").await, Status::Done);
    assert_eq!(outbox.counts().lost_leases + another.counts().lost_leases, 0);
}

/// O1, L3: where order is kept, a key waits while one handler of its event is owed.
#[tokio::test(start_paused = true)]
async fn key_waits_while_a_handler_is_owed() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let handlers = Handlers::new().handler("billing", noting(&notes, 0)).handler("mail", noting(&notes, 1));
    let outbox = stage.outbox().ordered().handlers(handlers).retry(each_second()).start().unwrap();
    stage.pass(SECOND).await;

    let of_key = |order: &str| Event::of(&placed(order)).key("customer-3");
    write(&outbox, of_key("order-1")).await;
    write(&outbox, of_key("order-2")).await;
    stage.pass(60 * SECOND).await;

    let expected = [
        "billing order-1 1",
        "mail order-1 1",
        "mail order-1 2",
        "billing order-2 1",
        "mail order-2 1",
        "mail order-2 2",
    ];
    assert_eq!(notes.all(), expected);
}

/// L6: what a handler is told of the event and of this attempt.
#[tokio::test(start_paused = true)]
async fn handler_gets_all_that_is_known() {
    let (stage, notes) = (Stage::set(), Notes::<Delivery>::new());
    let noted = notes.clone();
    let handlers = Handlers::new().handler("billing", move |event: OrderPlaced, delivery: Delivery| {
        assert_eq!(event, placed("order-1"));
        noted.note(delivery);
        std::future::ready(Ok::<(), ListenerError>(()))
    });
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, Event::of(&placed("order-1")).tenant("shop").header("source", "web")).await;
    stage.quiet().await;

    let delivery = notes.all().remove(0);
    assert_eq!((delivery.id(), delivery.key(), delivery.attempt()), ("order-1", Some("order-1"), 1));
    assert_eq!((delivery.tenant_id(), delivery.source()), (Some("shop"), Source::Hot));
    assert_eq!(delivery.headers().get("source"), Some("web"));
    assert_eq!((delivery.context().get("region"), delivery.handler_id()), (Some("eu"), Some("billing")));
    assert_eq!(delivery.created_at(), stage.row("order-1").await.created_at);
}

/// L3: methods of one shared value are handlers, one by one.
#[tokio::test(start_paused = true)]
async fn methods_of_a_shared_value_are_handlers() {
    struct Shop(Notes);
    impl Shop {
        async fn bill(self: Arc<Self>, order: OrderPlaced) -> Result<(), ListenerError> {
            self.0.note(format!("bill {}", order.order));
            Ok(())
        }
        async fn ship(self: Arc<Self>, order: OrderPlaced) -> Result<(), ListenerError> {
            self.0.note(format!("ship {}", order.order));
            Ok(())
        }
    }
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let shop = Arc::new(Shop(notes.clone()));
    let handlers = Handlers::new().on("bill", bound(&shop, Shop::bill)).on("ship", bound(&shop, Shop::ship));
    let outbox = stage.outbox().handlers(handlers).start().unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    assert_eq!(notes.all(), ["bill order-1", "ship order-1"]);
}

/// L3, L4, L5: what makes no sense is refused at the start, by name.
#[tokio::test]
async fn handlers_that_make_no_sense_are_refused() {
    let nothing = |_: OrderPlaced| std::future::ready(Ok::<(), ListenerError>(()));
    let last_word = |_: OrderPlaced, _: Failure| std::future::ready(Ok::<(), ListenerError>(()));
    let error = |handlers: Handlers| {
        Stage::set().outbox().handlers(handlers).start().expect_err("it is refused").to_string()
    };

    let twice = Handlers::new().on("mail", nothing).on("mail", nothing);
    assert_eq!(error(twice), HandlersError::SameId { id: "mail".into() }.to_string());
    for id in ["", "e mail", "a:b", &"m".repeat(65)] {
        let bad = HandlersError::BadId { id: id.into() }.to_string();
        assert_eq!(error(Handlers::new().on(id, nothing)), bad);
    }
    for id in ["owed", "dead", "failures", "after_us", "unknown"] {
        let reserved = HandlersError::ReservedId { id: id.into() }.to_string();
        assert_eq!(error(Handlers::new().on(id, nothing)), reserved);
    }
    assert_eq!(
        error(Handlers::new().fallback(last_word).fallback(last_word)),
        "two fallbacks are for `OrderPlaced` of `Order`; one serves all its handlers"
    );
    assert_eq!(
        error(Handlers::new().on("mail", nothing).retry_for("mial", Retry::default())),
        "there is a retry policy for the handler `mial`, but no such handler; there are: `mail`"
    );
    let wrong = HandlersError::Retry { id: "mail".into(), error: RetryError::NoAttempts };
    let handlers = Handlers::new().on("mail", nothing).retry_for("mail", Retry::default().max_attempts(0));
    assert_eq!(error(handlers), wrong.to_string());
}
