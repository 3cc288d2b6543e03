//! Settling under the token of a partition: what outcomes do, and the fence.

use std::time::Duration;

use pillarbox::Event;
use pillarbox::store::{
    Administration, DoneRows, Epoch, EventStore, Lease, Outcome, Ownership, Page, Settlement, Taken, Token,
    Visit,
};

use super::ownership::{
    OwnershipHarness, acquire, aside_of, behind_key, blocked, due, dying, fetch_one, joined, own,
    owned_outcomes, owner_of, owner_of_all, parked, place, seq, visit, without_key,
};
use super::settlements::{dead, fell_back, retry, status_after};
use super::{LONG, NONE, order_placed, settle, settle_all, stored, write};

/// O5, S2: each outcome leaves its row as it says.
pub async fn owners_outcomes_are_recorded(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;

    for outcome in owned_outcomes() {
        let fetched = place(harness, &held, "order-17").await;
        assert_eq!(settle(harness, &fetched.taken, outcome.clone()).await, NONE, "{outcome:?}");

        let row = stored(harness, &fetched.taken.event_id).await;
        let expected = (Ok(status_after(&outcome)), u32::from(outcome.spends()), 0);
        assert_eq!((row.status, row.attempts, row.starts), expected, "{outcome:?}");
        assert_eq!(row.done_at.is_some(), outcome.is_done(), "{outcome:?}");
        settle(harness, &fetched.taken, Outcome::Done).await;
    }
}

/// D12, S9: outcomes from several partitions are recorded in one call, those of a lost lease apart, and done rows can be
/// deleted.
pub async fn owners_batch_is_recorded(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let mut settlements = Vec::new();
    for (order, outcome) in owned_outcomes().into_iter().enumerate() {
        let order = format!("order-{order}");
        let held = &holdings[usize::from(pillarbox::partition_of(&order))];
        settlements.push(Settlement::of(&place(harness, held, &order).await.taken, outcome));
    }
    let of_a_take = Lease { token: super::unused_token(), ..settlements[0].lease };
    settlements
        .insert(1, Settlement { lease: of_a_take, outcome: retry(LONG, true), ..settlements[0].clone() });

    let lost = harness.store().settle(&settlements, DoneRows::Delete).await.unwrap();

    assert_eq!(lost, [of_a_take.seq]);
    let stats = harness.store().stats().await.unwrap();
    assert_eq!((stats.new, stats.retry, stats.dead), (1, 3, 2));
    let done = Page { after: 0, limit: 10 };
    assert!(harness.store().find_by_aggregate("order-0", done).await.unwrap().is_empty());
}

/// D12, S10: of many events that are done the one under a lost lease is told, and no other.
pub async fn lost_lease_is_told_among_many(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    for (round, done) in [DoneRows::Keep, DoneRows::Delete].into_iter().enumerate() {
        let placed: Vec<Event> = (0..5).map(|n| order_placed(&format!("order-{round}-{n}"))).collect();
        write(harness, &placed).await;
        let visits: Vec<Visit> = holdings.iter().map(visit).collect();
        let fetched = harness.store().fetch(&visits, 5).await.unwrap();
        let mut settlements: Vec<Settlement> =
            fetched.iter().skip(round).map(|fetched| Settlement::of(&fetched.taken, Outcome::Done)).collect();
        let stale = &mut settlements[2].lease;
        let (partition, epoch) = stale.token.partition().unwrap();
        stale.token = Token::of_partition(partition, Epoch(epoch.0 + 1));
        let stale = stale.seq;

        let lost = harness.store().settle(&settlements, done).await.unwrap();

        assert_eq!((settlements.len(), lost), (5, vec![stale]), "{done:?}");
    }
}

/// O5, S10: an earlier owner changes nothing, whatever it says, and learns it.
pub async fn earlier_owner_records_nothing(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let before = own(harness, &dying(&relay), pillarbox::partition_of("order-17")).await;
    let stale = place(harness, &before, "order-17").await;
    let held = own(harness, &other, before.partition).await;
    let current = fetch_one(harness, &held).await;
    let row = row(harness, &current.taken).await;

    for outcome in owned_outcomes() {
        let lost = settle(harness, &stale.taken, outcome.clone()).await;
        assert_eq!(lost, [seq(&stale)], "{outcome:?}");
        assert_eq!(self::row(harness, &current.taken).await, row, "{outcome:?}");
    }
    let done = [Settlement::of(&stale.taken, Outcome::Done)];
    assert_eq!(harness.store().settle(&done, DoneRows::Delete).await.unwrap(), [seq(&stale)]);

    assert_eq!(blocked(harness, &held).await, []);
    assert_eq!(settle(harness, &current.taken, Outcome::Done).await, NONE);
}

