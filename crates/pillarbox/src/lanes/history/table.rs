//! A table of events, in the simplest form that has numbers, transactions, times and epochs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::tests::fetched;
use crate::store::{Blocked, DELAYED, Epoch, Fetched, Holding, Lease, Numbers, Outcome, Token, Visit};

/// Where an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Uncommitted,
    RolledBack,
    Fresh,
    /// Until this time; without end if there is none. A loose one neither holds its key nor waits for it.
    Aside {
        until: Option<u64>,
        is_loose: bool,
    },
    Done,
    Dead,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) key: Option<u8>,
    pub(super) place: Place,
    pub(super) due: u64,
    pub(super) is_delayed: bool,
    pub(super) inserted: u64,
    pub(super) committed: Option<u64>,
    /// Whether a delivery of it has ended other than by being given back.
    pub(super) is_tried: bool,
    /// Whether a delivery of it has ended for good.
    pub(super) is_through: bool,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) parked: BTreeMap<u8, i64>,
    pub(super) now: u64,
    pub(super) floors: [i64; 2],
    pub(super) epochs: [i64; 2],
    pub(super) moment: u64,
}

/// What a visit finds, and what `blocked` would say.
pub(super) type Found = (Vec<Fetched>, Vec<Blocked>);

pub(super) fn name(key: u8) -> String {
    format!("order-{key}")
}

impl Row {
    /// Keys are spread over two partitions.
    pub(super) fn partition(&self) -> u8 {
        self.key.unwrap_or_default() % 2
    }

    fn is_aside_of(&self, key: u8) -> bool {
        self.key == Some(key) && matches!(self.place, Place::Aside { is_loose: false, .. })
    }
}

impl Table {
    pub(super) fn insert(&mut self, key: Option<u8>, delay: u64) {
        self.moment += 1;
        self.rows.push(Row {
            seq: self.rows.len() as i64 + 1,
            key,
            place: Place::Uncommitted,
            due: self.now + delay,
            is_delayed: delay > 0,
            inserted: self.moment,
            committed: None,
            is_tried: false,
            is_through: false,
        });
    }

    pub(super) fn end_transaction(&mut self, which: usize, commits: bool) {
        self.moment += 1;
        let moment = self.moment;
        let mut open: Vec<_> = self.rows.iter_mut().filter(|row| row.place == Place::Uncommitted).collect();
        if open.is_empty() {
            return;
        }
        let count = open.len();
        let row = &mut open[which % count];
        row.place = if commits { Place::Fresh } else { Place::RolledBack };
        row.committed = commits.then_some(moment);
    }

    pub(super) fn row(&mut self, seq: i64) -> &mut Row {
        &mut self.rows[seq as usize - 1]
    }

    pub(super) fn closed(&self) -> i64 {
        let open = self.rows.iter().find(|row| row.place == Place::Uncommitted);
        open.map_or(self.rows.len() as i64, |row| row.seq - 1)
    }

    pub(super) fn numbers(&self) -> Numbers {
        Numbers { closed: self.closed(), given: self.rows.len() as i64 }
    }

    pub(super) fn acquire(&mut self, partition: u8) -> (Holding, Vec<Blocked>) {
        let at = usize::from(partition);
        self.epochs[at] += 1;
        let epoch = Epoch(self.epochs[at]);
        let holding = Holding { partition, epoch, floor: self.floors[at], crashes: 0, suspect_to: 0 };
        (holding, self.blocked(partition))
    }

    pub(super) fn blocked(&self, partition: u8) -> Vec<Blocked> {
        let keys = (0..4).filter(|key| key % 2 == partition);
        let blocked = keys.map(|key| {
            let first = self.rows.iter().find(|row| row.is_aside_of(key));
            Blocked {
                partition,
                key: name(key),
                first: first.map(|row| row.seq),
                ready_in: first.map_or(Duration::ZERO, |row| self.ready_in(row)),
                parked_for: self.parked.get(&key).map(|seq| format!("event-{seq}")),
            }
        });
        blocked.filter(|blocked| blocked.first.is_some() || blocked.parked_for.is_some()).collect()
    }

