//! An owner around lanes, on a table, and what must always be true of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::read::Kind;
use super::super::{Lanes, Limits, Order, Read, Step};
use super::table::{Found, Place, Row, Table, name};
use crate::store::{Lease, Outcome};

/// How a delivery ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    Done,
    Retry(u64),
    Held(u64),
    Dead,
    Released,
}

struct Reading {
    read: Read,
    found: Option<Found>,
}

struct Settlement {
    lease: Lease,
    outcome: Outcome,
    /// What the store has said, if it was asked.
    is_applied: Option<bool>,
}

pub(super) struct World {
    pub(super) table: Table,
    lanes: Lanes,
    order: Order,
    limits: Limits,
    reading: Vec<Reading>,
    running: Vec<Lease>,
    settling: Vec<Settlement>,
    /// When the look behind the crowd of each partition began.
    looks: [u64; 2],
}

impl World {
    pub(super) fn new(order: Order, limits: Limits) -> Self {
        let lanes = Lanes::new(order, limits);
        let (table, reading, running, settling, looks) = Default::default();
        let mut world = Self { table, lanes, order, limits, reading, running, settling, looks };
        (0..2).for_each(|partition| world.take_over(partition));
        world
    }

    pub(super) fn look_back(&mut self) {
        self.lanes.look_back();
    }

    fn take_over(&mut self, partition: u8) {
        let (holding, blocked) = self.table.acquire(partition);
        self.lanes.take_over(&holding, &blocked);
    }

    /// The process dies over a partition; what it has sent may still arrive.
    pub(super) fn crash(&mut self, partition: u8) {
        self.lanes.lose(partition);
        self.running.retain(|lease| lease.token.partition().unwrap().0 != partition);
        self.take_over(partition);
    }

    /// The partition is drained, given back, and taken by another.
    pub(super) fn hand_over(&mut self, partition: u8) {
        self.lanes.drain(partition);
        let is_here = |lease: &Lease| lease.token.partition().unwrap().0 == partition;
        while let Some(which) = self.running.iter().position(is_here) {
            self.end(which, Ending::Released);
        }
        while let Some(which) = self.settling.iter().position(|settlement| is_here(&settlement.lease)) {
            self.settle(which, true);
        }
        assert!(self.lanes.is_empty(partition), "something is in flight after the drain");
        self.beat();
        self.lanes.lose(partition);
        self.take_over(partition);
    }

    pub(super) fn fetch(&mut self) {
        let numbers = self.table.numbers();
        let read = self.lanes.fresh(&[0, 1], numbers);
        self.begin(read);
    }

    pub(super) fn below(&mut self) {
        let read = self.lanes.below(&[0, 1]);
        self.begin(read);
    }

    pub(super) fn due(&mut self) {
        let read = self.lanes.due(&[0, 1]);
        self.begin(read);
    }

    pub(super) fn key(&mut self) {
        let read = self.lanes.key();
        self.begin(read);
    }

    pub(super) fn parked(&mut self) {
        let read = self.lanes.parked(&[0, 1]);
        self.begin(read);
    }

    pub(super) fn behind(&mut self, partition: u8) {
        if !self.lanes.is_looking(partition) {
            self.looks[usize::from(partition)] = self.table.moment;
        }
        let numbers = self.table.numbers();
        let read = self.lanes.behind(partition, numbers);
        self.begin(read);
    }

    fn begin(&mut self, read: Option<Read>) {
        self.reading.extend(read.map(|read| Reading { read, found: None }));
    }

    pub(super) fn look(&mut self, which: usize) {
        let count = self.reading.len().max(1);
        if let Some(reading) = self.reading.get_mut(which % count) {
            reading.found.get_or_insert_with(|| find(&self.table, &reading.read));
        }
    }

    pub(super) fn answer(&mut self, which: usize) {
        if self.reading.is_empty() {
            return;
        }
        let Reading { read, found } = self.reading.remove(which % self.reading.len());
        let (events, blocked) = found.unwrap_or_else(|| find(&self.table, &read));
        let steps = match &read.kind {
            Kind::Parked { .. } => self.lanes.answer_blocked(read, &blocked),
            Kind::Behind { .. } => {
                let partition = read.visits()[0].partition;
                let was_looking = self.lanes.is_looking(partition);
                let steps = self.lanes.answer(read, events);
                if was_looking && !self.lanes.is_looking(partition) {
                    self.check_that_nobody_was_overlooked(partition);
                }
                steps
            }
            _ => self.lanes.answer(read, events),
        };
        self.follow(steps);
    }

