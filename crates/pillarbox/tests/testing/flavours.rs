//! On one thread or several, two in one test, and dropped without a word.

use std::sync::Arc;

use pillarbox::testing::TestOutbox;
use pillarbox::{Delivery, ListenerError, MemoryStore, Outbox};

use crate::shop::{
    OrderPlaced, SECOND, failing, mailing, mailing_outbox, panic_of, place_order, placed, plain, write,
};

/// Whoever wakes a task counts it before it goes on: no drain slips through between two threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn drain_misses_nothing_on_several_threads() {
    let outbox = Arc::new(TestOutbox::start(|outbox| {
        outbox.workers(8).on("OrderPlaced", |_: Delivery| async {
            tokio::spawn(tokio::task::yield_now()).await?;
            Ok::<(), ListenerError>(())
        })
    }));

    for round in 0..200 {
        let mut writers = Vec::new();
        for number in 0..5 {
            let outbox = outbox.clone();
            let order = format!("order-{round}-{number}");
            writers.push(tokio::spawn(async move { write(&outbox, plain(&order)).await }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        outbox.drain().await;
        outbox.assert_all_delivered();
        assert_eq!(outbox.delivered().len(), (round + 1) * 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn retries_and_order_work_on_several_threads() {
    let outbox = TestOutbox::start(|outbox| outbox.ordered().handlers(mailing(failing(2))));

    for number in 0..100 {
        place_order(&outbox, &format!("order-{number}")).await;
    }
    outbox.drain_all().await;

    outbox.assert_all_delivered();
    assert_eq!(outbox.attempts().len(), 300);
}

#[tokio::test]
async fn two_outboxes_have_a_store_and_a_clock_each() {
    let (shop, warehouse) = (mailing_outbox(), mailing_outbox());
    let noon = shop.now();

    place_order(&shop, "order-17").await;
    shop.advance(60 * SECOND).await;
    place_order(&warehouse, "order-18").await;
    warehouse.drain().await;

    assert_eq!((shop.now(), warehouse.now()), (noon.saturating_add(60 * SECOND), noon));
    assert_eq!(shop.written::<OrderPlaced>(), [placed("order-17")]);
    assert_eq!(warehouse.written::<OrderPlaced>(), [placed("order-18")]);
    shop.assert_all_delivered();
    warehouse.assert_all_delivered();
}

/// A writer and a relay, as two processes would share a table.
#[tokio::test]
async fn relay_delivers_what_another_outbox_writes() {
    let relay = TestOutbox::start(|outbox| outbox.poller_only().handlers(mailing(|_| Ok(()))));
    let service =
        Outbox::builder(relay.store().clone()).runtime(relay.runtime()).writer_only().start().unwrap();

    let id = place_order(&service, "order-17").await;
    relay.drain().await;

    relay.assert_delivered_to(&id, "mail");
}

/// What still runs ends with the test, and nothing is left behind.
#[test]
fn outbox_need_not_be_closed() {
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    tokio.block_on(async move {
        let outbox = TestOutbox::start(|outbox| {
            outbox.on("OrderPlaced", move |_: Delivery| {
                let held = held.clone();
                async move {
                    std::future::pending::<()>().await;
                    drop(held);
                    Ok::<(), ListenerError>(())
                }
            })
        });
        write(&outbox, plain("order-17")).await;
        outbox.advance_regardless(SECOND).await;
        assert!(outbox.attempts()[0].is_running());
        drop(outbox);
        tokio::task::yield_now().await;
    });
    drop(tokio);

    assert!(seen.upgrade().is_none());
}

#[tokio::test]
async fn options_that_make_no_sense_are_told() {
    let panic = panic_of(|| drop(TestOutbox::start(|outbox| outbox.workers(0))));

    assert_eq!(panic, "the outbox under test cannot be started: `workers` is 0: it must be at least 1");
}

/// It would go by another clock than the test moves.
#[tokio::test]
async fn another_runtime_is_refused() {
    let runtime = mailing_outbox().runtime();
    let own = panic_of(|| drop(TestOutbox::start(|outbox| outbox.runtime(runtime))));
    let other = panic_of(|| drop(TestOutbox::start(|_| Outbox::builder(MemoryStore::new()))));

    for panic in [own, other] {
        assert!(panic.contains("configure the builder that is given"), "{panic}");
    }
}
