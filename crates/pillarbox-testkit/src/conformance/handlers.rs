//! How far the handlers of an event have come: stored with its outcome, and handed out again.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Lease, Outcome, Page, Selection, Settlement, Status, Taken,
};

use super::ownership::{OwnershipHarness, fetch_one, owner_of, place};
use super::settlements::{dead, fell_back, retry};
use super::{NONE, StoreHarness, claim_one, order_placed, settle, stored, write};

/// What is said of handlers: a text like any other to the store, with all that a text can have in it.
const PROGRESS: &str =
    r#"{"billing":"done","mail":{"owed":{"failures":2,"after_us":9000000}},"ещё \"нет\"":"done"}"#;

fn later() -> Outcome {
    Outcome::Aside { until: Some(Duration::ZERO), reason: "hold".into() }
}

async fn settle_with(harness: &impl StoreHarness, taken: &Taken, outcome: Outcome, progress: Option<&str>) {
    let handlers = progress.map(str::to_owned);
    let settlement = Settlement { handlers, ..Settlement::of(taken, outcome) };
    assert_eq!(harness.store().settle(&[settlement], DoneRows::Keep).await.unwrap(), NONE);
}

/// L3: what is said of handlers is stored with every outcome that the event comes again from, and handed out with it.
pub async fn progress_of_handlers_comes_back(harness: &impl StoreHarness) {
    for outcome in [retry(Duration::ZERO, true), later(), Outcome::Released] {
        write(harness, &[order_placed("order-17")]).await;
        let taken = claim_one(harness).await;
        assert_eq!(taken.handlers, None);

        settle_with(harness, &taken, outcome.clone(), Some(PROGRESS)).await;

        assert_eq!(stored(harness, &taken.event_id).await.handlers.as_deref(), Some(PROGRESS), "{outcome:?}");
        let again = claim_one(harness).await;
        assert_eq!(again.handlers.as_deref(), Some(PROGRESS), "{outcome:?}");
        settle(harness, &again, Outcome::Done).await;
    }
}

/// L3: an outcome that says nothing of handlers leaves what is stored, and DONE forgets it.
pub async fn progress_of_handlers_stays_until_done(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle_with(harness, &taken, retry(Duration::ZERO, true), Some(PROGRESS)).await;

    for outcome in [retry(Duration::ZERO, true), later(), Outcome::Released] {
        let taken = claim_one(harness).await;
        settle_with(harness, &taken, outcome.clone(), None).await;
        assert_eq!(stored(harness, &taken.event_id).await.handlers.as_deref(), Some(PROGRESS), "{outcome:?}");
    }
    let taken = claim_one(harness).await;
    settle(harness, &taken, Outcome::Done).await;

    assert_eq!(stored(harness, &taken.event_id).await.handlers, None);
}

/// L3, L4: an event that is done because a fallback succeeded has one attempt more, the error, and no progress.
pub async fn fallback_counts_its_attempt(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle_with(harness, &taken, retry(Duration::ZERO, true), Some(PROGRESS)).await;
    let taken = claim_one(harness).await;

    settle_with(harness, &taken, fell_back(), None).await;

    assert_fell_back(harness, &taken, 2).await;
}

/// L3, S2: DONE is true whoever has counted since: it is recorded, and the row keeps its attempts.
pub async fn fallback_is_done_whatever_was_counted(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle(harness, &taken, retry(Duration::ZERO, true)).await;
    let taken = claim_one(harness).await;
    let miscounted = Taken { lease: Lease { attempts: 0, ..taken.lease }, ..taken };

    settle_with(harness, &miscounted, fell_back(), None).await;

    assert_fell_back(harness, &miscounted, 1).await;
}

/// The row of an event is done, with so many attempts and the last error; that it is done is not recorded again.
async fn assert_fell_back(harness: &impl StoreHarness, taken: &Taken, attempts: u32) {
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Done), attempts));
    assert_eq!(row.last_error.as_deref(), Some("410 from the receiver"));
    assert_eq!((row.handlers, row.locked_by), (None, None));
    assert!(row.done_at.is_some());

    assert_eq!(settle(harness, taken, fell_back()).await, [taken.lease.seq]);
    assert_eq!(stored(harness, &taken.event_id).await.attempts, attempts);
}

