//! Membership: who takes part, and who takes the place of whom.

use std::time::Duration;

use pillarbox::store::{EventStore, Instance, LONGEST_LEASE, Mode, Outcome, Owner, Ownership};

use super::ownership::{
    OwnershipHarness, acquire, beat, dying, fetch_one, floor, join, joined, named, next, own, owner_of,
    refused, unnamed,
};
use super::{order_placed, settle, write};

/// O4: who has joined is seen by all, in the order of the names, with its age.
pub async fn members_see_each_other(harness: &impl OwnershipHarness) {
    let second = joined(harness, "relay-2").await;
    let first = joined(harness, "relay-1").await;

    for instance in [&first, &second] {
        let pulse = beat(harness, instance, &[]).await;

        let owners: Vec<&Owner> = pulse.members.iter().map(|member| &member.owner).collect();
        assert_eq!(owners, [&first.owner, &second.owner]);
        for member in pulse.members {
            assert!(member.joined_ago < Duration::from_secs(60), "{member:?}");
            assert!(member.silent_for <= member.joined_ago, "{member:?}");
        }
        assert!(!pulse.is_replaced);
    }
}

/// O4: who is silent for too long is no member, and is one again when it is heard of.
pub async fn silent_instance_is_no_member(harness: &impl OwnershipHarness) {
    let relay = joined(harness, "relay").await;
    let silent = unnamed("silent");
    join(harness, &dying(&silent)).await;
    assert_eq!(names(harness, &relay).await, ["relay"]);

    beat(harness, &silent, &[]).await;

    assert_eq!(names(harness, &relay).await, ["relay", "silent"]);
}

/// O4, S10: who would be alive implausibly long, because the clock went back, is not, until it is heard of.
pub async fn implausible_member_is_none(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    harness.put_clock_back().await;

    assert_eq!(names(harness, &relay).await, ["relay"]);

    assert_eq!(names(harness, &other).await, ["relay", "relay-2"]);
}

/// O4: who leaves is no member at once; what it did not give back stays its own until the lease ends.
pub async fn instance_that_leaves_is_no_member(harness: &impl OwnershipHarness) {
    let (leaving, relay) = (joined(harness, "leaving").await, joined(harness, "relay").await);
    own(harness, &leaving, 7).await;

    harness.store().leave(&leaving.owner).await.unwrap();
    harness.store().leave(&leaving.owner).await.unwrap();

    assert_eq!(names(harness, &relay).await, ["relay"]);
    assert_eq!(acquire(harness, &relay, &[7]).await, []);
}

/// O5: an instance that was started again under its set name has its partitions back at once, under the next epoch, and
/// each counts a crash.
pub async fn restarted_instance_takes_over_its_own(harness: &impl OwnershipHarness) {
    let before = named("relay", 7);
    join(harness, &before).await;
    write(harness, &[order_placed("order-17")]).await;
    let held = [own(harness, &before, 3).await, own(harness, &before, 200).await];
    let after = named("relay", 8);

    let inherited = join(harness, &after).await;

    assert_eq!(inherited.iter().map(|holding| holding.partition).collect::<Vec<_>>(), [3, 200]);
    for (before, after) in held.iter().zip(&inherited) {
        assert_eq!((after.epoch, after.crashes), (next(before), before.crashes + 1));
    }
    assert_eq!(beat(harness, &after, &[]).await.held, inherited);
    assert_eq!(names(harness, &after).await, ["relay"]);
}

/// O5: what was given back before the restart stays free, and is taken without a crash.
pub async fn restart_finds_what_was_released_free(harness: &impl OwnershipHarness) {
    let before = named("relay", 7);
    join(harness, &before).await;
    let held = own(harness, &before, 3).await;
    super::ownership::release(harness, &before, floor(&held, 0)).await;
    let after = named("relay", 8);

    assert_eq!(join(harness, &after).await, []);

    assert_eq!(own(harness, &after, 3).await.crashes, 0);
}

/// O5: a join that is repeated because its answer was lost brings the same again.
pub async fn repeated_join_changes_nothing(harness: &impl OwnershipHarness) {
    let before = named("relay", 7);
    join(harness, &before).await;
    own(harness, &before, 3).await;
    let after = named("relay", 8);
    let inherited = join(harness, &after).await;

    assert_eq!(join(harness, &after).await, inherited);
}

/// O5: an instance whose place was taken learns it, and gets, renews and records nothing any more.
pub async fn replaced_instance_gets_nothing(harness: &impl OwnershipHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let older = named("relay", 7);
    join(harness, &older).await;
    let held = own(harness, &older, pillarbox::partition_of("order-17")).await;
    let fetched = fetch_one(harness, &held).await;
    let younger = named("relay", 8);
    join(harness, &dying(&younger)).await;

    let pulse = beat(harness, &older, &[floor(&held, 1)]).await;

    assert!(pulse.is_replaced);
    assert_eq!(pulse.held, []);
    assert_eq!(acquire(harness, &older, &[held.partition, held.partition.wrapping_add(1)]).await, []);
    let lost = settle(harness, &fetched.taken, Outcome::Done).await;
    assert_eq!(lost, [fetched.taken.lease.seq]);
    let pulse = beat(harness, &younger, &[]).await;
    assert_eq!((pulse.members.len(), pulse.held[0].floor), (1, 0));
}

