//! One key: what of it is in memory, and whether its fresh events may go on.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::mutant::mutant;
use crate::store::Blocked;

/// Whether fresh events of a key may go on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Gate {
    /// They run, behind what is in memory. Nothing is aside that holds the key.
    #[default]
    Open,
    /// The end of what is aside is near: they wait in memory until a read has shown that nothing is left.
    Closing,
    /// What is aside is read in runs: they are set aside behind it.
    Reading,
    /// An event waits for its time: they are set aside behind it.
    Blocked,
    /// The event of this id is dead: they are set aside until an operator frees the key.
    Parked(Arc<str>),
}

/// The events of one key, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) gate: Gate,
    /// The one that is queued or delivered; one that is given back as well, until that is recorded.
    pub(super) running: Option<i64>,
    /// Those whose time has come: they run next, whatever the gate.
    pub(super) due: VecDeque<i64>,
    /// Those that follow in order.
    pub(super) waiting: BTreeSet<i64>,
    /// Fresh ones that came while the gate was closing.
    pub(super) behind: BTreeSet<i64>,
    /// Those that are on their way aside and hold the key: until that is recorded no read can find them.
    pub(super) leaving: BTreeSet<i64>,
    /// Those that wait for a time of their own while the others go on.
    pub(super) passed: BTreeSet<i64>,
    /// No read is worth it before all fresh events up to this number have been seen.
    pub(super) not_before: i64,
    /// Whether it is on the list of keys to be read.
    pub(super) is_listed: bool,
}

impl Lane {
    /// A key as a former owner has left it. If its first event waits for a time of its own, it comes when it is due.
    pub(super) fn left_behind(blocked: &Blocked, goes_on: bool) -> Self {
        let gate = match &blocked.parked_for {
            Some(event_id) if !mutant!(ParkForgottenOnRestart) => Gate::Parked(event_id.as_str().into()),
            _ if blocked.ready_in.is_zero() || goes_on => Gate::Reading,
            _ => Gate::Blocked,
        };
        Self { gate, ..Self::default() }
    }

    /// Whether its fresh events go on, and so many of them wait that no more may.
    pub(super) fn is_full(&self, most: usize) -> bool {
        self.gate == Gate::Open && self.waiting.len() >= most
    }

    /// The next to run.
    pub(super) fn next(&mut self) -> Option<i64> {
        self.due.pop_front().or_else(|| self.waiting.pop_first())
    }

    /// Whether what is aside should be read now, given that all fresh events up to `seen` have been seen.
    pub(super) fn wants_read(&self, seen: i64) -> bool {
        let may_read = match self.gate {
            Gate::Reading => true,
            Gate::Closing => self.leaving.is_empty(),
            Gate::Open | Gate::Blocked | Gate::Parked(_) => false,
        };
        may_read && self.waiting.is_empty() && self.not_before <= seen
    }

    /// Whether there is nothing to be remembered of it.
    pub(super) fn is_over(&self) -> bool {
        self.gate == Gate::Open
            && self.running.is_none()
            && self.due.is_empty()
            && self.waiting.is_empty()
            && self.leaving.is_empty()
    }

    /// Takes out those that follow in order.
    pub(super) fn take_followers(&mut self) -> BTreeSet<i64> {
        let mut followers = std::mem::take(&mut self.waiting);
        followers.append(&mut self.behind);
        followers
    }

    /// All that was aside is in memory: fresh events go on behind it.
    pub(super) fn open(&mut self) {
        self.gate = Gate::Open;
        self.passed.clear();
        self.waiting.append(&mut self.behind);
    }
}
