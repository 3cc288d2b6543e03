//! Order and ownership under test.

use pillarbox::store::Mode;
use pillarbox::testing::TestOutbox;
use pillarbox::{DeadHead, Delivery, Event, ListenerError, Retry};

use crate::shop::{SECOND, write};

/// `number` of a key.
fn step(key: &str, number: u32) -> Event {
    Event::builder("Step").id(format!("{key}-{number}")).key(key).json_text("{}").build().unwrap()
}

/// Who succeeded, in order.
fn done(outbox: &TestOutbox) -> Vec<String> {
    outbox.delivered().iter().map(|delivery| delivery.id().to_owned()).collect()
}

/// An ordered outbox whose listener fails with `a-1` at the first `failures` attempts.
fn ordered(failures: u32, policy: DeadHead) -> TestOutbox {
    TestOutbox::start(|outbox| {
        let retry = Retry::fixed(60 * SECOND).max_attempts(3);
        outbox.ordered().on_dead_head(policy).retry(retry).on("Step", move |step: Delivery| async move {
            if step.id() == "a-1" && step.attempt() <= failures {
                return Err(ListenerError::new("not yet"));
            }
            Ok(())
        })
    })
}

/// O1, O2: a key waits for its head, others do not.
#[tokio::test]
async fn key_waits_for_the_event_that_is_tried_again() {
    let outbox = ordered(1, DeadHead::Release);
    for event in [step("a", 1), step("a", 2), step("b", 1), step("a", 3)] {
        write(&outbox, event).await;
    }

    outbox.drain().await;
    assert_eq!(done(&outbox), ["b-1"]);
    assert_eq!(outbox.pending().len(), 3);
    outbox.advance(60 * SECOND).await;

    assert_eq!(done(&outbox), ["b-1", "a-1", "a-2", "a-3"]);
    outbox.assert_all_delivered();
}

/// O1: what waits in the table for its key is delivered in the same drain as its head.
#[tokio::test]
async fn long_key_is_drained_in_order() {
    let outbox = ordered(1, DeadHead::Release);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write_all(&mut tx, (1..=1_500).map(|number| step("a", number))).await.unwrap();
    tx.commit().await.unwrap();

    outbox.drain().await;
    assert_eq!(outbox.pending().len(), 1_500);
    outbox.drain_all().await;

    let expected: Vec<_> = (1..=1_500).map(|number| format!("a-{number}")).collect();
    assert_eq!(done(&outbox), expected);
    outbox.assert_all_delivered();
}

/// O6: a parked key waits for an operator, and for no time.
#[tokio::test]
async fn parked_key_is_left_by_drain_all() {
    let outbox = ordered(3, DeadHead::Park);
    for event in [step("a", 1), step("a", 2)] {
        write(&outbox, event).await;
    }

    outbox.drain_all().await;

    outbox.assert_dead("a-1");
    assert_eq!(outbox.pending()[0].event_id, "a-2");
}

/// O5: partitions are kept however far the clock is moved.
#[tokio::test]
async fn owner_of_partitions_outlives_a_day() {
    let outbox = TestOutbox::start(|outbox| {
        outbox.mode(Mode::Ownership).on("Step", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    });

    outbox.advance(24 * 3_600 * SECOND).await;
    write(&outbox, step("a", 1)).await;
    outbox.drain().await;

    outbox.assert_delivered("a-1");
    assert_eq!(outbox.partitions().len(), 256);
}
