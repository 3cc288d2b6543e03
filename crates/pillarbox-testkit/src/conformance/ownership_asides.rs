//! Reading events that were set aside, and keys that must not go on.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{
    Administration, Blocked, DELAYED, Fetched, Holding, Outcome, Ownership, REPLAYED, Selection, Status,
};

use super::ownership::{
    OwnershipHarness, aside_of, behind_key, blocked, due, fetch_one, joined, own, owner_of, owner_of_all,
    place, refused, release, seq, visit, visit_without, without_key,
};
use super::settlements::{dead, retry};
use super::steps::ids;
use super::{LONG, NONE, settle, stored, try_settle, write};

/// O2: what was set aside is read when its time has come: the earliest first, ties by number.
pub async fn due_events_are_read_earliest_first(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let later = place(harness, &held, "order-17").await;
    settle(harness, &later.taken, retry(LONG, false)).await;
    let earlier = place(harness, &held, "order-17").await;
    settle(harness, &earlier.taken, retry(Duration::ZERO, false)).await;
    let since = stored(harness, &earlier.taken.event_id).await.available_at;
    // Until the clock of the database has gone on.
    loop {
        settle(harness, &later.taken, retry(Duration::ZERO, false)).await;
        if stored(harness, &later.taken.event_id).await.available_at > since {
            break;
        }
    }

    let read = due(harness, &held).await;

    assert_eq!(ids(&read), [&earlier.taken.event_id, &later.taken.event_id]);
    assert!(read.iter().all(|fetched| fetched.ready_in.is_zero()));
    assert_eq!(read[0].taken.lease, earlier.taken.lease);
}

/// O2: an event is not read before its time, and the answer tells how long that is.
pub async fn due_tells_when_the_next_is(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let visits: Vec<_> = holdings.iter().map(visit).collect();
    let none = harness.store().due(&visits, 10).await.unwrap();
    assert!(none.events.is_empty() && none.next_due_in.is_none());
    for (order, wait) in [("order-1", LONG * 2), ("order-2", LONG), ("order-3", LONG * 3)] {
        let held = &holdings[usize::from(pillarbox::partition_of(order))];
        let fetched = place(harness, held, order).await;
        settle(harness, &fetched.taken, retry(wait, true)).await;
    }

    let due = harness.store().due(&visits, 10).await.unwrap();

    assert!(due.events.is_empty());
    let wait = due.next_due_in.expect("one becomes due");
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
}

/// O2: no more is read than asked for, and nothing that the owner has already.
pub async fn due_leaves_out_what_is_in_flight(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let mut set_aside = Vec::new();
    for _ in 0..4 {
        let fetched = place(harness, &held, "order-17").await;
        settle(harness, &fetched.taken, retry(Duration::ZERO, true)).await;
        set_aside.push(fetched);
    }

    let first = harness.store().due(&[visit(&held)], 3).await.unwrap();
    let rest = harness.store().due(&[visit_without(&held, &first.events)], 3).await.unwrap();

    assert_eq!(ids(&first.events), ids(&set_aside[..3]));
    assert_eq!(ids(&rest.events), ids(&set_aside[3..]));
}

/// O2: the limit is one for all partitions together.
pub async fn due_is_limited_together(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let visits: Vec<_> = holdings.iter().map(visit).collect();
    for order in ["order-1", "order-2", "order-3"] {
        let held = &holdings[usize::from(pillarbox::partition_of(order))];
        let fetched = place(harness, held, order).await;
        settle(harness, &fetched.taken, retry(Duration::ZERO, true)).await;
    }

    assert_eq!(harness.store().due(&visits, 2).await.unwrap().events.len(), 2);
    assert_eq!(harness.store().due(&visits, 9).await.unwrap().events.len(), 3);
}

/// O2: what waits for its key is never due; it is read by its key.
pub async fn endless_wait_ends_with_its_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;

    let due = harness.store().due(&[visit(&held)], 10).await.unwrap();

    assert!(due.events.is_empty() && due.next_due_in.is_none());
    let read = aside_of(harness, &held, "order-17").await;
    assert_eq!(read[0].taken.lease, follower.taken.lease);
    assert!(read[0].ready_in.is_zero());
    let row = stored(harness, &follower.taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.last_error), (Ok(Status::Retry), 0, None));
    assert_eq!(row.reason.as_deref(), Some("an earlier event of its key waits"));
}

