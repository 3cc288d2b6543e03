//! What the table must look like, kept beside the store by much simpler rules.

use std::collections::BTreeMap;

use pillarbox::store::{
    Birth, Epoch, Fetched, LONGEST_LEASE, Lease, Outcome, Owner, Settlement, Take, Taken, Token,
};
use pillarbox::{Event, Schedule, Timestamp};

use super::Options;
use super::application::Kind;

/// The rows by event id.
#[derive(Clone, Default)]
pub(super) struct Model {
    rows: BTreeMap<String, Row>,
    /// The partition of every event that was ever written.
    partitions: BTreeMap<String, u8>,
    ids: BTreeMap<i64, String>,
    /// Events that were delivered and are not recorded as done, and by which process.
    unrecorded: BTreeMap<String, u32>,
}

#[derive(Clone)]
struct Row {
    lease: Option<Held>,
    /// When it is due, and when it can be taken unless it is leased.
    due: Timestamp,
    available: Timestamp,
    attempts: u32,
    starts: u32,
    is_settled: bool,
    partition: u8,
    /// What is stored of its handlers.
    handlers: Option<String>,
    /// Why it was set aside last.
    reason: Option<String>,
}

#[derive(Clone)]
struct Held {
    owner: Owner,
    token: Token,
    end: Timestamp,
    process: u32,
}

/// What a settlement did, by the model.
pub(super) enum Settled {
    Applied(String),
    Stale,
}

impl Model {
    pub(super) fn inserted(&mut self, process: u32, event: &Event, birth: Option<&Birth>, now: Timestamp) {
        let due = match event.schedule() {
            Schedule::Now => now,
            Schedule::After(delay) => now.saturating_add(delay),
            Schedule::At(at) => at,
        };
        let birth = birth.filter(|_| event.schedule() == Schedule::Now);
        let lease = birth.map(|birth| Held {
            owner: birth.owner.clone(),
            token: birth.token.of_event(event.id()),
            end: now.saturating_add(birth.lease_for),
            process,
        });
        let starts = u32::from(lease.is_some());
        let partition = event.partition();
        let (attempts, is_settled, handlers, reason) = (0, false, None, None);
        let row =
            Row { lease, due, available: due, attempts, starts, is_settled, partition, handlers, reason };
        self.partitions.insert(event.id().to_owned(), partition);
        self.rows.insert(event.id().to_owned(), row);
    }

    /// Notes a take; says whether the lease before it had expired, or what is wrong.
    pub(super) fn taken(
        &mut self,
        process: u32,
        take: &Take,
        taken: &Taken,
        now: Timestamp,
    ) -> Result<bool, String> {
        let (id, lease) = (&taken.event_id, taken.lease);
        self.ids.insert(lease.seq, id.clone());
        let Some(row) = self.rows.get_mut(id) else {
            return Err(format!("{id} was taken, but never inserted"));
        };
        let fault = row.fault_in_take(lease, now);
        let expired = row.lease.is_some();
        row.starts = lease.starts + 1;
        row.attempts = lease.attempts;
        let end = now.saturating_add(take.lease_for);
        row.lease = Some(Held { owner: take.owner.clone(), token: take.token, end, process });
        fault.map_or(Ok(expired), |fault| Err(format!("{id} {fault}")))
    }

    /// Notes that the owner of a partition has read an event; says what is wrong with it, if something is.
    pub(super) fn read(&mut self, fetched: &Fetched, is_due: bool, now: Timestamp) -> Option<String> {
        let (id, lease) = (&fetched.taken.event_id, fetched.taken.lease);
        self.ids.insert(lease.seq, id.clone());
        let Some(row) = self.rows.get(id) else { return Some(format!("{id} was read, but never inserted")) };
        let (read, right) = ((lease.attempts, lease.starts), (row.attempts, row.starts));
        if row.is_settled {
            Some(format!("{id} was read after it was settled"))
        } else if is_due && row.available > now {
            Some(format!("{id} was read {:?} before its time", row.available.saturating_since(now)))
        } else {
            (read != right).then(|| format!("{id} has attempts and starts {read:?}, not {right:?}"))
        }
    }

    /// Notes that a start was counted.
    pub(super) fn started(&mut self, taken: &Taken) {
        if let Some(row) = self.rows.get_mut(&taken.event_id) {
            row.starts = taken.lease.starts + 1;
        }
    }

