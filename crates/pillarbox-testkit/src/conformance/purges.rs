//! Purging: old events go, in bounded steps, and nothing else does.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{Administration, Outcome, Purge};

use super::operations::bury_many;
use super::settlements::retry;
use super::steps::ids;
use super::{
    LONG, NONE, StoreHarness, bury, claim, claim_one, order_placed, order_placed_available_at, settle,
    settle_all, write,
};

/// S9: done events go when they are old enough.
pub async fn purge_deletes_old_done_events(harness: &impl StoreHarness) {
    let events = deliver(harness, 3).await;

    let deleted = purge(harness, Duration::ZERO, false).await;

    assert_eq!(deleted, 3);
    assert!(exist(harness, &events).await.is_empty());
}

/// S9: done events stay until they have been done for the whole retention time, however old they are.
pub async fn purge_keeps_events_that_were_done_recently(harness: &impl StoreHarness) {
    let event = order_placed_available_at("order-17", 1);
    write(harness, std::slice::from_ref(&event)).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;

    let deleted = purge(harness, LONG, true).await;

    assert_eq!(deleted, 0);
    assert_eq!(exist(harness, &[event]).await.len(), 1);
}

/// S9: a retention time that is longer than any database can count keeps everything.
pub async fn endless_retention_deletes_nothing(harness: &impl StoreHarness) {
    let events = deliver(harness, 3).await;
    bury_many(harness, 2).await;

    let deleted = purge(harness, Duration::MAX, true).await;

    assert_eq!(deleted, 0);
    assert_eq!(exist(harness, &events).await.len(), 3);
}

/// S9: pending events stay: new, leased, retried and set aside.
pub async fn purge_leaves_pending_events(harness: &impl StoreHarness) {
    let events = ["order-1", "order-2", "order-3"].map(order_placed);
    write(harness, &events).await;
    let taken = claim(harness, 3).await.events;
    let aside = Outcome::Aside { until: Some(LONG), reason: "held".into() };
    settle_all(harness, &[(&taken[0], retry(Duration::ZERO, true)), (&taken[1], aside)]).await;
    let new = order_placed("order-4");
    write(harness, std::slice::from_ref(&new)).await;

    let deleted = purge(harness, Duration::ZERO, true).await;

    assert_eq!(deleted, 0);
    assert_eq!(harness.store().stats().await.unwrap().pending(), 4);
}

/// S9: dead events stay unless they are asked for.
pub async fn purge_leaves_dead_events(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 3).await;
    deliver(harness, 2).await;

    let deleted = purge(harness, Duration::ZERO, false).await;

    assert_eq!(deleted, 2);
    assert_eq!(exist(harness, &buried).await, ids(&buried));
}

/// S9: dead events that are asked for go with the done ones.
pub async fn purge_deletes_dead_events_if_asked(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 3).await;
    let delivered = deliver(harness, 2).await;

    let deleted = purge(harness, Duration::ZERO, true).await;

    assert_eq!(deleted, 5);
    assert!(exist(harness, &buried).await.is_empty());
    assert!(exist(harness, &delivered).await.is_empty());
}

/// S9: dead events that were written recently stay, even if they are asked for.
pub async fn purge_keeps_dead_events_that_are_recent(harness: &impl StoreHarness) {
    let buried = bury(harness, order_placed_available_at("order-17", 1)).await;

    let deleted = purge(harness, LONG, true).await;

    assert_eq!(deleted, 0);
    assert!(harness.store().find(&buried.event_id).await.unwrap().is_some());
}

/// S9: a purge goes step by step, none larger than asked for, over gaps and over what stays, and ends.
pub async fn purge_goes_in_bounded_steps(harness: &impl StoreHarness) {
    for _ in 0..4 {
        deliver(harness, 7).await;
        bury_many(harness, 3).await;
        let delayed = Event::builder("OrderPlaced").deliver_after(LONG).json_text("{}").build().unwrap();
        write(harness, &[delayed]).await;
    }

    let mut step = Purge { older_than: Duration::ZERO, limit: 5, after: 0, dead_too: false };
    let (mut deleted, mut steps) = (0, 0);
    while steps < 100 {
        let purged = harness.store().purge(step).await.unwrap();
        assert!(purged.deleted <= 5, "{purged:?}");
        (deleted, steps) = (deleted + purged.deleted, steps + 1);
        let Some(next) = purged.next else { break };
        assert!(next > step.after, "{purged:?} after {}", step.after);
        step.after = next;
    }

    assert_eq!(deleted, 28);
    assert!((6..100).contains(&steps), "28 rows in {steps} steps of 5");
    let stats = harness.store().stats().await.unwrap();
    assert_eq!((stats.pending(), stats.dead), (4, 12));
}

/// S9: a purge that finds nothing old enough ends too.
pub async fn purge_ends_when_nothing_is_old_enough(harness: &impl StoreHarness) {
    deliver(harness, 25).await;

    assert_eq!(purge(harness, LONG, true).await, 0);
    assert_eq!(purge(harness, Duration::ZERO, true).await, 25);
    assert_eq!(purge(harness, Duration::ZERO, true).await, 0);
}

/// Writes and delivers events.
async fn deliver(harness: &impl StoreHarness, count: usize) -> Vec<Event> {
    let events: Vec<Event> = (0..count).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;
    let taken = claim(harness, count).await.events;
    let batch: Vec<_> = taken.iter().map(|taken| (taken, Outcome::Done)).collect();
    assert_eq!(settle_all(harness, &batch).await, NONE);
    events
}

/// Purges to the end and returns how many rows were deleted.
async fn purge(harness: &impl StoreHarness, older_than: Duration, dead_too: bool) -> u64 {
    let mut step = Purge { older_than, limit: 10, after: 0, dead_too };
    let mut deleted = 0;
    for _ in 0..1_000 {
        let purged = harness.store().purge(step).await.unwrap();
        deleted += purged.deleted;
        match purged.next {
            Some(next) => step.after = next,
            None => return deleted,
        }
    }
    panic!("the purge does not end");
}

/// The ids of those that are still there.
async fn exist<'a>(harness: &impl StoreHarness, events: &'a [Event]) -> Vec<&'a str> {
    let mut there = Vec::new();
    for event in events {
        if harness.store().find(event.id()).await.unwrap().is_some() {
            there.push(event.id());
        }
    }
    there
}
