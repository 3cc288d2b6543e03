//! When a drain returns, nothing that is due is undelivered.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillarbox::store::Status;
use pillarbox::testing::TestOutbox;
use pillarbox::{
    Delivery, Event, Handlers, Leased, ListenerError, MemoryStore, Outbox, PollerHandler, Retry,
};
use tokio::sync::mpsc;

use crate::shop::{
    OrderPlaced, OrderShipped, SECOND, failing, mailing, mailing_outbox, place_order, placed, plain, shipped,
    write,
};

#[tokio::test]
async fn what_is_due_is_delivered_when_drain_returns() {
    let outbox = mailing_outbox();

    let id = place_order(&outbox, "order-17").await;
    outbox.drain().await;

    outbox.assert_delivered_to(&id, "mail");
    outbox.assert_all_delivered();
}

/// More than a task may do in one turn, than the settler writes at once, and than fits into the hot queue.
#[tokio::test]
async fn thousands_of_events_are_delivered_each_once() {
    let outbox = mailing_outbox();

    for _ in 0..3 {
        let mut tx = outbox.begin().await.unwrap();
        outbox.write_all(&mut tx, (0..1_000).map(|number| placed(&format!("order-{number}")))).await.unwrap();
        tx.commit().await.unwrap();
    }
    outbox.drain().await;

    outbox.assert_all_delivered();
    assert_eq!(outbox.delivered_to("mail").len(), 3_000);
}

#[tokio::test]
async fn smallest_queues_and_batches_are_drained_too() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.handlers(mailing(|_| Ok(()))).hot_queue(1).cold_queue(1).batch_size(1).workers(1)
    });

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, (0..100).map(|number| placed(&format!("order-{number}")))).await.unwrap();
    tx.commit().await.unwrap();
    outbox.drain().await;

    outbox.assert_all_delivered();
}

#[tokio::test]
async fn what_a_handler_writes_is_delivered_in_the_same_drain() {
    let late: Arc<OnceLock<Outbox<MemoryStore>>> = Arc::default();
    let shop = late.clone();
    let handlers = Handlers::new()
        .on("ship", move |order: OrderPlaced| {
            let outbox = shop.get().unwrap().clone();
            async move {
                write(&outbox, shipped(&order.order_id)).await;
                Ok::<(), ListenerError>(())
            }
        })
        .on("track", |_: OrderShipped| async { Ok::<(), ListenerError>(()) });
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers));
    late.set(outbox.outbox().clone()).unwrap();

    place_order(&outbox, "order-17").await;
    outbox.drain().await;

    assert_eq!(outbox.written::<OrderShipped>(), [shipped("order-17")]);
    assert_eq!(outbox.delivered_to("track").len(), 1);
}

#[tokio::test]
async fn what_comes_due_later_is_left_and_the_clock_stands_still() {
    let outbox =
        TestOutbox::start(|outbox| outbox.handlers(mailing(failing(1))).retry(Retry::fixed(60 * SECOND)));
    let noon = outbox.now();

    let failed = place_order(&outbox, "order-17").await;
    let delayed = write(&outbox, Event::of(&placed("order-18")).deliver_after(SECOND)).await;
    outbox.drain().await;
    outbox.drain().await;

    assert_eq!(outbox.now(), noon);
    assert_eq!(outbox.attempts().len(), 1);
    let pending = outbox.pending();
    let due: Vec<_> =
        pending.iter().map(|row| (row.event_id.as_str(), row.due_at.saturating_since(noon))).collect();
    assert_eq!(due, [(failed.as_str(), 60 * SECOND), (delayed.as_str(), SECOND)]);
}

#[tokio::test]
async fn transaction_of_the_users_own_needs_no_receipt() {
    let outbox = mailing_outbox();

    let mut tx = outbox.store().open();
    let forgotten = outbox.write_in(&mut tx, [placed("order-17")]).await.unwrap();
    tx.commit().unwrap();
    outbox.drain().await;

    outbox.assert_delivered(&forgotten.ids()[0]);
}

#[tokio::test]
async fn writer_leaves_everything_pending() {
    let outbox = TestOutbox::start(|outbox| outbox.writer_only());

    place_order(&outbox, "order-17").await;
    outbox.drain().await;
    outbox.drain_all().await;

    assert_eq!(outbox.pending()[0].status, Ok(Status::New));
    assert_eq!(outbox.written::<OrderPlaced>(), [placed("order-17")]);
}

/// Hands events to the test.
struct Hands(mpsc::UnboundedSender<Leased>);

impl PollerHandler for Hands {
    fn handle(&self, event: Leased) -> bool {
        self.0.send(event).is_ok()
    }

    fn capacity(&self) -> usize {
        1_000
    }
}

#[tokio::test]
async fn what_a_handler_of_the_poller_holds_is_waited_for() {
    let (hands, mut leased) = mpsc::unbounded_channel();
    let outbox = TestOutbox::start(|outbox| outbox.poller_handler(Hands(hands)));
    place_order(&outbox, "order-17").await;
    place_order(&outbox, "order-18").await;

    tokio::spawn(async move {
        while let Some(event) = leased.recv().await {
            tokio::task::yield_now().await;
            event.done().await;
        }
    });
    outbox.drain().await;

    outbox.assert_all_delivered();
}

#[tokio::test]
async fn polling_outbox_is_drained() {
    let outbox = TestOutbox::start(|outbox| {
        outbox
            .poller_only()
            .poll_every(Duration::from_secs(86_400))
            .on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    });

    write(&outbox, plain("order-17")).await;
    outbox.drain().await;

    outbox.assert_delivered("order-17");
}

/// W3: what was rolled back was not written, whoever rolled it back.
#[tokio::test]
async fn rolled_back_transaction_leaves_nothing_written() {
    let outbox = mailing_outbox();

    let mut rolled_back = outbox.begin().await.unwrap();
    outbox.write(&mut rolled_back, placed("order-17")).await.unwrap();
    rolled_back.rollback().await.unwrap();
    let mut dropped = outbox.begin().await.unwrap();
    outbox.write(&mut dropped, placed("order-18")).await.unwrap();
    drop(dropped);
    let mut aborted = outbox.begin().await.unwrap();
    outbox.write(&mut aborted, placed("order-19")).await.unwrap();
    aborted.abort_silently();
    aborted.commit().await.unwrap();
    outbox.drain().await;

    outbox.assert_nothing_written();
    assert!(outbox.attempts().is_empty());
}

/// Outcomes are recorded while others run and wait, as they are in production, where gathering them takes milliseconds.
#[tokio::test]
async fn listener_may_wait_until_another_event_is_recorded() {
    let late: Arc<OnceLock<MemoryStore>> = Arc::default();
    let store = late.clone();
    let outbox = TestOutbox::start(|outbox| {
        outbox.workers(1).on("OrderPlaced", move |order: Delivery| {
            let store = store.get().unwrap().clone();
            async move {
                let is_done = || store.rows().iter().any(|row| row.status == Ok(Status::Done));
                while order.id() == "order-18" && !is_done() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok::<(), ListenerError>(())
            }
        })
    });
    late.set(outbox.store().clone()).unwrap();

    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, ["order-17", "order-18", "order-19"].map(plain)).await.unwrap();
    tx.commit().await.unwrap();
    outbox.drain().await;

    outbox.assert_all_delivered();
}
