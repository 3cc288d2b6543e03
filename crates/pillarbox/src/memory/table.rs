//! The table of the memory store with its indexes, and what taking does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::row::{Lock, Row};
use crate::Timestamp;
use crate::mutant::mutant;
use crate::store::{Batch, Found, LONGEST_LEASE, Lease, Owner, Status, Take, Taken, Token};

/// The rows by number, and one index for each way to look for them.
#[derive(Default)]
pub(super) struct Table {
    rows: BTreeMap<i64, Row>,
    last_seq: i64,
    by_id: BTreeMap<String, i64>,
    by_aggregate: BTreeMap<String, BTreeSet<i64>>,
    pending: BTreeSet<(Timestamp, i64)>,
    done: BTreeSet<i64>,
    dead: BTreeSet<i64>,
    new: u64,
    /// The incarnation that resumed last under each name.
    current: BTreeMap<String, Owner>,
}

impl Table {
    /// The next number; it is never given again, whatever becomes of the transaction.
    pub(super) fn next_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    pub(super) fn last_seq(&self) -> i64 {
        self.last_seq
    }

    pub(super) fn seq_of(&self, event_id: &str) -> Option<i64> {
        self.by_id.get(event_id).copied()
    }

    pub(super) fn row(&self, seq: i64) -> Option<&Row> {
        self.rows.get(&seq)
    }

    /// Numbers of an aggregate's rows.
    pub(super) fn of_aggregate(&self, aggregate_id: &str) -> Option<&BTreeSet<i64>> {
        self.by_aggregate.get(aggregate_id)
    }

    pub(super) fn done(&self) -> &BTreeSet<i64> {
        &self.done
    }

    pub(super) fn dead(&self) -> &BTreeSet<i64> {
        &self.dead
    }

    /// How many rows have status 0.
    pub(super) fn new_rows(&self) -> u64 {
        self.new
    }

    pub(super) fn pending(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.pending.iter().map(|(_, seq)| &self.rows[seq])
    }

    pub(super) fn add(&mut self, row: Row) {
        self.by_id.insert(row.event.id().to_owned(), row.seq);
        if let Some(aggregate_id) = row.event.aggregate_id() {
            self.by_aggregate.entry(aggregate_id.to_owned()).or_default().insert(row.seq);
        }
        self.index(row.seq, row.status, row.available_at);
        self.rows.insert(row.seq, row);
    }

