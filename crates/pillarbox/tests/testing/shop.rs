//! A small application: it places orders.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::testing::TestOutbox;
use pillarbox::{Delivery, Event, Handlers, IntoEvent, ListenerError, Outbox, Store};
use serde::{Deserialize, Serialize};

/// One second.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, pillarbox::Event)]
#[event(type = "OrderPlaced", aggregate = "Order", id = self.order_id.clone())]
pub(crate) struct OrderPlaced {
    pub(crate) order_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, pillarbox::Event)]
#[event(type = "OrderShipped", aggregate = "Order", id = self.order_id.clone())]
pub(crate) struct OrderShipped {
    pub(crate) order_id: String,
}

pub(crate) fn placed(order: &str) -> OrderPlaced {
    OrderPlaced { order_id: order.to_owned() }
}

pub(crate) fn shipped(order: &str) -> OrderShipped {
    OrderShipped { order_id: order.to_owned() }
}

/// Places an order as the application does, on whatever store.
pub(crate) async fn place_order<S: Store>(outbox: &Outbox<S>, order: &str) -> String {
    write(outbox, placed(order)).await
}

/// Writes one event in a transaction of its own.
pub(crate) async fn write<S: Store>(outbox: &Outbox<S>, event: impl IntoEvent) -> String {
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// `OrderPlaced` of no aggregate type, with the order as event id and key.
pub(crate) fn plain(order: &str) -> Event {
    Event::builder("OrderPlaced").id(order).key(order).json_text("{}").build().unwrap()
}

/// What the handler `mail` answers at each attempt.
pub(crate) fn mailing(
    answer: impl Fn(&Delivery) -> Result<(), ListenerError> + Send + Sync + 'static,
) -> Handlers {
    let answer = Arc::new(answer);
    Handlers::new().handler("mail", move |_: OrderPlaced, delivery: Delivery| {
        let answer = answer.clone();
        async move { answer(&delivery) }
    })
}

/// An outbox whose only handler is `mail`, which succeeds.
pub(crate) fn mailing_outbox() -> TestOutbox {
    TestOutbox::start(|outbox| outbox.handlers(mailing(|_| Ok(()))))
}

/// Fails at the first `failures` attempts.
pub(crate) fn failing(failures: u32) -> impl Fn(&Delivery) -> Result<(), ListenerError> {
    move |delivery| {
        if delivery.attempt() <= failures { Err(ListenerError::new("no stamps")) } else { Ok(()) }
    }
}

/// A list that listeners write down what they see in.
#[derive(Clone, Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn note(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }

    pub(crate) fn all(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

/// The text of the panic of `call`.
pub(crate) fn panic_of(call: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.unwrap_or_else(|| panic.downcast_ref::<String>().unwrap().clone())
}

/// The text of the panic of a task.
pub(crate) async fn panic_in(task: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(task).await.unwrap_err().into_panic();
    panic.downcast_ref::<String>().unwrap().clone()
}
