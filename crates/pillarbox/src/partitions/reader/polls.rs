//! Those who asked that everything be looked at once, and what is left of it for each.

use std::collections::BTreeSet;

use tokio::sync::oneshot;

use crate::store::StoreError;

/// Who waits for everything to be looked at.
#[derive(Default)]
pub(super) struct Polls {
    asked: Vec<oneshot::Sender<Result<(), StoreError>>>,
    open: Vec<Poll>,
}

/// What somebody waits for. What is wanted again meanwhile is not part of it: reads may take longer than the time after
/// which everything is looked at anyway.
struct Poll {
    reply: oneshot::Sender<Result<(), StoreError>>,
    unvisited: BTreeSet<u8>,
    /// Where what is due was not looked for.
    undue: BTreeSet<u8>,
    /// False while only a read is under way that began before.
    has_begun: bool,
}

impl Polls {
    pub(super) fn ask(&mut self, reply: oneshot::Sender<Result<(), StoreError>>) {
        self.asked.push(reply);
    }

    /// Whether somebody has asked since polls were opened.
    pub(super) fn are_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Begins with those that were asked for: `owned` is all that there is to visit.
    pub(super) fn open(&mut self, owned: &BTreeSet<u8>) {
        self.open.extend(self.asked.drain(..).map(|reply| Poll {
            reply,
            unvisited: owned.clone(),
            undue: owned.clone(),
            has_begun: false,
        }));
    }

    /// A read begins: what it brings counts for all that are open.
    pub(super) fn read_begins(&mut self) {
        self.open.iter_mut().for_each(|poll| poll.has_begun = true);
    }

    /// These were visited.
    pub(super) fn visited(&mut self, partitions: &[u8]) {
        let begun = self.open.iter_mut().filter(|poll| poll.has_begun);
        begun.for_each(|poll| poll.unvisited.retain(|partition| !partitions.contains(partition)));
    }

    /// What is due was looked for in these, or there is no room for it.
    pub(super) fn looked_for_due(&mut self, partitions: &[u8]) {
        let begun = self.open.iter_mut().filter(|poll| poll.has_begun);
        begun.for_each(|poll| poll.undue.retain(|partition| !partitions.contains(partition)));
    }

    /// Answers those for whom everything was looked at, where `can_be_visited` and `has_due` say of which partitions
    /// anything can be read now.
    pub(super) fn answer(&mut self, can_be_visited: impl Fn(u8) -> bool, has_due: impl Fn(u8) -> bool) {
        let is_over = |poll: &mut Poll| {
            !poll.unvisited.iter().any(|partition| can_be_visited(*partition))
                && !poll.undue.iter().any(|partition| has_due(*partition))
        };
        for poll in self.open.extract_if(.., is_over) {
            // Nobody may be waiting any more.
            let _ = poll.reply.send(Ok(()));
        }
    }

    /// Tells all who wait that it cannot be done now.
    pub(super) fn fail(&mut self, error: &StoreError) {
        for reply in self.asked.drain(..).chain(self.open.drain(..).map(|poll| poll.reply)) {
            let _ = reply.send(Err(StoreError::unavailable(error.to_string())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P1: a poll ends when everything was looked at once since it was asked for.
    #[test]
    fn poll_ends_when_everything_was_looked_at_since() {
        let owned = BTreeSet::from([3, 4]);
        let mut polls = Polls::default();
        let (reply, mut answer) = oneshot::channel();
        polls.ask(reply);
        polls.open(&owned);

        // From a read that was under way before.
        polls.visited(&[3, 4]);
        polls.looked_for_due(&[3, 4]);
        polls.answer(|_| true, |_| true);
        assert!(answer.try_recv().is_err());

        polls.read_begins();
        polls.visited(&[3, 4]);
        polls.looked_for_due(&[4]);
        polls.answer(|_| true, |_| true);
        assert!(answer.try_recv().is_err(), "what is due in one of them was left out");

        // The other was given back meanwhile.
        polls.answer(|partition| partition == 4, |partition| partition == 4);
        assert!(answer.try_recv().unwrap().is_ok());
    }
}
