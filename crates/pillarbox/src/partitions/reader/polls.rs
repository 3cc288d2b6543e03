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
    awaits_due: bool,
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
            awaits_due: true,
            has_begun: false,
        }));
    }

    /// A read begins: what it brings counts for all that are open.
    pub(super) fn read_begins(&mut self) {
        self.open.iter_mut().for_each(|poll| poll.has_begun = true);
    }

    /// These were visited.
    pub(super) fn visited(&mut self, partitions: &[u8]) {
        for poll in self.open.iter_mut().filter(|poll| poll.has_begun) {
            partitions.iter().for_each(|partition| {
                poll.unvisited.remove(partition);
            });
        }
    }

    /// What is due was looked for, or there is no room for it.
    pub(super) fn looked_for_due(&mut self) {
        self.open.iter_mut().filter(|poll| poll.has_begun).for_each(|poll| poll.awaits_due = false);
    }

    /// Answers those for whom everything was looked at that can be read.
    pub(super) fn answer(&mut self, can_be_read: impl Fn(u8) -> bool) {
        let is_left = |poll: &Poll| poll.unvisited.iter().any(|partition| can_be_read(*partition));
        let is_over = |poll: &mut Poll| !poll.awaits_due && !is_left(poll);
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
        let is_owned = |partition| owned.contains(&partition);
        let mut polls = Polls::default();
        let (reply, mut answer) = oneshot::channel();
        polls.ask(reply);
        polls.open(&owned);

        // From a read that was under way before.
        polls.visited(&[3, 4]);
        polls.looked_for_due();
        polls.answer(is_owned);
        assert!(answer.try_recv().is_err());

        polls.read_begins();
        polls.visited(&[4]);
        polls.looked_for_due();
        polls.answer(is_owned);
        assert!(answer.try_recv().is_err());

        // The other was given back meanwhile, or there is no room for what is in it.
        polls.answer(|partition| partition == 4);
        assert!(answer.try_recv().unwrap().is_ok());
    }
}
