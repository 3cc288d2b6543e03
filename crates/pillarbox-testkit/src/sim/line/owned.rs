//! What is seen on a line where partitions are owned.

use std::sync::atomic::Ordering;

use pillarbox::Clock;
use pillarbox::store::{Fetched, Floor, Holding, Instance, Owner, Pulse, Taken, Visit};

use super::SimLine;
use crate::faulty::{Call, Effect};
use crate::sim::options::Order;

impl SimLine {
    /// Holds an effect on the ownership of partitions, or a read from them, against what is known.
    pub(super) fn owned(&self, effect: &Effect<'_>) {
        match effect {
            Effect::Committed => self.world.note_commits(),
            Effect::Joined(instance, held) => self.given(instance, held, true),
            Effect::Acquired(instance, held) => self.given(instance, held, false),
            Effect::Beaten(instance, floors, pulse) => self.beaten(instance, floors, pulse),
            Effect::GivenBack(owner, floors) => self.given_back(owner, floors),
            Effect::Read(call, visits, events) => self.read(*call, visits, events),
            Effect::Started(taken, true) => self.started(taken),
            _ => {}
        }
    }

    fn given(&self, instance: &Instance, given: &[Holding], inherits: bool) {
        let (world, process) = (&self.world, self.process);
        let how = if inherits { "joins and inherits" } else { "acquires" };
        world.note(format_args!("{process} {how} {}", given.len()));
        world.note_reset_floors(given);
        world.note_epochs(given);
        let noted = world.tenancy().given(process, instance, given, inherits, world.clock.wall());
        match noted {
            Ok(passed) => {
                world.cover("partitions inherited", if inherits { passed.len() as u64 } else { 0 });
                world.cover(
                    "partitions with suspects",
                    given.iter().filter(|held| held.crashes >= 2).count() as u64,
                );
                world.passed(&passed);
            }
            Err(fault) => world.violation(fault),
        }
    }

    fn beaten(&self, instance: &Instance, floors: &[Floor], pulse: &Pulse) {
        let (world, process) = (&self.world, self.process);
        world.note(format_args!(
            "{process} beats: {} members, {} held",
            pulse.members.len(),
            pulse.held.len()
        ));
        world.cover("replaced by a namesake", u64::from(pulse.is_replaced));
        let noted = world.tenancy().beaten(process, instance, floors, pulse, world.clock.wall());
        match noted {
            Ok(risen) => world.check_floors(&risen),
            Err(fault) => world.violation(fault),
        }
    }

    fn given_back(&self, owner: &Owner, floors: &[Floor]) {
        let (world, process) = (&self.world, self.process);
        world.note(format_args!("{process} gives {} back", floors.len()));
        let may_run = !world.failovers.are_over(world.clock.now());
        let noted = world.tenancy().given_back(process, owner, floors, may_run);
        match noted {
            Ok((risen, in_flight)) => {
                world.cover("partitions given back", floors.len() as u64);
                world.cover("hand-overs with work in flight", in_flight);
                world.check_floors(&risen);
            }
            Err(fault) => world.violation(fault),
        }
    }

    fn read(&self, call: Call, visits: &[Visit], events: &[Fetched]) {
        let (world, now) = (&self.world, self.world.clock.wall());
        let is_former = |visit: &&Visit| world.tenancy().epoch_of(visit.partition) > visit.epoch;
        world.cover(
            "reads by one of two who both believe they own",
            visits.iter().filter(is_former).count() as u64,
        );
        for fetched in events {
            let (id, lease) = (&fetched.taken.event_id, fetched.taken.lease);
            world.note(format_args!("{} reads {id} by {call:?}, {lease:?}", self.process));
            world.note_taken(self.process, id, lease.token);
            let fault = world.model().read(fetched, call == Call::Due, now);
            if let Some(fault) = fault {
                world.violation(fault);
            }
            let is_ahead = fetched.taken.created_at > now && call == Call::Fetch;
            world.cover("events read by a clock that is behind their writing", u64::from(is_ahead));
            let looks_anew = self.looks_anew.load(Ordering::Relaxed);
            let may_be_below = world.failovers.were_events_restored() || !looks_anew;
            if call == Call::Below && !may_be_below {
                world.violation(format!("{id} was found below its floor"));
            }
            // Dead for whoever reads it, though that is not recorded yet.
            if lease.starts >= world.options.max_starts && world.order() == Order::Release {
                world.ledger.is_through(id);
            }
        }
        let what = match call {
            Call::Due => "events read when they were due",
            Call::AsideOf => "events read in runs of their key",
            _ => return,
        };
        world.cover(what, events.len() as u64);
    }

    fn started(&self, taken: &Taken) {
        self.world.note(format_args!("{} counts a start of {}", self.process, taken.event_id));
        self.world.cover("starts counted", 1);
        self.world.model().started(taken);
    }
}
