//! Order by key: what of the owned partitions runs now, waits in memory, or is set aside.
//!
//! Everything here is a decision and nothing is done: no database, no clock, no task. Whoever owns the partitions tells
//! what was read, how deliveries ended and what was recorded, and does the [`Step`]s that come back, in their order.

mod flight;
mod lane;
mod owned;
mod read;
mod share;

#[cfg(test)]
mod history;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use self::read::Read;

use self::owned::Owned;
use self::read::Kind;
use self::share::Share;
use crate::PARTITIONS;
use crate::metrics::Keys;
use crate::mutant::mutant;
use crate::store::{Blocked, Fetched, Floor, Holding, Lease, Numbers, Settlement, Taken, Token};

/// What is next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Deliver this event, and tell how it [ended](Lanes::ended).
    Run {
        /// The event.
        taken: Taken,
        /// Whether it may be to blame for crashes: its start is to be counted first, and no other suspect runs until
        /// its outcome is recorded.
        is_suspect: bool,
    },
    /// Record this outcome, and tell when it is [recorded](Lanes::recorded).
    Settle(Settlement),
}

/// What a failed event means for those that follow it in its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Keys have no order. What an ordered owner has left aside is still read in order, and a parked key stays parked.
    None,
    /// Events of a key run one after the other, and those that follow a failed one do not wait for it.
    GoOn,
    /// They wait until it is done or dead.
    Release,
    /// They wait until it is done; if it is dead, the key is parked until an operator frees it.
    Park,
}

/// How much is held in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most events, from when they are read until they have an outcome; at least 1. A key that must be read on
    /// before others can run that are in memory brings one more.
    pub(crate) events: usize,
    /// How many more there may be together with those whose outcomes are being recorded: of these a number is left.
    pub(crate) unrecorded: usize,
    /// The most that wait in one key, and are read of it at once, at least 1. While more come, nothing else of their
    /// partition is read before half of them have run, or others are found to [wait behind them](Lanes::behind).
    pub(crate) of_key: usize,
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    order: Order,
    limits: Limits,
}

/// Keeps the order of keys in the partitions that this instance owns.
///
/// # What it promises
/// - Of one key at most one event runs, and different keys do not wait for each other. Events without a key wait for
///   nothing.
/// - Events of a key run for the first time in the order of their numbers, as far as they were there to be read; only
///   those that come [when they are due](Lanes::due) run next as they come: retries, delayed and replayed ones.
/// - A key that must wait has nothing in memory and does not hold the floor once that is recorded.
/// - The [floor](Lanes::floor) never passes a fresh event whose outcome is not recorded.
///
/// # What it needs
/// - Every [`Step`] is done, and every event that runs [ends](Lanes::ended) once; that what it led to is recorded, or
///   never will be, is told as well.
/// - The events of a [`Read`] are read after it began, and in the order of their numbers where the contract of
///   [`Ownership`](crate::store::Ownership) says so.
///
/// It remembers every key that is blocked or parked, whatever the limits are: some hundred bytes for each.
#[derive(Debug)]
pub(crate) struct Lanes {
    rules: Rules,
    share: Share,
    /// The suspect that runs, or whose outcome is not recorded.
    suspect: Option<(Token, i64)>,
    /// How many reads there were.
    reads: u64,
    /// What those under way may bring.
    promised: BTreeMap<u64, usize>,
    /// How many events more can be delivered now.
    admitted: usize,
}

impl Lanes {
    /// Lanes without a partition.
    pub(crate) fn new(order: Order, limits: Limits) -> Self {
        let limits = Limits { events: limits.events.max(1), of_key: limits.of_key.max(1), ..limits };
        let rules = Rules { order, limits };
        Self {
            rules,
            share: Share::default(),
            suspect: None,
            reads: 0,
            promised: BTreeMap::new(),
            admitted: usize::MAX,
        }
    }

    /// From now on no more events are read than this, which is how many can be delivered beside those in memory.
    pub(crate) fn admit(&mut self, events: usize) {
        self.admitted = events;
    }

