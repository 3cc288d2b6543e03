//! What a read has brought.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::Step;
use super::super::flight::{End, Flight, Origin, Stage};
use super::super::lane::Gate;
use super::super::read::Kind;
use super::{Crowd, Horizon, Owned};
use crate::mutant::mutant;
use crate::store::{DELAYED, Fetched, Outcome, Settlement};

/// Why the rest of a run from aside cannot be used.
enum Cut {
    /// This event waits for its time.
    Waits,
    /// An event before this one is on its way aside, or waits in memory.
    Earlier,
    /// There may be fresh events before this one that nobody has seen.
    Unseen(i64),
}

impl Owned {
    /// Takes in what a read of this partition has brought, where `limit` was the most of it.
    pub(in super::super) fn answer(
        &mut self,
        kind: &Kind,
        events: Vec<Fetched>,
        limit: usize,
        steps: &mut Vec<Step>,
    ) {
        match kind {
            Kind::Fresh { .. } => {
                let last = events.last().map(|fetched| fetched.taken.lease.seq);
                let end = self.horizon.end();
                let known = last.filter(|_| events.len() >= limit).unwrap_or(i64::MAX).min(end);
                if known == i64::MAX {
                    self.crowd = None;
                }
                let sets_aside = std::mem::take(&mut self.is_relieved);
                let used = events.into_iter().filter(|fetched| fetched.taken.lease.seq <= end);
                used.for_each(|fetched| self.fresh(fetched, sets_aside, steps));
                self.rise(known, steps);
            }
            Kind::Below => events.into_iter().for_each(|fetched| self.fresh(fetched, true, steps)),
            Kind::Due => events.into_iter().for_each(|fetched| self.due(fetched, steps)),
            Kind::Key { key, leaving } => self.of_key(key, *leaving, events, limit, steps),
            Kind::Behind { .. } => self.look(&events, limit),
            Kind::Parked { .. } => {}
        }
        self.end_read(kind, steps);
    }

    /// A read has brought nothing.
    pub(in super::super) fn fail(&mut self, kind: &Kind, steps: &mut Vec<Step>) {
        if matches!(kind, Kind::Fresh { .. }) {
            self.horizon = Horizon::default();
        }
        if let (Kind::Behind { .. }, Some(crowd)) = (kind, &mut self.crowd) {
            crowd.fail();
        }
        self.end_read(kind, steps);
    }

    /// The read is over, whatever came of it.
    fn end_read(&mut self, kind: &Kind, steps: &mut Vec<Step>) {
        self.reading = None;
        self.stale.clear();
        if let Kind::Key { key, .. } = kind {
            self.advance(key, steps);
        }
    }

    /// A fresh event: it runs, waits, or is set aside. One that its key has no room for is left where it is, unless
    /// others are to pass.
    fn fresh(&mut self, fetched: Fetched, sets_aside: bool, steps: &mut Vec<Step>) {
        let seq = fetched.taken.lease.seq;
        if self.flights.contains(seq) {
            return;
        }
        let key = self.lane_of(&fetched);
        if self.is_draining || key.as_ref().is_some_and(|key| self.stale.contains(key)) {
            return self.let_go(seq);
        }
        if !fetched.ready_in.is_zero() {
            return self.delay(fetched, steps);
        }
        let most = self.rules.limits.of_key;
        let crowd = key
            .as_ref()
            .filter(|key| !sets_aside && self.lanes.get(*key).is_some_and(|lane| lane.is_full(most)));
        if let Some(key) = crowd {
            if self.crowd.as_ref().is_none_or(|crowd| crowd.key != *key) {
                self.crowd = Some(Crowd::of(key.clone()));
            }
            return self.leave(seq);
        }
        let event_id = fetched.taken.event_id.clone();
        self.flights.insert(seq, Flight::new(fetched, key.clone(), Origin::Fresh));
        let Some(key) = key else { return self.start(seq, steps) };
        let lane = self.lanes.entry(key.clone()).or_default();
        match &lane.gate {
            Gate::Open if !lane.is_full(most) => {
                lane.waiting.insert(seq);
            }
            Gate::Closing if lane.behind.len() < most => {
                lane.behind.insert(seq);
            }
            // It was to be dead, and that was never recorded.
            Gate::Parked(dead) if **dead == *event_id => {
                lane.gate = Gate::Blocked;
                lane.due.push_back(seq);
            }
            Gate::Blocked | Gate::Parked(_) if mutant!(BlockedKeyHoldsTheFloor) => {
                lane.behind.insert(seq);
            }
            gate => {
                if *gate == Gate::Open {
                    lane.gate = Gate::Reading;
                }
                self.set_aside(&key, BTreeSet::from([seq]), steps);
            }
        }
        self.advance(&key, steps);
    }

    /// A stretch of what is fresh behind a crowd. If others are in it they are to pass: with the next read of what is
    /// fresh, what the key has too much of is set aside.
    fn look(&mut self, events: &[Fetched], limit: usize) {
        if self.crowd.as_mut().is_some_and(|crowd| crowd.has_others(events, limit)) {
            self.crowd = None;
            self.is_relieved = true;
        }
    }

