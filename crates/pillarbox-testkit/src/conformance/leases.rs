//! Leases: how they end, are renewed, swept and resumed.

use std::time::Duration;

use pillarbox::store::{EventStore, LONGEST_LEASE, Lease, Outcome, Owner, StoreError, Take, Token};
use pillarbox::{Event, Timestamp};

use super::{
    LONG, NONE, StoreHarness, birth, claim, claim_one, claim_one_for, order_placed, owner, settle, stored,
    take, within, write, write_born,
};

/// S5: a lease that ended can be taken again, and each take without an outcome is counted.
pub async fn ended_lease_can_be_taken_again(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;

    let first = claim_one_for(harness, Duration::ZERO).await;
    let second = claim_one_for(harness, Duration::ZERO).await;
    let third = claim_one(harness).await;

    assert_eq!([first.lease.starts, second.lease.starts, third.lease.starts], [0, 1, 2]);
    assert_eq!(stored(harness, &third.event_id).await.starts, 3);
}

/// S10: an ended lease leaves the due time alone, so that lag is measured from it.
pub async fn ended_lease_keeps_the_due_time(harness: &impl StoreHarness) {
    write(harness, &[super::order_placed_available_at("order-17", 1_000_000)]).await;

    claim_one_for(harness, Duration::ZERO).await;
    let taken = claim_one(harness).await;

    let row = stored(harness, &taken.event_id).await;
    assert_eq!(row.due_at, Timestamp::from_micros(1_000_000));
    within(row.available_at, row.created_at, LONG);
}

/// S10: renewing works as long as nobody else took the event, even after the lease ended.
pub async fn renewed_lease_is_held(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one_for(harness, Duration::ZERO).await;

    let lost = harness.store().renew(&[taken.lease], LONG).await.unwrap();

    assert_eq!(lost, NONE);
    assert!(claim(harness, 10).await.events.is_empty());
    let row = stored(harness, &taken.event_id).await;
    within(row.available_at, row.created_at, LONG);
    assert_eq!((row.starts, row.attempts), (1, 0));
    assert_eq!(settle(harness, &taken, Outcome::Done).await, NONE);
}

/// S10: a renewed lease ends that long from now, sooner than before if so asked.
pub async fn renewal_counts_from_now(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;

    harness.store().renew(&[taken.lease], Duration::ZERO).await.unwrap();

    assert_eq!(claim_one(harness).await.event_id, taken.event_id);
}

/// S10: renewing tells which leases have passed to others or were settled, and renews the rest.
pub async fn renewal_reports_lost_leases(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let overslept = claim_one_for(harness, Duration::ZERO).await;
    let successor = claim_one(harness).await;
    write(harness, &[order_placed("order-18")]).await;
    let delivered = claim_one(harness).await;
    settle(harness, &delivered, Outcome::Done).await;
    write(harness, &[order_placed("order-19")]).await;
    let held = claim_one_for(harness, Duration::ZERO).await;
    let before = format!("{:?}", stored(harness, &successor.event_id).await);

    let leases = [overslept.lease, held.lease, delivered.lease];
    let mut lost = harness.store().renew(&leases, LONG / 2).await.unwrap();

    lost.sort_unstable();
    assert_eq!(lost, [overslept.lease.seq, delivered.lease.seq]);
    assert_eq!(format!("{:?}", stored(harness, &successor.event_id).await), before);
    assert!(claim(harness, 10).await.events.is_empty());
}

/// S10: renewing nothing is fine, and many leases at once too.
pub async fn many_leases_are_renewed_at_once(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..1_200).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;
    let ended = Take { lease_for: Duration::ZERO, ..take(2_000) };
    let taken = harness.store().take(ended).await.unwrap().events;
    let leases: Vec<Lease> = taken.iter().map(|taken| taken.lease).collect();

    assert_eq!(harness.store().renew(&[], LONG).await.unwrap(), NONE);
    assert_eq!(harness.store().renew(&leases, LONG).await.unwrap(), NONE);

    assert!(claim(harness, 10).await.events.is_empty());
}

/// S10: no lease is renewed for longer than the longest.
pub async fn renewal_for_too_long_is_refused(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;

    let refused = harness.store().renew(&[taken.lease], LONGEST_LEASE + Duration::from_secs(1)).await;

    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
}

