//! The indexes of the memory store: one for each way to look for rows by their state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

use super::row::{NEVER, Row};
use crate::Timestamp;
use crate::store::Status;

/// Rows by their state.
#[derive(Clone, Default)]
pub(super) struct Indexes {
    pub(super) pending: BTreeSet<(Timestamp, i64)>,
    pub(super) done: BTreeSet<i64>,
    pub(super) dead: BTreeSet<i64>,
    /// How many rows have status 0.
    pub(super) new: u64,
    /// Kept in the mode `ownership` only.
    pub(super) by_partition: Option<ByPartition>,
}

impl Indexes {
    pub(super) fn add(&mut self, row: &Row) {
        match row.status {
            Status::New | Status::Retry => self.pending.insert((row.available_at, row.seq)),
            Status::Done => self.done.insert(row.seq),
            Status::Dead => self.dead.insert(row.seq),
        };
        self.new += u64::from(row.status == Status::New);
        if let Some(by_partition) = &mut self.by_partition {
            by_partition.add(row);
        }
    }

    /// Forgets a row, which must be as it was when it was added.
    pub(super) fn remove(&mut self, row: &Row) {
        match row.status {
            Status::New | Status::Retry => self.pending.remove(&(row.available_at, row.seq)),
            Status::Done => self.done.remove(&row.seq),
            Status::Dead => self.dead.remove(&row.seq),
        };
        self.new -= u64::from(row.status == Status::New);
        if let Some(by_partition) = &mut self.by_partition {
            by_partition.remove(row);
        }
    }
}

/// Pending rows by their partition.
#[derive(Clone, Default)]
pub(super) struct ByPartition {
    /// Status 0.
    fresh: BTreeSet<(u8, i64)>,
    /// Status 2, by the time at which they are due.
    aside: BTreeSet<(u8, Timestamp, i64)>,
    /// Those of status 2 that hold their key or wait for it.
    of_key: BTreeMap<(u8, String), BTreeSet<i64>>,
}

impl ByPartition {
    pub(super) fn add(&mut self, row: &Row) {
        match row.status {
            Status::New => {
                self.fresh.insert((row.partition, row.seq));
            }
            Status::Retry => {
                self.aside.insert((row.partition, row.available_at, row.seq));
                if let Some(key) = row.ordered_key() {
                    self.of_key.entry((row.partition, key.to_owned())).or_default().insert(row.seq);
                }
            }
            Status::Done | Status::Dead => {}
        }
    }

    fn remove(&mut self, row: &Row) {
        match row.status {
            Status::New => {
                self.fresh.remove(&(row.partition, row.seq));
            }
            Status::Retry => {
                self.aside.remove(&(row.partition, row.available_at, row.seq));
                if let Some(key) = row.ordered_key() {
                    self.remove_from_key((row.partition, key.to_owned()), row.seq);
                }
            }
            Status::Done | Status::Dead => {}
        }
    }

    fn remove_from_key(&mut self, key: (u8, String), seq: i64) {
        let Some(of_key) = self.of_key.get_mut(&key) else { return };
        of_key.remove(&seq);
        if of_key.is_empty() {
            self.of_key.remove(&key);
        }
    }

    /// Fresh rows numbered above `floor`, in their order.
    pub(super) fn fresh_above(&self, partition: u8, floor: i64) -> impl Iterator<Item = i64> {
        let above = (Excluded((partition, floor)), Included((partition, i64::MAX)));
        self.fresh.range(above).map(|&(_, seq)| seq)
    }

    /// Fresh rows numbered up to `floor`, in their order.
    pub(super) fn fresh_up_to(&self, partition: u8, floor: i64) -> impl Iterator<Item = i64> {
        self.fresh.range((partition, i64::MIN)..=(partition, floor)).map(|&(_, seq)| seq)
    }

    /// Rows that were set aside and are due, the earliest first.
    pub(super) fn due(&self, partition: u8, now: Timestamp) -> impl Iterator<Item = (Timestamp, i64)> {
        let since_ever = Timestamp::from_micros(i64::MIN);
        let due = (partition, since_ever, i64::MIN)..=(partition, now, i64::MAX);
        self.aside.range(due).map(|&(_, due_at, seq)| (due_at, seq))
    }

    /// When the next row that was set aside is due.
    pub(super) fn next_due_at(&self, partition: u8, now: Timestamp) -> Option<Timestamp> {
        let later = (Excluded((partition, now, i64::MAX)), Excluded((partition, NEVER, i64::MIN)));
        // A range that is empty by its bounds would panic.
        let next = (now < NEVER).then(|| self.aside.range(later).next()).flatten();
        next.map(|&(_, due_at, _)| due_at)
    }

    /// Whether a row numbered up to `seq` is set aside; looks at all of the partition that are.
    pub(super) fn has_aside_up_to(&self, partition: u8, seq: i64) -> bool {
        self.due(partition, NEVER).any(|(_, aside)| aside <= seq)
    }

    /// Rows that hold their key or wait for it, in the order of their numbers.
    pub(super) fn of_key(&self, partition: u8, key: &str) -> impl Iterator<Item = i64> {
        self.of_key.get(&(partition, key.to_owned())).into_iter().flatten().copied()
    }

    /// Keys that have such rows, with the number of the first.
    pub(super) fn keys(&self, partition: u8) -> impl Iterator<Item = (&str, i64)> {
        of_partition(&self.of_key, partition).filter_map(|(key, seqs)| Some((key, *seqs.first()?)))
    }
}

/// The entries of one partition, by key.
pub(super) fn of_partition<T>(
    map: &BTreeMap<(u8, String), T>,
    partition: u8,
) -> impl Iterator<Item = (&str, &T)> {
    let from_here = map.range((partition, String::new())..);
    from_here
        .take_while(move |((other, _), _)| *other == partition)
        .map(|((_, key), value)| (key.as_str(), value))
}