/// O5: who left last under a name has taken its place for ever: an older one that wakes up later is not it.
pub async fn replaced_instance_stays_replaced(harness: &impl OwnershipHarness) {
    let (older, younger) = (named("relay", 7), named("relay", 8));
    join(harness, &older).await;
    join(harness, &younger).await;

    harness.store().leave(&younger.owner).await.unwrap();

    assert!(beat(harness, &older, &[]).await.is_replaced);
    assert!(!beat(harness, &younger, &[]).await.is_replaced);
}

/// O5: whoever has left after it was replaced is remembered no more: alone with its name, it may come again.
pub async fn replaced_instance_that_left_is_forgotten(harness: &impl OwnershipHarness) {
    let (older, younger) = (named("relay", 7), named("relay", 8));
    join(harness, &older).await;
    join(harness, &younger).await;
    harness.store().leave(&older.owner).await.unwrap();
    assert!(beat(harness, &older, &[]).await.is_replaced, "the younger is alive");

    harness.store().leave(&younger.owner).await.unwrap();

    assert!(!beat(harness, &older, &[]).await.is_replaced);
    assert_eq!(names(harness, &older).await, ["relay"]);
}

/// O5: whoever has not left after it was replaced is remembered for as long as the longest lease, and then no more.
pub async fn replaced_instance_is_forgotten_in_time(harness: &impl OwnershipHarness) {
    let (older, younger) = (named("relay", 7), named("relay", 8));
    join(harness, &older).await;
    join(harness, &younger).await;
    harness.store().leave(&younger.owner).await.unwrap();
    joined(harness, "relay-2").await;
    assert!(beat(harness, &older, &[]).await.is_replaced);

    harness.let_members_age().await;
    joined(harness, "relay-3").await;

    assert!(!beat(harness, &older, &[]).await.is_replaced);
}

/// S10: of the incarnations of a name, in either mode, the one that joined last is the current one, whether it is alive or
/// not, and other names are others.
pub async fn latest_incarnation_is_current(harness: &impl OwnershipHarness) {
    let store = harness.store();
    let claiming = |name, incarnation| Instance { mode: Mode::Claims, ..named(name, incarnation) };
    let (older, younger) = (claiming("relay", 1), claiming("relay", 2));
    assert!(store.is_current(&older.owner).await.unwrap(), "nobody has joined yet");

    join(harness, &older).await;
    for (name, incarnation) in [("relay-1", 3), ("RELAY", 4), ("relay ", 5)] {
        join(harness, &claiming(name, incarnation)).await;
    }
    assert!(store.is_current(&older.owner).await.unwrap());
    assert!(!store.is_current(&younger.owner).await.unwrap());

    join(harness, &younger).await;
    join(harness, &dying(&younger)).await;
    assert!(store.is_current(&younger.owner).await.unwrap());
    assert!(!store.is_current(&older.owner).await.unwrap());
    assert!(beat(harness, &older, &[]).await.is_replaced);
}

/// O5: an instance whose name nobody set takes over nothing before it ends, whatever it is called.
pub async fn unnamed_instance_takes_over_nothing(harness: &impl OwnershipHarness) {
    let (before, held) = owner_of(harness, "order-17").await;
    let after = Instance { owner: Owner::new("relay", 2), ..before.clone() };

    assert_eq!(join(harness, &after).await, []);

    assert_eq!(acquire(harness, &after, &[held.partition]).await, []);
    assert_eq!(beat(harness, &before, &[]).await.held, [held]);
}

/// O5: taking over leaves other names alone, however much they look like this one.
pub async fn other_names_are_left_alone(harness: &impl OwnershipHarness) {
    const NAMES: [&str; 9] =
        ["relay", "relay-1", "rela", "RELAY", "relay ", "relay%", "rel_y", "%", "relay/0000000000000001"];
    for (name, partition) in NAMES.into_iter().zip(0..) {
        let instance = named(name, 1);
        join(harness, &instance).await;
        own(harness, &instance, partition).await;
    }

    for (name, partition) in NAMES.into_iter().zip(0..) {
        let inherited = join(harness, &named(name, 2)).await;
        assert_eq!(inherited.len(), 1, "{name}");
        assert_eq!(inherited[0].partition, partition, "{name}");
    }
}

/// S10: nobody is alive, and nothing owned, for longer than the longest lease.
pub async fn too_long_a_life_is_refused(harness: &impl OwnershipHarness) {
    let relay = joined(harness, "relay").await;
    let immortal = Instance { live_for: LONGEST_LEASE + Duration::from_secs(1), ..relay };

    refused(harness.store().join(&immortal).await);
    refused(harness.store().beat(&immortal, &[]).await);
    refused(harness.store().acquire(&immortal, &[7]).await);
}

/// The names of those whom `instance` sees.
async fn names(harness: &impl OwnershipHarness, instance: &Instance) -> Vec<String> {
    let pulse = beat(harness, instance, &[]).await;
    pulse.members.iter().map(|member| member.owner.name().to_owned()).collect()
}
