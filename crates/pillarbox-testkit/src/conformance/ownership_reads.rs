//! Reading fresh events from partitions that are owned.

use std::collections::BTreeSet;

use pillarbox::store::{Fetched, Holding, Outcome, Ownership, Status, Token, Visit};
use pillarbox::{Event, partition_of};

use super::ownership::{
    OwnershipHarness, fetch, fetch_one, owned_outcomes, owner_of, owner_of_all, place, seq, visit,
    visit_without, without_key,
};
use super::steps::ids;
use super::{LONG, NONE, insert, order_placed, settle, stored, write};
use pillarbox::store::TxStore;

/// O1, O5: fresh events are read in the order of their numbers over all visited partitions, under the token of theirs.
pub async fn fresh_events_are_read_in_order(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let events: Vec<Event> = (0..50).map(|n| order_placed(&format!("order-{}", n % 20))).collect();
    write(harness, &events).await;

    let fetched = harness.store().fetch(&visits(&holdings), 100).await.unwrap();

    assert_eq!(ids(&fetched), ids(&events));
    assert!(fetched.is_sorted_by_key(seq));
    for (fetched, event) in fetched.iter().zip(&events) {
        let holding = holdings[usize::from(partition_of(event.key().unwrap()))];
        let lease = fetched.taken.lease;
        assert_eq!(lease.token, Token::of_partition(holding.partition, holding.epoch));
        assert_eq!((lease.attempts, lease.starts), (0, 0));
        assert_eq!((fetched.key.as_deref(), fetched.ready_in.is_zero()), (event.key(), true));
        assert_eq!(fetched.taken.event.as_ref().unwrap().payload(), event.payload());
    }
}

/// O5: reading writes nothing: the row stays as it was, and is read again.
pub async fn reading_writes_nothing(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    write(harness, &[order_placed("order-17")]).await;
    let first = fetch_one(harness, &held).await;
    let before = format!("{:?}", stored(harness, &first.taken.event_id).await);

    let again = fetch_one(harness, &held).await;

    assert_eq!(again.taken.lease, first.taken.lease);
    assert_eq!(format!("{:?}", stored(harness, &first.taken.event_id).await), before);
}

/// O5: nothing is read at the floor or below it.
pub async fn fetch_starts_above_the_floor(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    write(harness, &orders(5)).await;
    let all = fetch(harness, &held).await;

    let from_floor = Visit { floor: seq(&all[2]), ..visit(&held) };
    let fetched = harness.store().fetch(&[from_floor], 100).await.unwrap();

    assert_eq!(ids(&fetched), ids(&all[3..]));
    let from_above = Visit { floor: i64::MAX, ..visit(&held) };
    assert!(harness.store().fetch(&[from_above], 100).await.unwrap().is_empty());
}

/// O5: what the owner has already is not read again, however much that is.
pub async fn fetch_leaves_out_what_is_in_flight(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    write(harness, &orders(900)).await;
    let all = fetch(harness, &held).await;
    let (first, rest) = all.split_at(800);

    let fetched = harness.store().fetch(&[visit_without(&held, first)], 50).await.unwrap();

    assert_eq!(ids(&fetched), ids(&rest[..50]));
}

/// O5, P5: nor is it in many partitions at once, of which a store may read some after the others; together they are in order.
pub async fn fetch_leaves_out_thousands_that_are_in_flight(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let placed = |orders: std::ops::Range<u32>| -> Vec<Event> {
        orders.map(|n| order_placed(&format!("order-{n}"))).collect()
    };
    write(harness, &placed(0..3_000)).await;
    let in_flight = harness.store().fetch(&visits(&holdings), 1_000).await.unwrap();
    assert_eq!(in_flight.len(), 3_000);
    let more = placed(3_000..3_400);
    write(harness, &more).await;

    let rest: Vec<Visit> = holdings.iter().map(|holding| visit_without(holding, &in_flight)).collect();
    let fetched = harness.store().fetch(&rest, 1_000).await.unwrap();

    assert_eq!(ids(&fetched), ids(&more));
}

