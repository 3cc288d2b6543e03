//! Settling: what each outcome does to its row.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, MAX_ERROR, Outcome, Settlement, Status, StoreError, Taken,
};
use pillarbox::{Event, Timestamp};

use super::{
    LONG, NONE, StoreHarness, claim, claim_one, claim_one_for, order_placed, order_placed_available_at,
    settle, settle_all, stored, try_settle, within, write,
};

/// S2: what was delivered is DONE, has its time, belongs to nobody and is not taken again.
pub async fn done_is_recorded(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;

    let lost = settle(harness, &taken, Outcome::Done).await;

    assert_eq!(lost, NONE);
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Ok(Status::Done), 0, None));
    within(row.done_at.expect("it has a time"), row.created_at, Duration::ZERO);
    assert!(claim(harness, 10).await.events.is_empty());
}

/// S9: rows of delivered events can be deleted as they are settled, and no others are.
pub async fn done_rows_can_be_deleted(harness: &impl StoreHarness) {
    let mut settlements = Vec::new();
    for outcome in outcomes() {
        let taken = take_one(harness, order_placed("order-17")).await;
        settlements.push(Settlement::of(&taken, outcome));
    }

    let lost = harness.store().settle(&settlements, DoneRows::Delete).await.unwrap();
    let again = harness.store().settle(&settlements[..1], DoneRows::Delete).await.unwrap();

    assert_eq!(lost, NONE);
    assert_eq!(again, [settlements[0].lease.seq]);
    for settlement in settlements {
        let is_deleted = harness.store().find(&settlement.event_id).await.unwrap().is_none();
        assert_eq!(is_deleted, settlement.outcome.is_done(), "{:?}", settlement.outcome);
    }
}

/// S2: a failed delivery is recorded, and the event waits for its time.
pub async fn retry_is_recorded(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed_available_at("order-17", 1)).await;

    let lost = settle(harness, &taken, retry(LONG, true)).await;

    assert_eq!(lost, NONE);
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Retry), 1, 0));
    assert_eq!((row.locked_by, row.done_at), (None, None));
    assert_eq!(row.last_error.as_deref(), Some("503 from the receiver"));
    within(row.due_at, row.created_at, LONG);
    assert_eq!(row.available_at, row.due_at);
}

/// S2, S10: a retry is not taken before its time, and the batch tells how long that is.
pub async fn retry_is_not_taken_before_its_time(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;
    settle(harness, &taken, retry(LONG, true)).await;

    let batch = claim(harness, 10).await;

    assert!(batch.events.is_empty());
    let wait = batch.next_due_in.expect("it becomes due");
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
}

/// D3: each spent attempt counts one, and the lease tells how many there were before.
pub async fn spent_attempts_add_up(harness: &impl StoreHarness) {
    write(harness, &[order_placed("order-17")]).await;

    for attempts in 0..3 {
        let taken = claim_one(harness).await;
        assert_eq!((taken.lease.attempts, taken.lease.starts), (attempts, 0));
        settle(harness, &taken, retry(Duration::ZERO, true)).await;
    }

    assert_eq!(claim_one(harness).await.lease.attempts, 3);
}

/// D3, D13: what is not spent is not counted.
pub async fn unspent_attempts_are_not_counted(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;
    settle(harness, &taken, retry(Duration::ZERO, false)).await;
    let taken = claim_one(harness).await;
    assert_eq!(taken.lease.attempts, 0);

    settle(harness, &taken, dead("address unknown", false)).await;

    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 0));
}

/// D5, T5: an event that is set aside keeps its due time and its attempts, says why, and waits.
pub async fn aside_spends_nothing(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed_available_at("order-17", 1_000_000)).await;

    let lost = settle(harness, &taken, aside(LONG)).await;

    assert_eq!(lost, NONE);
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Retry), 0, 0));
    assert_eq!(row.due_at, Timestamp::from_micros(1_000_000));
    within(row.available_at, row.created_at, LONG);
    assert_eq!((row.locked_by, row.last_error), (None, None));
    assert_eq!(row.reason.as_deref(), Some("no listener for `OrderPlaced` · ещё нет"));
    assert!(claim(harness, 10).await.events.is_empty());
}

