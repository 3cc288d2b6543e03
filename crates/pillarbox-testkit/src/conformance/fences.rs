//! The fence: who has lost a lease changes nothing, and learns it.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Lease, Outcome, Selection, Settlement, Status, Taken, Token,
};

use super::settlements::{dead, outcomes, retry};
use super::{
    LONG, NONE, StoreHarness, bury, claim_one, claim_one_for, order_placed, settle, settle_all, stored, write,
};

/// S10: a relay that overslept cannot undo the work of the one that took over.
pub async fn stale_lease_cannot_settle(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let overslept = claim_one_for(harness, Duration::ZERO).await;
    let current = claim_one(harness).await;
    let before = row(harness, &current).await;

    for outcome in outcomes() {
        let lost = settle(harness, &overslept, outcome.clone()).await;
        assert_eq!(lost, [overslept.lease.seq], "{outcome:?}");
        assert_eq!(row(harness, &current).await, before, "{outcome:?}");
    }

    assert_eq!(settle(harness, &current, Outcome::Done).await, NONE);
}

/// S9, S10: where done rows are deleted, a stale or a late DONE deletes nothing.
pub async fn lost_lease_cannot_delete(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let overslept = claim_one_for(harness, Duration::ZERO).await;
    claim_one(harness).await;
    let buried = bury(harness, order_placed("order-18")).await;
    let batch = [&overslept, &buried].map(|taken| Settlement::of(taken, Outcome::Done));

    let mut lost = harness.store().settle(&batch, DoneRows::Delete).await.unwrap();

    lost.sort_unstable();
    assert_eq!(lost, [overslept.lease.seq, buried.lease.seq]);
    assert_eq!(stored(harness, &overslept.event_id).await.status, Ok(Status::New));
    assert_eq!(stored(harness, &buried.event_id).await.status, Ok(Status::Dead));
}

/// S10: a lease that ended and that nobody took still settles: time plays no part.
pub async fn ended_lease_settles_while_nobody_took_it(harness: &impl StoreHarness) {
    for outcome in outcomes() {
        let event = order_placed("order-17");
        write(harness, std::slice::from_ref(&event)).await;
        let taken = claim_one_for(harness, Duration::ZERO).await;

        assert_eq!(settle(harness, &taken, outcome.clone()).await, NONE, "{outcome:?}");

        let row = stored(harness, event.id()).await;
        assert_eq!(row.locked_by, None, "{outcome:?}");
        if outcome == Outcome::Released {
            assert_eq!(claim_one(harness).await.event_id, event.id());
        }
    }
}

/// S10: a token that is not the row's, and a row that does not exist, are lost.
pub async fn forged_lease_cannot_settle(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    let before = row(harness, &taken).await;
    let of_another = Lease { token: Token(i64::MAX), ..taken.lease };
    let of_nothing = Lease { seq: i64::MAX, ..taken.lease };
    let forged = [of_another, of_nothing].map(|lease| Taken { lease, ..taken.clone() });

    let lost = settle_all(harness, &[(&forged[0], Outcome::Done), (&forged[1], Outcome::Done)]).await;

    assert_eq!(lost, [taken.lease.seq, i64::MAX]);
    assert_eq!(row(harness, &taken).await, before);
}

/// S10: an event that was never taken cannot be settled.
pub async fn untaken_event_cannot_be_settled(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Released).await;
    let before = row(harness, &taken).await;

    for token in [taken.lease.token, Token(0)] {
        let lease = Lease { token, ..taken.lease };
        let lost = settle(harness, &Taken { lease, ..taken.clone() }, Outcome::Done).await;
        assert_eq!(lost, [lease.seq]);
    }

    assert_eq!(row(harness, &taken).await, before);
}

/// D12, S10: of a batch only those are reported whose lease was lost; the others are recorded.
pub async fn batch_reports_only_the_lost(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let overslept = claim_one_for(harness, Duration::ZERO).await;
    let current = claim_one(harness).await;
    write(harness, &[order_placed("order-18")]).await;
    let other = claim_one(harness).await;

    let lost = settle_all(harness, &[(&other, Outcome::Done), (&overslept, retry(LONG, true))]).await;

    assert_eq!(lost, [overslept.lease.seq]);
    assert_eq!(stored(harness, &other.event_id).await.status, Ok(Status::Done));
    assert_eq!(stored(harness, &current.event_id).await.status, Ok(Status::New));
}

