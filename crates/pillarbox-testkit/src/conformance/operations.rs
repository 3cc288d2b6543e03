//! What operators ask for: looking, counting, replaying and discarding.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{Administration, DoneRows, EventStore, Outcome, Page, Selection, Settlement, Status};

use super::settlements::{dead, retry};
use super::steps::ids;
use super::{
    LONG, NONE, StoreHarness, bury, claim, claim_one, claim_one_for, order_placed, order_placed_available_at,
    settle, stored, within, write,
};

/// S2: a replayed event is pending again with nothing counted, due now, and keeps its last error.
pub async fn replay_makes_dead_events_pending(harness: &impl StoreHarness) {
    write(harness, &[order_placed_available_at("order-17", 1_000_000)]).await;
    claim_one_for(harness, Duration::ZERO).await;
    let buried = claim_one(harness).await;
    settle(harness, &buried, dead("address unknown", true)).await;
    assert_eq!(stored(harness, &buried.event_id).await.starts, 1);

    let replayed = harness.store().replay(&by_ids(&[&buried.event_id])).await.unwrap();

    assert_eq!(replayed, 1);
    let row = stored(harness, &buried.event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Retry), 0, 0));
    assert_eq!(row.last_error.as_deref(), Some("address unknown"));
    assert_eq!((row.locked_by, row.done_at), (None, None));
    within(row.due_at, row.created_at, Duration::ZERO);
    assert_eq!(row.available_at, row.due_at);
    assert_eq!(claim_one(harness).await.event_id, buried.event_id);
}

/// S2: replaying and discarding touch dead events only, whatever ids are given.
pub async fn only_dead_events_are_replayed_or_discarded(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-1")]).await;
    let done = claim_one(harness).await;
    settle(harness, &done, Outcome::Done).await;
    write(harness, &[order_placed("order-2")]).await;
    let retried = claim_one(harness).await;
    settle(harness, &retried, retry(LONG, true)).await;
    write(harness, &[order_placed("order-3")]).await;
    let leased = claim_one(harness).await;
    let new = order_placed("order-4");
    write(harness, std::slice::from_ref(&new)).await;
    let all = [&done.event_id, &retried.event_id, &leased.event_id, new.id(), "unknown"];
    let before = rows(harness, &all[..4]).await;

    for selection in [by_ids(&all), Selection::Numbers { from: 0, to: i64::MAX }, by_ids(&[])] {
        assert_eq!(harness.store().replay(&selection).await.unwrap(), 0);
        assert_eq!(harness.store().discard(&selection).await.unwrap(), Vec::<String>::new());
    }

    assert_eq!(rows(harness, &all[..4]).await, before);
}

/// S2: numbers mean both ends and all dead events in between.
pub async fn dead_events_are_replayed_by_numbers(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 5).await;
    let seqs: Vec<i64> = rows_of_dead(harness).await;

    let backwards = Selection::Numbers { from: seqs[3], to: seqs[1] };
    assert_eq!(harness.store().replay(&backwards).await.unwrap(), 0);
    let middle = Selection::Numbers { from: seqs[1], to: seqs[3] };
    assert_eq!(harness.store().replay(&middle).await.unwrap(), 3);
    assert_eq!(harness.store().replay(&middle).await.unwrap(), 0);

    let mut taken = claim(harness, 10).await.events;
    taken.sort_by_key(|taken| taken.lease.seq);
    assert_eq!(ids(&taken), ids(&buried[1..4]));
}

/// S2: many ids can be given at once, and one that is given twice counts once.
pub async fn many_dead_events_are_replayed_at_once(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 1_200).await;
    let mut selected: Vec<&str> = ids(&buried);
    selected.push(buried[0].id());

    let replayed = harness.store().replay(&by_ids(&selected)).await.unwrap();

    assert_eq!(replayed, 1_200);
    assert_eq!(harness.store().stats().await.unwrap().retry, 1_200);
}

/// S2: discarding deletes dead events and tells which.
pub async fn discard_deletes_dead_events(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 4).await;
    let seqs = rows_of_dead(harness).await;

    let by_id = harness.store().discard(&by_ids(&[buried[0].id(), "unknown"])).await.unwrap();
    let numbers = Selection::Numbers { from: seqs[1], to: seqs[2] };
    let mut by_numbers = harness.store().discard(&numbers).await.unwrap();

    by_numbers.sort_unstable();
    assert_eq!(by_id, [buried[0].id()]);
    assert_eq!(by_numbers, [buried[1].id(), buried[2].id()]);
    assert!(harness.store().find(buried[0].id()).await.unwrap().is_none());
    assert_eq!(rows_of_dead(harness).await, seqs[3..]);
}

/// S2: an id that nobody wrote is not found.
pub async fn unknown_event_is_not_found(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;

    assert!(harness.store().find("unknown").await.unwrap().is_none());
    assert!(harness.store().find("").await.unwrap().is_none());
}