    /// Begins with a partition. `blocked` was read after it was acquired; what is in it of other partitions is ignored.
    ///
    /// One that is here already is [forgotten](Self::lose) and begun anew.
    pub(crate) fn take_over(&mut self, holding: &Holding, blocked: &[Blocked]) {
        self.lose(holding.partition);
        let blocked = blocked.iter().filter(|blocked| blocked.partition == holding.partition);
        self.share.insert(holding.partition, Owned::new(self.rules, holding, blocked));
    }

    /// The store has absolved a partition: none of its events is a suspect any more.
    pub(crate) fn absolve(&mut self, partition: u8) {
        self.share.change(partition, Owned::absolve);
    }

    /// Lets nothing more of a partition begin. What waits is forgotten; what runs ends as usual.
    pub(crate) fn drain(&mut self, partition: u8) {
        self.share.change(partition, Owned::drain);
    }

    /// Whether nothing of a partition is in flight, so that it can be given back when it is drained.
    pub(crate) fn is_empty(&self, partition: u8) -> bool {
        self.share.get(partition).is_none_or(|owned| owned.in_flight() == 0)
    }

    /// What of a partition has begun and is not recorded, by token and number.
    pub(crate) fn begun(&self, partition: u8) -> impl Iterator<Item = (Token, i64)> {
        self.share.get(partition).into_iter().flat_map(Owned::begun)
    }

    /// Forgets a partition that belongs to another, or was given back. What of it is still running can end, and its
    /// outcome is for the store to refuse.
    pub(crate) fn lose(&mut self, partition: u8) {
        self.share.remove(partition);
        self.suspect =
            self.suspect.filter(|(token, _)| token.partition().is_some_and(|(of, _)| of != partition));
    }

    /// Whether a key of this partition has more events than there is room for, so that others may wait behind it.
    pub(crate) fn is_crowded(&self, partition: u8) -> bool {
        self.share.get(partition).is_some_and(Owned::is_crowded)
    }

    /// Whether there is room for fresh events of this partition, as far as its crowd has to do with it.
    pub(crate) fn has_room(&self, partition: u8) -> bool {
        self.share.get(partition).is_some_and(|owned| owned.room() > 0)
    }

    /// Whether fresh events of this partition can be read now, apart from the room that all have together.
    pub(crate) fn can_be_read(&self, partition: u8) -> bool {
        self.share.get(partition).is_some_and(|owned| owned.is_readable() && owned.room() > 0)
    }

    /// Whether a [look](Self::behind) at a crowded partition has begun and has not come to its end.
    pub(crate) fn is_looking(&self, partition: u8) -> bool {
        self.share.get(partition).is_some_and(Owned::is_looking)
    }

    /// Whether the last read of a partition went on from the one before, so that it has to be read from its floor again.
    pub(crate) fn reads_on(&self, partition: u8) -> bool {
        self.share.get(partition).is_some_and(Owned::reads_on)
    }

    /// Lets every partition be read from its floor again, whatever has a number already.
    pub(crate) fn look_back(&mut self) {
        self.share.look_back();
    }

    /// How far a partition has come, for the next heartbeat.
    pub(crate) fn floor(&self, partition: u8) -> Option<Floor> {
        self.share.get(partition).map(|owned| Floor { partition, epoch: owned.epoch, floor: owned.floor })
    }

    /// How many keys are held back, in all partitions; it goes through all lanes.
    pub(crate) fn held_back(&self) -> Keys {
        self.share.all().map(Owned::held_back).sum()
    }

    /// How many events may still be read, besides those of reads that are under way.
    pub(crate) fn room(&self) -> usize {
        let promised: usize = self.promised.values().sum();
        let Limits { events, unrecorded, .. } = self.rules.limits;
        let in_all = self.share.in_flight() + promised;
        let without_outcome = in_all - self.share.ending();
        let in_memory =
            events.saturating_sub(without_outcome).min((events + unrecorded).saturating_sub(in_all));
        in_memory.min(self.admitted.saturating_sub(promised))
    }

    /// Begins to [fetch](crate::store::Ownership::fetch) fresh events, where `numbers` are those that are known now. The
    /// room is divided among the partitions; if it does not suffice, those at the end are left out.
    ///
    /// `None` if none of the partitions can be read now: there is no room, they are drained or being read.
    pub(crate) fn fresh(&mut self, partitions: &[u8], numbers: Numbers) -> Option<Read> {
        self.read_each(partitions, Kind::Fresh { numbers })
    }