    /// Guarantee 7: a look behind a crowd that has come to its end has seen whoever was there when it began.
    fn check_that_nobody_was_overlooked(&self, partition: u8) {
        let Some(owned) = self.lanes.share.get(partition) else { return };
        // Otherwise somebody was seen.
        let Some(crowd) = owned.crowd_key() else { return };
        let began = self.looks[usize::from(partition)];
        let was_there = |row: &&Row| row.committed.is_some_and(|committed| committed <= began);
        let is_fresh = |row: &&Row| row.partition() == partition && row.place == Place::Fresh;
        for row in self.table.rows.iter().filter(is_fresh).filter(was_there) {
            let is_of_crowd = row.key.is_some_and(|key| name(key) == crowd);
            assert!(is_of_crowd || owned.has(row.seq), "{} waits behind {crowd} and was overlooked", row.seq);
        }
    }

    pub(super) fn fail(&mut self, which: usize) {
        if !self.reading.is_empty() {
            let reading = self.reading.remove(which % self.reading.len());
            let steps = self.lanes.fail(reading.read);
            self.follow(steps);
        }
    }

    pub(super) fn end(&mut self, which: usize, ending: Ending) {
        if self.running.is_empty() {
            return;
        }
        let lease = self.running.remove(which % self.running.len());
        let error = String::from("refused");
        let outcome = match ending {
            Ending::Done => Outcome::Done,
            Ending::Retry(after) => Outcome::Retry { after: Duration::from_secs(after), error, spent: true },
            Ending::Held(time) => Outcome::Aside { until: Some(Duration::from_secs(time)), reason: error },
            Ending::Dead => Outcome::Dead { error, spent: true },
            Ending::Released => Outcome::Released,
        };
        let row = self.table.row(lease.seq);
        row.is_tried |= !matches!(ending, Ending::Released);
        row.is_through |= matches!(ending, Ending::Done | Ending::Dead);
        let steps =
            self.lanes.ended(crate::store::Settlement::new(format!("event-{}", lease.seq), lease, outcome));
        self.follow(steps);
    }

    pub(super) fn settle(&mut self, which: usize, is_told: bool) {
        let count = self.settling.len().max(1);
        let Some(settlement) = self.settling.get_mut(which % count) else { return };
        if settlement.is_applied.is_none() {
            settlement.is_applied = Some(self.table.settle(settlement.lease, &settlement.outcome));
        }
        if is_told {
            self.tell(which);
        }
    }

    /// Tells what the store has said.
    pub(super) fn tell(&mut self, which: usize) {
        let count = self.settling.len().max(1);
        if let Some(&Settlement { lease, is_applied: Some(is_applied), .. }) =
            self.settling.get(which % count)
        {
            self.settling.remove(which % count);
            let steps = self.lanes.recorded(lease, is_applied);
            self.follow(steps);
        }
    }

    /// Tells that an outcome was not recorded, whether it was or not.
    pub(super) fn give_up(&mut self, which: usize) {
        let count = self.settling.len().max(1);
        if let Some(&Settlement { lease, .. }) = self.settling.get(which % count) {
            self.settling.remove(which % count);
            let steps = self.lanes.recorded(lease, false);
            self.follow(steps);
        }
    }

