//! Keys that are parked for a dead event, and how they go on.

use std::time::Duration;

use pillarbox::partition_of;
use pillarbox::store::{Administration, Outcome, Ownership, Purge, Selection, Status};

use super::ownership::{
    OwnershipHarness, aside_of, behind_key, blocked, due, dying, joined, misplace, own, owner_of,
    owner_of_all, parked, place, seq,
};
use super::ownership_asides::{only, place_without_key, replay};
use super::settlements::{dead, retry};
use super::steps::ids;
use super::{NONE, settle, stored};

/// O6: a parked event is dead with its error and its attempt, and its key waits for it, with what follows or without.
pub async fn parked_event_is_dead_and_its_key_waits(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;

    assert_eq!(settle(harness, &head.taken, parked()).await, NONE);

    let row = stored(harness, &head.taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Dead), 1, 0));
    assert_eq!(row.last_error.as_deref(), Some("address unknown"));
    let alone = only(blocked(harness, &held).await);
    assert_eq!((alone.key.as_str(), alone.first), ("order-17", None));
    assert_eq!(alone.parked_for.as_ref(), Some(&head.taken.event_id));
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;
    let followed = only(blocked(harness, &held).await);
    assert_eq!((followed.first, followed.parked_for), (Some(seq(&follower)), Some(head.taken.event_id)));
}

/// O6: dead without being parked holds nothing.
pub async fn dead_event_releases_its_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;

    settle(harness, &head.taken, dead("address unknown", true)).await;

    assert_eq!(blocked(harness, &held).await, []);
}

/// O6: a parked key survives the death of its owner.
pub async fn parked_key_survives_its_owner(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let held = own(harness, &dying(&relay), partition_of("order-17")).await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;

    let taken = own(harness, &other, held.partition).await;

    assert_eq!(only(blocked(harness, &taken).await).parked_for, Some(head.taken.event_id));
}

/// O6: replaying the event that a key is parked for makes it the head of its key again, due at once, with the rest
/// behind it in order.
pub async fn replay_resumes_a_parked_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;

    replay(harness, &head).await;

    assert_eq!(ids(&due(harness, &held).await), ids([&head]));
    let resumed = only(blocked(harness, &held).await);
    assert_eq!((resumed.first, resumed.parked_for), (Some(seq(&head)), None));
    assert!(resumed.ready_in.is_zero());
    assert_eq!(ids(&aside_of(harness, &held, "order-17").await), ids([&head, &follower]));
    let row = stored(harness, &head.taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.reason), (Ok(Status::Retry), 0, None));
}

/// O6: skipping a key leaves the event dead, and what follows can go on.
pub async fn skip_frees_a_parked_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;
    let keys = ["order-17", "ORDER-17", "unknown"].map(str::to_owned);

    assert_eq!(harness.store().skip(&keys).await.unwrap(), 1);
    assert_eq!(harness.store().skip(&keys).await.unwrap(), 0);

    assert_eq!(stored(harness, &head.taken.event_id).await.status, Ok(Status::Dead));
    let free = only(blocked(harness, &held).await);
    assert_eq!((free.first, free.parked_for), (Some(seq(&follower)), None));
    assert!(free.ready_in.is_zero());
}

/// O6: a key whose writer computed a wrong partition is parked there, and skipped as any other.
pub async fn misplaced_key_is_skipped(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let wrong = &holdings[usize::from(!partition_of("order-17"))];
    let head = misplace(harness, wrong, "order-17").await;
    assert_eq!(settle(harness, &head.taken, parked()).await, NONE);
    assert_eq!(only(blocked(harness, wrong).await).parked_for.as_ref(), Some(&head.taken.event_id));

    assert_eq!(harness.store().skip(&["order-17".to_owned()]).await.unwrap(), 1);

    assert_eq!(blocked(harness, wrong).await, []);
    assert_eq!(stored(harness, &head.taken.event_id).await.status, Ok(Status::Dead));
}

