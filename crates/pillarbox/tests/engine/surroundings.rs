//! What is captured when an event is written, and who is told of it inside the transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pillarbox::store::{CommitError, Status};
use pillarbox::{
    Delivery, DomainEvent, Event, EventBuilder, EventError, Failure, Handlers, Headers, Json, ListenerError,
    MemoryConnection, MemoryStore, OutboxBuilder, WriteError,
};
use serde::{Deserialize, Serialize};

use crate::stage::{Notes, SECOND, Stage, placed, write};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OrderShipped {
    pub(crate) order: String,
}

impl DomainEvent for OrderShipped {
    const EVENT_TYPE: &'static str = "OrderShipped";
    type Codec = Json;

    fn describe(&self, event: EventBuilder) -> EventBuilder {
        event.id(&self.order).key(&self.order).context("region", "eu").context("priority", "low")
    }
}

pub(crate) fn shipped(order: &str) -> OrderShipped {
    OrderShipped { order: order.to_owned() }
}

async fn context_of(stage: &Stage, id: &str) -> Vec<(String, String)> {
    let event = stage.row(id).await.event.unwrap();
    event.context().iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// X1: providers are merged, the last wins; the type wins over them, and what is given by hand over all.
#[tokio::test(start_paused = true)]
async fn context_is_merged_in_its_order() {
    let stage = Stage::set();
    let outbox = stage
        .outbox()
        .context(|| Headers::from_iter([("service", "shop"), ("trace", "1"), ("region", "us")]))
        .context(|| Headers::from_iter([("trace", "2"), ("priority", "none")]))
        .poller_only()
        .start()
        .unwrap();

    write(&outbox, Event::of(&shipped("order-1")).context("priority", "high")).await;
    write(&outbox, placed("order-2")).await;

    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let expected = [("priority", "high"), ("region", "eu"), ("service", "shop"), ("trace", "2")];
    assert_eq!(context_of(&stage, "order-1").await, pairs(&expected));
    let expected = [("priority", "none"), ("region", "us"), ("service", "shop"), ("trace", "2")];
    assert_eq!(context_of(&stage, "order-2").await, pairs(&expected));
}

/// X1, W11: what was captured reaches the listener, from memory as from the table, and is no header.
#[tokio::test(start_paused = true)]
async fn context_reaches_the_listener() {
    let (stage, seen) = (Stage::set(), Notes::<Delivery>::new());
    let outbox = stage
        .outbox()
        .context(|| Headers::from_iter([("trace", "17")]))
        .on("OrderPlaced", seen.listener())
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;
    stage.quiet().await;

    let delivery = seen.all().remove(0);
    assert_eq!((delivery.context().get("trace"), delivery.headers().len()), (Some("17"), 0));
    assert_eq!(*delivery.event(), stage.row("order-1").await.event.unwrap());
}

/// X1: what a handler and its fallback read was captured when the event was written, not when it was delivered.
#[tokio::test(start_paused = true)]
async fn handlers_and_fallbacks_read_what_was_captured_then() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let request = Arc::new(AtomicU32::new(1));
    let current = request.clone();
    let (handled, gone) = (notes.clone(), notes.clone());
    let handlers = Handlers::new()
        .handler("tracking", move |_: OrderShipped, delivery: Delivery| {
            handled.note(format!("handler {:?}", delivery.context().get("request")));
            std::future::ready(Err::<(), _>(ListenerError::permanent("410")))
        })
        .fallback(move |_: OrderShipped, failure: Failure| {
            gone.note(format!("fallback {:?}", failure.context().get("request")));
            std::future::ready(Ok::<(), ListenerError>(()))
        });
    let provider = move || Headers::from_iter([("request", current.load(Ordering::Relaxed).to_string())]);
    let outbox = stage.outbox().context(provider).handlers(handlers).start().unwrap();

    write(&outbox, Event::of(&shipped("order-1")).deliver_after(SECOND)).await;
    request.store(2, Ordering::Relaxed);
    stage.pass(2 * SECOND).await;

    assert_eq!(notes.all(), [r#"handler Some("1")"#, r#"fallback Some("1")"#]);
}

/// X1: providers are asked once for a call, however many events it writes.
#[tokio::test(start_paused = true)]
async fn providers_are_asked_once_for_a_call() {
    let (stage, asked) = (Stage::set(), Notes::<String>::new());
    let noted = asked.clone();
    let provider = move || {
        noted.note("asked");
        Headers::from_iter([("trace", noted.len().to_string())])
    };
    let outbox = stage.outbox().context(provider).poller_only().start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, [placed("order-1"), placed("order-2")]).await.unwrap();
    outbox.write_all(&mut tx, Vec::<Event>::new()).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(asked.len(), 1);
    assert_eq!(context_of(&stage, "order-2").await, context_of(&stage, "order-1").await);
}

/// X1: a provider that panics provides nothing, and fails no transaction.
#[tokio::test(start_paused = true)]
async fn panicking_provider_provides_nothing() {
    let stage = Stage::set();
    let outbox = stage
        .outbox()
        .context(|| -> Headers { panic!("nobody is logged in") })
        .context(|| Headers::from_iter([("trace", "17")]))
        .poller_only()
        .start()
        .unwrap();

    write(&outbox, placed("order-1")).await;

    assert_eq!(context_of(&stage, "order-1").await, [("trace".to_owned(), "17".to_owned())]);
}

/// V6: what is captured counts towards the limits, before the database sees it.
#[tokio::test(start_paused = true)]
async fn captured_context_is_limited() {
    let stage = Stage::set();
    let outbox =
        stage.outbox().context(|| Headers::from_iter([("token", "x".repeat(4_097))])).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    let error = outbox.write(&mut tx, placed("order-1")).await.unwrap_err();

    assert!(matches!(error, WriteError::Event(EventError::EntryTooLong { .. })), "{error}");
    assert!(tx.is_active(), "nothing was sent");
}

/// An outbox whose subscriber notes what is shipped, and fails over `order-13`.
fn subscribed(stage: &Stage, notes: &Notes) -> OutboxBuilder<MemoryStore> {
    let notes = notes.clone();
    stage.outbox().poller_only().subscribe(move |event: OrderShipped, _: &mut MemoryConnection| {
        notes.note(event.order.clone());
        Box::pin(async move {
            let is_unlucky = event.order == "order-13";
            if is_unlucky { Err(ListenerError::new("no such order")) } else { Ok(()) }
        })
    })
}

/// W10: subscribers get what is written inside the transaction, in order, and nothing of other types.
#[tokio::test(start_paused = true)]
async fn subscribers_are_called_inside_the_transaction() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let outbox = subscribed(&stage, &notes).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, [shipped("order-1"), shipped("order-2")]).await.unwrap();
    outbox.write(&mut tx, placed("order-3")).await.unwrap();
    assert_eq!(notes.all(), ["order-1", "order-2"], "before the commit");
    tx.commit().await.unwrap();

    assert_eq!(stage.status("order-2").await, Status::New);
}

