//! What an operator finds and changes in the progress of handlers.

use std::time::Duration;

use pillarbox::store::{
    Administration, DoneRows, EventStore, Outcome, Progress, Revision, Settlement, Status, Taken,
};

use super::settlements::{dead, retry};
use super::{LONG, NONE, StoreHarness, claim, claim_one, claim_one_for, order_placed, settle, stored, write};

/// Search is owed, and nobody knows it.
pub(super) const WITH_SEARCH: &str =
    r#"{"billing":"done","search":{"owed":{"failures":2,"after_us":0,"unknown":true}}}"#;
pub(super) const WITHOUT: &str = r#"{"billing":"done"}"#;

/// Set aside for long, because the handler is unknown.
pub(super) fn hold() -> Outcome {
    Outcome::Aside { until: Some(LONG), reason: "hold: no handler `search` is registered here".into() }
}

/// Settles an event, with what is said of its handlers, and returns the numbers of those whose lease was lost.
pub(super) async fn settle_saying(
    harness: &impl StoreHarness,
    taken: &Taken,
    outcome: Outcome,
    handlers: Option<&str>,
) -> Vec<i64> {
    let settlement = Settlement { handlers: handlers.map(str::to_owned), ..Settlement::of(taken, outcome) };
    harness.store().settle(&[settlement], DoneRows::Keep).await.unwrap()
}

/// The change from one text to another.
pub(super) fn revision(taken: &Taken, from: &str, to: &str) -> Revision {
    let (from, to, event_id) = (from.to_owned(), to.to_owned(), taken.event_id.clone());
    Revision { seq: taken.lease.seq, event_id, from, to, replays: false }
}

pub(super) async fn revise(harness: &impl StoreHarness, revisions: &[Revision]) -> Vec<i64> {
    let mut revised = harness.store().revise(revisions).await.unwrap();
    revised.sort_unstable();
    revised
}

pub(super) async fn progress(harness: &impl StoreHarness, handler: Option<&str>) -> Vec<Progress> {
    let mut found = harness.store().progress(handler, 1_000).await.unwrap();
    found.sort_unstable_by_key(|progress| progress.seq);
    found
}

/// Writes an event, takes it and settles it so.
async fn placed(harness: &impl StoreHarness, outcome: Outcome, handlers: Option<&str>) -> Taken {
    write(harness, &[order_placed("order-17")]).await;
    let taken = claim_one(harness).await;
    assert_eq!(settle_saying(harness, &taken, outcome, handlers).await, NONE);
    taken
}

/// L3: what is said of handlers is found in pending and in dead events, and in no others.
pub async fn progress_of_open_events_is_found(harness: &impl StoreHarness) {
    placed(harness, Outcome::Done, None).await;
    placed(harness, retry(LONG, true), None).await;
    let pending = placed(harness, hold(), Some(WITH_SEARCH)).await;
    let buried = placed(harness, dead("410", true), Some(WITHOUT)).await;
    write(harness, &[order_placed("order-17")]).await;

    let found = progress(harness, None).await;

    let told: Vec<(&str, bool, &str)> =
        found.iter().map(|found| (&*found.event_id, found.is_dead, &*found.handlers)).collect();
    assert_eq!(told, [(&*pending.event_id, false, WITH_SEARCH), (&*buried.event_id, true, WITHOUT)]);
    assert_eq!(
        found.iter().map(|found| found.seq).collect::<Vec<_>>(),
        [pending.lease.seq, buried.lease.seq]
    );
    assert!(found.iter().all(|found| !found.is_leased && found.written_ago < Duration::from_secs(3_600)));
}

/// L3: one handler can be looked for by its whole id, and no more is read than was asked for.
pub async fn progress_is_found_by_handler(harness: &impl StoreHarness) {
    let with = placed(harness, hold(), Some(WITH_SEARCH)).await;
    placed(harness, hold(), Some(WITHOUT)).await;
    placed(harness, dead("410", true), Some(WITHOUT)).await;

    let found = progress(harness, Some("search")).await;
    assert_eq!(found.iter().map(|found| &found.event_id).collect::<Vec<_>>(), [&with.event_id]);

    for other in ["sear", "arch", "Search", "sear_h", "sear%", "done"] {
        assert_eq!(progress(harness, Some(other)).await, [], "{other}");
    }
    assert_eq!(harness.store().progress(None, 2).await.unwrap().len(), 2);
    assert_eq!(harness.store().progress(Some("billing"), 2).await.unwrap().len(), 2);
    assert_eq!(harness.store().progress(None, 0).await.unwrap(), []);
}