    /// Goes back to an earlier state; what was not settled in it is there only if it is in the table.
    pub(super) fn fail_over(&mut self, earlier: Self, is_there: impl Fn(&str) -> bool) {
        self.rows = earlier.rows;
        self.rows.retain(|id, row| row.is_settled || is_there(id));
    }

    /// The partition that an event was written to.
    pub(super) fn partition_of(&self, event_id: &str) -> Option<u8> {
        self.partitions.get(event_id).copied()
    }

    /// Events that are neither done nor dead; some of them may have been rolled back.
    pub(super) fn unsettled(&self) -> Vec<String> {
        self.rows.iter().filter(|(_, row)| !row.is_settled).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn found(&mut self, seq: i64, event_id: &str) {
        self.ids.insert(seq, event_id.to_owned());
    }

    /// Notes an outcome; `lost` is what the store said about it, if it said it of this outcome alone.
    ///
    /// `epoch_of` is the epoch that a partition has now.
    pub(super) fn settled(
        &mut self,
        settlement: &Settlement,
        lost: Option<bool>,
        now: Timestamp,
        epoch_of: impl Fn(u8) -> Epoch,
    ) -> Result<Settled, String> {
        let Settlement { event_id: id, lease, outcome, .. } = settlement;
        let Some(row) = self.rows.get_mut(id) else {
            return if lost != Some(false) {
                Ok(Settled::Stale)
            } else {
                Err(format!("{id} is not in the table, but {outcome:?} was recorded for {}", lease.seq))
            };
        };
        // DONE is true whoever has counted since.
        let is_counted = outcome.spends() && !outcome.is_done() && row.attempts != lease.attempts;
        let is_held = match lease.token.partition() {
            None => row.lease.as_ref().is_some_and(|held| held.token == lease.token),
            Some((partition, epoch)) => row.partition == partition && epoch_of(partition) == epoch,
        };
        let holds = !row.is_settled && is_held && !is_counted && !row.is_revised(settlement);
        match (holds, lost.unwrap_or(!holds)) {
            (false, true) => return Ok(Settled::Stale),
            (true, true) => return Err(format!("{id}: {outcome:?} was refused under a valid lease")),
            (false, false) => return Err(format!("{id}: {outcome:?} was recorded without the lease")),
            (true, false) => {}
        }
        row.settle(*lease, outcome, now);
        if settlement.handlers.is_some() {
            row.handlers.clone_from(&settlement.handlers);
        }
        if outcome.is_done() {
            self.unrecorded.remove(id);
        }
        Ok(Settled::Applied(id.clone()))
    }

    pub(super) fn renewed(&mut self, leases: &[Lease], lost: &[i64], end: Timestamp) {
        for lease in leases.iter().filter(|lease| !lost.contains(&lease.seq)) {
            let row = self.ids.get(&lease.seq).and_then(|id| self.rows.get_mut(id));
            if let Some(held) = row.and_then(|row| row.lease.as_mut()) {
                held.end = end;
            }
        }
    }

    /// Ends the leases of earlier incarnations, and returns whose.
    pub(super) fn resumed(&mut self, owner: &Owner) -> u64 {
        let mut count = 0;
        for row in self.rows.values_mut() {
            let is_earlier = |held: &Held| held.owner.name() == owner.name() && held.owner != *owner;
            if row.lease.as_ref().is_some_and(is_earlier) {
                row.lease = None;
                row.available = row.due;
                count += 1;
            }
        }
        count
    }

    /// Lets what was set aside with this reason be taken when it is due, and returns how much.
    pub(super) fn recalled(&mut self, reason: &str, now: Timestamp) -> u64 {
        let mut count = 0;
        for row in self.rows.values_mut() {
            let waits = !row.is_settled && row.lease.is_none() && row.available > now;
            if waits && row.reason.as_deref() == Some(reason) {
                row.available = row.due;
                row.reason = None;
                count += 1;
            }
        }
        count
    }

    pub(super) fn replayed(&mut self, event_id: &str, now: Timestamp) {
        if let Some(row) = self.rows.get_mut(event_id) {
            (row.due, row.available) = (now, now);
            (row.attempts, row.starts) = (0, 0);
            (row.lease, row.is_settled, row.reason) = (None, false, None);
        }
    }

    pub(super) fn delivered(&mut self, event_id: &str, process: u32) {
        self.unrecorded.insert(event_id.to_owned(), process);
    }

    /// The events that `process` delivered and did not record.
    pub(super) fn unrecorded_by(&self, process: u32) -> Vec<String> {
        let theirs = self.unrecorded.iter().filter(|&(_, &by)| by == process);
        theirs.map(|(id, _)| id.clone()).collect()
    }

    /// The events that `process` holds a lease of.
    pub(super) fn held_by(&self, process: u32) -> Vec<String> {
        let theirs = self
            .rows
            .iter()
            .filter(|(_, row)| row.lease.as_ref().is_some_and(|held| held.process == process));
        theirs.map(|(id, _)| id.clone()).collect()
    }

    /// Whether `process` holds the lease of an event.
    pub(super) fn is_held_by(&self, event_id: &str, process: u32) -> bool {
        let held = self.rows.get(event_id).and_then(|row| row.lease.as_ref());
        held.is_some_and(|held| held.process == process)
    }

    /// The event that has a number.
    pub(super) fn id_of(&self, seq: i64) -> Option<String> {
        self.ids.get(&seq).cloned()
    }

    /// Attempts and starts of an event, as they must stand in the table.
    pub(super) fn counts(&self, event_id: &str) -> Option<(u32, u32)> {
        self.rows.get(event_id).map(|row| (row.attempts, row.starts))
    }
}

impl Row {
    fn fault_in_take(&self, lease: Lease, now: Timestamp) -> Option<String> {
        let longest = now.saturating_add(LONGEST_LEASE);
        let clock_went_back = self.lease.as_ref().is_some_and(|held| held.end > longest);
        let early = |until: Timestamp| until > now && !clock_went_back;
        if self.is_settled {
            return Some("was taken after it was settled".to_owned());
        }
        if let Some(held) = self.lease.as_ref().filter(|held| early(held.end)) {
            return Some(format!("was taken {:?} before its lease ended", held.end.saturating_since(now)));
        }
        if early(self.available) && self.lease.is_none() {
            return Some(format!("was taken {:?} before its time", self.available.saturating_since(now)));
        }
        let (taken, right) = ((lease.attempts, lease.starts), (self.attempts, self.starts));
        (taken != right).then(|| format!("has attempts and starts {taken:?}, not {right:?}"))
    }

