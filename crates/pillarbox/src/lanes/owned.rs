//! One owned partition: its events in flight, its keys, and how far it has been read.

mod answer;
mod crowd;
mod horizon;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::crowd::Crowd;
use self::horizon::Horizon;
use super::flight::{End, Flight, Flights, Origin, Stage};
use super::lane::{Gate, Lane};
use super::read::Kind;
use super::{Order, Rules, Step};
use crate::metrics::Keys;
use crate::mutant::mutant;
use crate::store::{Blocked, Epoch, Holding, Outcome, Settlement, Token, Visit};

/// A partition that this instance owns.
#[derive(Debug)]
pub(super) struct Owned {
    partition: u8,
    pub(super) epoch: Epoch,
    pub(super) floor: i64,
    /// Every fresh event up to this is in flight, and none can appear: nothing is read from before.
    passed: i64,
    horizon: Horizon,
    is_draining: bool,
    /// The read that is under way: at most one is.
    pub(super) reading: Option<u64>,
    rules: Rules,
    /// Events up to this run one by one.
    suspect_to: Option<i64>,
    flights: Flights,
    lanes: BTreeMap<Arc<str>, Lane>,
    /// All fresh events up to this that were there at the take-over have been read, and none of them went back.
    seen: i64,
    /// The lowest fresh event that went back to the table since the last read of fresh ones began.
    let_go: Option<i64>,
    /// Keys of which something went back, or aside, since the read under way began: what it brings is out of date.
    stale: BTreeSet<Arc<str>>,
    to_read: VecDeque<Arc<str>>,
    /// Keys that are to be read once more fresh events have been seen.
    unseen: Vec<Arc<str>>,
    /// Events that may run one by one, in this order.
    suspects: VecDeque<i64>,
    /// A key that has more than memory has for it, until a read has seen the end of what is fresh.
    crowd: Option<Crowd>,
    /// What a key has too much of is set aside, and not left where it is until there is room again.
    is_relieved: bool,
}