/// L3, S2: a dead event keeps what is said of its handlers, also when it is replayed.
pub async fn progress_of_handlers_survives_a_replay(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    settle_with(harness, &taken, dead("410", true), Some(PROGRESS)).await;
    let listed = harness.store().dead(Page { after: 0, limit: 10 }).await.unwrap();
    assert_eq!(listed[0].handlers.as_deref(), Some(PROGRESS));

    harness.store().replay(&Selection::Ids(vec![taken.event_id.clone()])).await.unwrap();

    let replayed = claim_one(harness).await;
    assert_eq!((replayed.lease.attempts, replayed.handlers.as_deref()), (0, Some(PROGRESS)));
}

/// L3: where nothing failed the last error stays.
pub async fn empty_error_keeps_the_last(harness: &impl StoreHarness) {
    let nothing = || String::new();
    for outcome in [
        Outcome::Retry { after: Duration::ZERO, error: nothing(), spent: false },
        Outcome::Dead { error: nothing(), spent: false },
    ] {
        write(harness, &[order_placed("order-17")]).await;
        let taken = claim_one(harness).await;
        settle(harness, &taken, retry(Duration::ZERO, true)).await;
        let taken = claim_one(harness).await;

        assert_eq!(settle(harness, &taken, outcome.clone()).await, NONE);

        let last_error = stored(harness, &taken.event_id).await.last_error;
        assert_eq!(last_error.as_deref(), Some("503 from the receiver"), "{outcome:?}");
        if outcome.comes_again() {
            settle(harness, &claim_one(harness).await, Outcome::Done).await;
        }
    }
}

/// L3, O5: an owner stores and reads what is said of handlers as a take does.
pub async fn owners_progress_of_handlers_comes_back(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    assert_eq!(fetched.taken.handlers, None);

    settle_with(harness, &fetched.taken, Outcome::Released, Some(PROGRESS)).await;
    let again = fetch_one(harness, &held).await.taken;
    assert_eq!(again.handlers.as_deref(), Some(PROGRESS));

    let shorter = r#"{"billing":"done"}"#;
    settle_with(harness, &again, retry(Duration::ZERO, true), Some(shorter)).await;
    let due = super::ownership::due(harness, &held).await.remove(0).taken;
    assert_eq!(due.handlers.as_deref(), Some(shorter));

    settle_with(harness, &due, later(), Some(PROGRESS)).await;
    let due = super::ownership::due(harness, &held).await.remove(0).taken;
    assert_eq!(due.handlers.as_deref(), Some(PROGRESS));

    settle(harness, &due, Outcome::Done).await;
    assert_eq!(stored(harness, &due.event_id).await.handlers, None);
}

/// L3, L4, O5: an owner's event that is done because a fallback succeeded has one attempt more.
pub async fn owners_fallback_counts_its_attempt(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    settle_with(harness, &fetched.taken, retry(Duration::ZERO, true), Some(PROGRESS)).await;
    let due = super::ownership::due(harness, &held).await.remove(0).taken;

    settle_with(harness, &due, fell_back(), None).await;

    assert_fell_back(harness, &due, 2).await;
}

/// L3, O5, S2: what an owner has done is done whoever has counted since, and the row keeps its attempts.
pub async fn owners_fallback_is_done_whatever_was_counted(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fetched = place(harness, &held, "order-17").await;
    settle(harness, &fetched.taken, retry(Duration::ZERO, true)).await;

    settle_with(harness, &fetched.taken, fell_back(), None).await;

    assert_fell_back(harness, &fetched.taken, 1).await;
}

/// L3, O5: an owner's dead event keeps what is said of its handlers and, where nothing failed now, its last error.
pub async fn owners_dead_event_keeps_its_progress(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;

    for outcome in [dead("", false), Outcome::Parked { error: String::new(), spent: false }] {
        let fetched = place(harness, &held, "order-17").await.taken;
        settle_with(harness, &fetched, retry(Duration::ZERO, true), None).await;
        let due = super::ownership::due(harness, &held).await.remove(0).taken;
        settle_with(harness, &due, outcome.clone(), Some(PROGRESS)).await;

        let row = stored(harness, &due.event_id).await;
        assert_eq!(row.handlers.as_deref(), Some(PROGRESS), "{outcome:?}");
        assert_eq!(row.last_error.as_deref(), Some("503 from the receiver"), "{outcome:?}");
    }
}
