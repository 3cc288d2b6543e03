//! Taking: what is handed out, in which order, and when to look again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{EventStore, LONGEST_LEASE, Outcome, StoreError, Take};

use super::steps::ids;
use super::{
    LONG, NONE, StoreHarness, bury, claim, claim_one, order_placed, order_placed_available_at, owner, settle,
    stored, take, write,
};

/// P3: the earliest available comes first, whatever the order of writing.
pub async fn earliest_available_is_taken_first(harness: &impl StoreHarness) {
    let events = [4, 1, 5, 2, 3].map(|at| order_placed_available_at(&format!("order-{at}"), at));
    for event in &events {
        write(harness, std::slice::from_ref(event)).await;
    }
    let [fourth, first, fifth, second, third] = &events;

    let few = claim(harness, 3).await.events;
    let rest = claim(harness, 3).await.events;

    assert_eq!(ids(&few), [first.id(), second.id(), third.id()]);
    assert_eq!(ids(&rest), [fourth.id(), fifth.id()]);
}

/// P3: events that became available together are taken by number.
pub async fn ties_are_taken_by_number(harness: &impl StoreHarness) {
    let events: Vec<Event> =
        (0..20).map(|n| order_placed_available_at(&format!("order-{n}"), 1_000_000)).collect();
    for event in &events {
        write(harness, std::slice::from_ref(event)).await;
    }

    let taken = claim(harness, 20).await.events;

    assert_eq!(ids(&taken), ids(&events));
    assert!(taken.is_sorted_by_key(|taken| taken.lease.seq));
}

/// P3: new events and retries stand in one line.
pub async fn new_events_and_retries_stand_in_one_line(harness: &impl StoreHarness) {
    let failed = order_placed_available_at("order-1", 1);
    write(harness, std::slice::from_ref(&failed)).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Retry { after: Duration::ZERO, error: "503".into(), spent: true }).await;
    let earlier = order_placed_available_at("order-2", 2);
    write(harness, std::slice::from_ref(&earlier)).await;

    let taken = claim(harness, 10).await.events;

    assert_eq!(ids(&taken), [earlier.id(), failed.id()]);
}

/// P4: no more is handed out than was asked for, and the rest stays.
pub async fn no_more_is_taken_than_asked_for(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..5).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;

    assert_eq!(claim(harness, 0).await.events.len(), 0);
    assert_eq!(claim(harness, 2).await.events.len(), 2);
    assert_eq!(claim(harness, 2).await.events.len(), 2);
    assert_eq!(claim(harness, 2).await.events.len(), 1);
    assert_eq!(claim(harness, 2).await.events.len(), 0);
}

/// P5: where nothing is pending there is nothing to wait for.
pub async fn empty_store_has_nothing_due(harness: &impl StoreHarness) {
    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    assert_eq!(batch.next_due_in, None);
}

/// P5: a short batch tells when the earliest of what remains can be taken.
pub async fn short_batch_tells_when_the_next_is_due(harness: &impl StoreHarness) {
    let delayed = |delay| Event::builder("OrderPlaced").deliver_after(delay).json_text("{}").build().unwrap();
    write(harness, &[delayed(LONG * 3), delayed(LONG / 2), order_placed("order-17"), delayed(LONG * 2)])
        .await;

    let batch = claim(harness, 10).await;

    assert_eq!(batch.events.len(), 1);
    let wait = batch.next_due_in.expect("more becomes due");
    assert!(wait > Duration::ZERO && wait <= LONG / 2, "{wait:?}");
}

/// P5: the end of another's lease is a time to look again.
pub async fn short_batch_tells_when_a_lease_ends(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    claim_one(harness).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    let wait = batch.next_due_in.expect("the lease ends");
    assert!(wait > Duration::ZERO && wait <= LONG, "{wait:?}");
}