/// O5: the limit is one for each partition, so that a long backlog in one leaves room to others.
pub async fn fetch_is_limited_by_partition(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let other = (0..).map(|n| format!("other-{n}")).find(|key| partition_of(key) != partition_of("order-17"));
    let other = order_placed(&other.unwrap());
    let backlog = orders(10);
    write(harness, &backlog).await;
    write(harness, std::slice::from_ref(&other)).await;

    let fetched = harness.store().fetch(&visits(&holdings), 3).await.unwrap();

    assert_eq!(ids(&fetched), [ids(&backlog[..3]), vec![other.id()]].concat());
}

/// O3: nothing is read from partitions that are not visited.
pub async fn only_visited_partitions_are_read(harness: &impl OwnershipHarness) {
    let (_, mut holdings) = owner_of_all(harness).await;
    write(harness, &orders(1)).await;
    holdings.remove(usize::from(partition_of("order-17")));

    assert!(harness.store().fetch(&visits(&holdings), 100).await.unwrap().is_empty());
    assert!(harness.store().fetch(&[], 100).await.unwrap().is_empty());
}

/// O2, O5: what was settled is not fresh any more, unless it was given back.
pub async fn settled_events_are_not_fresh(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;

    for outcome in owned_outcomes() {
        let fetched = place(harness, &held, "order-17").await;
        assert_eq!(settle(harness, &fetched.taken, outcome.clone()).await, NONE);

        let is_fresh = !fetch(harness, &held).await.is_empty();
        assert_eq!(is_fresh, outcome == Outcome::Released, "{outcome:?}");
        settle(harness, &fetched.taken, Outcome::Done).await;
    }
}

/// V8: a delayed event is read before its time, with its wait, so that it can be set aside and hold no floor.
pub async fn delayed_event_is_read_with_its_wait(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let delayed = Event::builder("OrderPlaced").aggregate("Order", "order-17").deliver_after(LONG);
    write(harness, &[delayed.json_text("{}").build().unwrap()]).await;

    let fetched = fetch_one(harness, &held).await;

    assert!(fetched.ready_in > LONG / 2 && fetched.ready_in <= LONG, "{:?}", fetched.ready_in);
    assert!(fetched.taken.due_for.is_zero());
}

/// O1: an event without a delay is ready though the clock of the read is behind that of the write: taken for delayed, it
/// would lose its place in its key.
pub async fn undelayed_event_never_waits(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    write(harness, &orders(1)).await;
    harness.put_clock_back().await;

    let fetched = fetch_one(harness, &held).await;
    let passed = Visit { floor: seq(&fetched), ..visit(&held) };
    let below = harness.store().below(&[passed], 1).await.unwrap();

    assert!(fetched.ready_in.is_zero(), "{:?}", fetched.ready_in);
    assert!(below[0].ready_in.is_zero(), "{:?}", below[0].ready_in);
}

/// D10, O2: a row that cannot be decoded is read with its key and the reason, and disturbs no other.
pub async fn undecodable_event_is_read_with_its_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let events = orders(3);
    write(harness, &events).await;
    harness.corrupt(events[1].id()).await;

    let fetched = fetch(harness, &held).await;

    assert_eq!(ids(&fetched), ids(&events));
    assert_eq!(fetched.iter().map(|row| row.taken.event.is_ok()).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(fetched[1].key.as_deref(), Some("order-17"));
}

/// O1: an event that commits late, below numbers that were read, is found: the closed number does not pass it.
pub async fn late_commit_is_found<H: OwnershipHarness>(harness: &H) {
    let (_, held) = owner_of(harness, "order-17").await;
    let (late, early) = (order_placed("order-17"), order_placed("order-17"));
    let mut open = harness.open().await;
    insert_on(harness, &mut open, &late).await;
    if let Some(mut beside) = harness.open_beside().await {
        insert_on(harness, &mut beside, &early).await;
        harness.commit(beside).await;
        assert_eq!(ids(&fetch(harness, &held).await), [early.id()]);
    }
    let mut closed = 0;
    for _ in 0..5 {
        closed = harness.store().numbers().await.unwrap().closed;
    }

    harness.commit(open).await;

    let from_closed = Visit { floor: closed, ..visit(&held) };
    let fetched = harness.store().fetch(&[from_closed], 100).await.unwrap();
    assert_eq!(fetched[0].taken.event_id, late.id());
}