/// L3: an event that was set aside is looked at again once it is changed, and its reason is gone.
pub async fn revised_event_can_be_taken(harness: &impl StoreHarness) {
    let held = placed(harness, hold(), Some(WITH_SEARCH)).await;
    assert!(claim(harness, 10).await.events.is_empty());

    let revised = revise(harness, &[revision(&held, WITH_SEARCH, WITHOUT)]).await;

    assert_eq!(revised, [held.lease.seq]);
    let row = stored(harness, &held.event_id).await;
    assert_eq!((row.status, row.reason, row.handlers.as_deref()), (Ok(Status::Retry), None, Some(WITHOUT)));
    let taken = claim_one(harness).await;
    assert_eq!((taken.handlers.as_deref(), taken.lease.attempts, taken.lease.starts), (Some(WITHOUT), 0, 0));
}

/// L3: a handler that waits for its next attempt is not tried before its time because another was dropped.
pub async fn revised_event_keeps_its_due_time(harness: &impl StoreHarness) {
    let failed = placed(harness, retry(LONG, true), Some(WITH_SEARCH)).await;
    let before = stored(harness, &failed.event_id).await;

    revise(harness, &[revision(&failed, WITH_SEARCH, WITHOUT)]).await;

    let after = stored(harness, &failed.event_id).await;
    assert_eq!(after.handlers.as_deref(), Some(WITHOUT));
    assert_eq!((after.due_at, after.available_at, after.attempts), (before.due_at, before.due_at, 1));
    assert_eq!(after.last_error, before.last_error);
    assert!(claim(harness, 10).await.events.is_empty());
}

/// L3: an event that somebody works on is left alone, and settled as if nobody had asked.
pub async fn leased_event_is_not_revised(harness: &impl StoreHarness) {
    placed(harness, retry(Duration::ZERO, true), Some(WITH_SEARCH)).await;
    let taken = claim_one(harness).await;
    assert!(progress(harness, None).await[0].is_leased);

    let revised = revise(harness, &[revision(&taken, WITH_SEARCH, WITHOUT)]).await;

    assert_eq!(revised, NONE);
    assert_eq!(stored(harness, &taken.event_id).await.handlers.as_deref(), Some(WITH_SEARCH));
    assert_eq!(settle_saying(harness, &taken, hold(), Some(WITH_SEARCH)).await, NONE);
}

/// L3, S10: who overslept its lease cannot undo what an operator has changed since.
pub async fn overslept_lease_cannot_undo_a_revision(harness: &impl StoreHarness) {
    for outcome in [retry(LONG, true), retry(LONG, false), hold(), dead("410", true), Outcome::Released] {
        placed(harness, retry(Duration::ZERO, true), Some(WITH_SEARCH)).await;
        let overslept = claim_one_for(harness, Duration::ZERO).await;

        let revised = revise(harness, &[revision(&overslept, WITH_SEARCH, WITHOUT)]).await;
        let lost = settle_saying(harness, &overslept, outcome.clone(), Some(WITH_SEARCH)).await;

        let number = overslept.lease.seq;
        assert_eq!((revised, lost), (vec![number], vec![number]), "{outcome:?}");
        let row = stored(harness, &overslept.event_id).await;
        assert_eq!((row.handlers.as_deref(), row.locked_by), (Some(WITHOUT), None), "{outcome:?}");
        settle(harness, &claim_one(harness).await, Outcome::Done).await;
    }
}

/// L3, S10: a lease that can only end so late because the clock went back has ended.
pub async fn implausible_lease_keeps_nobody_from_revising(harness: &impl StoreHarness) {
    placed(harness, retry(Duration::ZERO, true), Some(WITH_SEARCH)).await;
    let taken = claim_one(harness).await;
    harness.push_lease_into_future(&taken.event_id).await;

    let revised = revise(harness, &[revision(&taken, WITH_SEARCH, WITHOUT)]).await;

    assert_eq!(revised, [taken.lease.seq]);
    let row = stored(harness, &taken.event_id).await;
    assert_eq!((row.handlers.as_deref(), row.locked_by), (Some(WITHOUT), None));
    assert_eq!(settle(harness, &taken, Outcome::Released).await, [taken.lease.seq]);
}

