//! What an operator changes in the progress of handlers while partitions are owned.

use std::time::Duration;

use pillarbox::store::{Outcome, Revision, Status};

use super::ownership::{
    OwnershipHarness, aside_of, behind_key, blocked, due, fetch, fetch_one, owner_of, parked, place, seq,
};
use super::revisions::{WITH_SEARCH, WITHOUT, hold, progress, revise, revision, settle_saying};
use super::settlements::{dead, fell_back, retry};
use super::{LONG, NONE, settle, stored};

/// L3, O5: an owner that has read an event before an operator changed it cannot undo the change, whatever it says of its
/// handlers, and finds the event as it is now.
pub async fn owner_cannot_undo_a_revision(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let said =
        [retry(LONG, true), retry(LONG, false), hold(), dead("410", true), parked(), Outcome::Released];
    for outcome in said {
        let fresh = place(harness, &held, "order-17").await.taken;
        assert_eq!(settle_saying(harness, &fresh, Outcome::Released, Some(WITH_SEARCH)).await, NONE);
        let read = fetch_one(harness, &held).await.taken;

        assert_eq!(revise(harness, &[revision(&read, WITH_SEARCH, WITHOUT)]).await, [read.lease.seq]);
        let lost = settle_saying(harness, &read, outcome.clone(), Some(WITH_SEARCH)).await;

        assert_eq!(lost, [read.lease.seq], "{outcome:?}");
        let again = fetch_one(harness, &held).await.taken;
        assert_eq!(again.handlers.as_deref(), Some(WITHOUT), "{outcome:?}");
        assert_eq!(settle_saying(harness, &again, Outcome::Done, None).await, NONE);
        assert_eq!(blocked(harness, &held).await, [], "{outcome:?}");
    }
}

/// L3, O5: what an owner has done is done, and what says nothing of handlers keeps the change.
pub async fn outcome_without_progress_keeps_a_revision(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    for outcome in
        [retry(Duration::ZERO, true), Outcome::Released, dead("410", true), Outcome::Done, fell_back()]
    {
        let fresh = place(harness, &held, "order-17").await.taken;
        settle_saying(harness, &fresh, Outcome::Released, Some(WITH_SEARCH)).await;
        let read = fetch_one(harness, &held).await.taken;
        revise(harness, &[revision(&read, WITH_SEARCH, WITHOUT)]).await;

        assert_eq!(settle(harness, &read, outcome.clone()).await, NONE, "{outcome:?}");

        let row = stored(harness, &read.event_id).await;
        let kept = (!outcome.is_done()).then_some(WITHOUT);
        assert_eq!(row.handlers.as_deref(), kept, "{outcome:?}");
        let rest = fetch(harness, &held).await.into_iter().chain(due(harness, &held).await);
        for open in rest {
            settle(harness, &open.taken, Outcome::Done).await;
        }
    }
}

/// L3, O5: an owner whose answer was lost repeats an outcome, and it is recorded once.
pub async fn repeated_progress_is_not_lost(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let fresh = place(harness, &held, "order-17").await.taken;
    settle_saying(harness, &fresh, Outcome::Released, Some(WITH_SEARCH)).await;
    let read = fetch_one(harness, &held).await.taken;

    for outcome in [Outcome::Released, hold(), retry(LONG, false)] {
        for time in ["first", "second"] {
            let lost = settle_saying(harness, &read, outcome.clone(), Some(WITHOUT)).await;
            assert_eq!(lost, NONE, "{outcome:?} the {time} time");
        }
        assert_eq!(stored(harness, &read.event_id).await.handlers.as_deref(), Some(WITHOUT));
    }
}

/// L3, O5: an event that an owner has set aside is due once it is changed, and holds its key until then.
pub async fn revised_event_is_due(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let waits = place(harness, &held, "order-17").await;
    settle_saying(harness, &waits.taken, hold(), Some(WITH_SEARCH)).await;
    assert!(due(harness, &held).await.is_empty());
    assert_eq!(progress(harness, Some("search")).await.len(), 1);

    revise(harness, &[revision(&waits.taken, WITH_SEARCH, WITHOUT)]).await;

    let found = due(harness, &held).await;
    assert_eq!(found.iter().map(seq).collect::<Vec<_>>(), [seq(&waits)]);
    assert_eq!(found[0].taken.handlers.as_deref(), Some(WITHOUT));
    assert_eq!(blocked(harness, &held).await.len(), 1);
    assert_eq!(stored(harness, &waits.taken.event_id).await.reason, None);
}

/// L3, O6: an event that waits for nothing but its key goes on waiting for it.
pub async fn revised_follower_waits_for_its_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let follower = place(harness, &held, "order-17").await;
    settle_saying(harness, &follower.taken, behind_key(), Some(WITH_SEARCH)).await;

    assert_eq!(revise(harness, &[revision(&follower.taken, WITH_SEARCH, WITHOUT)]).await, [seq(&follower)]);

    assert!(due(harness, &held).await.is_empty());
    let aside = aside_of(harness, &held, "order-17").await;
    assert_eq!(aside.iter().map(seq).collect::<Vec<_>>(), [seq(&follower)]);
    assert_eq!(aside[0].taken.handlers.as_deref(), Some(WITHOUT));
    assert!(aside[0].ready_in.is_zero());
}

/// L3, O6: a parked event that is replayed because the last of its dead handlers was dropped frees its key, and is the
/// first of it again.
pub async fn replay_by_a_revision_frees_its_key(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle_saying(harness, &head.taken, parked(), Some(WITH_SEARCH)).await;
    assert!(blocked(harness, &held).await[0].parked_for.is_some());

    let told = Revision { replays: true, ..revision(&head.taken, WITH_SEARCH, WITHOUT) };
    assert_eq!(revise(harness, &[told]).await, [seq(&head)]);

    let row = stored(harness, &head.taken.event_id).await;
    assert_eq!((row.status, row.attempts, row.handlers.as_deref()), (Ok(Status::Retry), 0, Some(WITHOUT)));
    let head_again = blocked(harness, &held).await;
    assert_eq!((head_again[0].first, &head_again[0].parked_for), (Some(seq(&head)), &None));
    assert_eq!(due(harness, &held).await.len(), 1);
}

/// L3, O6: a key that is parked stays so while its dead event is for another handler too.
pub async fn revision_of_a_parked_event_frees_nothing(harness: &impl OwnershipHarness) {
    let (_, held) = owner_of(harness, "order-17").await;
    let head = place(harness, &held, "order-17").await;
    settle_saying(harness, &head.taken, parked(), Some(WITH_SEARCH)).await;

    assert_eq!(revise(harness, &[revision(&head.taken, WITH_SEARCH, WITHOUT)]).await, [seq(&head)]);

    assert_eq!(stored(harness, &head.taken.event_id).await.status, Ok(Status::Dead));
    assert!(blocked(harness, &held).await[0].parked_for.is_some());
    assert!(progress(harness, Some("search")).await.is_empty());
    assert!(progress(harness, None).await[0].is_dead);
}
