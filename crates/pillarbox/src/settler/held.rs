//! Outcomes whose rows somebody else has locked: they wait, and hold up nothing else.

use std::time::Duration;

use super::Settler;
use super::handle::Unrecorded;
use crate::store::StoreError;

/// How long rows that somebody else has locked are left alone.
const HELD_FOR: Duration = Duration::from_secs(1);
/// How often the log tells of such rows.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Outcomes whose rows somebody else has locked.
#[derive(Default)]
pub(super) struct Held {
    pub(super) outcomes: Vec<Unrecorded>,
    /// When they are tried again.
    pub(super) again_at: Duration,
    /// When the log said so last.
    told_at: Option<Duration>,
}

impl Settler {
    /// Completes when what is held up is to be tried again; never, if nothing is.
    pub(super) async fn time_for(&self, held: &Held) {
        if held.outcomes.is_empty() {
            return std::future::pending().await;
        }
        self.pause(held.again_at.saturating_sub(self.runtime.clock.now())).await;
    }

    /// Puts outcomes aside whose rows are locked, or gives them up if there is no time left; returns the others.
    pub(super) fn set_aside(
        &self,
        part: Vec<Unrecorded>,
        numbers: Vec<i64>,
        held: &mut Held,
    ) -> Vec<Unrecorded> {
        let (locked, free): (Vec<_>, Vec<_>) = part.into_iter().partition(|outcome| outcome.is_in(&numbers));
        if self.shutdown.is_over() {
            self.give_up(locked.into_iter(), &StoreError::Locked { numbers });
            return free;
        }
        let now = self.runtime.clock.now();
        if held.told_at.is_none_or(|told_at| now.saturating_sub(told_at) >= TELL_EVERY) {
            held.told_at = Some(now);
            tracing::warn!(
                outcomes = locked.len(),
                event_id = locked.first().map(|outcome| &*outcome.settlement.event_id),
                "another transaction has locked rows whose outcomes are to be recorded; trying again until it ends"
            );
        }
        if held.outcomes.is_empty() {
            held.again_at = now + HELD_FOR;
        }
        held.outcomes.extend(locked);
        free
    }
}
