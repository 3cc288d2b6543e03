//! Standing back after an outage of the database.

use std::time::Duration;

use crate::settler::LAST_PAUSE;

/// How long to stand back: every settler has tried again by then, and has had time for it.
const STAND_BACK_FOR: Duration = Duration::from_secs(3);

/// What the poller knows of the database's absence.
///
/// Leases end during an outage whose owners have delivered and cannot record it. Who regains the database and
/// takes at once takes those, and delivers them again; so it lets their owners settle and renew first.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// When the last call began that the database answered; what failed since then began later.
    answered: Option<Duration>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    /// The last call failed.
    Lasting,
    /// It is over; takes begin again at this time.
    Over(Duration),
}

/// What is to be done before anything is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advice {
    /// Nothing.
    Take,
    /// Ask the database for something harmless.
    Ask,
    /// Wait for this time.
    StandBack(Duration),
}

impl Outage {
    /// A call failed, or outcomes wait for the database.
    pub(super) fn lasts(&mut self) {
        self.state = State::Lasting;
    }

    /// A take that began at `then` was answered.
    pub(super) fn answered(&mut self, then: Duration) {
        *self = Self { answered: Some(then), state: State::None };
    }

    /// The database answered again at `now`; returns how long to stand back.
    pub(super) fn ends(&mut self, now: Duration) -> Duration {
        self.state = State::Over(now + STAND_BACK_FOR);
        STAND_BACK_FOR
    }

    /// What to do at `now`. Of a lease `margin` is left when its event has been delivered, so it ends in no
    /// outage that is shorter.
    pub(super) fn advice(&self, now: Duration, margin: Duration) -> Advice {
        match self.state {
            State::None => Advice::Take,
            State::Lasting => {
                let short = margin.saturating_sub(LAST_PAUSE);
                let is_short = self.answered.is_some_and(|then| now.saturating_sub(then) < short);
                if is_short { Advice::Take } else { Advice::Ask }
            }
            State::Over(at) if now < at => Advice::StandBack(at - now),
            State::Over(_) => Advice::Take,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MARGIN: Duration = Duration::from_secs(5);

    /// S10: after a long outage nothing is taken until others had time to settle.
    #[test]
    fn long_outage_is_followed_by_a_pause() {
        let mut outage = Outage::default();
        outage.answered(10 * SECOND);

        outage.lasts();
        assert_eq!(outage.advice(16 * SECOND, MARGIN), Advice::Ask);
        outage.ends(16 * SECOND);
        assert_eq!(outage.advice(17 * SECOND, MARGIN), Advice::StandBack(2 * SECOND));

        assert_eq!(outage.advice(19 * SECOND, MARGIN), Advice::Take);
    }

    /// P5: a call that failed once costs no pause while no lease can have ended over it.
    #[test]
    fn short_outage_costs_no_pause() {
        let mut outage = Outage::default();
        outage.answered(10 * SECOND);

        outage.lasts();

        assert_eq!(outage.advice(13 * SECOND, MARGIN), Advice::Take);
    }

    /// S10: who starts during an outage cannot know how long it has lasted.
    #[test]
    fn outage_at_the_start_counts_as_long() {
        let mut outage = Outage::default();
        assert_eq!(outage.advice(Duration::ZERO, MARGIN), Advice::Take);

        outage.lasts();

        assert_eq!(outage.advice(SECOND, MARGIN), Advice::Ask);
    }

    /// S10: a database that goes away again while the poller stands back is waited for anew.
    #[test]
    fn outage_may_come_back() {
        let mut outage = Outage::default();
        outage.lasts();
        outage.ends(10 * SECOND);

        outage.lasts();

        assert_eq!(outage.advice(20 * SECOND, MARGIN), Advice::Ask);
    }
}
