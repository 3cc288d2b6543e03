//! What is to be read next, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::PartitionSet;
use crate::store::Outcome;

/// How many events of a partition with a backlog are worth a visit.
const WORTH_A_VISIT: usize = 16;

/// A kind of read of many partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Blocked,
    Due,
    Parked,
    Below,
    Behind,
    Fresh,
}

/// What is to be read.
pub(super) struct Wanted {
    /// Partitions in which something may be new.
    pub(super) hinted: BTreeSet<u8>,
    /// Partitions whose last read was full.
    pub(super) backlog: BTreeSet<u8>,
    /// The hinted partition that was visited last: they take turns where there is no room for all of them.
    last_hinted: u8,
    /// Whether the last visit was of any that was hinted.
    was_hinted: bool,
    /// The partition with a backlog that was visited last: they take turns.
    last: u8,
    /// Partitions in which others may wait behind a key that has too many events, and when it is looked whether they do.
    crowded: BTreeMap<u8, Duration>,
    /// Whether a read of many partitions is under way; there is one at a time.
    pub(super) is_reading: bool,
    /// The kinds of these reads, the one that has waited for longest first.
    pub(super) turns: [Kind; 6],
    /// When everything is looked at, whether it was hinted or not.
    pub(super) all_at: Duration,
    /// When something that is aside becomes due.
    pub(super) due_at: Duration,
    /// When parked keys are looked at.
    pub(super) parked_at: Duration,
    /// When fresh events are looked for below the floors.
    pub(super) sweep_at: Duration,
    /// The partition that was last looked at below its floor: they take turns.
    pub(super) swept_to: u8,
    /// Before this the database is left alone.
    pub(super) trouble_until: Duration,
}

impl Wanted {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            hinted: BTreeSet::new(),
            backlog: BTreeSet::new(),
            last_hinted: u8::MAX,
            was_hinted: false,
            last: u8::MAX,
            crowded: BTreeMap::new(),
            is_reading: false,
            turns: [Kind::Blocked, Kind::Due, Kind::Parked, Kind::Below, Kind::Behind, Kind::Fresh],
            all_at: now,
            due_at: now,
            parked_at: now,
            sweep_at: now,
            swept_to: u8::MAX,
            trouble_until: now,
        }
    }

    /// Everything is to be looked at now, where `owned` is all that is read here.
    pub(super) fn look_at_everything(&mut self, owned: &BTreeSet<u8>, now: Duration) {
        self.hinted.extend(owned);
        self.due_at = now;
        self.parked_at = now;
    }

    /// What nobody has told of is to be looked at as well. Partitions with a backlog have their turns anyway: among all
    /// the others each would be read a few events at a time.
    pub(super) fn look_at_the_rest(&mut self, owned: &BTreeSet<u8>) {
        self.hinted.extend(owned.difference(&self.backlog));
    }

    /// Notes hints, where `owned` is all that is read here.
    pub(super) fn note(&mut self, hinted: PartitionSet, owned: &BTreeSet<u8>) {
        self.hinted.extend(owned.iter().filter(|partition| hinted.contains(**partition)));
    }

    /// A read of many partitions has ended: before the next one of its kind the others have their turns. Some take longer
    /// than the time after which they are wanted again.
    pub(super) fn had_turn(&mut self, kind: Kind) {
        let place = self.turns.iter().position(|of| *of == kind).unwrap_or_default();
        self.turns[place..].rotate_left(1);
    }

    /// Notes that an event comes again.
    pub(super) fn expect(&mut self, now: Duration, outcome: &Outcome) {
        if let Outcome::Retry { after, .. } | Outcome::Aside { until: Some(after), .. } = outcome {
            self.due_at = self.due_at.min(now.saturating_add(*after));
        }
    }

    /// The partitions to be visited, of those that can be read, if there is room for so many events: all that is hinted, and
    /// as much of the backlog as is worth it, but some of it in any case. Both take turns, for while more is written than is
    /// delivered there is never room for all.
    pub(super) fn visits(&self, room: usize, can_be_read: impl Fn(u8) -> bool) -> Vec<u8> {
        let is_readable = |partition: &&u8| can_be_read(**partition);
        let mut visits = in_turn(self.hinted.iter().filter(is_readable), self.last_hinted);
        let mut backlog = in_turn(self.backlog.difference(&self.hinted).filter(is_readable), self.last);
        backlog.truncate((room / WORTH_A_VISIT).saturating_sub(visits.len()).max(1));
        visits.truncate(room.saturating_sub(backlog.len()).max(1));
        if room < 2 && self.was_hinted && !backlog.is_empty() {
            return backlog;
        }
        visits.extend(backlog);
        visits
    }

    /// A visit of these has begun: what they were hinted for is being read.
    pub(super) fn begun(&mut self, partitions: &[u8]) {
        self.was_hinted = false;
        for partition in partitions {
            if self.hinted.remove(partition) {
                self.last_hinted = *partition;
                self.was_hinted = true;
            } else {
                self.last = *partition;
            }
        }
    }

    /// A visit has ended; it came back full if more may be there.
    pub(super) fn visited(&mut self, partition: u8, is_full: bool) {
        if is_full {
            self.backlog.insert(partition);
        } else {
            self.backlog.remove(&partition);
        }
    }

    /// Notes whether a partition is crowded: then there is more of it to read. If it was not so before, this is when it
    /// is looked whether others wait there.
    pub(super) fn note_crowd(&mut self, partition: u8, is_crowded: bool, look_at: Duration) {
        if is_crowded {
            self.backlog.insert(partition);
            self.crowded.entry(partition).or_insert(look_at);
        } else {
            self.crowded.remove(&partition);
        }
    }

    /// Notes that a crowd was looked behind; if there is still one, this is when it is looked at next.
    pub(super) fn note_look(&mut self, partition: u8, is_crowded: bool, look_at: Duration) {
        self.crowded.remove(&partition);
        if is_crowded {
            self.crowded.insert(partition, look_at);
        }
    }

    /// The partitions with crowds that are to be looked behind now, the one that has waited for longest first.
    pub(super) fn crowds_at(&self, now: Duration) -> Vec<u8> {
        let mut crowds: Vec<(Duration, u8)> =
            self.crowded.iter().map(|(partition, look_at)| (*look_at, *partition)).collect();
        crowds.retain(|(look_at, _)| *look_at <= now);
        crowds.sort_unstable();
        crowds.into_iter().map(|(_, partition)| partition).collect()
    }

    pub(super) fn forget(&mut self, partition: u8) {
        self.crowded.remove(&partition);
        self.hinted.remove(&partition);
        self.backlog.remove(&partition);
    }

    /// Whether fresh events are to be read.
    pub(super) fn has_fresh(&self) -> bool {
        !self.hinted.is_empty() || !self.backlog.is_empty()
    }

    /// When something is to be done, after `now`, that nobody will tell of. A look that was to be done before waits for
    /// room, which somebody tells of.
    pub(super) fn next_time(&self, now: Duration) -> Duration {
        let next = self.all_at.min(self.due_at).min(self.parked_at).min(self.sweep_at);
        let next = self.crowded.values().copied().filter(|look_at| *look_at > now).fold(next, Duration::min);
        next.max(self.trouble_until)
    }
}