    /// Sets a fresh event aside until its delay has passed. Its key has nothing to do with it.
    fn delay(&mut self, fetched: Fetched, steps: &mut Vec<Step>) {
        let lease = fetched.taken.lease;
        let outcome = Outcome::Aside { until: Some(fetched.ready_in), reason: DELAYED.to_owned() };
        let settlement = Settlement::of(&fetched.taken, outcome);
        let mut flight = Flight::new(fetched, None, Origin::Fresh);
        flight.stage = Stage::Ends(End::Aside);
        self.flights.insert(lease.seq, flight);
        steps.push(Step::Settle(settlement));
    }

    /// An event whose time has come: it is the next of its key.
    fn due(&mut self, fetched: Fetched, steps: &mut Vec<Step>) {
        let seq = fetched.taken.lease.seq;
        if self.is_draining || self.flights.contains(seq) {
            return;
        }
        let key = self.lane_of(&fetched);
        let event_id = fetched.taken.event_id.clone();
        self.flights.insert(seq, Flight::new(fetched, key.clone(), Origin::Aside));
        let Some(key) = key else { return self.start(seq, steps) };
        let lane = self.lanes.entry(key.clone()).or_default();
        if matches!(&lane.gate, Gate::Parked(dead) if **dead == *event_id) {
            // An operator has replayed it.
            lane.gate = Gate::Blocked;
        }
        lane.due.push_back(seq);
        self.advance(&key, steps);
    }

    /// A run of a key's events that are aside.
    fn of_key(
        &mut self,
        key: &Arc<str>,
        leaving: Option<i64>,
        events: Vec<Fetched>,
        limit: usize,
        steps: &mut Vec<Step>,
    ) {
        let is_wanted = self
            .lanes
            .get(key)
            .is_some_and(|lane| matches!(lane.gate, Gate::Reading | Gate::Closing) && !self.is_draining);
        if !is_wanted || self.stale.contains(key) {
            return;
        }
        let is_full = events.len() >= limit;
        let (kept, cut) = self.keep(key, leaving, events);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        match cut {
            None if is_full => lane.gate = Gate::Reading,
            None if leaving.is_none() => return lane.open(),
            _ if kept > 0 || leaving.is_some() => return lane.gate = Gate::Closing,
            Some(Cut::Waits) => lane.gate = Gate::Blocked,
            Some(Cut::Unseen(seq)) => {
                lane.gate = Gate::Reading;
                lane.not_before = seq;
                self.unseen.push(key.clone());
            }
            // What waits in memory comes before what is aside, and has to go there first.
            Some(Cut::Earlier) | None => lane.gate = Gate::Closing,
        }
        let behind = std::mem::take(&mut lane.behind);
        self.set_aside(key, behind, steps);
    }

    /// Keeps what can run of a run, in order, and says how many that were and what cut it off.
    fn keep(&mut self, key: &Arc<str>, leaving: Option<i64>, events: Vec<Fetched>) -> (usize, Option<Cut>) {
        let mut kept = 0;
        let Some(lane) = self.lanes.get_mut(key) else { return (kept, None) };
        let earlier = leaving.into_iter().chain(lane.behind.first().copied()).min();
        for fetched in events {
            let seq = fetched.taken.lease.seq;
            let waits = !fetched.ready_in.is_zero();
            if self.flights.contains(seq) {
                continue;
            } else if waits && self.rules.order.goes_on() {
                lane.passed.insert(seq);
            } else if waits {
                return (kept, Some(Cut::Waits));
            } else if earlier.is_some_and(|earlier| earlier < seq) {
                return (kept, Some(Cut::Earlier));
            } else if seq > self.seen {
                return (kept, Some(Cut::Unseen(seq)));
            } else {
                self.flights.insert(seq, Flight::new(fetched, Some(key.clone()), Origin::Aside));
                lane.waiting.insert(seq);
                kept += 1;
            }
        }
        (kept, None)
    }

    /// Raises the floor after a read that has seen everything up to `known`.
    fn rise(&mut self, known: i64, steps: &mut Vec<Step>) {
        if self.is_draining {
            return;
        }
        let let_go = self.let_go.unwrap_or(i64::MAX);
        self.horizon.rise(known.min(let_go - 1));
        self.passed = self.passed.max(self.horizon.closed().min(known)).min(let_go - 1);
        let lowest = self.flights.iter().find(|(_, flight)| flight.origin == Origin::Fresh);
        let lowest = lowest.map_or(i64::MAX, |(seq, _)| seq);
        self.floor = self.floor.max(self.passed.min(lowest - 1));
        self.seen = self.seen.max(known).min(let_go - 1);
        for key in std::mem::take(&mut self.unseen) {
            if self.lanes.get(&key).is_some_and(|lane| lane.not_before > self.seen) {
                self.unseen.push(key);
            } else {
                self.advance(&key, steps);
            }
        }
    }

    /// The key by which an event goes, if it goes by one.
    fn lane_of(&self, fetched: &Fetched) -> Option<Arc<str>> {
        let key = fetched.key.as_deref()?;
        match self.lanes.get_key_value(key) {
            Some((key, _)) => Some(key.clone()),
            None => (self.rules.order != super::Order::None).then(|| key.into()),
        }
    }
}