/// O1, O2: the events of a key that were set aside are read in runs in the order of their numbers, with the time that
/// each has to wait for by itself.
pub async fn events_of_a_key_are_read_in_runs(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let mut of_key = Vec::new();
    for outcome in [behind_key(), behind_key(), retry(LONG, true), behind_key()] {
        let fetched = place(harness, &held, "order-17").await;
        settle(harness, &fetched.taken, outcome).await;
        of_key.push(fetched);
    }

    let first = harness.store().aside_of(&visit(&held), "order-17", 2).await.unwrap();
    let rest = harness.store().aside_of(&visit_without(&held, &first), "order-17", 9).await.unwrap();

    assert_eq!(ids(&first), ids(&of_key[..2]));
    assert_eq!(ids(&rest), ids(&of_key[2..]));
    assert!(rest[0].ready_in > LONG / 2 && rest[0].ready_in <= LONG, "{:?}", rest[0].ready_in);
    assert!(rest[1].ready_in.is_zero());
    assert_eq!((rest[0].taken.lease.attempts, rest[1].taken.lease.attempts), (1, 0));
}

/// O2: keys compare by bytes.
pub async fn keys_are_blocked_by_bytes(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let held_of = |key: &str| holdings[usize::from(pillarbox::partition_of(key))];
    let fetched = place(harness, &held_of("order-17"), "order-17").await;
    settle(harness, &fetched.taken, retry(LONG, true)).await;

    for other in ["ORDER-17", "order-17 ", "order-1", "order_17", "order-%"] {
        assert!(aside_of(harness, &held_of(other), other).await.is_empty(), "{other}");
        assert!(
            blocked(harness, &held_of(other)).await.iter().all(|blocked| blocked.key != other),
            "{other}"
        );
    }
    assert_eq!(aside_of(harness, &held_of("order-17"), "order-17").await.len(), 1);
}

/// O2: a key with a retry or with events behind one is blocked, from the lowest of their numbers on; one whose events
/// are fresh or settled is not.
pub async fn key_is_blocked_by_what_is_set_aside(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    assert_eq!(blocked(harness, &held).await, []);
    settle(harness, &head.taken, retry(LONG, true)).await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;

    let by_head = only(blocked(harness, &held).await);
    settle(harness, &aside_of(harness, &held, "order-17").await[0].taken, Outcome::Done).await;
    let by_follower = only(blocked(harness, &held).await);
    settle(harness, &follower.taken, Outcome::Done).await;

    assert_eq!((by_head.key.as_str(), by_head.partition), ("order-17", held.partition));
    assert_eq!((by_head.first, by_head.parked_for), (Some(seq(&head)), None));
    assert!(by_head.ready_in > LONG / 2 && by_head.ready_in <= LONG, "{:?}", by_head.ready_in);
    assert_eq!((by_follower.first, by_follower.ready_in), (Some(seq(&follower)), Duration::ZERO));
    assert_eq!(blocked(harness, &held).await, []);
}

/// O2, O5: the next owner finds the same keys blocked, each once, and those of its own partitions only.
pub async fn blocked_keys_survive_their_owner(harness: &impl OwnershipHarness) {
    let (relay, holdings) = owner_of_all(harness).await;
    for order in ["order-1", "order-2", "order-3"] {
        let held = &holdings[usize::from(pillarbox::partition_of(order))];
        let fetched = place(harness, held, order).await;
        settle(harness, &fetched.taken, retry(LONG, true)).await;
    }
    let second = holdings[usize::from(pillarbox::partition_of("order-2"))];
    release(harness, &relay, super::ownership::floor(&second, 0)).await;
    own(harness, &joined(harness, "relay-2").await, second.partition).await;

    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut keys: Vec<String> =
        harness.store().blocked(&all).await.unwrap().into_iter().map(|blocked| blocked.key).collect();

    keys.sort_unstable();
    assert_eq!(keys, ["order-1", "order-2", "order-3"]);
    assert_eq!(only(blocked(harness, &second).await).key, "order-2");
}