/// S2, P5: what is done or dead is neither handed out nor waited for.
pub async fn done_and_dead_events_are_not_taken(harness: &impl StoreHarness) {
    bury(harness, order_placed("order-17")).await;
    write(harness, &[order_placed("order-18")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    assert_eq!(batch.next_due_in, None);
}

/// S5: takers that run side by side, in this process and in another, never get the same event, and leave none
/// behind.
pub async fn concurrent_takes_are_disjoint(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..400).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;

    let here = Arc::clone(harness.store());
    let elsewhere = harness.elsewhere().await.unwrap_or_else(|| Arc::clone(&here));
    let takers: Vec<_> = (0..8)
        .map(|n| tokio::spawn(take_all(Arc::clone(if n % 2 == 0 { &here } else { &elsewhere }), n)))
        .collect();

    let mut times = BTreeMap::new();
    for taker in takers {
        for id in taker.await.unwrap() {
            *times.entry(id).or_insert(0) += 1;
        }
    }
    assert_eq!(times.len(), events.len());
    assert!(times.values().all(|&times| times == 1), "{times:?}");
}

async fn take_all(store: Arc<impl EventStore>, taker: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..400 {
        let take = Take { owner: owner(&format!("relay-{taker}")), ..take(7) };
        let events = store.take(take).await.unwrap().events;
        if events.is_empty() {
            return all;
        }
        all.extend(events.into_iter().map(|taken| taken.event_id));
    }
    panic!("the events do not come to an end");
}

/// S5: what is leased is handed out to nobody, its owner included.
pub async fn leased_event_is_taken_by_nobody(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    claim_one(harness).await;

    let again = claim(harness, 10).await.events;
    let other = Take { owner: owner("another"), ..take(10) };
    let by_another = harness.store().take(other).await.unwrap().events;

    assert!(again.is_empty() && by_another.is_empty());
}

/// S5: a take raises `starts`, tells the value before, and records its owner.
pub async fn take_records_start_and_owner(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;

    let taken = claim_one(harness).await;

    assert_eq!((taken.lease.attempts, taken.lease.starts), (0, 0));
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.seq, row.starts, row.attempts), (taken.lease.seq, 1, 0));
    assert_eq!(row.locked_by, Some(owner("relay").to_string()));
    assert_eq!(row.created_at, taken.created_at);
}

/// P1: events that were written too recently are left alone, and the batch tells for how long.
pub async fn recent_events_are_skipped(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17"), order_placed_available_at("order-18", 1)]).await;

    let skipping = Take { skip_recent: LONG, ..take(10) };
    let batch = harness.store().take(skipping).await.unwrap();

    assert!(batch.events.is_empty());
    let wait = batch.next_due_in.expect("they grow older");
    assert!(wait > Duration::ZERO && wait <= LONG, "{wait:?}");
    assert_eq!(claim(harness, 10).await.events.len(), 2);
}

/// P1: who skips events for longer than any database can count takes none, and learns that they grow older.
pub async fn endless_skip_takes_nothing(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17"), order_placed_available_at("order-18", 1)]).await;

    let skipping = Take { skip_recent: Duration::MAX, ..take(10) };
    let batch = harness.store().take(skipping).await.unwrap();

    assert!(batch.events.is_empty());
    assert!(batch.next_due_in.is_none_or(|wait| wait > LONG), "{:?}", batch.next_due_in);
}

/// P3: a row that cannot be decoded is handed out with its id and a reason, and disturbs no other.
pub async fn undecodable_row_disturbs_no_other(harness: &impl StoreHarness) {
    let events = [1, 2, 3].map(|at| order_placed_available_at(&format!("order-{at}"), at));
    write(harness, &events).await;
    harness.corrupt(events[1].id()).await;

    let taken = claim(harness, 10).await.events;

    assert_eq!(ids(&taken), ids(&events));
    assert_eq!(taken[0].event.as_ref(), Ok(&events[0]));
    assert_eq!(taken[2].event.as_ref(), Ok(&events[2]));
    let reason = taken[1].event.as_ref().expect_err("the row cannot be decoded");
    assert!(!reason.is_empty());
}

/// P3: a row that cannot be decoded can be settled, and an operator sees why.
pub async fn undecodable_row_can_be_settled(harness: &impl StoreHarness) {
    let event = order_placed("order-17");
    write(harness, std::slice::from_ref(&event)).await;
    harness.corrupt(event.id()).await;
    let taken = claim_one(harness).await;

    let lost = settle(harness, &taken, Outcome::Dead { error: "undecodable".into(), spent: false }).await;

    assert_eq!(lost, NONE);
    let row = stored(harness, event.id()).await;
    assert_eq!(row.last_error.as_deref(), Some("undecodable"));
    assert!(row.event.is_err());
}

/// S10: nobody gets a lease that is longer than the longest.
pub async fn take_with_too_long_a_lease_is_refused(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;

    let too_long = Take { lease_for: LONGEST_LEASE + Duration::from_secs(1), ..take(1) };
    let refused = harness.store().take(too_long).await;

    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(claim_one(harness).await.lease.starts, 0);
}