    fn ready_in(&self, row: &Row) -> Duration {
        let ready = match row.place {
            Place::Aside { until, .. } => until.unwrap_or_default(),
            _ => row.due,
        };
        Duration::from_secs(ready.saturating_sub(self.now))
    }

    fn find(&self, visit: &Visit, limit: usize, is_asked: impl Fn(&Row) -> bool) -> Vec<Fetched> {
        let is_here = |row: &&Row| row.partition() == visit.partition && !visit.in_flight.contains(&row.seq);
        let rows = self.rows.iter().filter(is_here).filter(|row| is_asked(row)).take(limit);
        let epoch = visit.epoch;
        let name_of = |row: &Row| row.key.map(name);
        rows.map(|row| Fetched {
            ready_in: self.ready_in(row),
            ..fetched(Token::of_partition(visit.partition, epoch), row.seq, name_of(row).as_deref())
        })
        .collect()
    }

    pub(super) fn fetch(&self, visit: &Visit, limit: usize) -> Vec<Fetched> {
        self.find(visit, limit, |row| row.place == Place::Fresh && row.seq > visit.floor)
    }

    pub(super) fn below(&self, visit: &Visit, limit: usize) -> Vec<Fetched> {
        self.find(visit, limit, |row| row.place == Place::Fresh && row.seq <= visit.floor)
    }

    pub(super) fn due(&self, visits: &[Visit], limit: usize) -> Vec<Fetched> {
        let is_due =
            |row: &Row| matches!(row.place, Place::Aside { until: Some(until), .. } if until <= self.now);
        visits.iter().flat_map(|visit| self.find(visit, usize::MAX, is_due)).take(limit).collect()
    }

    pub(super) fn aside_of(&self, visit: &Visit, key: &str, limit: usize) -> Vec<Fetched> {
        self.find(visit, limit, |row| row.key.is_some_and(|of| name(of) == key && row.is_aside_of(of)))
    }

    /// Applies an outcome; false if the lease was lost.
    pub(super) fn settle(&mut self, lease: Lease, outcome: &Outcome) -> bool {
        let (partition, epoch) = lease.token.partition().unwrap();
        let now = self.now;
        let row = &mut self.rows[lease.seq as usize - 1];
        let is_pending = matches!(row.place, Place::Fresh | Place::Aside { .. });
        if !is_pending || self.epochs[usize::from(partition)] != epoch.0 {
            return false;
        }
        let aside = |until, is_loose| Place::Aside { until, is_loose };
        row.place = match outcome {
            Outcome::Done | Outcome::FellBack { .. } => Place::Done,
            Outcome::Retry { after, .. } => aside(Some(now + after.as_secs()), false),
            Outcome::Aside { until, reason } => {
                aside(until.map(|until| now + until.as_secs()), reason == DELAYED)
            }
            Outcome::Dead { .. } => Place::Dead,
            Outcome::Parked { .. } => {
                self.parked.entry(row.key.unwrap()).or_insert(row.seq);
                Place::Dead
            }
            Outcome::Released => row.place,
        };
        true
    }

    pub(super) fn replay(&mut self, which: usize) {
        let mut dead: Vec<_> = self.rows.iter_mut().filter(|row| row.place == Place::Dead).collect();
        if dead.is_empty() {
            return;
        }
        let count = dead.len();
        let row = &mut dead[which % count];
        let is_parked = row.key.is_some_and(|key| self.parked.get(&key) == Some(&row.seq));
        row.place = Place::Aside { until: Some(self.now), is_loose: !is_parked };
        if is_parked {
            self.parked.retain(|_, seq| *seq != row.seq);
        }
    }

    pub(super) fn skip(&mut self, which: usize) {
        if let Some(&key) = self.parked.keys().nth(which % self.parked.len().max(1)) {
            self.parked.remove(&key);
        }
    }
}
