//! A circuit breaker: a destination that is down is left alone, tried with one event, and then with more and more.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::retry::{Retry, RetryPolicy};

/// So many events on their way at once, all acknowledged, and the destination counts as well again.
const WELL: usize = 256;
/// It does, too, when it has been tried for so long and is asked for fewer events at once than it could have: where few are
/// written, that many are never on their way.
const STEADY: Duration = Duration::from_secs(10);
/// How long events wait that would be too many for a destination that is being tried.
const TRYING_PAUSE: Duration = Duration::from_millis(100);

/// How long a destination that is down is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pauses {
    /// At first; twice as long each further time.
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Pauses {
    /// The pause after so many failures in a row, counted from 1.
    pub(crate) fn after(self, failures: u32, random: f64) -> Duration {
        let grown = Retry::exponential().initial(self.first).max(self.longest).spread();
        grown.next_delay(failures, random)
    }
}

/// Whether a destination can be sent to.
#[derive(Debug, Default)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// It is well.
    #[default]
    Closed,
    /// It is left alone.
    Open { until: Duration, trips: u32 },
    /// It is tried with at most `limit` events at once, since `since`. Each that is acknowledged makes room for one more, so
    /// that the limit doubles with every round trip. `was_full` is whether the limit was reached since nothing was on its
    /// way.
    Trying { limit: usize, on_the_way: usize, was_full: bool, since: Duration, trips: u32 },
}

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// So many of the events that were asked for.
    pub(crate) events: usize,
    /// How long the others should wait.
    pub(crate) wait: Duration,
}

impl Admission {
    /// Everything passes.
    pub(crate) const ALL: Self = Self { events: usize::MAX, wait: Duration::ZERO };
}

/// How a destination is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// Events are sent to it as they come.
    Well,
    /// It was down when it was last tried, and is left alone for a while.
    Down,
    /// It was down, and is tried with a few events at a time.
    Trying,
}

impl Breaker {
    /// Lets events through, up to `wanted`. Each of them is answered by [`acknowledged`](Self::acknowledged),
    /// [`tripped`](Self::tripped) or [`answered`](Self::answered).
    pub(crate) fn admit(&self, now: Duration, wanted: usize) -> Admission {
        let mut state = self.lock();
        state.begin_trying(now);
        match &mut *state {
            State::Closed => Admission { events: wanted, wait: Duration::ZERO },
            State::Open { until, .. } => Admission { events: 0, wait: until.saturating_sub(now) },
            State::Trying { limit, on_the_way, was_full, .. } => {
                let events = wanted.min(limit.saturating_sub(*on_the_way));
                *on_the_way += events;
                *was_full |= *on_the_way >= *limit;
                Admission { events, wait: TRYING_PAUSE }
            }
        }
    }

    /// How many events it would let through now, and how long until it lets any; nothing is let through by asking.
    pub(crate) fn room(&self, now: Duration) -> Admission {
        let mut state = self.lock();
        state.begin_trying(now);
        match *state {
            State::Closed => Admission::ALL,
            State::Open { until, .. } => Admission { events: 0, wait: until.saturating_sub(now) },
            State::Trying { limit, on_the_way, .. } => {
                Admission { events: limit.saturating_sub(on_the_way), wait: TRYING_PAUSE }
            }
        }
    }

    /// An event was acknowledged; true if the destination is well again by that.
    pub(crate) fn acknowledged(&self, now: Duration) -> bool {
        let mut state = self.lock();
        let State::Trying { limit, since, .. } = &mut *state else { return false };
        *limit += 1;
        let (has_many, is_steady) = (*limit >= WELL, now.saturating_sub(*since) >= STEADY);
        let had_room = state.ends_one();
        let is_well = has_many || is_steady && had_room;
        if is_well {
            *state = State::Closed;
        }
        is_well
    }

    /// An event was answered in a way that says nothing about the destination, or was not sent after all.
    pub(crate) fn answered(&self) {
        self.lock().ends_one();
    }

    /// The destination is down: leaves it alone, and says for how long. What was on its way when that was found out, and
    /// fails too, is no further failure.
    pub(crate) fn tripped(&self, now: Duration, pauses: Pauses, asked: Duration, random: f64) -> Duration {
        let mut state = self.lock();
        let (trips, pause) = match *state {
            State::Open { until, trips } => (trips, until.saturating_sub(now).max(asked)),
            State::Closed => (1, pauses.after(1, random).max(asked)),
            State::Trying { trips, .. } => {
                let trips = trips.saturating_add(1);
                (trips, pauses.after(trips, random).max(asked))
            }
        };
        *state = State::Open { until: now.saturating_add(pause), trips };
        pause
    }