/// S2: nothing leaves DONE, and marking it again changes nothing.
pub async fn done_is_final(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;
    let before = row(harness, &taken).await;

    for outcome in outcomes() {
        let lost = settle(harness, &taken, outcome.clone()).await;
        assert_eq!(lost, [taken.lease.seq], "{outcome:?}");
        assert_eq!(row(harness, &taken).await, before, "{outcome:?}");
    }
    let ids = Selection::Ids(vec![taken.event_id.clone()]);
    assert_eq!(harness.store().replay(&ids).await.unwrap(), 0);
    assert_eq!(harness.store().discard(&ids).await.unwrap(), Vec::<String>::new());
    assert_eq!(row(harness, &taken).await, before);
}

/// S2: a late mark does not revive a dead event.
pub async fn late_mark_does_not_revive_the_dead(harness: &impl StoreHarness) {
    let taken = bury(harness, order_placed("order-17")).await;
    let before = row(harness, &taken).await;

    for outcome in outcomes() {
        let lost = settle(harness, &taken, outcome.clone()).await;
        assert_eq!(lost, [taken.lease.seq], "{outcome:?}");
        assert_eq!(row(harness, &taken).await, before, "{outcome:?}");
    }
}

/// S10: a settlement that is repeated because its answer was lost counts no attempt twice.
pub async fn repeated_settlement_counts_once(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, retry(Duration::ZERO, true)).await;
    let before = row(harness, &taken).await;

    let lost = settle(harness, &taken, retry(LONG, true)).await;

    assert_eq!(lost, [taken.lease.seq]);
    assert_eq!(row(harness, &taken).await, before);
    assert_eq!(claim_one(harness).await.lease.attempts, 1);
}

/// S10: attempts are absolute: one is counted only from the number that the lease was given with.
pub async fn attempts_are_absolute(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    let before = row(harness, &taken).await;
    let miscounted = Taken { lease: Lease { attempts: 4, ..taken.lease }, ..taken.clone() };

    for outcome in [retry(LONG, true), dead("address unknown", true)] {
        assert_eq!(settle(harness, &miscounted, outcome).await, [taken.lease.seq]);
        assert_eq!(row(harness, &taken).await, before);
    }

    assert_eq!(settle(harness, &taken, retry(LONG, true)).await, NONE);
}

/// S10: of settlements of one lease that run side by side, one is recorded and the others learn it.
pub async fn concurrent_settlements_apply_once(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    let settlement = [Settlement::of(&taken, retry(LONG, true))];

    let settling: Vec<_> = (0..8)
        .map(|_| (Arc::clone(harness.store()), settlement.clone()))
        .map(|(store, settlement)| {
            tokio::spawn(async move { store.settle(&settlement, DoneRows::Keep).await.unwrap().len() })
        })
        .collect();
    let mut lost = 0;
    for settled in settling {
        lost += settled.await.unwrap();
    }

    assert_eq!(lost, 7);
    assert_eq!(stored(harness, &taken.event_id).await.attempts, 1);
}

/// S10: a settlement that is repeated after another took the event changes nothing of it.
pub async fn repeated_settlement_does_not_disturb_the_next(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let first = claim_one(harness).await;
    settle(harness, &first, retry(Duration::ZERO, true)).await;
    let second = claim_one(harness).await;

    let lost = settle(harness, &first, retry(Duration::ZERO, true)).await;

    assert_eq!(lost, [first.lease.seq]);
    assert_eq!(settle(harness, &second, dead("address unknown", true)).await, NONE);
    assert_eq!(stored(harness, &second.event_id).await.attempts, 2);
}

/// S2, S10: the lease from before a death is worth nothing after the replay.
pub async fn replayed_event_is_not_settled_by_its_old_lease(harness: &impl StoreHarness) {
    let buried = bury(harness, order_placed("order-17")).await;
    let ids = Selection::Ids(vec![buried.event_id.clone()]);
    assert_eq!(harness.store().replay(&ids).await.unwrap(), 1);

    let lost = settle(harness, &buried, Outcome::Done).await;

    assert_eq!(lost, [buried.lease.seq]);
    assert_eq!(claim_one(harness).await.event_id, buried.event_id);
}

/// All of a row that an operator sees.
async fn row(harness: &impl StoreHarness, taken: &Taken) -> String {
    format!("{:?}", stored(harness, &taken.event_id).await)
}