/// D5: when its time has come, an event that was set aside is taken as it was; a retry ends the reason.
pub async fn aside_ends(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;
    settle(harness, &taken, aside(Duration::ZERO)).await;

    let again = claim_one(harness).await;

    assert_eq!((again.lease.attempts, again.lease.starts), (0, 0));
    settle(harness, &again, retry(LONG, true)).await;
    assert_eq!(stored(harness, &again.event_id).await.reason, None);
}

/// S2: an event that was given up is DEAD with its error, and is not taken again.
pub async fn dead_is_recorded(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;

    let lost = settle(harness, &taken, dead("address unknown", true)).await;

    assert_eq!(lost, NONE);
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.starts), (Ok(Status::Dead), 1, 0));
    assert_eq!((row.locked_by, row.done_at), (None, None));
    assert_eq!(row.last_error.as_deref(), Some("address unknown"));
    assert!(claim(harness, 10).await.events.is_empty());
}

/// D8: a released event is as it was before it was taken, and is taken again at once.
pub async fn released_event_is_as_before(harness: &impl StoreHarness) {
    let event = order_placed_available_at("order-17", 1_000_000);
    write(harness, std::slice::from_ref(&event)).await;
    let before = format!("{:?}", stored(harness, event.id()).await);
    let taken = claim_one(harness).await;

    let lost = settle(harness, &taken, Outcome::Released).await;

    assert_eq!(lost, NONE);
    assert_eq!(format!("{:?}", stored(harness, event.id()).await), before);
    assert_eq!(claim_one(harness).await.event_id, taken.event_id);
}

/// D8: a retry that is released stays a retry, with its attempts, its error and its due time.
pub async fn released_retry_stays_a_retry(harness: &impl StoreHarness) {
    let taken = take_one(harness, order_placed("order-17")).await;
    settle(harness, &taken, retry(Duration::ZERO, true)).await;
    let before = format!("{:?}", stored(harness, &taken.event_id).await);

    let again = claim_one(harness).await;
    settle(harness, &again, Outcome::Released).await;

    assert_eq!(format!("{:?}", stored(harness, &taken.event_id).await), before);
}

/// D3: every outcome but DONE sets `starts` to the value before the take, which need not be 0.
pub async fn outcomes_restore_starts(harness: &impl StoreHarness) {
    for outcome in outcomes().into_iter().filter(|outcome| !outcome.is_done()) {
        write(harness, &[order_placed("order-17")]).await;
        claim_one_for(harness, Duration::ZERO).await;
        claim_one_for(harness, Duration::ZERO).await;
        let taken = claim_one(harness).await;

        settle(harness, &taken, outcome.clone()).await;

        assert_eq!(stored(harness, &taken.event_id).await.starts, 2, "{outcome:?}");
        settle_rest(harness).await;
    }
}

/// S2: error texts are cut at 4,000 characters, not bytes, and lose their NULs.
pub async fn long_errors_are_cut(harness: &impl StoreHarness) {
    let error = format!("'\"\\%\0{}", "ошибка 💥".repeat(1_000));
    let kept: String = error.replace('\0', "").chars().take(MAX_ERROR).collect();
    let taken = take_one(harness, order_placed("order-17")).await;

    settle(harness, &taken, Outcome::Retry { after: Duration::ZERO, error: error.clone(), spent: true })
        .await;
    assert_eq!(stored(harness, &taken.event_id).await.last_error.as_ref(), Some(&kept));
    let taken = claim_one(harness).await;
    settle(harness, &taken, dead(&format!("again {error}"), true)).await;

    let last_error = stored(harness, &taken.event_id).await.last_error.unwrap();
    assert_eq!(last_error.chars().count(), MAX_ERROR);
    assert!(last_error.starts_with("again '\"\\%ошибка"));
}

/// D12: one call records different outcomes for different events.
pub async fn batch_of_mixed_outcomes_is_recorded(harness: &impl StoreHarness) {
    let events = ["order-1", "order-2", "order-3", "order-4", "order-5", "order-6"].map(order_placed);
    write(harness, &events).await;
    let taken = claim(harness, 10).await.events;

    let batch: Vec<(&Taken, Outcome)> = taken.iter().zip(outcomes()).collect();
    let lost = settle_all(harness, &batch).await;

    assert_eq!(lost, NONE);
    for (taken, outcome) in batch {
        let row = stored(harness, &taken.event_id).await;
        let expected = (Ok(status_after(&outcome)), u32::from(outcome.spends()));
        assert_eq!((row.status, row.attempts), expected, "{outcome:?}");
        assert_eq!(row.locked_by, None);
    }
}

