//! The acceptance tests that every outbox has to pass, whatever its store.
//!
//! A store's test file implements [`Stage`] and hands a fresh one to each case:
//!
//! ```text
//! pillarbox_testkit::acceptance!(SqliteStage::fresh().await);
//! ```

#![expect(clippy::unwrap_used, reason = "cases are tests")]

mod desk;

use std::time::Duration;

use pillarbox::store::{Administration, Status, StoredEvent};
use pillarbox::{
    AggregateType, Event, EventType, GLOBAL, Handlers, ListenerError, Outbox, OutboxBuilder, Retry, Runtime,
    Source, Store,
};

pub use desk::{Call, Counter, Desk};

/// An empty store, and the runtime to run an outbox on it.
pub trait Stage: Send + Sync {
    /// The store.
    type Store: Store + Clone;

    /// A handle to the store, the same database every time.
    fn store(&self) -> Self::Store;

    /// Time, randomness and tasks.
    fn runtime(&self) -> Runtime;

    /// An outbox on this stage, still to be configured.
    fn outbox(&self) -> OutboxBuilder<Self::Store> {
        Outbox::builder(self.store()).runtime(self.runtime())
    }

    /// The row of an event, if there is one.
    fn row(&self, event_id: &str) -> impl Future<Output = Option<StoredEvent>> + Send {
        let (store, event_id) = (self.store(), event_id.to_owned());
        async move { store.find(&event_id).await.unwrap() }
    }
}

/// Makes every acceptance test a `#[tokio::test]` of its own name.
///
/// The argument is evaluated anew for each of them, inside the test, and may await.
#[macro_export]
macro_rules! acceptance {
    ($stage:expr) => {
        $crate::acceptance_list! { acceptance_tests ($stage) }
    };
}

/// Hands the list of all acceptance tests to the macro `$then`, behind `$arguments`.
#[doc(hidden)]
#[macro_export]
macro_rules! acceptance_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            acceptance {
                atomicity
                commit_and_fast_path
                queue_overflow_downgrade
                retry_then_dead
                type_safe_event_type
                type_safe_aggregate_type
                handlers_are_tracked_each_on_its_own
            }
        }
    };
}

/// The tests for a list of acceptance tests; use [`acceptance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! acceptance_tests {
    (($stage:expr); acceptance { $($case:ident)* }) => {$(
        #[tokio::test]
        async fn $case() {
            let stage = $stage;
            $crate::acceptance::$case(&stage).await;
        }
    )*};
}

/// Q2, W1: an event whose transaction is rolled back leaves no row, and is not delivered.
pub async fn atomicity(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, "OrderPlaced", r#"{"id":"order-17"}"#).await.unwrap();

    tx.rollback().await.unwrap();
    outbox.poll().await.unwrap();
    outbox.close().await;

    assert!(stage.row(&id).await.is_none());
    assert!(desk.waiting().is_none());
}

/// Q2, W5, D3: a committed event goes to its listener from memory, and is done.
pub async fn commit_and_fast_path(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, "OrderPlaced", r#"{"id":"order-17"}"#).await.unwrap();
    assert!(desk.waiting().is_none(), "nothing is delivered before the commit");

    tx.commit().await.unwrap();
    let delivery = desk.accept().await;
    outbox.close().await;

    assert_eq!((delivery.id(), delivery.source()), (id.as_str(), Source::Hot));
    assert_eq!(stage.row(&id).await.unwrap().status, Ok(Status::Done));
}

/// Q2, W7: what finds the hot queue full is written all the same, and delivered by the poller.
pub async fn queue_overflow_downgrade(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on("OrderPlaced", listener).workers(1).hot_queue(1).start().unwrap();
    let orders = (1..=3).map(|_| Event::of_json("OrderPlaced", "{}").unwrap());
    let mut tx = outbox.begin().await.unwrap();
    let ids = outbox.write_all(&mut tx, orders).await.unwrap();

    tx.commit().await.unwrap();
    let first = desk.next().await;

    assert_eq!(outbox.counts().hot_dropped, 2);
    for id in &ids {
        assert_eq!(stage.row(id).await.unwrap().status, Ok(Status::New));
    }

    let mut sources = vec![first.delivery.source()];
    first.succeed();
    sources.extend(desk.accept_many(2).await.iter().map(|delivery| delivery.source()));
    outbox.close().await;

    assert_eq!(sources, [Source::Hot, Source::Cold, Source::Cold]);
    for id in &ids {
        assert_eq!(stage.row(id).await.unwrap().status, Ok(Status::Done));
    }
}