/// L3: what has changed since it was looked at, is done, or is another event, is left as it is.
pub async fn revision_demands_what_was_told(harness: &impl StoreHarness) {
    let held = placed(harness, hold(), Some(WITH_SEARCH)).await;
    let done = placed(harness, Outcome::Done, None).await;
    let told = revision(&held, WITH_SEARCH, WITHOUT);

    let refused = [
        Revision { from: WITHOUT.into(), ..told.clone() },
        Revision { from: WITH_SEARCH.to_uppercase(), ..told.clone() },
        Revision { event_id: done.event_id.clone(), ..told.clone() },
        Revision { seq: done.lease.seq, event_id: done.event_id.clone(), ..told.clone() },
        Revision { seq: i64::MAX, ..told.clone() },
    ];
    assert_eq!(revise(harness, &refused).await, NONE);
    assert_eq!(stored(harness, &held.event_id).await.handlers.as_deref(), Some(WITH_SEARCH));
    assert_eq!(stored(harness, &done.event_id).await.handlers, None);
    assert_eq!(stored(harness, &done.event_id).await.status, Ok(Status::Done));

    assert_eq!(revise(harness, std::slice::from_ref(&told)).await, [held.lease.seq]);
    assert_eq!(revise(harness, &[told]).await, NONE, "it has changed");
    assert_eq!(revise(harness, &[]).await, NONE);
}

/// L3: a dead event stays dead when its handlers are changed, unless it is to be replayed.
pub async fn revised_dead_event_stays_dead(harness: &impl StoreHarness) {
    let (stays, comes) = (
        placed(harness, dead("410", true), Some(WITH_SEARCH)).await,
        placed(harness, dead("410", true), Some(WITH_SEARCH)).await,
    );

    let both = [
        revision(&stays, WITH_SEARCH, WITHOUT),
        Revision { replays: true, ..revision(&comes, WITH_SEARCH, WITHOUT) },
    ];
    assert_eq!(revise(harness, &both).await, [stays.lease.seq, comes.lease.seq]);

    let row = stored(harness, &stays.event_id).await;
    assert_eq!((row.status, row.attempts, row.handlers.as_deref()), (Ok(Status::Dead), 1, Some(WITHOUT)));
    let replayed = claim_one(harness).await;
    assert_eq!((replayed.event_id, replayed.lease.attempts), (comes.event_id, 0));
    assert_eq!(replayed.handlers.as_deref(), Some(WITHOUT));
}

/// L3: an event that was not as it was told is not replayed either.
pub async fn refused_revision_replays_nothing(harness: &impl StoreHarness) {
    let buried = placed(harness, dead("410", true), Some(WITH_SEARCH)).await;

    let told = Revision { replays: true, ..revision(&buried, WITHOUT, WITH_SEARCH) };
    assert_eq!(revise(harness, &[told]).await, NONE);

    assert_eq!(stored(harness, &buried.event_id).await.status, Ok(Status::Dead));
}

/// L3: many events are changed at once, each to a text of its own.
pub async fn many_events_are_revised_at_once(harness: &impl StoreHarness) {
    let events: Vec<_> = (0..600).map(|number| order_placed(&format!("order-{number}"))).collect();
    write(harness, &events).await;
    let taken = claim(harness, 600).await.events;
    let settlement =
        |taken| Settlement { handlers: Some(WITH_SEARCH.into()), ..Settlement::of(taken, hold()) };
    let settlements: Vec<_> = taken.iter().map(settlement).collect();
    assert_eq!(harness.store().settle(&settlements, DoneRows::Keep).await.unwrap(), NONE);

    let text = |taken: &Taken| format!(r#"{{"order-{}":"done"}}"#, taken.lease.seq);
    let revisions: Vec<_> = taken.iter().map(|taken| revision(taken, WITH_SEARCH, &text(taken))).collect();
    let revised = revise(harness, &revisions).await;

    assert_eq!(revised.len(), 600);
    for found in progress(harness, None).await {
        assert_eq!(found.handlers, format!(r#"{{"order-{}":"done"}}"#, found.seq));
    }
    assert_eq!(claim(harness, 600).await.events.len(), 600);
}