    pub(super) fn change(&mut self, seq: i64, change: impl FnOnce(&mut Row)) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        let (status, available_at) = (row.status, row.available_at);
        change(row);
        let (new_status, new_available_at) = (row.status, row.available_at);
        self.unindex(seq, status, available_at);
        self.index(seq, new_status, new_available_at);
    }

    pub(super) fn remove(&mut self, seq: i64) -> Option<Row> {
        let row = self.rows.remove(&seq)?;
        self.unindex(seq, row.status, row.available_at);
        self.by_id.remove(row.event.id());
        if let Some(aggregate_id) = row.event.aggregate_id()
            && let Some(of_aggregate) = self.by_aggregate.get_mut(aggregate_id)
        {
            of_aggregate.remove(&seq);
            if of_aggregate.is_empty() {
                self.by_aggregate.remove(aggregate_id);
            }
        }
        Some(row)
    }

    fn index(&mut self, seq: i64, status: Status, available_at: Timestamp) {
        match status {
            Status::New | Status::Retry => self.pending.insert((available_at, seq)),
            Status::Done => self.done.insert(seq),
            Status::Dead => self.dead.insert(seq),
        };
        self.new += u64::from(status == Status::New);
    }

    fn unindex(&mut self, seq: i64, status: Status, available_at: Timestamp) {
        match status {
            Status::New | Status::Retry => self.pending.remove(&(available_at, seq)),
            Status::Done => self.done.remove(&seq),
            Status::Dead => self.dead.remove(&seq),
        };
        self.new -= u64::from(status == Status::New);
    }

    pub(super) fn take(&mut self, take: &Take, now: Timestamp) -> Batch {
        let mut chosen: Vec<i64> = self
            .available(now)
            .filter(|row| now.saturating_since(row.created_at) >= take.skip_recent)
            .take(take.limit)
            .map(|row| row.seq)
            .collect();
        if take.sweep {
            let room = take.limit - chosen.len();
            chosen.extend(self.leased_implausibly_long(now).take(room));
        }
        let events: Vec<Taken> = chosen.into_iter().filter_map(|seq| self.lease(seq, take, now)).collect();
        let is_short = events.len() < take.limit;
        Batch { events, next_due_in: is_short.then(|| self.next_due_in(take, now)).flatten() }
    }

    /// Pending rows that can be taken now, the earliest available first.
    fn available(&self, now: Timestamp) -> impl Iterator<Item = &Row> {
        self.pending.range(..=(now, i64::MAX)).map(|(_, seq)| &self.rows[seq])
    }

    /// Rows whose lease can only end that late because the clock went back.
    fn leased_implausibly_long(&self, now: Timestamp) -> impl Iterator<Item = i64> {
        let longest = (now.saturating_add(LONGEST_LEASE), i64::MAX);
        self.pending
            .range((Bound::Excluded(longest), Bound::Unbounded))
            .map(|&(_, seq)| seq)
            .filter(|seq| self.rows[seq].lock.is_some())
    }

    fn lease(&mut self, seq: i64, take: &Take, now: Timestamp) -> Option<Taken> {
        let row = self.rows.get(&seq)?;
        let lease = Lease { seq, token: take.token, attempts: row.attempts, starts: row.starts };
        let taken = row.taken(lease, now);
        self.change(seq, |row| {
            row.starts += 1;
            row.lock = Some(Lock { owner: take.owner.clone(), token: take.token });
            row.available_at = now.saturating_add(take.lease_for);
        });
        Some(taken)
    }

    fn next_due_in(&self, take: &Take, now: Timestamp) -> Option<std::time::Duration> {
        let skipped = self.available(now).map(|row| row.created_at.saturating_add(take.skip_recent));
        let later = self.pending.range((now, i64::MAX)..).map(|&(available_at, _)| available_at);
        skipped.chain(later.take(1)).min().map(|at| at.saturating_since(now))
    }

    pub(super) fn renew(&mut self, leases: &[Lease], until: Timestamp) -> Vec<i64> {
        let mut lost = Vec::new();
        for lease in leases {
            if self.holds(lease) {
                self.change(lease.seq, |row| row.available_at = until);
            } else {
                lost.push(lease.seq);
            }
        }
        lost
    }

    /// Whether the row is pending and still belongs to this lease; time plays no part.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let is_unfenced = |row: &Row| mutant!(NoFence) && row.status.is_pending();
        self.rows.get(&lease.seq).is_some_and(|row| row.is_held_under(lease.token) || is_unfenced(row))
    }

    pub(super) fn read_back(&self, token: Token, event_ids: &[String]) -> Vec<Found> {
        let rows = event_ids.iter().filter_map(|id| self.rows.get(self.by_id.get(id)?));
        rows.filter(|row| row.is_held_under(token))
            .map(|row| Found {
                event_id: row.event.id().to_owned(),
                seq: row.seq,
                created_at: row.created_at,
            })
            .collect()
    }

    pub(super) fn resume(&mut self, owner: &Owner) -> u64 {
        let is_earlier = |lock: &Lock| lock.owner.name() == owner.name() && lock.owner != *owner;
        let held: Vec<i64> = self
            .pending()
            .filter(|row| row.lock.as_ref().is_some_and(is_earlier))
            .map(|row| row.seq)
            .collect();
        for &seq in &held {
            self.change(seq, |row| {
                row.lock = None;
                row.available_at = row.due_at;
            });
        }
        self.current.insert(owner.name().to_owned(), owner.clone());
        held.len() as u64
    }

    pub(super) fn is_current(&self, owner: &Owner) -> bool {
        self.current.get(owner.name()).is_none_or(|current| current == owner)
    }
}
