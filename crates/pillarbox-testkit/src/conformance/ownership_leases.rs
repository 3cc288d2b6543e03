//! Leases of partitions: one owner at a time, floors, and crashes.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, Holding, Outcome, Ownership};
use pillarbox::{PARTITIONS, partition_of};

use super::ownership::{
    OwnershipHarness, acquire, beat, behind_key, due, dying, fetch_one, floor, joined, next, own, owner_of,
    owner_of_all, release, seq, unnamed,
};
use super::settlements::retry;
use super::{NONE, order_placed, settle, write};

/// O3: a table that was just made has all partitions to be had, with nothing behind them.
pub async fn all_partitions_are_free_at_first(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;

    for (number, holding) in (0..=u8::MAX).zip(holdings) {
        let Holding { partition, floor, crashes, suspect_to, .. } = holding;
        assert_eq!((partition, floor, crashes, suspect_to), (number, 0, 0, 0));
    }
}

/// O3: what one has no other gets, and each partition that is asked for is decided for itself.
pub async fn partition_has_one_owner(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let held = own(harness, &relay, 7).await;

    let given = acquire(harness, &other, &[6, 7, 8]).await;

    assert_eq!(given.iter().map(|holding| holding.partition).collect::<Vec<_>>(), [6, 8]);
    assert_eq!(beat(harness, &relay, &[]).await.held, [held]);
    assert_eq!(beat(harness, &other, &[]).await.held, given);
}

/// O3: of those who ask at the same time one gets each partition, and nobody fails.
pub async fn concurrent_acquisitions_are_disjoint(harness: &impl OwnershipHarness) {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut asking = Vec::new();
    for number in 0..4 {
        let instance = joined(harness, &format!("relay-{number}")).await;
        let (store, all) = (Arc::clone(harness.store()), all.clone());
        asking.push(tokio::spawn(async move { store.acquire(&instance, &all).await.unwrap() }));
    }

    let mut given = Vec::new();
    for answer in asking {
        given.extend(answer.await.unwrap());
    }

    given.sort_by_key(|holding| holding.partition);
    assert_eq!(given.iter().map(|holding| holding.partition).collect::<Vec<_>>(), all);
    assert_eq!(given.len(), PARTITIONS);
}

/// O5: what was given back is free at once, whole, under the next epoch.
pub async fn released_partition_is_free_at_once(harness: &impl OwnershipHarness) {
    let (relay, held) = owner_of(harness, "order-17").await;
    let other = joined(harness, "relay-2").await;

    release(harness, &relay, floor(&held, 0)).await;

    assert_eq!(beat(harness, &relay, &[]).await.held, []);
    let taken = own(harness, &other, held.partition).await;
    assert_eq!((taken.epoch, taken.crashes), (next(&held), 0));
}

/// O5: a lease that has ended is free, and the epoch grows with every owner, the same one included.
pub async fn epochs_grow(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let mut epoch = own(harness, &dying(&relay), 7).await.epoch;

    for instance in [&other, &relay, &other] {
        let held = own(harness, &dying(instance), 7).await;
        assert_eq!(held.epoch, epoch.next());
        epoch = held.epoch;
    }
    let held = own(harness, &relay, 7).await;
    release(harness, &relay, floor(&held, 0)).await;

    assert_eq!(own(harness, &relay, 7).await.epoch, next(&held));
}

/// O5, S10: a lease that ends implausibly late, because the clock went back, has ended.
pub async fn implausible_owner_is_none(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let other = joined(harness, "relay-2").await;
    assert_eq!(acquire(harness, &other, &[held.partition]).await, []);

    harness.put_clock_back().await;

    assert_eq!(own(harness, &other, held.partition).await.epoch, next(&held));
}

/// O5, S10: after an outage that outlasted its leases, an instance has back by a heartbeat what nobody took.
pub async fn heartbeat_renews_what_nobody_took(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let held = own(harness, &dying(&relay), 7).await;

    let pulse = beat(harness, &relay, &[]).await;

    assert_eq!(pulse.held, [held]);
    assert_eq!(acquire(harness, &other, &[7]).await, []);
}

/// O5: a lease ends as long after the last heartbeat as that said, not as long as an earlier one did.
pub async fn heartbeat_counts_from_now(harness: &impl OwnershipHarness) {
    let (relay, held) = owner_of(harness, "order-17").await;
    let other = joined(harness, "relay-2").await;

    beat(harness, &dying(&relay), &[]).await;

    assert_eq!(own(harness, &other, held.partition).await.epoch, next(&held));
}

/// O5: a heartbeat tells what was lost, and takes nothing back.
pub async fn heartbeat_tells_what_was_lost(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    own(harness, &dying(&relay), 7).await;
    let kept = own(harness, &dying(&relay), 8).await;
    let taken = own(harness, &other, 7).await;

    assert_eq!(beat(harness, &relay, &[]).await.held, [kept]);

    let held = beat(harness, &other, &[]).await.held;
    assert_eq!(held.iter().map(|held| (held.partition, held.epoch)).collect::<Vec<_>>(), [(7, taken.epoch)]);
}

