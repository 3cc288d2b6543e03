//! Reading from partitions of the memory store, and keys that are parked.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::index::{ByPartition, of_partition};
use super::row::Row;
use super::table::Table;
use crate::Timestamp;
use crate::store::{Blocked, Due, Fetched, Lease, StoreError, Taken, Token, Visit};

impl Table {
    pub(super) fn fetch(
        &self,
        visits: &[Visit],
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Fetched>, StoreError> {
        let owned = self.by_partition()?;
        Ok(self.read_fresh(visits, limit, now, |visit| owned.fresh_above(visit.partition, visit.floor)))
    }

    pub(super) fn below(
        &self,
        visits: &[Visit],
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Fetched>, StoreError> {
        let owned = self.by_partition()?;
        Ok(self.read_fresh(visits, limit, now, |visit| owned.fresh_up_to(visit.partition, visit.floor)))
    }

    fn read_fresh<I: Iterator<Item = i64>>(
        &self,
        visits: &[Visit],
        limit: usize,
        now: Timestamp,
        numbers_of: impl Fn(&Visit) -> I,
    ) -> Vec<Fetched> {
        let mut fetched: Vec<Fetched> = Vec::new();
        for visit in visits {
            let numbers = without_in_flight(visit, numbers_of(visit), |seq| *seq);
            fetched.extend(numbers.take(limit).filter_map(|seq| self.read(seq, visit, now)));
        }
        fetched.sort_by_key(|fetched| fetched.taken.lease.seq);
        fetched
    }

    pub(super) fn due(&self, visits: &[Visit], limit: usize, now: Timestamp) -> Result<Due, StoreError> {
        let owned = self.by_partition()?;
        let mut due: Vec<(Timestamp, i64, &Visit)> = Vec::new();
        for visit in visits {
            let rows = without_in_flight(visit, owned.due(visit.partition, now), |(_, seq)| *seq);
            due.extend(rows.take(limit).map(|(due_at, seq)| (due_at, seq, visit)));
        }
        due.sort_unstable_by_key(|&(due_at, seq, _)| (due_at, seq));
        due.truncate(limit);
        let next_due_at = || visits.iter().filter_map(|visit| owned.next_due_at(visit.partition, now)).min();
        let next_due_at = if due.len() < limit { next_due_at() } else { None };
        let events = due.into_iter().filter_map(|(_, seq, visit)| self.read(seq, visit, now)).collect();
        Ok(Due { events, next_due_in: next_due_at.map(|due_at| due_at.saturating_since(now)) })
    }

    pub(super) fn aside_of(
        &self,
        visit: &Visit,
        key: &str,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Fetched>, StoreError> {
        let of_key = self.by_partition()?.of_key(visit.partition, key);
        let numbers = without_in_flight(visit, of_key, |seq| *seq);
        Ok(numbers.take(limit).filter_map(|seq| self.read(seq, visit, now)).collect())
    }

    pub(super) fn blocked(&self, partitions: &[u8], now: Timestamp) -> Result<Vec<Blocked>, StoreError> {
        let owned = self.by_partition()?;
        let partitions: BTreeSet<u8> = partitions.iter().copied().collect();
        Ok(partitions.into_iter().flat_map(|partition| self.blocked_in(owned, partition, now)).collect())
    }

    fn blocked_in(&self, owned: &ByPartition, partition: u8, now: Timestamp) -> Vec<Blocked> {
        let mut blocked: BTreeMap<&str, Blocked> = BTreeMap::new();
        for (key, first) in owned.keys(partition) {
            let ready_in = self.row(first).map_or(Duration::ZERO, |row| row.ready_in(now));
            let key_is_held = Blocked { first: Some(first), ready_in, ..unblocked(partition, key) };
            blocked.insert(key, key_is_held);
        }
        for (key, &seq) in of_partition(&self.parked, partition) {
            let entry = blocked.entry(key).or_insert_with(|| unblocked(partition, key));
            entry.parked_for = self.row(seq).map(|row| row.event.id().to_owned());
        }
        blocked.into_values().collect()
    }

    /// The row as its owner reads it.
    fn read(&self, seq: i64, visit: &Visit, now: Timestamp) -> Option<Fetched> {
        let row = self.row(seq)?;
        let token = Token::of_partition(visit.partition, visit.epoch);
        let lease = Lease { seq, token, attempts: row.attempts, starts: row.starts };
        Some(Fetched {
            taken: row.taken(lease, now),
            key: row.event.key().map(str::to_owned),
            ready_in: row.ready_in(now),
        })
    }

    pub(super) fn start(&mut self, Taken { event_id, lease, .. }: &Taken) -> bool {
        let started = lease.starts + 1;
        // Who repeats it finds its own earlier write.
        let is_unchanged = |row: &Row| row.starts == lease.starts || row.starts == started;
        let is_held = self.holds(lease, event_id) && self.row(lease.seq).is_some_and(is_unchanged);
        if is_held {
            self.change(lease.seq, |row| row.starts = started);
        }
        is_held
    }

    /// Parks the key of an event, if it has one that is not parked already.
    pub(super) fn park(&mut self, seq: i64) {
        if let Some(key) = self.key_of(seq) {
            self.parked.entry(key).or_insert(seq);
        }
    }

    /// Whether the key of this event is parked for it.
    pub(super) fn is_parked_for(&self, seq: i64) -> bool {
        self.key_of(seq).is_some_and(|key| self.parked.get(&key) == Some(&seq))
    }

    /// Frees the key of this event if it is parked for it, and returns whether it was.
    pub(super) fn unpark(&mut self, seq: i64) -> bool {
        let key = self.key_of(seq).filter(|key| self.parked.get(key) == Some(&seq));
        key.is_some_and(|key| self.parked.remove(&key).is_some())
    }

    fn key_of(&self, seq: i64) -> Option<(u8, String)> {
        let row = self.row(seq)?;
        Some((row.partition, row.event.key()?.to_owned()))
    }

    /// Frees keys wherever they are parked: an event can lie in a partition that is not the one of its key.
    pub(super) fn skip(&mut self, keys: &[String]) -> u64 {
        let before = self.parked.len();
        self.parked.retain(|(_, key), _| !keys.contains(key));
        (before - self.parked.len()) as u64
    }
}

/// What a visit has not got already.
fn without_in_flight<T>(
    visit: &Visit,
    rows: impl Iterator<Item = T>,
    seq_of: impl Fn(&T) -> i64,
) -> impl Iterator<Item = T> {
    let in_flight: HashSet<i64> = visit.in_flight.iter().copied().collect();
    rows.filter(move |row| !in_flight.contains(&seq_of(row)))
}

/// A key that nothing holds yet.
fn unblocked(partition: u8, key: &str) -> Blocked {
    Blocked { partition, key: key.to_owned(), first: None, ready_in: Duration::ZERO, parked_for: None }
}
