//! The two ways to take work: one at a time for a table.

use std::time::Duration;

use pillarbox::partition_of;
use pillarbox::store::{EventStore, Instance, Mode, Outcome, Ownership};

use super::ownership::{
    OwnershipHarness, aside_of, behind_key, blocked, dying, fetch_one, floor, join, joined, named, own,
    owner_of, parked, place, refused_for_mode, seq, unnamed, visit,
};
use super::steps::ids;
use super::{NONE, claim, claim_one, order_placed, settle, take, write};

/// O3: a table that was just made is one of claims, which nobody reads by partition; joining so changes nothing.
pub async fn claims_are_the_first_mode(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let relay = in_claims(&unnamed("relay"));
    assert_eq!(join(harness, &relay).await, []);

    refused_for_mode(harness.store().acquire(&relay, &[7]).await);
    let visit =
        pillarbox::store::Visit { partition: 7, epoch: Default::default(), floor: 0, in_flight: vec![] };
    refused_for_mode(harness.store().fetch(std::slice::from_ref(&visit), 10).await);
    refused_for_mode(harness.store().below(std::slice::from_ref(&visit), 10).await);
    refused_for_mode(harness.store().due(std::slice::from_ref(&visit), 10).await);
    refused_for_mode(harness.store().aside_of(&visit, "order-17", 10).await);
    refused_for_mode(harness.store().blocked(&[7]).await);

    assert_eq!(super::ownership::beat(harness, &relay, &[]).await.members.len(), 1);
    claim_one(harness).await;
}

/// O3: where partitions are owned nobody takes row by row.
pub async fn take_is_refused_where_partitions_are_owned(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    joined(harness, "relay").await;

    let text = refused_for_mode(harness.store().take(take(10)).await);

    assert!(text.contains("`ownership`"), "{text}");
}

/// O3: while instances of one mode are alive one of the other is refused, with their names, and changes nothing.
pub async fn other_mode_is_refused(harness: &impl OwnershipHarness) {
    let first = joined(harness, "relay-1").await;
    let second = joined(harness, "relay-2").await;
    let claiming = in_claims(&unnamed("relay-3"));

    let text = refused_for_mode(harness.store().join(&claiming).await);

    assert!(text.contains("`relay-1`") && text.contains("`relay-2`") && !text.contains("relay-3"), "{text}");
    assert_eq!(super::ownership::beat(harness, &first, &[]).await.members.len(), 2);
    harness.store().leave(&first.owner).await.unwrap();
    let text = refused_for_mode(harness.store().join(&claiming).await);
    assert!(!text.contains("relay-1"), "{text}");
    own(harness, &second, 7).await;
}

/// O3: when those of the other mode have left or are silent, the mode changes.
pub async fn mode_changes_when_the_others_are_gone(harness: &impl OwnershipHarness) {
    let claiming = in_claims(&unnamed("relay-1"));
    let owning = unnamed("relay-2");
    join(harness, &claiming).await;
    refused_for_mode(harness.store().join(&owning).await);

    harness.store().leave(&claiming.owner).await.unwrap();
    join(harness, &dying(&owning)).await;

    refused_for_mode(harness.store().take(take(10)).await);
    join(harness, &claiming).await;
    assert!(claim(harness, 10).await.events.is_empty());
}

/// O3: an instance that slept while the mode changed learns it from its heartbeat, and is no member.
pub async fn heartbeat_of_the_other_mode_is_refused(harness: &impl OwnershipHarness) {
    let sleeping = in_claims(&unnamed("sleeping"));
    join(harness, &dying(&sleeping)).await;
    let relay = joined(harness, "relay").await;

    refused_for_mode(harness.store().beat(&sleeping, &[]).await);

    assert_eq!(super::ownership::beat(harness, &relay, &[]).await.members.len(), 1);
}

/// O5: a lone instance with a set name may be started again in the other mode at once.
pub async fn restarted_instance_may_change_the_mode(harness: &impl OwnershipHarness) {
    join(harness, &in_claims(&named("relay", 1))).await;
    let owning = named("relay", 2);

    assert_eq!(join(harness, &owning).await, []);

    own(harness, &owning, 7).await;
    assert_eq!(join(harness, &in_claims(&named("relay", 3))).await, []);
}

/// O3, S10: when the mode changes, leases of takes have ended: an owner reads at once, and the one who took is fenced off.
pub async fn change_of_mode_ends_takes(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;

    let (_, held) = owner_of(harness, "order-17").await;

    assert_eq!(settle(harness, &taken, Outcome::Done).await, [taken.lease.seq]);
    assert_eq!(
        harness.store().renew(&[taken.lease], Duration::from_secs(1)).await.unwrap(),
        [taken.lease.seq]
    );
    let fetched = fetch_one(harness, &held).await;
    assert_eq!(fetched.taken.event_id, taken.event_id);
    assert_eq!(settle(harness, &fetched.taken, Outcome::Done).await, NONE);
}

/// O3, S10: when the mode changes, owners have none of their partitions any more, and nothing waits for its key: all that
/// is pending can be taken.
pub async fn change_of_mode_ends_ownership(harness: &impl OwnershipHarness) {
    let (relay, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;
    super::ownership::beat(harness, &relay, &[floor(&held, seq(&follower))]).await;
    harness.store().leave(&relay.owner).await.unwrap();

    let claiming = in_claims(&unnamed("relay-2"));
    join(harness, &claiming).await;

    assert_eq!(settle(harness, &follower.taken, Outcome::Done).await, [seq(&follower)]);
    let taken = claim_one(harness).await;
    assert_eq!(taken.event_id, follower.taken.event_id);
    let fresh = order_placed("order-17");
    write(harness, std::slice::from_ref(&fresh)).await;
    harness.store().leave(&claiming.owner).await.unwrap();
    join(harness, &relay).await;
    assert_eq!(settle(harness, &follower.taken, Outcome::Done).await, [seq(&follower)]);
    let again = own(harness, &relay, partition_of("order-17")).await;
    assert!(again.epoch > held.epoch);
    assert_eq!(again.crashes, 0);
    assert_eq!(fetch_one(harness, &again).await.taken.event_id, fresh.id());
    assert_eq!(blocked(harness, &again).await[0].parked_for, None);
    let read = aside_of(harness, &again, "order-17").await;
    assert_eq!(ids(&read), [&taken.event_id]);
    assert_eq!(harness.store().due(&[visit(&again)], 10).await.unwrap().events.len(), 1);
}

/// The same instance in the other mode.
fn in_claims(instance: &Instance) -> Instance {
    Instance { mode: Mode::Claims, ..instance.clone() }
}
