//! The clock moves when it is told to, and never while a listener runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pillarbox::store::TxStore;
use pillarbox::testing::{Answer, TestOutbox};
use pillarbox::{Delivery, Event, ListenerError, MemoryStore, Retry, Runtime, Timestamp};

use crate::shop::{
    Notes, SECOND, failing, mailing, mailing_outbox, panic_in, place_order, placed, plain, write,
};

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test]
async fn retry_comes_when_its_time_has_come_and_not_before() {
    let outbox =
        TestOutbox::start(|outbox| outbox.handlers(mailing(failing(2))).retry(Retry::fixed(60 * SECOND)));
    let id = place_order(&outbox, "order-17").await;

    outbox.advance(60 * SECOND - Duration::from_micros(1)).await;
    assert_eq!(outbox.attempts().len(), 1);
    outbox.advance(Duration::from_micros(1)).await;
    assert_eq!(outbox.attempts().len(), 2);
    outbox.advance(60 * SECOND).await;

    assert_eq!(outbox.assert_delivered_to(&id, "mail").attempt(), 3);
}

/// However far it is moved at once: each attempt follows from the one before, not from where the clock ends.
#[tokio::test]
async fn everything_on_the_way_happens_at_its_time() {
    let times = Notes::<Duration>::new();
    let runtime: Arc<OnceLock<Runtime>> = Arc::default();
    let (noted, clock) = (times.clone(), runtime.clone());
    let handlers = mailing(move |delivery| {
        noted.note(clock.get().unwrap().clock.now());
        failing(3)(delivery)
    });
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers).retry(Retry::fixed(7 * SECOND)));
    runtime.set(outbox.runtime()).unwrap();

    // Under load the settler would gather outcomes for some milliseconds.
    for number in 0..20 {
        place_order(&outbox, &format!("order-{number}")).await;
    }
    outbox.advance(HOUR).await;

    let expected: Vec<_> = [0, 7, 14, 21].into_iter().flat_map(|at| [at * SECOND; 20]).collect();
    assert_eq!(times.all(), expected);
    outbox.assert_all_delivered();
}

/// On the way, too, it is looked for what is due: nobody tells of an event that another program writes.
#[tokio::test]
async fn event_of_another_writer_is_delivered_when_it_was_written() {
    let (times, outbox) = (Notes::<(String, Duration)>::new(), Arc::<OnceLock<TestOutbox>>::default());
    let (noted, shared) = (times.clone(), outbox.clone());
    let listener = move |delivery: Delivery| {
        let (noted, shared) = (noted.clone(), shared.clone());
        async move {
            let outbox = shared.get().unwrap();
            noted.note((delivery.id().to_owned(), outbox.runtime().clock.now()));
            if delivery.id() == "order-17" {
                write_by_another(outbox.store(), plain("order-18")).await;
            }
            Ok::<(), ListenerError>(())
        }
    };
    outbox.set(TestOutbox::start(|outbox| outbox.on("OrderPlaced", listener))).unwrap();
    let outbox = outbox.get().unwrap();
    let delayed = Event::builder("OrderPlaced").id("order-17").json_text("{}").deliver_after(7 * SECOND);
    write(outbox, delayed).await;

    outbox.advance(HOUR).await;

    assert_eq!(times.all(), [("order-17".to_owned(), 7 * SECOND), ("order-18".to_owned(), 7 * SECOND)]);
}

/// Writes as a program would that has no outbox of ours.
async fn write_by_another(store: &MemoryStore, event: Event) {
    let mut tx = store.begin().await.unwrap();
    store.insert(MemoryStore::connection_mut(&mut tx), &[event], None).await.unwrap();
    MemoryStore::commit(tx).await.unwrap();
}

#[tokio::test]
async fn delayed_event_is_delivered_when_it_is_due() {
    let outbox = mailing_outbox();
    let id = write(&outbox, Event::of(&placed("order-17")).deliver_after(30 * 24 * HOUR)).await;

    outbox.advance(30 * 24 * HOUR - SECOND).await;
    assert!(outbox.attempts().is_empty());
    outbox.advance(SECOND).await;

    outbox.assert_delivered(&id);
}

#[tokio::test]
async fn drain_all_makes_every_retry() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.handlers(mailing(failing(u32::MAX))).retry(Retry::exponential().max_attempts(5))
    });
    let given_up = place_order(&outbox, "order-17").await;

    outbox.drain_all().await;

    let dead = outbox.assert_dead(&given_up);
    assert_eq!((dead.attempts, dead.last_error.as_deref()), (5, Some("handler `mail`: no stamps")));
    assert!(outbox.pending().is_empty());
}