/// O5, S10: after its lease has ended an owner still records while nobody took over: time plays no part.
pub async fn ended_owner_records_while_nobody_took_over(harness: &impl OwnershipHarness) {
    let relay = joined(harness, "relay").await;
    let held = own(harness, &dying(&relay), pillarbox::partition_of("order-17")).await;

    for outcome in owned_outcomes() {
        let fetched = place(harness, &held, "order-17").await;
        assert_eq!(settle(harness, &fetched.taken, outcome.clone()).await, NONE, "{outcome:?}");
        settle(harness, &fetched.taken, Outcome::Done).await;
    }
}

/// O3: a row is settled under the token of its own partition only.
pub async fn owner_of_another_partition_records_nothing(harness: &impl OwnershipHarness) {
    let (relay, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    let other = own(harness, &relay, held.partition.wrapping_add(1)).await;
    let token = Token::of_partition(other.partition, other.epoch);
    let elsewhere = Taken { lease: Lease { token, ..fetched.taken.lease }, ..fetched.taken.clone() };

    for outcome in owned_outcomes() {
        assert_eq!(settle(harness, &elsewhere, outcome.clone()).await, [seq(&fetched)], "{outcome:?}");
    }

    assert_eq!(fetch_one(harness, &held).await.taken.lease, fetched.taken.lease);
}

/// O5, S10: a failover can take numbers back and give them to other events, in the same partition and under the same
/// epoch; what became of the former event of a number changes nothing for the one that has it now.
pub async fn outcome_of_another_event_records_nothing(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    let before = row(harness, &fetched.taken).await;

    for former in formers(&fetched.taken) {
        for outcome in owned_outcomes() {
            let lost = settle(harness, &former, outcome.clone()).await;
            assert_eq!(lost, [seq(&fetched)], "{}: {outcome:?}", former.event_id);
            assert_eq!(row(harness, &fetched.taken).await, before, "{}: {outcome:?}", former.event_id);
        }
        let done = [Settlement::of(&former, Outcome::Done)];
        assert_eq!(harness.store().settle(&done, DoneRows::Delete).await.unwrap(), [seq(&fetched)]);
    }

    assert_eq!(blocked(harness, &held).await, []);
    assert_eq!(settle(harness, &fetched.taken, Outcome::Done).await, NONE);
}

/// O2, S10: the former event of a number is not set aside for ever in the place of one that has no key.
pub async fn endless_wait_of_another_event_is_lost(harness: &impl OwnershipHarness) {
    let (_, holdings) = owner_of_all(harness).await;
    let event = without_key();
    write(harness, std::slice::from_ref(&event)).await;
    let visits: Vec<_> = holdings.iter().map(visit).collect();
    let fetched = harness.store().fetch(&visits, 1).await.unwrap().remove(0);

    for former in formers(&fetched.taken) {
        assert_eq!(settle(harness, &former, behind_key()).await, [seq(&fetched)]);
    }

    assert_eq!(settle(harness, &fetched.taken, Outcome::Done).await, NONE);
}

/// S10: an outcome that is repeated because its answer was lost counts nothing twice, and what is final stays so.
pub async fn repeated_outcome_counts_once(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;

    for outcome in [Outcome::Done, fell_back(), retry(LONG, true), dead("address unknown", false), parked()] {
        let fetched = place(harness, &held, "order-17").await;
        settle(harness, &fetched.taken, outcome.clone()).await;
        let before = row(harness, &fetched.taken).await;

        assert_eq!(settle(harness, &fetched.taken, outcome.clone()).await, [seq(&fetched)], "{outcome:?}");
        assert_eq!(row(harness, &fetched.taken).await, before, "{outcome:?}");
    }
    for outcome in [retry(LONG, false), behind_key(), Outcome::Released] {
        let fetched = place(harness, &held, "order-17").await;
        settle(harness, &fetched.taken, outcome.clone()).await;
        let before = stored(harness, &fetched.taken.event_id).await;
        settle(harness, &fetched.taken, outcome.clone()).await;

        let after = stored(harness, &fetched.taken.event_id).await;
        assert_eq!((after.status, after.attempts), (before.status, before.attempts), "{outcome:?}");
        settle(harness, &fetched.taken, Outcome::Done).await;
    }
}

/// S10: a key that was skipped is not parked again by an outcome that comes late.
pub async fn repeated_park_does_not_undo_a_skip(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, parked()).await;
    harness.store().skip(&["order-17".to_owned()]).await.unwrap();

    assert_eq!(settle(harness, &head.taken, parked()).await, [seq(&head)]);

    assert_eq!(blocked(harness, &held).await, []);
}

