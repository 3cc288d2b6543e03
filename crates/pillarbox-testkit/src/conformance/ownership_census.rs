//! Who takes part, who owns what, and what waits where, as an operator asks for it.

use std::time::Duration;

use pillarbox::store::{Administration, Census, DELAYED, Instance, Mode, Outcome, Owner, Tenancy};
use pillarbox::{PARTITIONS, partition_of};

use super::ownership::{
    OwnershipHarness, acquire, beat, behind_key, blocked, dying, floor, join, joined, named, own,
    owner_of_all, parked, place, release, unnamed, without_key,
};
use super::settlements::{dead, retry};
use super::{LONG, order_placed, order_placed_available_at, settle, write};

/// M5, O3: in the mode `claims` there are instances and no partitions, and what waits is not counted by them.
pub async fn census_of_claims_has_no_partitions(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    assert_eq!(census(harness).await, Census::default());
    let relay = Instance { mode: Mode::Claims, ..unnamed("relay") };

    join(harness, &relay).await;

    let mut census = census(harness).await;
    let listed = census.instances.pop().expect("it is listed");
    assert_eq!((listed.owner, listed.mode, listed.is_alive), (relay.owner, Mode::Claims, true));
    assert_eq!(census, Census::default());
}

/// M5, O7: everybody who has joined is listed in the order of the names, with its age.
pub async fn census_lists_the_instances(harness: &impl OwnershipHarness) {
    let second = joined(harness, "relay-2").await;
    let first = joined(harness, "relay-1").await;

    let census = census(harness).await;

    let owners: Vec<&Owner> = census.alive().map(|instance| &instance.owner).collect();
    assert_eq!(owners, [&first.owner, &second.owner]);
    for instance in &census.instances {
        assert_eq!(instance.mode, Mode::Ownership);
        assert!(instance.joined_ago < Duration::from_secs(60), "{instance:?}");
        assert!(instance.silent_for <= instance.joined_ago, "{instance:?}");
    }
}

/// M5, O5: of the incarnations of a name the last one is listed.
pub async fn census_leaves_out_who_was_replaced(harness: &impl OwnershipHarness) {
    join(harness, &named("relay", 7)).await;
    join(harness, &named("relay", 8)).await;

    let listed: Vec<Owner> = census(harness).await.instances.into_iter().map(|listed| listed.owner).collect();

    assert_eq!(listed, [named("relay", 8).owner]);
}

/// M5, O7: who owns which partition, and under which epoch; what was released or never owned has nobody.
pub async fn census_tells_who_owns_what(harness: &impl OwnershipHarness) {
    let (first, second) = (joined(harness, "relay-1").await, joined(harness, "relay-2").await);
    let held = acquire(harness, &first, &[0, 7, 255]).await;
    own(harness, &second, 8).await;
    let released = own(harness, &second, 9).await;
    release(harness, &second, floor(&released, 0)).await;

    let census = census(harness).await;

    let numbers: Vec<u8> = census.partitions.iter().map(|tenancy| tenancy.partition).collect();
    assert_eq!(numbers, (0..=u8::MAX).collect::<Vec<_>>());
    let of_first: Vec<_> = census.held_by(&first.owner).map(|own| (own.partition, own.epoch)).collect();
    assert_eq!(of_first, held.iter().map(|held| (held.partition, held.epoch)).collect::<Vec<_>>());
    assert_eq!(census.held_by(&second.owner).map(|own| own.partition).collect::<Vec<_>>(), [8]);
    assert_eq!(census.free().count(), PARTITIONS - 4);
    assert!(census.free().all(|tenancy| tenancy.owner.is_none()));
    assert_eq!(census.partitions[9].epoch, released.epoch);
}

/// M5, O4: who has fallen silent is listed as such, and what it held can be had by anybody; asking changes nothing.
pub async fn census_marks_silent_instances(harness: &impl OwnershipHarness) {
    joined(harness, "relay").await;
    let silent = unnamed("silent");
    join(harness, &dying(&silent)).await;
    own(harness, &dying(&silent), 7).await;

    for _ in 0..2 {
        let census = census(harness).await;

        let alive: Vec<(&str, bool)> =
            census.instances.iter().map(|instance| (instance.owner.name(), instance.is_alive)).collect();
        assert_eq!(alive, [("relay", true), ("silent", false)]);
        let lost = &census.partitions[7];
        assert_eq!((lost.owner.as_ref(), lost.is_held), (Some(&silent.owner), false));
        assert_eq!((census.held_by(&silent.owner).count(), census.free().count()), (0, PARTITIONS));
    }
    assert_eq!(beat(harness, &silent, &[]).await.held.len(), 1, "nobody has taken it");
    assert!(census(harness).await.partitions[7].is_held);
}