    /// Begins to look, or looks on, whether others wait behind the key that has too many events; what is read is
    /// [fetched](crate::store::Ownership::fetch), as much as there is room for. If others are found, what is too much of
    /// the key, and all that follows in it, is set aside by the next read of fresh events, and the partition is not
    /// crowded any more. If not, another stretch is to be read while it [is looked](Self::is_looking).
    ///
    /// `None` if the partition is not crowded, or cannot be read now.
    pub(crate) fn behind(&mut self, partition: u8, numbers: Numbers) -> Option<Read> {
        let room = if self.is_crowded(partition) { self.room() } else { 0 };
        let partitions = self.readable(&[partition], room);
        self.read(&partitions, Kind::Behind { numbers }, room, room)
    }

    /// Begins to look for fresh events [below](crate::store::Ownership::below) the floors; as [`fresh`](Self::fresh).
    pub(crate) fn below(&mut self, partitions: &[u8]) -> Option<Read> {
        self.read_each(partitions, Kind::Below)
    }

    /// Begins to read what is aside and [due](crate::store::Ownership::due), as much as there is room for in all.
    pub(crate) fn due(&mut self, partitions: &[u8]) -> Option<Read> {
        let room = self.room();
        let partitions = self.readable(partitions, if room == 0 { 0 } else { usize::MAX });
        self.read(&partitions, Kind::Due, room, room)
    }

    /// Begins to read what is [aside of a key](crate::store::Ownership::aside_of) whose turn it is; `None` if no key is
    /// to be read now.
    pub(crate) fn key(&mut self) -> Option<Read> {
        let room = self.room();
        let (partition, kind) = self.share.find_key(|owned| owned.next_key(room > 0))?;
        let limit = room.clamp(1, self.rules.limits.of_key);
        self.read(&[partition], kind, limit, limit)
    }

    /// Begins to look which keys are [parked](crate::store::Ownership::blocked), to be answered by
    /// [`answer_blocked`](Self::answer_blocked); `None` if none was.
    pub(crate) fn parked(&mut self, partitions: &[u8]) -> Option<Read> {
        let mut partitions = self.readable(partitions, usize::MAX);
        let parked = |partition: u8| self.share.get(partition).into_iter().flat_map(Owned::parked);
        partitions.retain(|partition| parked(*partition).next().is_some());
        let of = |&partition: &u8| parked(partition).map(move |key| (partition, key));
        let keys = partitions.iter().flat_map(of).collect();
        self.read(&partitions, Kind::Parked { keys }, usize::MAX, 0)
    }

    /// Takes in what a read has brought.
    pub(crate) fn answer(&mut self, read: Read, events: Vec<Fetched>) -> Vec<Step> {
        let mut steps = Vec::new();
        self.promised.remove(&read.number);
        let mut brought: BTreeMap<Token, Vec<Fetched>> = BTreeMap::new();
        for fetched in events {
            brought.entry(fetched.taken.lease.token).or_default().push(fetched);
        }
        for visit in &read.visits {
            let events =
                brought.remove(&Token::of_partition(visit.partition, visit.epoch)).unwrap_or_default();
            self.reading(visit.partition, &read, |owned| {
                owned.answer(&read.kind, events, read.limit, &mut steps);
            });
        }
        self.run_suspect(steps)
    }