    /// Whether what is stored of handlers is neither what the owner of the partition has read, nor what it records: a
    /// failover has taken that back.
    fn is_revised(&self, Settlement { lease, handlers, handlers_before, .. }: &Settlement) -> bool {
        let is_known = self.handlers == *handlers_before || self.handlers == *handlers;
        lease.token.partition().is_some() && handlers.is_some() && !is_known
    }

    fn settle(&mut self, lease: Lease, outcome: &Outcome, now: Timestamp) {
        self.lease = None;
        if outcome.spends() && self.attempts == lease.attempts {
            self.attempts = lease.attempts + 1;
        }
        if !outcome.is_done() {
            self.starts = lease.starts;
        }
        match outcome {
            Outcome::Done | Outcome::FellBack { .. } | Outcome::Dead { .. } | Outcome::Parked { .. } => {
                self.is_settled = true;
            }
            Outcome::Retry { after, .. } => {
                self.due = now.saturating_add(*after);
                self.available = self.due;
                self.reason = None;
            }
            Outcome::Aside { until, reason } => {
                self.available = now.saturating_add(until.unwrap_or_default());
                self.reason = Some(reason.clone());
            }
            Outcome::Released if lease.token.partition().is_some() => {}
            Outcome::Released => self.available = self.due,
        }
    }
}

/// Why an event of this kind must not be dead, if so.
pub(super) fn fault_in_death(kind: Kind, lease: Lease, spent: bool, options: &Options) -> Option<String> {
    let by_attempts = kind == Kind::Broken && lease.attempts + 1 == options.max_attempts;
    let is_fair = match (kind, spent) {
        (Kind::Refused, true) => true,
        (_, true) => by_attempts,
        (Kind::Stray, false) => true,
        // Where nothing but poison kills, it must not take its neighbours along.
        (kind, false) => {
            lease.starts >= options.max_starts && (kind == Kind::Poison || !options.only_poison_kills())
        }
    };
    (!is_fair).then(|| format!("is dead after {} attempts and {} starts", lease.attempts, lease.starts))
}