/// S10: an attempt is counted only from the number that the event was read with.
pub async fn owners_attempts_are_absolute(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    let miscounted = Taken { lease: Lease { attempts: 4, ..fetched.taken.lease }, ..fetched.taken.clone() };

    for outcome in [retry(LONG, true), dead("address unknown", true), parked()] {
        assert_eq!(settle(harness, &miscounted, outcome).await, [seq(&fetched)]);
    }

    assert_eq!(fetch_one(harness, &held).await.taken.lease, fetched.taken.lease);
    assert_eq!(blocked(harness, &held).await, []);
}

/// D8: what was not tried is given back as it was read: fresh, due at its time, or waiting for its key.
pub async fn released_event_is_as_it_was_read(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle(harness, &head.taken, retry(Duration::ZERO, true)).await;
    let follower = place(harness, &held, "order-17").await;
    settle(harness, &follower.taken, behind_key()).await;
    let fresh = place(harness, &held, "order-17").await;
    let [head, follower] = aside_of(harness, &held, "order-17").await.try_into().unwrap();
    let read = [&head.taken, &follower.taken, &fresh.taken];
    let mut before = Vec::new();
    for taken in read {
        before.push(row(harness, taken).await);
    }

    let released = read.map(|taken| (taken, Outcome::Released));
    assert_eq!(settle_all(harness, &released).await, NONE);

    for (taken, before) in read.into_iter().zip(before) {
        assert_eq!(row(harness, taken).await, before);
    }
}

/// D3: a start is counted before the delivery, once however often it is repeated, and every outcome but DONE takes it
/// back.
pub async fn start_is_counted_once(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;

    for outcome in owned_outcomes() {
        let fetched = place(harness, &held, "order-17").await;
        for _ in 0..3 {
            assert!(harness.store().start(&fetched.taken).await.unwrap());
            assert_eq!(stored(harness, &fetched.taken.event_id).await.starts, 1);
        }

        assert_eq!(settle(harness, &fetched.taken, outcome.clone()).await, NONE, "{outcome:?}");

        let starts = stored(harness, &fetched.taken.event_id).await.starts;
        assert_eq!(starts, u32::from(outcome.is_done()), "{outcome:?}");
        settle(harness, &fetched.taken, Outcome::Done).await;
    }
}

/// D3, O5: who takes over sees the starts of those who died, and an earlier owner counts none.
pub async fn start_is_fenced(harness: &impl OwnershipHarness) {
    let (relay, other) = (joined(harness, "relay").await, joined(harness, "relay-2").await);
    let before = own(harness, &dying(&relay), pillarbox::partition_of("order-17")).await;
    let stale = place(harness, &before, "order-17").await;
    assert!(harness.store().start(&stale.taken).await.unwrap());
    let held = own(harness, &other, before.partition).await;

    let current = fetch_one(harness, &held).await;
    assert_eq!(current.taken.lease.starts, 1);
    assert!(!harness.store().start(&stale.taken).await.unwrap());
    assert!(harness.store().start(&current.taken).await.unwrap());
    assert_eq!(stored(harness, &current.taken.event_id).await.starts, 2);

    assert_eq!(settle(harness, &current.taken, retry(Duration::ZERO, true)).await, NONE);
    assert_eq!(due(harness, &held).await[0].taken.lease.starts, 1);
    assert_eq!(acquire(harness, &relay, &[held.partition]).await, []);
}

/// D3, S10: the start of the former event of a number is not counted for the one that has it now.
pub async fn start_of_another_event_is_not_counted(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;

    for former in formers(&fetched.taken) {
        assert!(!harness.store().start(&former).await.unwrap(), "{}", former.event_id);
    }

    assert_eq!(stored(harness, &fetched.taken.event_id).await.starts, 0);
}

/// D3: a settled event is not started.
pub async fn settled_event_is_not_started(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    settle(harness, &fetched.taken, Outcome::Done).await;

    assert!(!harness.store().start(&fetched.taken).await.unwrap());

    assert_eq!(stored(harness, &fetched.taken.event_id).await.starts, 0);
}

/// Events that had the number of this one before, with ids that are nearly the same and not.
fn formers(taken: &Taken) -> [Taken; 4] {
    let id = &taken.event_id;
    let ids = ["order-17".to_owned(), id.to_lowercase(), format!("{id} "), id[1..].to_owned()];
    ids.map(|event_id| Taken { event_id, ..taken.clone() })
}

/// All of a row that an operator sees.
async fn row(harness: &impl OwnershipHarness, taken: &Taken) -> String {
    format!("{:?}", stored(harness, &taken.event_id).await)
}