/// O5: who asks again because the answer was lost gets the same again: no other epoch, and no crash.
pub async fn repeated_acquisition_changes_nothing(harness: &impl OwnershipHarness) {
    let relay = joined(harness, "relay").await;
    let held = own(harness, &dying(&relay), 7).await;

    assert_eq!(acquire(harness, &relay, &[7, 7]).await, [held]);

    assert_eq!(acquire(harness, &unnamed("relay-2"), &[7]).await, []);
}

/// O5: only the owner gives back, and only what it has under this epoch.
pub async fn late_release_changes_nothing(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let first = own(harness, &relay, 7).await;
    release(harness, &relay, floor(&first, 0)).await;
    let second = own(harness, &relay, 7).await;

    release(harness, &relay, floor(&first, 0)).await;
    release(harness, &other, floor(&second, 0)).await;

    assert_eq!(acquire(harness, &other, &[7]).await, []);
    assert_eq!(beat(harness, &relay, &[]).await.held, [second]);
}

/// O5: a floor that was told is stored, never falls, and is where the next owner begins.
pub async fn floors_are_stored(harness: &impl OwnershipHarness) {
    let (relay, held) = owner_of(harness, "order-17").await;
    let highest = write_orders(harness, 10).await;

    for (told, stored) in [(highest - 3, highest - 3), (highest - 5, highest - 3), (highest - 2, highest - 2)]
    {
        let pulse = beat(harness, &relay, &[floor(&held, told)]).await;
        assert_eq!(pulse.held[0].floor, stored);
    }
    release(harness, &relay, floor(&held, highest - 1)).await;

    let other = joined(harness, "relay-2").await;
    assert_eq!(own(harness, &other, held.partition).await.floor, highest - 1);
}

/// O5: an earlier owner raises no floor.
pub async fn floor_of_an_earlier_owner_is_not_stored(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let highest = write_orders(harness, 10).await;
    let first = own(harness, &dying(&relay), 7).await;
    own(harness, &dying(&other), 7).await;
    let third = own(harness, &relay, 7).await;

    beat(harness, &relay, &[floor(&first, highest)]).await;
    beat(harness, &other, &[floor(&third, highest)]).await;

    assert_eq!(beat(harness, &relay, &[]).await.held[0].floor, 0);
}

/// O5: a floor above all numbers is worth nothing to the next owner: a failover took numbers back.
pub async fn floor_above_all_numbers_is_forgotten(harness: &impl OwnershipHarness) {
    let highest = write_orders(harness, 3).await;
    let (relay, held) = owner_of(harness, "order-17").await;
    release(harness, &relay, floor(&held, highest + 1)).await;

    assert_eq!(own(harness, &relay, held.partition).await.floor, 0);
}

/// D3, O5: who gets what was not given back learns how often that happened in a row, and up to which number the events
/// may be to blame.
pub async fn crashes_are_counted(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    assert_eq!(own(harness, &dying(&relay), 7).await.crashes, 0);

    for (instance, crashes) in [(&other, 1), (&relay, 2), (&other, 3)] {
        let highest = write_orders(harness, 2).await;
        let held = own(harness, &dying(instance), 7).await;
        assert_eq!((held.crashes, held.suspect_to), (crashes, highest));
    }
    let held = beat(harness, &other, &[]).await.held[0];
    release(harness, &other, floor(&held, 0)).await;

    let taken = own(harness, &relay, 7).await;
    assert_eq!((taken.crashes, taken.suspect_to), (3, held.suspect_to));
}

/// D3, O5: a partition is absolved when all that may be to blame is settled: fresh events and those set aside.
pub async fn partition_is_absolved(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    own(harness, &dying(&relay), partition_of("order-17")).await;
    let held = own(harness, &other, partition_of("order-17")).await;
    let crashes = async |reached: i64| beat(harness, &other, &[floor(&held, reached)]).await.held[0].crashes;

    let suspect = fetch_one(harness, &held).await;
    assert_eq!(settle(harness, &suspect.taken, retry(Duration::ZERO, true)).await, NONE);
    assert_eq!(crashes(held.suspect_to - 1).await, 1, "fresh events may be to blame");
    assert_eq!(crashes(held.suspect_to).await, 1, "one of them was set aside");
    let suspect = &due(harness, &held).await[0];
    assert_eq!(settle(harness, &suspect.taken, Outcome::Done).await, NONE);
    let later = super::ownership::place(harness, &held, "order-17").await;
    assert!(seq(&later) > held.suspect_to);
    assert_eq!(settle(harness, &later.taken, behind_key()).await, NONE);

    assert_eq!(crashes(held.suspect_to).await, 0);
}

/// Writes events, and returns the highest number.
async fn write_orders(harness: &impl OwnershipHarness, count: usize) -> i64 {
    let events: Vec<_> = (0..count).map(|order| order_placed(&format!("order-{order}"))).collect();
    write(harness, &events).await;
    harness.store().highest().await.unwrap()
}
