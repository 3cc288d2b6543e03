//! The table of the memory store with its indexes, and what taking does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::index::Indexes;
use super::membership::Membership;
use super::row::{Lock, Row};
use crate::Timestamp;
use crate::mutant::mutant;
use crate::store::{Batch, Found, LONGEST_LEASE, Lease, Numbers, Owner, Take, Taken, Token};

/// The rows by number with their indexes, and the small tables beside them.
#[derive(Clone, Default)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<i64, Row>,
    last_seq: i64,
    by_id: BTreeMap<String, i64>,
    by_aggregate: BTreeMap<String, BTreeSet<i64>>,
    pub(super) indexes: Indexes,
    /// The first number of every transaction that is open and has one.
    open: BTreeSet<i64>,
    #[cfg(pillarbox_mutant)]
    pub(super) identities: super::identity::Identities,
    pub(super) membership: Membership,
    /// The dead event that each parked key is parked for, by partition and key.
    pub(super) parked: BTreeMap<(u8, String), i64>,
    /// Since when each route is paused that is.
    pub(super) paused: BTreeMap<String, Timestamp>,
}

impl Table {
    /// Forgets the transactions that are open.
    pub(super) fn cut_off(&mut self) {
        self.open.clear();
        #[cfg(pillarbox_mutant)]
        self.identities.cut_off();
    }

    /// The next number; it is never given again, whatever becomes of the transaction.
    pub(super) fn next_seq(&mut self) -> i64 {
        self.last_seq += 1;
        self.last_seq
    }

    pub(super) fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// A transaction has got its first number.
    pub(super) fn opened(&mut self, first: i64) {
        self.open.insert(first);
        #[cfg(pillarbox_mutant)]
        self.identities.opened(first);
    }

    /// The transaction with this first number has ended, one way or the other.
    pub(super) fn ended(&mut self, first: i64) {
        self.open.remove(&first);
        #[cfg(pillarbox_mutant)]
        self.identities.ended(first);
    }

    pub(super) fn numbers(&self) -> Numbers {
        Numbers { closed: self.closed(), given: self.last_seq }
    }

    /// The number up to which no row can still appear.
    pub(super) fn closed(&self) -> i64 {
        #[cfg(pillarbox_mutant)]
        if let Some(closed) = self.identities.closed_wrongly(self.last_seq) {
            return closed;
        }
        self.open.first().map_or(self.last_seq, |first| first - 1)
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
        &self.indexes.done
    }

    pub(super) fn dead(&self) -> &BTreeSet<i64> {
        &self.indexes.dead
    }

    /// How many rows have status 0.
    pub(super) fn new_rows(&self) -> u64 {
        self.indexes.new
    }

    pub(super) fn pending(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.indexes.pending.iter().map(|(_, seq)| &self.rows[seq])
    }

    pub(super) fn add(&mut self, row: Row) {
        self.by_id.insert(row.event.id().to_owned(), row.seq);
        if let Some(aggregate_id) = row.event.aggregate_id() {
            self.by_aggregate.entry(aggregate_id.to_owned()).or_default().insert(row.seq);
        }
        self.indexes.add(&row);
        self.rows.insert(row.seq, row);
    }

    pub(super) fn change(&mut self, seq: i64, change: impl FnOnce(&mut Row)) {
        let Some(row) = self.rows.get_mut(&seq) else { return };
        self.indexes.remove(row);
        change(row);
        self.indexes.add(row);
    }

    pub(super) fn remove(&mut self, seq: i64) -> Option<Row> {
        let row = self.rows.remove(&seq)?;
        self.indexes.remove(&row);
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
        self.indexes.pending.range(..=(now, i64::MAX)).map(|(_, seq)| &self.rows[seq])
    }

    /// Rows whose lease can only end that late because the clock went back.
    fn leased_implausibly_long(&self, now: Timestamp) -> impl Iterator<Item = i64> {
        let longest = (now.saturating_add(LONGEST_LEASE), i64::MAX);
        self.indexes
            .pending
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
        let later = self.indexes.pending.range((now, i64::MAX)..).map(|&(available_at, _)| available_at);
        skipped.chain(later.take(1)).min().map(|at| at.saturating_since(now))
    }

    pub(super) fn renew(&mut self, leases: &[Lease], until: Timestamp) -> Vec<i64> {
        let mut lost = Vec::new();
        for lease in leases {
            if self.row(lease.seq).is_some_and(|row| row.is_held_under(lease.token)) {
                self.change(lease.seq, |row| row.available_at = until);
            } else {
                lost.push(lease.seq);
            }
        }
        lost
    }

    /// Whether the row is pending and still belongs to this lease; time plays no part. A partition's token says nothing
    /// about the event, so that is compared besides.
    pub(super) fn holds(&self, lease: &Lease, event_id: &str) -> bool {
        let is_unfenced = |row: &Row| mutant!(NoFence) && row.status.is_pending();
        let is_held = |row: &Row| match lease.token.partition() {
            None => row.is_held_under(lease.token),
            Some((partition, epoch)) => {
                let is_it = row.event.id() == event_id || mutant!(NoIdCheck);
                let is_there = row.status.is_pending() && row.partition == partition;
                is_it && is_there && (self.membership.epoch_of(partition) == epoch || mutant!(NoEpochCheck))
            }
        };
        self.rows.get(&lease.seq).is_some_and(|row| is_held(row) || is_unfenced(row))
    }

    pub(super) fn read_back(&self, token: Token, event_ids: &[String]) -> Vec<Found> {
        let rows = event_ids.iter().filter_map(|id| self.rows.get(self.by_id.get(id)?));
        rows.filter(|row| row.is_held_under(token.of_event(row.event.id())))
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
        held.len() as u64
    }
}