/// O6: a key of which events lie in two partitions is parked in each for itself; replaying one event frees the key where
/// that lies, and skipping the key frees it wherever it is parked.
pub async fn key_is_parked_in_each_of_its_partitions(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let right = &holdings[usize::from(partition_of("order-17"))];
    let wrong = &holdings[usize::from(!partition_of("order-17"))];
    let (first, second) =
        (place(harness, right, "order-17").await, misplace(harness, wrong, "order-17").await);
    for head in [&first, &second] {
        assert_eq!(settle(harness, &head.taken, parked()).await, NONE);
    }
    let third = misplace(harness, &holdings[usize::from(!partition_of("order-18"))], "order-18").await;
    settle(harness, &third.taken, parked()).await;

    let parked_for = async |held| only(blocked(harness, held).await).parked_for;
    assert_eq!(parked_for(right).await.as_ref(), Some(&first.taken.event_id));
    assert_eq!(parked_for(wrong).await.as_ref(), Some(&second.taken.event_id));
    assert_eq!(harness.store().census().await.unwrap().parked_keys, 3);

    assert_eq!(harness.store().skip(&["order-17".to_owned()]).await.unwrap(), 2);
    assert_eq!(harness.store().census().await.unwrap().parked_keys, 1);
    replay(harness, &third).await;
    assert_eq!(harness.store().census().await.unwrap().parked_keys, 0);
}

/// O6: discarding the event that a key is parked for frees the key.
pub async fn discard_frees_a_parked_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;

    harness.store().discard(&Selection::Ids(vec![head.taken.event_id.clone()])).await.unwrap();

    assert_eq!(blocked(harness, &held).await, []);
}

/// O6, S9: a purge of dead events leaves those that a key is parked for: nobody has decided about them yet.
pub async fn purge_leaves_parked_events(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    let purge = Purge { older_than: Duration::ZERO, limit: 10, after: 0, dead_too: true };

    assert_eq!(harness.store().purge(purge).await.unwrap().deleted, 0);
    harness.store().skip(&["order-17".to_owned()]).await.unwrap();

    assert_eq!(harness.store().purge(purge).await.unwrap().deleted, 1);
}

/// O6: a key stays parked for the event that it was parked for first; replaying or discarding another frees nothing.
pub async fn key_is_parked_for_one_event(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let (first, second) = {
        let first = place(harness, &held, "order-17").await;
        settle(harness, &first.taken, parked()).await;
        let second = place(harness, &held, "order-17").await;
        settle(harness, &second.taken, parked()).await;
        (first, second)
    };

    replay(harness, &second).await;
    assert_eq!(only(blocked(harness, &held).await).parked_for.as_ref(), Some(&first.taken.event_id));
    settle(harness, &due(harness, &held).await[0].taken, dead("address unknown", true)).await;
    harness.store().discard(&Selection::Ids(vec![second.taken.event_id])).await.unwrap();

    assert_eq!(only(blocked(harness, &held).await).parked_for, Some(first.taken.event_id));
}

/// O6, W9: an event without a key is just dead.
pub async fn event_without_a_key_parks_nothing(harness: &impl OwnershipHarness) {
    let (fetched, held) = place_without_key(harness).await;

    assert_eq!(settle(harness, &fetched.taken, parked()).await, NONE);

    assert_eq!(stored(harness, &fetched.taken.event_id).await.status, Ok(Status::Dead));
    assert_eq!(blocked(harness, &held).await, []);
}

/// O6: a replayed head that fails holds its key as before, and can be parked again.
pub async fn resumed_key_can_be_parked_again(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    replay(harness, &head).await;

    let again = due(harness, &held).await.remove(0);
    assert_eq!(settle(harness, &again.taken, retry(Duration::ZERO, true)).await, NONE);
    let again = due(harness, &held).await.remove(0);
    assert_eq!(again.taken.lease.attempts, 1);
    assert_eq!(settle(harness, &again.taken, parked()).await, NONE);

    assert_eq!(only(blocked(harness, &held).await).parked_for, Some(head.taken.event_id));
    assert_eq!(settle(harness, &again.taken, Outcome::Done).await, [seq(&again)]);
}