/// These partitions, those behind `last` first.
fn in_turn<'a>(partitions: impl Iterator<Item = &'a u8>, last: u8) -> Vec<u8> {
    let (before, after): (Vec<u8>, Vec<u8>) = partitions.partition(|partition| **partition <= last);
    [after, before].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O6: whoever had its turn comes last, and the others stay as they are.
    #[test]
    fn kinds_of_reads_take_turns() {
        let mut wanted = Wanted::new(Duration::ZERO);

        wanted.had_turn(Kind::Due);
        wanted.had_turn(Kind::Fresh);
        wanted.had_turn(Kind::Fresh);

        let turns = [Kind::Blocked, Kind::Parked, Kind::Below, Kind::Behind, Kind::Due, Kind::Fresh];
        assert_eq!(wanted.turns, turns);
    }

    /// O4: the safety net reads what nobody has told of, and leaves a backlog to its turns; who asks has everything read.
    #[test]
    fn polling_leaves_backlogs_to_their_turns() {
        let mut wanted = Wanted::new(Duration::ZERO);
        let owned: BTreeSet<u8> = (0..10).collect();
        wanted.backlog = [3, 4].into();

        wanted.look_at_the_rest(&owned);
        assert_eq!(wanted.hinted, &owned - &wanted.backlog);

        wanted.look_at_everything(&owned, Duration::ZERO);
        assert_eq!(wanted.hinted, owned);
    }

    /// O6: partitions with a backlog take turns, and what is hinted waits for none of them.
    #[test]
    fn backlogs_take_turns() {
        let mut wanted = Wanted::new(Duration::ZERO);
        wanted.backlog = (0..10).collect();
        wanted.hinted = [200].into();

        let visits = wanted.visits(4 * WORTH_A_VISIT, |_| true);
        assert_eq!(visits, [200, 0, 1, 2]);
        wanted.begun(&visits);

        let visits = wanted.visits(3 * WORTH_A_VISIT, |partition| partition != 4);
        assert_eq!(visits, [3, 5, 6], "one that cannot be read is in nobody's way");
        wanted.begun(&[9]);
        assert_eq!(wanted.visits(WORTH_A_VISIT, |_| true), [0]);
        assert_eq!(wanted.visits(1, |_| true), [0], "a little room is used as well");
    }

    /// O6: where there is room for one event, what is hinted and what has a backlog take turns.
    #[test]
    fn smallest_room_is_shared() {
        let mut wanted = Wanted::new(Duration::ZERO);
        wanted.backlog = [7].into();
        let mut visited = Vec::new();

        for _ in 0..4 {
            wanted.hinted.insert(3);
            let visits = wanted.visits(1, |_| true)[0];
            wanted.begun(&[visits]);
            visited.push(visits);
        }

        assert_eq!(visited, [3, 7, 3, 7]);
    }

    /// O1: while there is no room for all that is hinted, which is hinted again at once, everybody is visited.
    #[test]
    fn hinted_partitions_take_turns() {
        let mut wanted = Wanted::new(Duration::ZERO);
        wanted.backlog = [250].into();
        let mut visited = BTreeSet::new();

        for _ in 0..5 {
            wanted.hinted.extend(0..200);
            let visits = wanted.visits(50, |_| true);
            assert_eq!((visits.len(), visits.last()), (50, Some(&250)));
            wanted.begun(&visits);
            visited.extend(visits);
        }

        assert_eq!(visited, (0..200).chain([250]).collect());
    }
}