/// S8: the events of an aggregate are found page by page, in the order of their numbers, whatever their state.
pub async fn events_of_an_aggregate_are_found(harness: &impl StoreHarness) {
    let mut events = vec![bury(harness, order_placed("order-17")).await.event.unwrap()];
    for _ in 0..4 {
        let (event, other) = (order_placed("order-17"), order_placed("order-18"));
        write(harness, &[other, event.clone()]).await;
        events.push(event);
    }

    let mut found = Vec::new();
    let mut after = 0;
    for _ in 0..4 {
        let rows = harness.store().find_by_aggregate("order-17", Page { after, limit: 2 }).await.unwrap();
        assert!(rows.len() <= 2);
        let Some(last) = rows.last() else { break };
        after = last.seq;
        found.extend(rows);
    }

    assert_eq!(ids(&found), ids(&events));
    assert!(found.is_sorted_by_key(|row| row.seq));
    let unknown = harness.store().find_by_aggregate("order-1", Page { after: 0, limit: 9 }).await.unwrap();
    assert!(unknown.is_empty());
}

/// S2: dead events are listed page by page, in the order of their numbers, unreadable ones included.
pub async fn dead_events_are_listed(harness: &impl StoreHarness) {
    let buried = bury_many(harness, 5).await;
    write(harness, &[order_placed("order-17")]).await;
    harness.corrupt(buried[2].id()).await;

    let first = harness.store().dead(Page { after: 0, limit: 3 }).await.unwrap();
    let rest = harness.store().dead(Page { after: first[2].seq, limit: 3 }).await.unwrap();
    let none = harness.store().dead(Page { after: rest[1].seq, limit: 3 }).await.unwrap();

    assert_eq!(ids(&first), ids(&buried[..3]));
    assert_eq!(ids(&rest), ids(&buried[3..]));
    assert!(none.is_empty());
    assert!(first[2].event.is_err() && first[1].event.is_ok());
}

/// M5, M6: events are counted by status.
pub async fn events_are_counted_by_status(harness: &impl StoreHarness) {
    bury_many(harness, 3).await;
    write(harness, &[order_placed("order-1"), order_placed("order-2")]).await;
    for taken in claim(harness, 2).await.events {
        settle(harness, &taken, retry(LONG, true)).await;
    }
    write(harness, &[order_placed("order-3")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;
    write(harness, &[order_placed("order-4")]).await;

    let stats = harness.store().stats().await.unwrap();

    assert_eq!((stats.new, stats.retry, stats.dead, stats.pending()), (1, 2, 3, 3));
}

/// M6: the oldest due event counts from its due time, leased or not; what is not due has no age.
pub async fn oldest_due_event_is_measured(harness: &impl StoreHarness) {
    assert_eq!(harness.store().stats().await.unwrap().oldest_due_for, None);
    let delayed = Event::builder("OrderPlaced").deliver_after(LONG).json_text("{}").build().unwrap();
    write(harness, &[delayed]).await;
    assert_eq!(harness.store().stats().await.unwrap().oldest_due_for, None);

    write(harness, &[order_placed_available_at("order-17", 1_000_000), order_placed("order-18")]).await;
    let taken = claim(harness, 1).await.events;

    let decades = Duration::from_secs(50 * 365 * 86_400);
    assert!(harness.store().stats().await.unwrap().oldest_due_for.unwrap() > decades);
    settle(harness, &taken[0], Outcome::Done).await;
    assert!(harness.store().stats().await.unwrap().oldest_due_for.unwrap() < LONG);
}

/// S1: numbers only grow, and none is given again when its row is deleted.
pub async fn numbers_are_never_given_again(harness: &impl StoreHarness) {
    assert_eq!(harness.store().highest().await.unwrap(), 0);
    let mut last = 0;
    for _ in 0..3 {
        write(harness, &[order_placed("order-17")]).await;
        let taken = claim_one(harness).await;
        assert!(taken.lease.seq > last);
        last = taken.lease.seq;

        let done = Settlement::of(&taken, Outcome::Done);
        assert_eq!(harness.store().settle(&[done], DoneRows::Delete).await.unwrap(), NONE);

        assert_eq!(harness.store().highest().await.unwrap(), last);
    }
}

pub(super) async fn bury_many(harness: &impl StoreHarness, count: usize) -> Vec<Event> {
    let events: Vec<Event> = (0..count).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;
    let taken = claim(harness, count).await.events;
    let batch: Vec<_> = taken.iter().map(|taken| (taken, dead("address unknown", true))).collect();
    assert_eq!(super::settle_all(harness, &batch).await, NONE);
    events
}

fn by_ids(ids: &[&str]) -> Selection {
    Selection::Ids(ids.iter().map(|&id| id.to_owned()).collect())
}

async fn rows(harness: &impl StoreHarness, ids: &[&str]) -> Vec<String> {
    let mut rows = Vec::new();
    for id in ids {
        rows.push(format!("{:?}", stored(harness, id).await));
    }
    rows
}

async fn rows_of_dead(harness: &impl StoreHarness) -> Vec<i64> {
    let rows = harness.store().dead(Page { after: 0, limit: 100 }).await.unwrap();
    rows.iter().map(|row| row.seq).collect()
}