/// D12: one call settles events of different takes.
pub async fn batch_spans_several_takes(harness: &impl StoreHarness) {
    let mut taken = Vec::new();
    for _ in 0..12 {
        taken.push(take_one(harness, order_placed("order-17")).await);
    }
    let batch: Vec<(&Taken, Outcome)> = taken.iter().zip(outcomes().into_iter().cycle()).collect();

    assert_eq!(settle_all(harness, &batch).await, NONE);

    let stats = harness.store().stats().await.unwrap();
    assert_eq!((stats.new, stats.retry, stats.dead), (2, 4, 2));
}

/// D12: a call may settle more events than a statement has room for, and none.
pub async fn large_batch_is_recorded(harness: &impl StoreHarness) {
    let events: Vec<Event> = (0..1_440).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(harness, &events).await;
    let taken = claim(harness, 2_000).await.events;
    let batch: Vec<(&Taken, Outcome)> = taken.iter().zip(outcomes().into_iter().cycle()).collect();

    assert_eq!(settle_all(harness, &[]).await, NONE);
    assert_eq!(settle_all(harness, &batch).await, NONE);

    let stats = harness.store().stats().await.unwrap();
    assert_eq!((stats.new, stats.retry, stats.dead), (240, 480, 240));
}

/// D12, O6: under the token of a take, aside needs an end and no key is parked; the call is refused as a whole, and the
/// rest can be settled without the one.
pub async fn refused_settlement_applies_nothing(harness: &impl StoreHarness) {
    let events = ["order-1", "order-2", "order-3"].map(order_placed);
    write(harness, &events).await;
    let taken = claim(harness, 3).await.events;
    let endless = Outcome::Aside { until: None, reason: "no listener".into() };
    let parked = Outcome::Parked { error: "address unknown".into(), spent: true };

    for owners in [endless, parked] {
        let batch = [(&taken[0], Outcome::Done), (&taken[1], owners), (&taken[2], retry(LONG, true))];
        let refused = try_settle(harness, &batch).await;

        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
        for taken in &taken {
            let row = stored(harness, &taken.event_id).await;
            assert_eq!((row.status, row.attempts), (Ok(Status::New), 0));
        }
    }

    let rest = [(&taken[0], Outcome::Done), (&taken[2], retry(LONG, true))];
    assert_eq!(settle_all(harness, &rest).await, NONE);
}

/// One of each outcome.
pub(super) fn outcomes() -> [Outcome; 6] {
    [
        Outcome::Done,
        fell_back(),
        retry(LONG, true),
        aside(LONG),
        dead("address unknown", true),
        Outcome::Released,
    ]
}

/// Where a new event stands after an outcome.
pub(super) fn status_after(outcome: &Outcome) -> Status {
    match outcome {
        Outcome::Done | Outcome::FellBack { .. } => Status::Done,
        Outcome::Retry { .. } | Outcome::Aside { .. } => Status::Retry,
        Outcome::Dead { .. } | Outcome::Parked { .. } => Status::Dead,
        Outcome::Released => Status::New,
    }
}

/// Done, though a handler failed.
pub(super) fn fell_back() -> Outcome {
    Outcome::FellBack { error: "410 from the receiver".into() }
}

pub(super) fn retry(after: Duration, spent: bool) -> Outcome {
    Outcome::Retry { after, error: "503 from the receiver".into(), spent }
}

fn aside(until: Duration) -> Outcome {
    Outcome::Aside { until: Some(until), reason: "no listener for `OrderPlaced` · ещё нет".into() }
}

pub(super) fn dead(error: &str, spent: bool) -> Outcome {
    Outcome::Dead { error: error.into(), spent }
}

async fn take_one(harness: &impl StoreHarness, event: Event) -> Taken {
    write(harness, &[event]).await;
    claim_one(harness).await
}

async fn settle_rest(harness: &impl StoreHarness) {
    for taken in claim(harness, 10).await.events {
        settle(harness, &taken, Outcome::Done).await;
    }
}
