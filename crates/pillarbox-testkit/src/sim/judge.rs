//! Holds deliveries and operators against the promises about partitions and keys.

use std::task::{Context, Poll, Waker};

use pillarbox::store::{Administration, Epoch, Floor, Ownership, Visit};
use pillarbox::{BoxFuture, Clock, PARTITIONS};

use super::options::Order;
use super::tenancy::{Passed, Running};
use super::world::World;
use crate::ledger::Cause;

/// The answer of the memory store, which never waits.
pub(super) fn at_once<T>(mut answer: BoxFuture<'_, T>) -> T {
    match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the memory store never waits"),
    }
}

impl World {
    /// What is promised about keys; nothing in a run without owners.
    pub(super) fn order(&self) -> Order {
        self.options.owned.map_or(Order::None, |owned| owned.order)
    }

    /// A delivery begins, to one of several sinks if it is named: only its partition's owner may, and it overtakes nobody.
    /// Returns its number, in a run with owners.
    pub(super) fn delivery_begins(&self, process: u32, id: &str, sink: Option<&'static str>) -> Option<u64> {
        self.options.owned?;
        let number = self.next_delivery();
        let partition = self.model().partition_of(id)?;
        let is_owner = self.tenancy().is_owner(process, partition, self.clock.wall());
        if !is_owner {
            self.cover("deliveries by former owners", 1);
            if !self.clock.has_jumped() && self.failovers.has_heard(process) {
                self.violation(format!("{process} delivers {id}, but does not own partition {partition}"));
            }
        }
        let key = self.ledger.key_of(id);
        self.check_order(id, key.as_deref());
        // What a former owner begins was read under an epoch that is over.
        let is_owner = is_owner && self.failovers.has_heard(process);
        let epoch = if is_owner { self.tenancy().epoch_of(partition) } else { Epoch(-1) };
        let begun = Running { process, id: id.to_owned(), sink, key, partition, epoch };
        let beside = self.tenancy().begun(number, begun);
        if let Some(beside) = beside.filter(|_| self.order() != Order::None && self.is_order_promised()) {
            self.violation(format!("{id} is delivered beside {} of its key", beside.id));
        }
        Some(number)
    }

    /// A jump of the database's clock can end leases early and make events look delayed, and after a failover owners go
    /// on with what they have read, so nothing is promised then.
    fn is_order_promised(&self) -> bool {
        !self.clock.has_jumped() && self.failovers.are_over(self.clock.now())
    }

    /// Those that are ahead of an event when one of its handlers or sinks begins, be it not the first.
    fn ahead_of(&self, id: &str) -> Vec<String> {
        if self.options.are_receivers_tracked() { self.ledger.ahead_of(id) } else { Vec::new() }
    }

    fn check_order(&self, id: &str, key: Option<&str>) {
        let is_first = !self.ledger.has_begun(id);
        let overtaken = if is_first { self.ledger.begun(id) } else { self.ahead_of(id) };
        let Some(key) = key.filter(|_| self.order().is_kept()) else { return };
        let is_promised = self.is_order_promised();
        if !overtaken.is_empty() && is_promised {
            self.violation(format!("{id} overtakes {overtaken:?} of {key}"));
        }
        if !is_first {
            return;
        }
        let parked_for = self.parked().get(key).cloned();
        let is_free = self.ledger.stands_apart(id) || self.ledger.is_first_of_key(id);
        let is_held = parked_for.is_some_and(|dead| dead != id) && !is_free;
        if is_held && is_promised {
            self.violation(format!("{id} is delivered though {key} is parked"));
        }
        let is_resumed = self.resumed_keys().remove(key);
        self.cover("parked keys resumed", u64::from(is_resumed));
    }

    /// A delivery took effect. If its partition has passed to another, that one delivers it too.
    pub(super) fn delivery_takes_effect(&self, number: u64, id: &str) {
        let has_passed = self.tenancy().took_effect(number);
        if has_passed {
            self.cover("effects after the lease had expired", 1);
            self.ledger.explain(id, Cause::LeaseExpired);
        }
    }

    /// Partitions have passed to another without having been given back.
    pub(super) fn passed(&self, passed: &[Passed]) {
        self.cover("partitions taken over", passed.len() as u64);
        for Passed { partition, from } in passed {
            let running = self.tenancy().running_in(*from, *partition);
            self.cover("leases expired while a listener ran", running as u64);
        }
        if passed.is_empty() {
            return;
        }
        let mut is_passed = [false; PARTITIONS];
        passed.iter().for_each(|passed| is_passed[usize::from(passed.partition)] = true);
        let unrecorded: Vec<String> = self.tenancy().unrecorded().map(|(id, _)| id.to_owned()).collect();
        for id in unrecorded {
            if self.model().partition_of(&id).is_some_and(|partition| is_passed[usize::from(partition)]) {
                self.ledger.explain(&id, Cause::LeaseExpired);
            }
        }
    }

    /// Nothing fresh may lie below a floor, unless the events were restored alone.
    pub(super) fn check_floors(&self, risen: &[Floor]) {
        if self.failovers.were_events_restored() {
            return;
        }
        let visit = |floor: &Floor| Visit {
            partition: floor.partition,
            epoch: floor.epoch,
            floor: floor.floor,
            in_flight: Vec::new(),
        };
        let visits: Vec<Visit> = risen.iter().map(visit).collect();
        for fetched in at_once(self.db.below(&visits, 1)).into_iter().flatten() {
            self.violation(format!("{} is fresh below the floor", fetched.taken.event_id));
        }
    }

    /// Looks which transactions have been committed; nothing may appear below a floor.
    pub(super) fn note_commits(&self) {
        if self.options.owned.is_none() {
            return;
        }
        let (before, mut highest) = (self.highest_commit(), self.highest_commit());
        for id in self.ledger.open() {
            let Some(row) = at_once(self.db.find(&id)).ok().flatten() else { continue };
            self.ledger.committed(&id);
            self.note_number(row.seq, &id);
            self.cover("late commits", u64::from(row.seq < before));
            highest = highest.max(row.seq);
            let Ok(event) = row.event else { continue };
            let floor = self.tenancy().floor_of(event.partition());
            if row.seq <= floor && !self.failovers.were_events_restored() {
                self.violation(format!("{id} was committed as {} below the floor {floor}", row.seq));
            }
        }
        self.note_highest_commit(highest);
    }
}