impl Owned {
    pub(super) fn new<'a>(
        rules: Rules,
        holding: &Holding,
        blocked: impl Iterator<Item = &'a Blocked>,
    ) -> Self {
        let lanes: BTreeMap<Arc<str>, Lane> = blocked
            .map(|blocked| (blocked.key.as_str().into(), Lane::left_behind(blocked, rules.order.goes_on())))
            .collect();
        let mut owned = Self {
            partition: holding.partition,
            epoch: holding.epoch,
            floor: holding.floor,
            passed: holding.floor,
            horizon: Horizon::default(),
            is_draining: false,
            reading: None,
            rules,
            suspect_to: (holding.crashes >= 2).then_some(holding.suspect_to),
            flights: Flights::default(),
            lanes,
            seen: holding.floor,
            let_go: None,
            stale: BTreeSet::new(),
            to_read: VecDeque::new(),
            unseen: Vec::new(),
            suspects: VecDeque::new(),
            crowd: None,
            is_relieved: false,
        };
        for (key, lane) in &mut owned.lanes {
            lane.is_listed = lane.wants_read(owned.seen);
            owned.to_read.extend(lane.is_listed.then(|| key.clone()));
        }
        owned
    }

    pub(super) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Those that have begun, and whose outcomes are not recorded.
    pub(super) fn begun(&self) -> impl Iterator<Item = (Token, i64)> {
        let token = Token::of_partition(self.partition, self.epoch);
        let has_begun = |flight: &Flight| matches!(flight.stage, Stage::Runs | Stage::Ends(_));
        self.flights.iter().filter(move |(_, flight)| has_begun(flight)).map(move |(seq, _)| (token, seq))
    }

    /// How many of those in flight have their outcome, which is being recorded.
    pub(super) fn ending(&self) -> usize {
        self.flights.ending()
    }

    /// Whether keys are on the list of those to be read.
    pub(super) fn has_keys(&self) -> bool {
        !self.to_read.is_empty()
    }

    /// Whether suspects may run when it is their turn.
    pub(super) fn has_suspects(&self) -> bool {
        !self.suspects.is_empty()
    }

    pub(super) fn absolve(&mut self) {
        self.suspect_to = None;
    }

    /// Forgets what has not begun.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
        self.flights.forget_waiting();
        self.to_read.clear();
        self.suspects.clear();
        for lane in self.lanes.values_mut() {
            lane.take_followers();
            lane.due.clear();
            lane.is_listed = false;
        }
    }

    /// Whether it can be read now.
    pub(super) fn is_readable(&self) -> bool {
        self.reading.is_none() && !self.is_draining
    }

    /// Whether a key has more than memory has for it, and others may wait behind that.
    pub(super) fn is_crowded(&self) -> bool {
        self.crowd.is_some()
    }

    /// Whether a look behind the crowd has begun and has not come to its end.
    pub(super) fn is_looking(&self) -> bool {
        self.crowd.as_ref().is_some_and(Crowd::is_looking)
    }

    /// The key that has too many events.
    #[cfg(test)]
    pub(super) fn crowd_key(&self) -> Option<&str> {
        self.crowd.as_ref().map(|crowd| &*crowd.key)
    }

    /// Whether an event is in flight.
    #[cfg(test)]
    pub(super) fn has(&self, seq: i64) -> bool {
        self.flights.contains(seq)
    }

    /// Whether the last read of what is fresh went on from the one before.
    pub(super) fn reads_on(&self) -> bool {
        self.horizon.goes_on()
    }

    /// Reads from what is passed the next time.
    pub(super) fn look_back(&mut self) {
        self.horizon.look_back();
    }

    /// How many more events a read should bring at most: none before half of a crowd has run.
    pub(super) fn room(&self) -> usize {
        let most = self.rules.limits.of_key;
        let crowd = self.crowd.as_ref().and_then(|crowd| self.lanes.get(&crowd.key));
        let room =
            crowd.filter(|lane| lane.gate == Gate::Open).map(|lane| most.saturating_sub(lane.waiting.len()));
        room.map_or(usize::MAX, |room| if room < most.div_ceil(2) { 0 } else { room })
    }

    /// Begins the read with this number.
    pub(super) fn visit(&mut self, kind: &Kind, number: u64) -> Visit {
        self.reading = Some(number);
        if matches!(kind, Kind::Fresh { .. }) {
            self.let_go = None;
        }
        let floor = match kind {
            Kind::Fresh { numbers } => self.horizon.begin(self.passed, *numbers),
            Kind::Behind { numbers } => {
                self.crowd.as_mut().map_or(self.passed, |crowd| crowd.begin(self.passed, *numbers))
            }
            Kind::Below | Kind::Due | Kind::Key { .. } | Kind::Parked { .. } => self.floor,
        };
        let is_asked = |seq: i64, flight: &Flight| match kind {
            Kind::Fresh { .. } | Kind::Behind { .. } => flight.origin == Origin::Fresh && seq > floor,
            Kind::Below => flight.origin == Origin::Fresh && seq <= floor,
            Kind::Key { key, .. } => flight.key.as_ref() == Some(key),
            // Not all that is in flight, which would be thousands of numbers in one statement.
            Kind::Due => flight.may_be_aside(),
            Kind::Parked { .. } => false,
        };
        let flights = self.flights.iter().filter(|(seq, flight)| is_asked(*seq, flight));
        let mut in_flight: Vec<i64> = flights.map(|(seq, _)| seq).collect();
        if let Kind::Key { key, .. } = kind {
            in_flight.extend(self.lanes.get(key).into_iter().flat_map(|lane| &lane.passed));
        }
        Visit { partition: self.partition, epoch: self.epoch, floor, in_flight }
    }

    /// The next key to be read. Without room only one for which others wait in memory.
    pub(super) fn next_key(&mut self, has_room: bool) -> Option<Kind> {
        if !self.is_readable() {
            return None;
        }
        let mut found = None;
        for _ in 0..self.to_read.len() {
            let Some(key) = self.to_read.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&key) else { continue };
            let is_wanted = lane.wants_read(self.seen);
            lane.is_listed = is_wanted;
            if is_wanted && (has_room || !lane.behind.is_empty()) {
                lane.is_listed = false;
                found = Some(Kind::Key { leaving: lane.leaving.first().copied(), key });
                break;
            } else if is_wanted {
                self.to_read.push_back(key);
            } else if lane.not_before > self.seen {
                self.unseen.push(key);
            }
        }
        found
    }

    /// The keys that are parked, and recorded as such.
    pub(super) fn parked(&self) -> impl Iterator<Item = Arc<str>> {
        let is_parked = |lane: &Lane| matches!(lane.gate, Gate::Parked(_)) && lane.leaving.is_empty();
        self.lanes.iter().filter(move |(_, lane)| is_parked(lane)).map(|(key, _)| key.clone())
    }

    /// How many keys are held back.
    pub(super) fn held_back(&self) -> Keys {
        let gates = self.lanes.values().map(|lane| &lane.gate);
        gates.fold(Keys::default(), |keys, gate| match gate {
            Gate::Parked(_) => Keys { blocked: keys.blocked + 1, parked: keys.parked + 1 },
            Gate::Blocked => Keys { blocked: keys.blocked + 1, ..keys },
            Gate::Open | Gate::Closing | Gate::Reading => keys,
        })
    }

    /// What a delivered event leaves to be done.
    pub(super) fn ended(&mut self, settlement: Settlement, steps: &mut Vec<Step>) {
        let Settlement { event_id, lease, outcome, handlers, handlers_before } = settlement;
        let end = End::of(&outcome);
        let key = self.flights.change(lease.seq, |flight| {
            matches!(flight.stage, Stage::Runs).then(|| flight.stage = Stage::Ends(end))?;
            flight.key.clone()
        });
        let key = key.flatten();
        let outcome = match key {
            Some(_) => self.rules.order.judge(outcome),
            None => outcome,
        };
        let (id, judged) = (event_id.clone(), outcome.clone());
        let settlement = Settlement { event_id: id, lease, outcome: judged, handlers, handlers_before };
        steps.push(Step::Settle(settlement));
        let Some(key) = key.filter(|_| end != End::Back) else { return };
        let lane = self.lanes.entry(key.clone()).or_default();
        lane.running = None;
        match outcome {
            Outcome::Parked { .. } => {
                lane.leaving.insert(lease.seq);
                self.block(&key, Gate::Parked(event_id.into()), steps);
            }
            Outcome::Retry { .. } | Outcome::Aside { .. }
                if !self.rules.order.goes_on() && !mutant!(RetryLetsALaterEventPass) =>
            {
                lane.leaving.insert(lease.seq);
                self.block(&key, Gate::Blocked, steps);
            }
            _ if lane.gate == Gate::Blocked => lane.gate = Gate::Reading,
            _ => {}
        }
        self.advance(&key, steps);
    }

    /// Whether an event has ended by being given back.
    pub(super) fn is_given_back(&self, seq: i64) -> bool {
        self.flights.get(seq).is_some_and(|flight| matches!(flight.stage, Stage::Ends(End::Back)))
    }

    /// Lets go of an event whose outcome is recorded, or never will be.
    pub(super) fn recorded(&mut self, seq: i64, is_applied: bool, steps: &mut Vec<Step>) {
        let Some(Stage::Ends(end)) = self.flights.get(seq).map(|flight| &flight.stage) else {
            return;
        };
        let goes_back = *end == End::Back || !is_applied;
        let Some(flight) = self.flights.remove(seq) else { return };
        if goes_back && flight.origin == Origin::Fresh {
            self.let_go(seq);
        }
        let Some(key) = flight.key else { return };
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.leaving.remove(&seq);
        }
        if goes_back {
            self.recall(&key, seq, flight.origin);
        }
        self.advance(&key, steps);
    }

    /// Reads on in a key that an operator has freed.
    pub(super) fn free(&mut self, key: &Arc<str>, steps: &mut Vec<Step>) {
        if let Some(lane) = self.lanes.get_mut(key).filter(|lane| matches!(lane.gate, Gate::Parked(_)))
            && !self.stale.contains(key)
        {
            lane.gate = Gate::Reading;
            self.advance(key, steps);
        }
    }

    /// The suspect that is next, and its number.
    pub(super) fn next_suspect(&mut self) -> Option<(i64, Step)> {
        while let Some(seq) = self.suspects.pop_front() {
            let taken = self.flights.change(seq, |flight| {
                matches!(flight.stage, Stage::Suspect(_)).then(|| flight.take(Stage::Runs))?
            });
            if let Some(taken) = taken.flatten() {
                return Some((seq, Step::Run { taken: *taken, is_suspect: true }));
            }
        }
        None
    }

    /// Runs an event whose turn it is.
    fn start(&mut self, seq: i64, steps: &mut Vec<Step>) {
        let taken = self.flights.change(seq, |flight| flight.take(Stage::Runs));
        let Some(taken) = taken.flatten() else { return };
        if self.suspect_to.is_some_and(|suspect_to| seq <= suspect_to) {
            self.flights.change(seq, |flight| flight.stage = Stage::Suspect(taken));
            self.suspects.push_back(seq);
        } else {
            steps.push(Step::Run { taken: *taken, is_suspect: false });
        }
    }

    /// Runs the next event of a key if none runs, and sees to it that the key is read or forgotten when it is time.
    fn advance(&mut self, key: &Arc<str>, steps: &mut Vec<Step>) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if lane.running.is_none() {
            lane.running = lane.next();
            if let Some(seq) = lane.running {
                self.start(seq, steps);
            }
        }
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if lane.is_over() {
            self.lanes.remove(key);
        } else if !lane.is_listed && lane.wants_read(self.seen) {
            lane.is_listed = true;
            self.to_read.push_back(key.clone());
        }
    }

    /// Holds a key back. What is due of it runs nevertheless.
    fn block(&mut self, key: &Arc<str>, gate: Gate, steps: &mut Vec<Step>) {
        self.outdate(key);
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if !matches!(lane.gate, Gate::Parked(_)) {
            lane.gate = gate;
        }
        let followers = lane.take_followers();
        self.set_aside(key, followers, steps);
    }

    /// Sets events aside behind their key; those that are aside already are just forgotten.
    fn set_aside(&mut self, key: &Arc<str>, events: BTreeSet<i64>, steps: &mut Vec<Step>) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        for seq in events {
            let Some(flight) = self.flights.get(seq) else { continue };
            if flight.origin != Origin::Fresh {
                self.flights.remove(seq);
                continue;
            }
            let taken = self.flights.change(seq, |flight| flight.take(Stage::Ends(End::Aside)));
            if let Some(taken) = taken.flatten() {
                lane.leaving.insert(seq);
                let outcome = Outcome::Aside { until: None, reason: format!("key: {key}") };
                steps.push(Step::Settle(Settlement::of(&taken, outcome)));
            }
        }
    }

    /// Forgets what a key has in memory after one of its events went back to the table: all of it is read again, in
    /// order.
    fn recall(&mut self, key: &Arc<str>, returned: i64, origin: Origin) {
        self.outdate(key);
        let lane = self.lanes.entry(key.clone()).or_default();
        if lane.running == Some(returned) {
            lane.running = None;
        }
        let mut recalled = lane.take_followers();
        recalled.extend(lane.due.drain(..));
        let mut is_aside = origin == Origin::Aside;
        for seq in recalled {
            match self.flights.remove(seq).map(|flight| flight.origin) {
                Some(Origin::Fresh) => self.let_go(seq),
                Some(Origin::Aside) => is_aside = true,
                None => {}
            }
        }
        let Some(lane) = self.lanes.get_mut(key) else { return };
        match lane.gate {
            // It may have been opened behind what is aside again.
            Gate::Open | Gate::Closing if is_aside => lane.gate = Gate::Reading,
            // What it waits for may not have got there.
            Gate::Blocked => lane.gate = Gate::Reading,
            Gate::Open | Gate::Closing | Gate::Reading | Gate::Parked(_) => {}
        }
    }

    /// Notes that a fresh event is in the table and not in flight.
    fn let_go(&mut self, seq: i64) {
        if let Some(crowd) = &mut self.crowd {
            crowd.fall(seq - 1);
        }
        self.leave(seq);
    }

    /// Notes that a fresh event is left where it is, for its key has too many.
    fn leave(&mut self, seq: i64) {
        self.let_go = Some(self.let_go.map_or(seq, |lowest| lowest.min(seq)));
        self.seen = self.seen.min(seq - 1);
        self.passed = self.passed.min(seq - 1);
        self.horizon.fall(seq - 1);
    }

    /// What a read under way brings of this key must not be used.
    fn outdate(&mut self, key: &Arc<str>) {
        if self.reading.is_some() {
            self.stale.insert(key.clone());
        }
    }
}

impl Order {
    /// Whether the key goes on when one of its events fails.
    fn goes_on(self) -> bool {
        matches!(self, Self::None | Self::GoOn)
    }

    /// The outcome of an event with a key, as it is to be recorded.
    fn judge(self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Dead { error, spent } if self == Self::Park => Outcome::Parked { error, spent },
            outcome => outcome,
        }
    }
}