    pub(crate) fn health(&self) -> Health {
        match *self.lock() {
            State::Closed => Health::Well,
            State::Open { .. } => Health::Down,
            State::Trying { .. } => Health::Trying,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A destination that was left alone for long enough is tried again.
    fn begin_trying(&mut self, now: Duration) {
        if let Self::Open { until, trips } = *self
            && until <= now
        {
            *self = Self::Trying { limit: 1, on_the_way: 0, was_full: false, since: now, trips };
        }
    }

    /// An event is no longer on its way to a destination that is tried; true if none is any more, and there was room for
    /// others all the time.
    fn ends_one(&mut self) -> bool {
        let Self::Trying { on_the_way, was_full, .. } = self else { return false };
        *on_the_way = on_the_way.saturating_sub(1);
        *on_the_way == 0 && !std::mem::take(was_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PAUSES: Pauses = Pauses { first: SECOND, longest: Duration::from_secs(8) };

    fn trip(breaker: &Breaker, now: Duration) -> Duration {
        breaker.tripped(now, PAUSES, Duration::ZERO, 0.5)
    }

    /// T5: one that is down is left alone, and then tried with one event.
    #[test]
    fn open_breaker_lets_one_through_after_its_pause() {
        let breaker = Breaker::default();
        assert_eq!(breaker.admit(Duration::ZERO, 500).events, 500);

        assert_eq!(trip(&breaker, Duration::ZERO), SECOND);

        assert_eq!(breaker.health(), Health::Down);
        assert_eq!(breaker.admit(SECOND / 2, 500), Admission { events: 0, wait: SECOND / 2 });
        assert_eq!(breaker.admit(SECOND, 500).events, 1);
        assert_eq!(breaker.health(), Health::Trying);
        assert_eq!(breaker.admit(SECOND, 500).events, 0, "until that one is answered");
    }

    /// T5: it is left alone for longer each time that it is found down, up to a limit.
    #[test]
    fn pauses_grow() {
        let breaker = Breaker::default();
        let mut now = Duration::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            let pause = trip(&breaker, now);
            pauses.push(pause.as_secs());
            now += pause;
            assert_eq!(breaker.admit(now, 1).events, 1);
        }

        assert_eq!(pauses, [1, 2, 4, 8, 8, 8]);
    }

    /// T5: what was on its way when it was found down is no further failure.
    #[test]
    fn run_that_fails_as_a_whole_counts_once() {
        let breaker = Breaker::default();
        (0..500).for_each(|_| {
            trip(&breaker, Duration::ZERO);
        });

        assert_eq!(breaker.admit(SECOND, 1).events, 1);
        assert_eq!(trip(&breaker, SECOND), 2 * SECOND);
    }

    /// T5: after an outage it is tried with twice as many events each time, until it is well.
    #[test]
    fn trying_doubles_until_all_is_well() {
        let breaker = Breaker::default();
        trip(&breaker, Duration::ZERO);

        let mut runs = Vec::new();
        while breaker.health() != Health::Well {
            let events = breaker.admit(SECOND, 500).events;
            runs.push(events);
            (0..events).for_each(|_| {
                breaker.acknowledged(SECOND);
            });
        }

        assert_eq!(runs, [1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(breaker.admit(SECOND, 500).events, 500);
        assert_eq!(trip(&breaker, SECOND), SECOND, "what was before is forgotten");
    }

    /// T5: where few events are written, one that has been well for a while counts as well, though it never had many at once.
    #[test]
    fn few_events_are_enough_when_there_are_no_more() {
        let breaker = Breaker::default();
        trip(&breaker, Duration::ZERO);
        let one_passes = |now| {
            assert_eq!(breaker.admit(now, 1).events, 1);
            breaker.acknowledged(now)
        };

        assert!(!one_passes(SECOND), "it is the first");
        assert!(!one_passes(2 * SECOND), "it is too early");
        assert!(one_passes(SECOND + STEADY));
        assert_eq!(breaker.health(), Health::Well);
    }

    /// T5: while more wait than it may have, time alone makes no destination well.
    #[test]
    fn slow_destination_is_tried_with_more_and_more_however_long_that_takes() {
        let breaker = Breaker::default();
        trip(&breaker, Duration::ZERO);
        let mut now = SECOND;

        for expected in [1, 2, 4, 8] {
            assert_eq!(breaker.admit(now, 500).events, expected);
            now += STEADY;
            (0..expected).for_each(|_| assert!(!breaker.acknowledged(now)));
        }
    }

    /// T5: a rejection says nothing about the destination, and gives its place back.
    #[test]
    fn rejection_gives_its_place_back() {
        let breaker = Breaker::default();
        trip(&breaker, Duration::ZERO);
        assert_eq!(breaker.admit(SECOND, 2).events, 1);

        breaker.answered();

        assert_eq!(breaker.admit(SECOND, 2).events, 1);
    }

    /// T5: who asks to be left alone is left alone for as long, at least.
    #[test]
    fn asked_delay_is_the_least() {
        let breaker = Breaker::default();

        assert_eq!(breaker.tripped(Duration::ZERO, PAUSES, 60 * SECOND, 0.5), 60 * SECOND);
        assert_eq!(breaker.room(59 * SECOND), Admission { events: 0, wait: SECOND });
    }
}