    /// Takes in which keys are blocked: those that were parked when the read began, and are not in `blocked` as such,
    /// go on.
    pub(crate) fn answer_blocked(&mut self, read: Read, blocked: &[Blocked]) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Kind::Parked { keys } = &read.kind {
            for (partition, key) in keys {
                let is_parked = |blocked: &Blocked| {
                    blocked.partition == *partition && *blocked.key == **key && blocked.parked_for.is_some()
                };
                if !blocked.iter().any(is_parked) {
                    self.reading(*partition, &read, |owned| owned.free(key, &mut steps));
                }
            }
        }
        steps.extend(self.fail(read));
        steps
    }

    /// A read has brought nothing, for whatever reason.
    pub(crate) fn fail(&mut self, read: Read) -> Vec<Step> {
        let mut steps = Vec::new();
        self.promised.remove(&read.number);
        for visit in &read.visits {
            self.reading(visit.partition, &read, |owned| owned.fail(&read.kind, &mut steps));
        }
        self.run_suspect(steps)
    }

    /// A delivery has ended. The first step records the outcome, which is another than was given where a dead event
    /// parks its key.
    pub(crate) fn ended(&mut self, settlement: Settlement) -> Vec<Step> {
        let mut steps = Vec::new();
        match self.owner_of(settlement.lease) {
            Some(partition) => {
                self.share.change(partition, |owned| owned.ended(settlement, &mut steps));
            }
            None => steps.push(Step::Settle(settlement)),
        }
        self.run_suspect(steps)
    }

    /// The partition of an event that has ended by being given back, until that is [recorded](Self::recorded).
    pub(crate) fn given_back(&self, lease: Lease) -> Option<u8> {
        let partition = self.owner_of(lease)?;
        self.share.get(partition).filter(|owned| owned.is_given_back(lease.seq)).map(|_| partition)
    }

    /// An outcome is recorded; or it never will be (`is_applied` is false), because the lease was lost or the attempt
    /// was given up, and the event is in the table as it was.
    pub(crate) fn recorded(&mut self, lease: Lease, is_applied: bool) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(partition) = self.owner_of(lease) {
            self.share.change(partition, |owned| owned.recorded(lease.seq, is_applied, &mut steps));
        }
        if self.suspect == Some((lease.token, lease.seq)) {
            self.suspect = None;
        }
        self.run_suspect(steps)
    }

    /// Those of `partitions` that can be read now, at most `most`.
    fn readable(&self, partitions: &[u8], most: usize) -> Vec<u8> {
        let is_readable = |partition: &u8| self.share.get(*partition).is_some_and(Owned::is_readable);
        let mut is_chosen = [false; PARTITIONS];
        let is_new = |partition: &u8| !std::mem::replace(&mut is_chosen[usize::from(*partition)], true);
        partitions.iter().copied().filter(is_readable).filter(is_new).take(most).collect()
    }

    fn read_each(&mut self, partitions: &[u8], kind: Kind) -> Option<Read> {
        let room = self.room();
        let room_in = |partition: u8| self.share.get(partition).map_or(0, Owned::room);
        let partitions: Vec<u8> =
            partitions.iter().copied().filter(|partition| room_in(*partition) > 0).collect();
        let partitions = self.readable(&partitions, room);
        let least = partitions.iter().map(|partition| room_in(*partition)).min().unwrap_or_default();
        let limit = (room / partitions.len().max(1)).min(least);
        self.read(&partitions, kind, limit, limit * partitions.len())
    }

    /// Begins a read that may bring as many events as are promised.
    fn read(&mut self, partitions: &[u8], kind: Kind, limit: usize, promised: usize) -> Option<Read> {
        if partitions.is_empty() {
            return None;
        }
        self.reads += 1;
        let number = self.reads;
        let mut visits = Vec::with_capacity(partitions.len());
        for partition in partitions {
            visits.extend(self.share.change(*partition, |owned| owned.visit(&kind, number)));
        }
        self.promised.insert(number, promised);
        Some(Read { number, kind, visits, limit })
    }

    /// Does something with a partition, if this read of it is still under way.
    fn reading(&mut self, partition: u8, read: &Read, act: impl FnOnce(&mut Owned)) {
        let is_reading = |owned: &Owned| owned.reading == Some(read.number);
        if self.share.get(partition).is_some_and(is_reading) {
            self.share.change(partition, act);
        }
    }

    /// The partition that a lease is from, if it is held under the same epoch.
    fn owner_of(&self, lease: Lease) -> Option<u8> {
        let (partition, epoch) = lease.token.partition()?;
        self.share.get(partition).filter(|owned| owned.epoch == epoch).map(|_| partition)
    }

    /// Adds the next suspect if none runs: in all partitions together they run one by one.
    fn run_suspect(&mut self, mut steps: Vec<Step>) -> Vec<Step> {
        if (self.suspect.is_none() || mutant!(PoisonTakesNeighboursAlong))
            && let Some((seq, step)) = self.share.find_suspect(Owned::next_suspect)
        {
            if let Step::Run { taken, .. } = &step {
                self.suspect = Some((taken.lease.token, seq));
            }
            steps.push(step);
        }
        steps
    }
}