/// S10: a lease that ends implausibly late, because the clock went back, is found by a sweep and by no other
/// take.
pub async fn implausible_lease_is_swept(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let before = claim_one(harness).await;
    harness.push_lease_into_future(&before.event_id).await;

    let without = claim(harness, 10).await.events;
    let swept = harness.store().take(Take { sweep: true, ..take(10) }).await.unwrap().events;

    assert!(without.is_empty());
    assert_eq!(swept.len(), 1);
    assert_eq!((&swept[0].event_id, swept[0].lease.starts), (&before.event_id, 1));
    assert_eq!(settle(harness, &before, Outcome::Done).await, [before.lease.seq]);
    assert_eq!(settle(harness, &swept[0], Outcome::Done).await, NONE);
}

/// S10, V8: a sweep leaves the longest lease alone, and events that are delayed for longer than it; what is
/// available it takes like any other.
pub async fn sweep_takes_nothing_else(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    claim_one_for(harness, LONGEST_LEASE).await;
    let delayed = Event::builder("OrderPlaced").deliver_after(LONGEST_LEASE * 9).json_text("{}");
    let available = order_placed("order-19");
    write(harness, &[delayed.build().unwrap(), available.clone()]).await;

    let swept = harness.store().take(Take { sweep: true, ..take(10) }).await.unwrap().events;

    assert_eq!(super::steps::ids(&swept), [available.id()]);
}

/// P1, S5: an instance that was started again under its name takes over its own leases at once, and the takes
/// before count as starts.
pub async fn resume_ends_leases_of_earlier_incarnations(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let before = take_as(harness, Owner::new("relay", 7)).await;
    let born = order_placed("order-18");
    let birth = pillarbox::store::Birth { owner: Owner::new("relay", 7), ..birth(LONG) };
    write_born(harness, std::slice::from_ref(&born), &birth).await;

    let resumed = harness.store().resume(&Owner::new("relay", 8)).await.unwrap();

    assert_eq!(resumed, 2);
    assert_eq!(stored(harness, born.id()).await.locked_by, None);
    assert_eq!(harness.store().renew(&[before], LONG).await.unwrap(), [before.seq]);
    let taken = claim(harness, 10).await.events;
    assert_eq!(taken.len(), 2);
    assert!(taken.iter().all(|taken| taken.lease.starts == 1));
}

/// S5: resuming leaves what this incarnation has taken itself.
pub async fn resume_leaves_its_own_leases(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let own = take_as(harness, Owner::new("relay", 7)).await;

    let resumed = harness.store().resume(&Owner::new("relay", 7)).await.unwrap();

    assert_eq!(resumed, 0);
    assert!(claim(harness, 10).await.events.is_empty());
    assert_eq!(harness.store().renew(&[own], LONG).await.unwrap(), NONE);
}

/// S5: resuming leaves the leases of other names, however much they look like this one.
pub async fn resume_leaves_other_names(harness: &impl StoreHarness) {
    const NAMES: [&str; 9] =
        ["relay", "relay-1", "rela", "RELAY", "relay ", "relay%", "rel_y", "%", "relay/0000000000000001"];
    for name in NAMES {
        write(harness, &[order_placed(name)]).await;
        take_as(harness, owner(name)).await;
    }

    for name in NAMES {
        assert_eq!(harness.store().resume(&Owner::new(name, 2)).await.unwrap(), 1, "{name}");
        let taken = claim_one(harness).await;
        assert_eq!(taken.event.unwrap().key(), Some(name));
    }
}

/// S5: where nothing was left behind there is nothing to resume.
pub async fn resume_of_nothing_is_nothing(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;
    write(harness, &[order_placed("order-18")]).await;

    let resumed = harness.store().resume(&Owner::new("relay", 2)).await.unwrap();

    assert_eq!(resumed, 0);
}

async fn take_as(harness: &impl StoreHarness, owner: Owner) -> Lease {
    let token: Token = super::unused_token();
    let batch = harness.store().take(Take { owner, token, ..take(1) }).await.unwrap();
    assert_eq!(batch.events[0].lease.token, token);
    batch.events[0].lease
}
