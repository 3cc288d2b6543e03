//! What waits for a paused route while partitions are owned.

use pillarbox::store::{Administration, Outcome, Ownership, PausedRoute};

use super::ownership::{
    OwnershipHarness, aside_of, behind_key, blocked, due, owner_of, owner_of_all, place, seq, without_key,
};
use super::pauses::paused;
use super::{LONG, NONE, settle, stored, write};

/// M5, O6: an event that an owner has set aside is due once it is recalled, and holds its key until then; what follows it
/// waits for its key and nothing else.
pub async fn recalled_event_is_due(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    assert_eq!(settle(harness, &head.taken, paused(LONG)).await, NONE);
    let follower = place(harness, &held, "order-17").await;
    assert_eq!(settle(harness, &follower.taken, behind_key()).await, NONE);
    assert!(due(harness, &held).await.is_empty());

    assert_eq!(PausedRoute::recall(&**harness.store(), "orders").await.unwrap(), 1);

    assert_eq!(due(harness, &held).await.iter().map(seq).collect::<Vec<_>>(), [seq(&head)]);
    assert_eq!(blocked(harness, &held).await[0].first, Some(seq(&head)));
    let aside = aside_of(harness, &held, "order-17").await;
    assert_eq!(aside.iter().map(seq).collect::<Vec<_>>(), [seq(&head), seq(&follower)]);
    assert_eq!(stored(harness, &head.taken.event_id).await.reason, None);
}

/// M5, O6: an event that waits for nothing but its key goes on waiting for it, whatever its reason.
pub async fn follower_is_not_recalled(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let follower = place(harness, &held, "order-17").await;
    let Outcome::Aside { reason, .. } = paused(LONG) else { unreachable!() };
    settle(harness, &follower.taken, Outcome::Aside { until: None, reason }).await;

    assert_eq!(PausedRoute::recall(&**harness.store(), "orders").await.unwrap(), 0);

    assert!(due(harness, &held).await.is_empty());
}

/// M5: events of every partition are recalled, a few at a time.
pub async fn events_of_all_partitions_are_recalled(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of_all(harness).await;
    for _ in 0..20 {
        let event = without_key();
        write(harness, std::slice::from_ref(&event)).await;
        let visits: Vec<_> = held.iter().map(super::ownership::visit).collect();
        let fetched = harness.store().fetch(&visits, 10).await.unwrap();
        settle(harness, &fetched[0].taken, paused(LONG)).await;
    }

    assert_eq!(harness.store().recall("paused: route `orders`", 15).await.unwrap(), 15);
    assert_eq!(PausedRoute::recall(&**harness.store(), "orders").await.unwrap(), 5);

    let visits: Vec<_> = held.iter().map(super::ownership::visit).collect();
    assert_eq!(harness.store().due(&visits, 100).await.unwrap().events.len(), 20);
}
