//! Where looking for due events begins.
//!
//! As long as any snapshot is open in the database (a report, a backup, a replica), the index keeps an entry for
//! every row that was taken since, and they lie in front of what is due: a look from the beginning steps over all of
//! them. So while such looks are slow, most looks begin where the last one ended. That is a hint and no more: rows
//! may appear in front of it (a transaction that committed late, an event that was given back), so a tenth of the
//! time is spent on looks from the beginning.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant as Moment;

use crate::time::Instant;

/// What a look may take, beside its rows, before it counts as slow. A busy machine must not pass for it.
const SLOW: Duration = Duration::from_millis(50);

/// What taking one row may cost on top.
const PER_ROW: Duration = Duration::from_micros(200);

/// So many slow looks in a row are no accident.
const ENOUGH: u32 = 3;

/// How much longer than a look from the beginning the others are allowed to follow.
const OTHERS: u32 = 10;

/// Transactions that took no longer than this from their INSERT to their commit are seen all the same.
const SLACK: Duration = Duration::from_millis(100);

/// What is known from earlier looks.
#[derive(Default)]
pub(crate) struct Looks(Mutex<State>);

#[derive(Default)]
struct State {
    slow_in_a_row: u32,
    /// Behind what was taken last.
    behind: Option<Instant>,
    /// When to look from the beginning again.
    whole_at: Option<Moment>,
}

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Available no earlier than this.
    pub(crate) from: Instant,
    /// How long until one that sees everything; `None` if this one does.
    pub(crate) whole_in: Option<Duration>,
}

impl Looks {
    /// How to look at the moment `now`; from the beginning, if `whole`.
    pub(crate) fn next(&self, now: Moment, whole: bool) -> Look {
        let state = self.state();
        let is_slow = state.slow_in_a_row >= ENOUGH && !whole;
        let (behind, whole_at) = (state.behind, state.whole_at.filter(|at| *at > now));
        match (is_slow, behind, whole_at) {
            (true, Some(from), Some(at)) => Look { from, whole_in: Some(at - now) },
            _ => Look { from: Instant::NEVER, whole_in: None },
        }
    }

    /// A look ended at `now`: the server took `took` over `rows` rows, the last of which became available at `last`.
    pub(crate) fn ended(&self, now: Moment, look: Look, took: Duration, rows: u32, last: Option<Instant>) {
        let mut state = self.state();
        if look.whole_in.is_none() {
            let is_slow = took > SLOW + PER_ROW * rows;
            state.slow_in_a_row = if is_slow { state.slow_in_a_row.saturating_add(1) } else { 0 };
            state.whole_at = Some(now + took * OTHERS);
        }
        if let Some(last) = last {
            state.behind = Some(last.before(SLACK));
        }
    }

    /// The server gave up a look at `now`, after `took`. If that was long for one from the beginning, the next ones must
    /// not run into the same.
    pub(crate) fn cancelled(&self, now: Moment, look: Look, took: Duration) {
        if look.whole_in.is_none() && took > SLOW {
            let mut state = self.state();
            state.slow_in_a_row = ENOUGH;
            state.whole_at = Some(now + took * OTHERS);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::Timestamp;

    use super::*;

    const WHOLE: Look = Look { from: Instant::NEVER, whole_in: None };
    const LONG: Duration = Duration::from_millis(200);

    fn at(seconds: i64) -> Option<Instant> {
        Some(Timestamp::from_micros(seconds * 1_000_000).into())
    }

    fn slow(looks: &Looks, now: Moment, times: u32) {
        for _ in 0..times {
            looks.ended(now, WHOLE, LONG, 100, at(17));
        }
    }

    /// P3: as long as looks are fast, every look sees everything.
    #[test]
    fn fast_looks_begin_at_the_beginning() {
        let (looks, now) = (Looks::default(), Moment::now());

        for took in [0, 49, 69] {
            looks.ended(now, WHOLE, Duration::from_millis(took), 100, at(17));
            assert_eq!(looks.next(now, false), WHOLE);
        }
    }

    /// P3: one slow look, or two, may be an accident.
    #[test]
    fn accidents_change_nothing() {
        let (looks, now) = (Looks::default(), Moment::now());

        slow(&looks, now, 2);
        assert_eq!(looks.next(now, false), WHOLE);
        looks.ended(now, WHOLE, Duration::ZERO, 100, at(17));
        slow(&looks, now, 2);

        assert_eq!(looks.next(now, false), WHOLE);
    }

    /// P3: behind many dead rows looks begin a little before where the last one ended, for ten times as long as a
    /// whole one took; then one sees everything.
    #[test]
    fn slow_looks_go_on_where_the_last_one_ended() {
        let (looks, now) = (Looks::default(), Moment::now());
        slow(&looks, now, 3);

        let look = looks.next(now, false);
        assert_eq!(look, Look { from: at(17).unwrap().before(SLACK), whole_in: Some(LONG * 10) });
        looks.ended(now, look, Duration::ZERO, 100, at(18));
        looks.ended(now, look, Duration::ZERO, 0, None);

        let later = now + LONG * 9;
        assert_eq!(
            looks.next(later, false),
            Look { from: at(18).unwrap().before(SLACK), whole_in: Some(LONG) }
        );
        assert_eq!(looks.next(later, true), WHOLE, "a sweep sees everything");
        assert_eq!(looks.next(now + LONG * 10, false), WHOLE);
    }

    /// P3: a look from the beginning that was cancelled is not repeated at once.
    #[test]
    fn cancelled_looks_are_slow() {
        let (looks, now) = (Looks::default(), Moment::now());
        looks.ended(now, WHOLE, Duration::ZERO, 100, at(17));

        looks.cancelled(now, WHOLE, Duration::from_millis(1));
        assert_eq!(looks.next(now, false), WHOLE, "one that was cancelled by hand says nothing about looks");
        looks.cancelled(now, WHOLE, LONG);

        assert_eq!(looks.next(now, false).whole_in, Some(LONG * 10));
    }

    /// P3: when the dead rows are gone, every look sees everything again.
    #[test]
    fn recovery_ends_it() {
        let (looks, now) = (Looks::default(), Moment::now());
        slow(&looks, now, 5);

        looks.ended(now, WHOLE, Duration::from_millis(3), 100, at(18));

        assert_eq!(looks.next(now, false), WHOLE);
    }
}