#[tokio::test]
async fn drain_all_does_not_go_on_for_ever() {
    let not_now = |_: &Delivery| Err(ListenerError::not_now(60 * SECOND, "closed on Sundays"));
    let outbox = Arc::new(TestOutbox::start(|outbox| outbox.handlers(mailing(not_now))));
    let id = place_order(&outbox, "order-17").await;

    let shared = outbox.clone();
    let panic = panic_in(async move { shared.drain_all().await }).await;

    assert!(panic.contains("1000 times") && panic.contains(&id), "{panic}");
    assert!(panic.contains("closed on Sundays"), "{panic}");
}

#[tokio::test]
async fn same_seed_gives_the_same_jitter() {
    async fn delays(seed: u64) -> Vec<Duration> {
        let outbox =
            TestOutbox::builder().seed(seed).start(|outbox| outbox.handlers(mailing(failing(u32::MAX))));
        let mut delays = Vec::new();
        for order in ["order-17", "order-18", "order-19"] {
            place_order(&outbox, order).await;
            outbox.drain().await;
            delays.push(outbox.pending().last().unwrap().due_at.saturating_since(outbox.now()));
        }
        delays
    }

    assert_eq!(delays(17).await, delays(17).await);
    assert_ne!(delays(17).await, delays(18).await);
}

#[tokio::test]
async fn clock_starts_at_the_time_that_was_given() {
    let dawn = Timestamp::from_micros(17);
    let outbox = TestOutbox::builder().starting_at(dawn).start(|outbox| outbox.handlers(mailing(|_| Ok(()))));

    let id = write(&outbox, Event::of(&placed("order-17")).available_at(dawn.saturating_add(HOUR))).await;
    outbox.advance(HOUR).await;

    outbox.assert_delivered(&id);
}

/// D10: the time limit is one of the test's clock, which stands still while something real is awaited.
#[tokio::test]
async fn listener_that_awaits_something_real_is_not_timed_out() {
    let runtime: Arc<OnceLock<Runtime>> = Arc::default();
    let clock = runtime.clone();
    let times = Notes::<(Duration, Duration)>::new();
    let noted = times.clone();
    let outbox = TestOutbox::start(|outbox| {
        outbox.delivery_timeout(Duration::from_micros(1)).on("OrderPlaced", move |_: Delivery| {
            let (clock, noted) = (clock.get().unwrap().clock.clone(), noted.clone());
            async move {
                let begun = clock.now();
                let real = tokio::spawn(async { tokio::time::sleep(Duration::from_millis(5)).await });
                real.await?;
                noted.note((begun, clock.now()));
                Ok::<(), ListenerError>(())
            }
        })
    });
    runtime.set(outbox.runtime()).unwrap();

    write(&outbox, plain("order-17")).await;
    let delayed = Event::builder("OrderPlaced").id("order-18").json_text("{}").deliver_after(60 * SECOND);
    write(&outbox, delayed).await;
    outbox.advance(HOUR).await;

    assert_eq!(times.all(), [(Duration::ZERO, Duration::ZERO), (60 * SECOND, 60 * SECOND)]);
    outbox.assert_all_delivered();
}

/// D10: what hangs is timed out when the test wants it.
#[tokio::test]
async fn listener_is_timed_out_when_the_clock_is_moved_regardless() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.retry(Retry::fixed(60 * SECOND)).on("OrderPlaced", |delivery: Delivery| async move {
            if delivery.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            Ok::<(), ListenerError>(())
        })
    });
    write(&outbox, plain("order-17")).await;

    outbox.advance_regardless(30 * SECOND - Duration::from_micros(1)).await;
    assert!(outbox.attempts()[0].is_running());
    outbox.advance_regardless(Duration::from_micros(1)).await;
    assert_eq!(outbox.attempts()[0].answer(), &Answer::CutOff);
    assert_eq!(outbox.pending()[0].last_error.as_deref(), Some("the listener did not answer within 30s"));
    outbox.advance(60 * SECOND).await;

    outbox.assert_delivered("order-17");
}

/// S9: what was deleted was written all the same.
#[tokio::test]
async fn deleted_events_were_written_and_delivered() {
    let outbox = TestOutbox::start(|outbox| outbox.handlers(mailing(|_| Ok(()))).keep_done_for(HOUR));
    let id = place_order(&outbox, "order-17").await;

    outbox.advance(2 * HOUR).await;

    assert!(outbox.store().rows().is_empty());
    outbox.assert_written(&placed("order-17"));
    outbox.assert_delivered(&id);
}