    pub(super) fn beat(&mut self) {
        for partition in 0..2 {
            self.table.floors[usize::from(partition)] = self.lanes.floor(partition).unwrap().floor;
        }
    }

    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Run { taken, .. } => self.run(taken.lease),
                Step::Settle(crate::store::Settlement { lease, outcome, .. }) => {
                    self.settling.push(Settlement { lease, outcome, is_applied: None });
                }
            }
        }
    }

    /// O1: one event of a key at once, and none before those that were committed before it was inserted.
    fn run(&mut self, lease: Lease) {
        let row = self.table.row(lease.seq).clone();
        if row.key.is_some() && self.order != Order::None {
            for other in &self.running {
                assert_ne!(self.table.row(other.seq).key, row.key, "two of one key run at once");
            }
            let is_ordered = !row.is_delayed && !matches!(row.place, Place::Aside { is_loose: true, .. });
            for earlier in self.table.rows.iter().filter(|_| is_ordered) {
                let must_precede = earlier.key == row.key
                    && !earlier.is_delayed
                    && earlier.committed.is_some_and(|committed| committed < row.inserted);
                let precedes = if self.is_held_by_failure() { earlier.is_through } else { earlier.is_tried };
                assert!(precedes || !must_precede, "{} runs before {}", row.seq, earlier.seq);
            }
        }
        self.running.push(lease);
    }

    /// No event that is fresh, or may still become so, is below a floor.
    pub(super) fn check_floors(&self) {
        for row in &self.table.rows {
            let floor = self.lanes.floor(row.partition()).unwrap().floor;
            let is_below = row.seq <= floor && matches!(row.place, Place::Fresh | Place::Uncommitted);
            assert!(!is_below, "the floor {floor} has passed {}", row.seq);
        }
    }

    /// One event more than the limit for each key that has to be read on.
    pub(super) fn check_memory(&self) {
        let (in_flight, ending) = (self.lanes.share.in_flight(), self.lanes.share.ending());
        let Limits { events, unrecorded, .. } = self.limits;
        assert!(in_flight <= events + unrecorded + 4, "{in_flight} are in flight");
        assert!(in_flight - ending <= events + 4, "{in_flight} are in flight, {ending} of them ending");
        assert!(self.lanes.share.adds_up(), "what the partitions have together is not what each has");
    }

    /// Goes on without faults and without time passing, until nothing more happens.
    pub(super) fn calm_down(&mut self) {
        while self.table.rows.iter().any(|row| row.place == Place::Uncommitted) {
            self.table.end_transaction(0, true);
        }
        let mut quiet = 0;
        for _ in 0..2_000 {
            let before = self.progress();
            for read in [Self::fetch, Self::due, Self::key, Self::parked] {
                read(self);
                while !self.reading.is_empty() {
                    self.answer(0);
                }
            }
            self.end(0, Ending::Done);
            self.settle(0, true);
            self.check_floors();
            quiet = if self.progress() == before { quiet + 1 } else { 0 };
            if quiet > 20 && self.running.is_empty() && self.settling.is_empty() {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    fn progress(&self) -> impl PartialEq + use<> {
        let places: Vec<Place> = self.table.rows.iter().map(|row| row.place).collect();
        (places, self.running.len(), self.settling.len())
    }

    /// DESIGN 7: a blocked key holds neither the floor nor others, and nothing waits but what must.
    pub(super) fn check_that_only_blocked_keys_wait(&self) {
        let closed = self.table.closed();
        for partition in 0..2 {
            assert_eq!(self.lanes.floor(partition).unwrap().floor, closed, "of partition {partition}");
        }
        let waits =
            |place| matches!(place, Place::Aside { until: Some(until), .. } if until > self.table.now);
        let holds = |place| waits(place) && matches!(place, Place::Aside { is_loose: false, .. });
        let holding = self.table.rows.iter().filter(|row| holds(row.place));
        let held: BTreeSet<_> = holding.filter(|_| self.is_held_by_failure()).map(|row| row.key).collect();
        for row in &self.table.rows {
            let is_parked = row.key.is_some_and(|key| self.table.parked.contains_key(&key));
            match row.place {
                Place::Fresh | Place::Uncommitted => panic!("{} is still fresh", row.seq),
                Place::Aside { .. } => assert!(
                    waits(row.place) || is_parked || (held.contains(&row.key) && row.key.is_some()),
                    "{} waits for nothing",
                    row.seq
                ),
                Place::Done | Place::Dead | Place::RolledBack => {}
            }
        }
    }

    fn is_held_by_failure(&self) -> bool {
        matches!(self.order, Order::Release | Order::Park)
    }

    /// Lets time pass and frees what is parked: everything comes to its end.
    pub(super) fn finish(&mut self) {
        self.table.now += 10;
        self.table.parked.clear();
        self.calm_down();
        for row in &self.table.rows {
            assert!(
                matches!(row.place, Place::Done | Place::Dead | Place::RolledBack),
                "{} is forgotten",
                row.seq
            );
        }
    }
}

fn find(table: &Table, read: &Read) -> Found {
    let visits = read.visits();
    let limit = read.limit();
    let events = match &read.kind {
        Kind::Fresh { .. } | Kind::Behind { .. } => {
            visits.iter().flat_map(|visit| table.fetch(visit, limit)).collect()
        }
        Kind::Below => visits.iter().flat_map(|visit| table.below(visit, limit)).collect(),
        Kind::Due => table.due(visits, limit),
        Kind::Key { key, .. } => table.aside_of(&visits[0], key, limit),
        Kind::Parked { .. } => Vec::new(),
    };
    (events, visits.iter().flat_map(|visit| table.blocked(visit.partition)).collect())
}