/// W10: a subscriber that fails fails the transaction, whatever is done with its error.
#[tokio::test(start_paused = true)]
async fn failing_subscriber_fails_the_transaction() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let outbox = subscribed(&stage, &notes).start().unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write(&mut tx, shipped("order-1")).await.unwrap();
    let error = outbox.write(&mut tx, shipped("order-13")).await.unwrap_err();
    assert_eq!(error.to_string(), "a subscriber failed, and with it the transaction: no such order");
    let again = outbox.write(&mut tx, shipped("order-2")).await;
    assert!(matches!(again, Err(WriteError::Cancelled)));
    let committed = tx.commit().await;

    assert!(matches!(committed, Err(CommitError::RolledBack { .. })), "{committed:?}");
    stage.quiet().await;
    assert!(!stage.has_row("order-1").await && !stage.has_row("order-13").await);
}

/// W10: handing to subscribers can be switched off, and so can storing.
#[tokio::test(start_paused = true)]
async fn storing_and_handing_on_can_be_switched_off() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());

    let stored_only = subscribed(&stage, &notes).publish_after_save(false).start().unwrap();
    write(&stored_only, shipped("order-1")).await;
    assert!(notes.len() == 0 && stage.has_row("order-1").await);

    let handed_only = subscribed(&stage, &notes).store_events(false).start().unwrap();
    let id = write(&handed_only, shipped("order-2")).await;
    assert_eq!((notes.all(), id.as_str()), (vec!["order-2".to_owned()], "order-2"));
    assert!(!stage.has_row("order-2").await);
}

/// W10, W12: it is so in a transaction of the user's own, too.
#[tokio::test(start_paused = true)]
async fn subscribers_are_called_in_transactions_of_others() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let outbox =
        subscribed(&stage, &notes).context(|| Headers::from_iter([("trace", "17")])).start().unwrap();

    let mut tx = stage.store.open();
    let receipt = outbox.write_in(&mut tx, [shipped("order-1")]).await.unwrap();
    assert!(outbox.write_in(&mut tx, [shipped("order-13")]).await.is_err());
    tx.commit().unwrap();
    outbox.committed(receipt);

    assert_eq!(notes.all(), ["order-1", "order-13"]);
    assert!(context_of(&stage, "order-1").await.contains(&("trace".to_owned(), "17".to_owned())));
}