/// O1: the closed number comes up to what was committed, and gaps that rollbacks leave do not hold it.
pub async fn closed_number_rises<H: OwnershipHarness>(harness: &H) {
    let (_, held) = owner_of(harness, "order-17").await;
    let mut open = harness.open().await;
    insert_on(harness, &mut open, &order_placed("order-17")).await;
    harness.rollback(open).await;

    let fetched = place(harness, &held, "order-17").await;

    // A database that has to look twice answers later.
    for _ in 0..100 {
        if harness.closed_in_time().await >= seq(&fetched) {
            return;
        }
    }
    panic!("the closed number does not reach {}", seq(&fetched));
}

/// O1: what is inserted after the store was asked is numbered later than what was given then.
pub async fn given_number_is_behind_what_is_inserted_later<H: OwnershipHarness>(harness: &H) {
    let (_, held) = owner_of(harness, "order-17").await;
    let earlier = place(harness, &held, "order-17").await;

    let given = harness.store().numbers().await.unwrap().given;
    write(harness, &[order_placed("order-17")]).await;

    let later = harness.store().fetch(&[visit_without(&held, &[earlier])], 100).await.unwrap();
    assert!(given < seq(&later[0]), "{given} was given, and {} is inserted now", seq(&later[0]));
}

/// O1: fresh events that a floor has passed are found by looking below it, and no others.
pub async fn events_below_the_floor_are_found(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    write(harness, &orders(5)).await;
    let all = fetch(harness, &held).await;
    settle(harness, &all[0].taken, Outcome::Done).await;
    let above = Visit { floor: seq(&all[3]), ..visit_without(&held, &all[1..2]) };

    let below = harness.store().below(std::slice::from_ref(&above), 100).await.unwrap();

    assert_eq!(ids(&below), ids(&all[2..4]));
    assert_eq!(below[0].taken.lease, all[2].taken.lease);
    assert_eq!(harness.store().below(&[above], 1).await.unwrap().len(), 1);
    assert!(harness.store().below(&[visit(&held)], 100).await.unwrap().is_empty());
}

/// O3: a row that was written without a partition gets the one of its key, or one by its number.
pub async fn rows_without_a_partition_are_adopted(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let events = [order_placed("order-17"), without_key(), order_placed("заказ-17")];
    for event in &events {
        harness.write_without_partition(event).await;
    }

    let fetched = harness.store().fetch(&visits(&holdings), 100).await.unwrap();

    assert_eq!(ids(&fetched), ids(&events));
    for key in ["order-17", "заказ-17"] {
        let of_key = fetched.iter().find(|row| row.key.as_deref() == Some(key)).unwrap();
        let (partition, _) = of_key.taken.lease.token.partition().unwrap();
        assert_eq!(partition, partition_of(key));
        assert_eq!(settle(harness, &of_key.taken, Outcome::Done).await, NONE);
        assert_eq!(stored(harness, &of_key.taken.event_id).await.status, Ok(Status::Done));
    }
}

/// W9: events without a key are spread over the partitions: of two for each, most have some and none has many.
pub async fn events_without_a_key_are_spread(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let events: Vec<Event> = (0..512).map(|_| without_key()).collect();
    write(harness, &events).await;

    let fetched = harness.store().fetch(&visits(&holdings), 1_000).await.unwrap();

    let partition_of = |row: &Fetched| row.taken.lease.token.partition().unwrap().0;
    let partitions: Vec<u8> = fetched.iter().map(partition_of).collect();
    assert_eq!(partitions.len(), 512);
    let used: BTreeSet<u8> = partitions.iter().copied().collect();
    let most = used.iter().map(|one| partitions.iter().filter(|other| one == *other).count()).max();
    assert!(used.len() >= 180 && most.unwrap() <= 16, "{} are used, and one by {most:?}", used.len());
}

fn visits(holdings: &[Holding]) -> Vec<Visit> {
    holdings.iter().map(visit).collect()
}

fn orders(count: usize) -> Vec<Event> {
    (0..count).map(|_| order_placed("order-17")).collect()
}

async fn insert_on<H: OwnershipHarness>(harness: &H, tx: &mut super::Foreign<H>, event: &Event) {
    let connection = H::Store::foreign_connection(tx);
    insert(harness, connection, std::slice::from_ref(event), None).await.unwrap();
}