/// V8: a delayed event neither waits for its key nor holds it, until it has failed.
pub async fn delayed_event_stands_apart(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let delayed = place(harness, &held, "order-17").await;
    let aside = |until| Outcome::Aside { until: Some(until), reason: DELAYED.into() };
    settle(harness, &delayed.taken, aside(LONG)).await;
    assert_eq!(blocked(harness, &held).await, []);
    assert!(aside_of(harness, &held, "order-17").await.is_empty());
    assert!(due(harness, &held).await.is_empty());

    settle(harness, &delayed.taken, aside(Duration::ZERO)).await;
    let read = due(harness, &held).await;
    settle(harness, &read[0].taken, retry(LONG, true)).await;

    assert_eq!(only(blocked(harness, &held).await).first, Some(seq(&delayed)));
    assert_eq!(ids(&aside_of(harness, &held, "order-17").await), ids([&delayed]));
}

/// O2, S2: a replayed event is due at once, whatever the floor is, and neither waits for its key nor holds it.
pub async fn replayed_event_stands_apart(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let buried = place(harness, &held, "order-17").await;
    settle(harness, &buried.taken, dead("address unknown", true)).await;

    replay(harness, &buried).await;

    let row = stored(harness, &buried.taken.event_id).await;
    assert_eq!((row.status, row.reason.as_deref()), (Ok(Status::Retry), Some(REPLAYED)));
    let read = due(harness, &Holding { floor: i64::MAX, ..held }).await;
    assert_eq!(ids(&read), ids([&buried]));
    assert_eq!(blocked(harness, &held).await, []);
    assert!(aside_of(harness, &held, "order-17").await.is_empty());
}

/// O2, W9: an event without a key blocks nothing.
pub async fn event_without_a_key_blocks_nothing(harness: &impl OwnershipHarness) {
    let (fetched, held) = place_without_key(harness).await;

    settle(harness, &fetched.taken, retry(Duration::ZERO, true)).await;

    assert_eq!(blocked(harness, &held).await, []);
    assert_eq!(ids(&due(harness, &held).await), ids([&fetched]));
}

/// O2: what nobody would bring back is not set aside without an end: the call is refused, and changes nothing.
pub async fn endless_wait_needs_a_key(harness: &impl OwnershipHarness) {
    let (without, held) = place_without_key(harness).await;
    refused(try_settle(harness, &[(&without.taken, behind_key())]).await);
    settle(harness, &without.taken, Outcome::Done).await;
    let keyed = order_in(held.partition);
    write(harness, std::slice::from_ref(&keyed)).await;
    let fetched = fetch_one(harness, &held).await;

    for reason in [DELAYED, REPLAYED] {
        let endless = Outcome::Aside { until: None, reason: reason.into() };
        refused(try_settle(harness, &[(&fetched.taken, endless)]).await);
    }

    assert_eq!(stored(harness, keyed.id()).await.status, Ok(Status::New));
    assert_eq!(settle(harness, &fetched.taken, behind_key()).await, NONE);
}

/// Replays a dead event.
pub(super) async fn replay(harness: &impl OwnershipHarness, buried: &Fetched) {
    let ids = Selection::Ids(vec![buried.taken.event_id.clone()]);
    assert_eq!(harness.store().replay(&ids).await.unwrap(), 1);
}

/// The one key that must not go on.
#[track_caller]
pub(super) fn only(blocked: Vec<Blocked>) -> Blocked {
    let [blocked]: [Blocked; 1] = blocked.try_into().expect("one key is blocked");
    blocked
}

/// Writes an event without a key, and fetches it.
pub(super) async fn place_without_key(harness: &impl OwnershipHarness) -> (Fetched, Holding) {
    let (_, holdings) = owner_of_all(harness).await;
    write(harness, &[without_key()]).await;
    let visits: Vec<_> = holdings.iter().map(visit).collect();
    let fetched = harness.store().fetch(&visits, 10).await.unwrap().remove(0);
    let (partition, _) = fetched.taken.lease.token.partition().unwrap();
    (fetched, holdings[usize::from(partition)])
}

/// The event that an order of this partition was placed.
fn order_in(partition: u8) -> Event {
    let order = (0..).map(|n| format!("order-{n}")).find(|key| pillarbox::partition_of(key) == partition);
    super::order_placed(&order.unwrap())
}