/// M5, S10: nobody is alive, and nothing held, until implausibly late: the clock went back.
pub async fn census_believes_no_implausible_time(harness: &impl OwnershipHarness) {
    owner_of_all(harness).await;
    harness.put_clock_back().await;

    let census = census(harness).await;

    assert_eq!((census.instances.len(), census.alive().count()), (1, 0));
    assert_eq!(census.free().count(), PARTITIONS);
}

/// M5, O7: pending events are counted by partition, fresh and aside; what is done or dead is not.
pub async fn census_counts_what_waits(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let held = &holdings[usize::from(partition_of("order-17"))];
    for outcome in [Outcome::Done, dead("address unknown", true), retry(LONG, true), behind_key()] {
        let fetched = place(harness, held, "order-17").await;
        settle(harness, &fetched.taken, outcome).await;
    }
    write(harness, &[order_placed("order-17")]).await;
    write(harness, &["order-18", "order-18", "order-18"].map(order_placed)).await;

    let census = census(harness).await;

    assert_eq!(counts(&census, "order-17"), (1, 2));
    assert_eq!(counts(&census, "order-18"), (3, 0));
    assert_eq!((census.unplaced, census.pending()), (0, 6));
    assert_eq!(harness.store().stats().await.unwrap().pending(), 6);
}

/// M5, W12: an event that was written without a partition counts, in its own or in none.
pub async fn census_counts_events_without_a_partition(harness: &impl OwnershipHarness) {
    joined(harness, "relay").await;
    harness.write_without_partition(&order_placed("order-17")).await;
    harness.write_without_partition(&without_key()).await;

    assert_eq!(census(harness).await.pending(), 2);
}

/// M5, M6: the oldest of a partition is the one that has been due for longest; what is to come is not due.
pub async fn census_tells_the_oldest_of_each_partition(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let old = order_placed_available_at("order-17", 1_000_000);
    write(harness, &[order_placed("order-17"), old, order_placed("order-17")]).await;
    write(harness, &[order_placed("order-18")]).await;
    let held = &holdings[usize::from(partition_of("order-19"))];
    let delayed = place(harness, held, "order-19").await;
    settle(harness, &delayed.taken, retry(LONG, false)).await;

    let census = census(harness).await;

    let years = |years: u64| Duration::from_secs(years * 365 * 86_400);
    let oldest = |order| tenancy(&census, order).oldest_due_for;
    assert!(oldest("order-17").is_some_and(|oldest| oldest > years(50)), "{:?}", oldest("order-17"));
    assert!(oldest("order-18").is_some_and(|oldest| oldest < LONG), "{:?}", oldest("order-18"));
    assert_eq!((counts(&census, "order-19"), oldest("order-19")), ((0, 1), None));
    assert_eq!(oldest("order-20"), None);
}

/// M5, O6: keys are counted that are blocked and that are parked, each once, as they are listed.
pub async fn census_counts_blocked_and_parked_keys(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let delayed = Outcome::Aside { until: Some(LONG), reason: DELAYED.to_owned() };
    for (order, outcomes) in [
        ("order-1", vec![retry(LONG, true), behind_key(), behind_key()]),
        ("order-2", vec![parked(), behind_key(), behind_key()]),
        ("order-3", vec![parked()]),
        ("order-4", vec![dead("address unknown", true)]),
        ("order-5", vec![delayed]),
    ] {
        let held = &holdings[usize::from(partition_of(order))];
        for outcome in outcomes {
            let fetched = place(harness, held, order).await;
            settle(harness, &fetched.taken, outcome).await;
        }
    }

    let census = census(harness).await;

    let mut listed = 0;
    for held in &holdings {
        listed += blocked(harness, held).await.len() as u64;
    }
    assert_eq!((census.blocked_keys, census.parked_keys), (3, 2));
    assert_eq!(listed, census.blocked_keys);
}

async fn census(harness: &impl OwnershipHarness) -> Census {
    harness.store().census().await.expect("the store takes a census")
}

fn tenancy<'a>(census: &'a Census, order: &str) -> &'a Tenancy {
    &census.partitions[usize::from(partition_of(order))]
}

/// How many events of the order's partition are fresh and aside.
fn counts(census: &Census, order: &str) -> (u64, u64) {
    let tenancy = tenancy(census, order);
    (tenancy.fresh, tenancy.aside)
}