/// Q2, D3: every failure counts as an attempt, and after the last one the event is dead.
pub async fn retry_then_dead(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage
        .outbox()
        .on("OrderPlaced", listener)
        .retry(Retry::fixed(Duration::from_millis(5)).max_attempts(3))
        .poll_every(Duration::from_millis(5))
        .start()
        .unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    tx.commit().await.unwrap();

    for failures in 0..3 {
        let call = desk.next().await;
        let row = stage.row(&id).await.unwrap();
        let status = if failures == 0 { Status::New } else { Status::Retry };
        assert_eq!((row.status, row.attempts), (Ok(status), failures));
        assert_eq!(call.delivery.attempt(), failures + 1);
        call.fail(ListenerError::new("address unknown"));
    }
    outbox.close().await;

    let row = stage.row(&id).await.unwrap();
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 3));
    assert_eq!(row.last_error.as_deref(), Some("address unknown"));
}

/// Q2, V5: a listener that is registered by an enum gets the events that are written with it.
pub async fn type_safe_event_type(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on(Happening::OrderPlaced, listener).start().unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, Happening::OrderPlaced, "{}").await.unwrap();

    tx.commit().await.unwrap();
    let delivery = desk.accept().await;
    outbox.close().await;

    assert_eq!((delivery.id(), delivery.event_type()), (id.as_str(), "OrderPlaced"));
    assert_eq!(delivery.aggregate_type(), GLOBAL);
}

/// L3: of three handlers the second fails twice, with a restart in between each time: the first and the third run once.
pub async fn handlers_are_tracked_each_on_its_own(stage: &impl Stage) {
    let ((billing, mut at_billing), (mail, mut at_mail), (audit, mut at_audit)) =
        (Desk::open(), Desk::open(), Desk::open());
    let start = || {
        let handlers = Handlers::new().on_any("billing", billing.clone()).on_any("mail", mail.clone());
        let outbox = stage.outbox().handlers(handlers.on_any("audit", audit.clone()));
        let outbox = outbox.retry(Retry::fixed(Duration::from_millis(50)).max_attempts(3));
        outbox.poll_every(Duration::from_millis(5)).start().unwrap()
    };
    let outbox = start();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    tx.commit().await.unwrap();
    at_billing.accept().await;
    at_mail.next().await.fail(ListenerError::new("503"));
    at_audit.accept().await;
    outbox.close().await;

    for attempt in 2..=3 {
        // It may have begun once more before the outbox was closed; then it was cut off, and nothing was spent.
        while at_mail.waiting().is_some() {}
        let row = stage.row(&id).await.unwrap();
        assert_eq!((row.status, row.attempts), (Ok(Status::Retry), attempt - 1));
        let outbox = start();
        let call = at_mail.next().await;
        assert_eq!((call.delivery.attempt(), call.delivery.handler_id()), (attempt, Some("mail")));
        if attempt == 3 {
            call.succeed()
        } else {
            call.fail(ListenerError::new("503"))
        }
        outbox.close().await;
    }

    let row = stage.row(&id).await.unwrap();
    assert_eq!((row.status, row.handlers), (Ok(Status::Done), None));
    assert!(at_billing.waiting().is_none() && at_audit.waiting().is_none());
}

/// Q2, V5: an aggregate type given by an enum is stored and delivered as its name.
pub async fn type_safe_aggregate_type(stage: &impl Stage) {
    let (listener, mut desk) = Desk::open();
    let outbox = stage.outbox().on_aggregate(Kind::Order, Happening::OrderPlaced, listener).start().unwrap();
    let event = Event::builder(Happening::OrderPlaced).aggregate(Kind::Order, "order-17").json_text("{}");
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write(&mut tx, event).await.unwrap();

    tx.commit().await.unwrap();
    let delivery = desk.accept().await;
    outbox.close().await;

    assert_eq!(delivery.aggregate_type(), "Order");
    assert_eq!(stage.row(&id).await.unwrap().event.unwrap().aggregate_type(), "Order");
}

enum Happening {
    OrderPlaced,
}

impl EventType for Happening {
    fn name(&self) -> &str {
        match self {
            Self::OrderPlaced => "OrderPlaced",
        }
    }
}

enum Kind {
    Order,
}

impl AggregateType for Kind {
    fn name(&self) -> &str {
        match self {
            Self::Order => "Order",
        }
    }
}
