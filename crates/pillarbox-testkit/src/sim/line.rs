//! The line from a simulated process to the database: its faults, and what is seen on it.

mod owned;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pillarbox::store::{Batch, LONGEST_LEASE, Lease, Outcome, Settlement, Take};
use pillarbox::{BoxFuture, Clock, PartitionSet, Schedule};

use super::application::Kind;
use super::model::{Settled, fault_in_death};
use super::process::{Process, note_calling};
use super::rng::Rng;
use super::world::World;
use crate::faulty::{Call, Effect, Fault, Faults, Then};
use crate::ledger::Cause;

/// Draws faults from the seed, and holds what takes effect against the model.
pub(super) struct SimLine {
    pub(super) world: Arc<World>,
    pub(super) process: u32,
    /// The process, to be told when a call of it will never answer.
    pub(super) caller: Weak<Process>,
    pub(super) rng: Rng,
    /// The failovers that the session of its heartbeats has met.
    pub(super) met: AtomicU64,
    /// Whether its last look below the floors was by floors from since the last failover; there is one at a time.
    pub(super) looks_anew: AtomicBool,
}

impl Faults for SimLine {
    fn next(&self, call: Call) -> Fault {
        note_calling(matches!(call, Call::Settle) || call >= Call::Join);
        if call == Call::Below {
            let looks_anew = self.world.failovers.asks_anew(self.process, self.world.clock.now());
            self.looks_anew.store(looks_anew, Ordering::Relaxed);
        }
        self.draw(call)
    }

    fn is_over(&self) {
        note_calling(false);
    }

    fn answered(&self, call: Call) {
        match call {
            Call::Join | Call::Beat => {
                self.world.failovers.answered(self.process, self.world.clock.now());
            }
            Call::Take => self.world.note_answer(self.process),
            _ => {}
        }
    }

    fn session(&self) -> u64 {
        self.world.failovers.count()
    }

    fn announced(&self, partitions: PartitionSet) {
        self.world.announce(self.process, partitions, &self.rng);
    }

    fn heard(&self) -> BoxFuture<'_, PartitionSet> {
        let ear = self.world.hints.ear(self.process);
        Box::pin(async move {
            let partitions = ear.heard().await;
            self.world.cover("hints heard", 1);
            partitions
        })
    }

    fn took_effect(&self, effect: Effect<'_>) {
        let (world, now) = (&self.world, self.world.clock.wall());
        match effect {
            Effect::Taken(take, batch) => self.taken(take, batch),
            Effect::Settled(settlements, lost) => {
                for settlement in settlements {
                    let seq = settlement.lease.seq;
                    let is_alone = settlements.iter().filter(|other| other.lease.seq == seq).count() == 1;
                    self.settled(settlement, is_alone.then(|| lost.contains(&seq)));
                }
            }
            Effect::Renewed(leases, lease_for, lost) => {
                world.note(format_args!("{} renews {} leases, lost {lost:?}", self.process, leases.len()));
                world.cover("renewals", leases.len() as u64);
                world.model().renewed(leases, lost, now.saturating_add(lease_for));
                let is_lost = |lease: &&Lease| lost.contains(&lease.seq);
                leases.iter().filter(is_lost).for_each(|lease| world.note_lost(self.process, *lease));
            }
            Effect::Found(_, found) => {
                for row in found {
                    world.note(format_args!("{} finds {}", self.process, row.event_id));
                    world.model().found(row.seq, &row.event_id);
                }
            }
            Effect::Resumed(owner) => {
                let count = world.model().resumed(owner);
                world.note(format_args!("{} resumes {count}", self.process));
                world.cover("resumed leases", count);
            }
            Effect::Inserted(events, birth) => {
                for event in events {
                    world.note(format_args!("{} inserts {}", self.process, event.id()));
                    world.model().inserted(self.process, event, birth, now);
                    world.ledger.inserted(event.id(), event.schedule() != Schedule::Now);
                    if let Some(birth) = birth {
                        world.note_taken(self.process, event.id(), birth.token.of_event(event.id()));
                    }
                }
            }
            Effect::Unsettled(settlements) => self.unsettled(settlements),
            effect => self.owned(&effect),
        }
    }
}

impl SimLine {
    /// Whether a call is the first of its session since a failover. Only those of members are sure to notice: all others
    /// may have been given a new session in silence.
    fn finds_session_cut(&self, call: Call) -> bool {
        let count = self.world.failovers.count();
        match call {
            Call::Join | Call::Beat | Call::Acquire | Call::Release | Call::Leave => {
                self.met.swap(count, Ordering::Relaxed) != count
            }
            _ => false,
        }
    }

    /// How the next call goes, by the script or by chance.
    fn draw(&self, call: Call) -> Fault {
        if self.finds_session_cut(call) {
            return Fault { then: Then::FailBefore, ..Fault::NONE };
        }
        if let Some(then) = self.world.scripted_fault() {
            self.cover(call, then);
            return Fault { then, ..Fault::NONE };
        }
        if !self.world.is_faulty() {
            let after = if self.rng.chance(300) { self.rng.millis(1, 3) } else { Duration::ZERO };
            return Fault { before: Duration::ZERO, then: Then::Answer, after };
        }
        let rate = self.world.options.fault_rate;
        let then = if !self.rng.chance(rate) {
            Then::Answer
        } else {
            match self.rng.below(100) {
                0..40 => Then::FailBefore,
                40..85 => Then::FailAfter,
                85..98 if matches!(call, Call::Settle | Call::Renew) => Then::Lock,
                85..98 => Then::RollBack,
                _ if self.world.options.has_silence => Then::Hang,
                _ => Then::FailBefore,
            }
        };
        if let Some(process) = self.caller.upgrade().filter(|_| then == Then::Hang) {
            process.is_silenced.store(true, Ordering::Relaxed);
        }
        self.cover(call, then);
        let (before, after) = (self.rng.dawdle(), self.rng.dawdle());
        self.world.note_call(before + after);
        Fault { before, then, after }
    }

    fn taken(&self, take: &Take, batch: &Batch) {
        let (world, now) = (&self.world, self.world.clock.wall());
        assert!(take.lease_for <= LONGEST_LEASE, "the configuration allows no longer lease");
        for taken in &batch.events {
            world.note(format_args!("{} takes {} {:?}", self.process, taken.event_id, taken.lease));
            world.cover("suspects taken", u64::from(taken.lease.starts >= 2));
            world.note_taken(self.process, &taken.event_id, taken.lease.token);
            let noted = world.model().taken(self.process, take, taken, now);
            match noted {
                Ok(false) => {}
                Ok(true) => {
                    world.cover("leases expired", 1);
                    world.ledger.explain(&taken.event_id, Cause::LeaseExpired);
                }
                Err(fault) => world.violation(fault),
            }
        }
    }

    fn settled(&self, settlement: &Settlement, lost: Option<bool>) {
        let world = &self.world;
        let epoch_of = |partition| world.tenancy().epoch_of(partition);
        let noted = world.model().settled(settlement, lost, world.clock.wall(), epoch_of);
        let id = match noted {
            Ok(Settled::Stale) => return self.refused(settlement),
            Ok(Settled::Applied(id)) => id,
            Err(fault) => return world.violation(fault),
        };
        let Settlement { lease, outcome, .. } = settlement;
        world.note(format_args!("{} settles {id} {outcome:?}", self.process));
        world.note_standings(self.process, settlement);
        world.check_pause(&id, outcome);
        if let Some((partition, _)) = lease.token.partition() {
            world.tenancy().settled(self.process, partition, &id, outcome.is_done());
        }
        match outcome {
            Outcome::Done | Outcome::FellBack { .. } => world.ledger.done(&id),
            Outcome::Dead { spent, .. } | Outcome::Parked { spent, .. } => {
                world.ledger.dead(&id, true);
                let parked = world.ledger.key_of(&id).filter(|_| matches!(outcome, Outcome::Parked { .. }));
                world.cover("keys parked", u64::from(parked.is_some()));
                if let Some(key) = parked {
                    world.parked().entry(key).or_insert_with(|| id.clone());
                }
                let fault = if world.options.are_receivers_tracked() {
                    world.fault_in_death_of_handled(&id, *lease, outcome)
                } else {
                    let is_by_starts = !spent && Kind::of(&id) != Kind::Stray;
                    world.cover("dead by starts", u64::from(is_by_starts));
                    fault_in_death(Kind::of(&id), *lease, *spent, &world.options)
                };
                if let Some(fault) = fault {
                    world.violation(format!("{id} {fault}"));
                }
            }
            Outcome::Released => world.cover("releases", 1),
            Outcome::Aside { until: None, .. } => world.cover("events aside behind their key", 1),
            Outcome::Aside { until: Some(_), .. } => world.ledger.waits_first(&id),
            Outcome::Retry { .. } => {}
        }
        let failures = world.ledger.failures(&id);
        if outcome.spends() && lease.attempts >= failures {
            world.violation(format!("{id} spent attempt {} with {failures} failures", lease.attempts + 1));
        }
    }

    fn refused(&self, settlement: &Settlement) {
        let Settlement { event_id, lease, outcome, .. } = settlement;
        self.world.cover("stale outcomes refused", 1);
        self.world.note_refused(self.process, settlement);
        if let Some((partition, epoch)) = lease.token.partition() {
            self.world.note(format_args!("{} may not settle {event_id} {outcome:?}", self.process));
            let is_former = self.world.tenancy().epoch_of(partition) != epoch;
            self.world.cover("stale outcomes of former owners refused", u64::from(is_former));
            let is_another = self.world.has_passed_on(lease.seq, event_id, partition);
            let is_saved_by_id = is_another && !is_former;
            self.world
                .cover("late outcomes of the former event of a number refused", u64::from(is_saved_by_id));
        }
    }

    /// A delivered event may come again when its bookkeeping is in doubt.
    fn unsettled(&self, settlements: &[Settlement]) {
        let done = settlements.iter().filter(|settlement| settlement.outcome.is_done());
        for settlement in done {
            self.world.ledger.explain(&settlement.event_id, Cause::LostAnswer);
        }
    }

    fn cover(&self, call: Call, then: Then) {
        let what = match (call, then) {
            (_, Then::Answer) => return,
            (_, Then::Hang) => "calls that never answer",
            (Call::Commit, Then::FailBefore) => "commits lost unapplied",
            (Call::Commit, Then::FailAfter) => "commits lost applied",
            (Call::Commit, Then::RollBack) => "commits rolled back",
            (Call::Take, Then::FailAfter) => "takes lost",
            (Call::Settle, Then::Lock) => "outcomes of locked rows",
            (Call::Renew, Then::Lock) => "renewals of locked rows",
            (_, Then::Lock) => return,
            (Call::Settle, Then::FailAfter) => "outcomes lost applied",
            (Call::Settle, _) => "outcomes lost unapplied",
            (Call::ReadBack, _) => "read-backs failed",
            (Call::Renew, _) => "renewals failed",
            (Call::Insert, _) => "inserts failed",
            (Call::Join, _) => "joins failed",
            (Call::Beat, Then::FailAfter) => "heartbeats lost applied",
            (Call::Beat, _) => "heartbeats lost unapplied",
            (Call::Acquire, Then::FailAfter) => "acquisitions lost applied",
            (Call::Release, Then::FailAfter) => "returns lost applied",
            (Call::Release, _) => "returns lost unapplied",
            (Call::Fetch | Call::Due | Call::AsideOf | Call::Below, _) => "reads failed",
            (Call::Blocked, _) => "looks at blocked keys failed",
            (Call::Start, _) => "starts failed",
            _ => "other calls failed",
        };
        self.world.note(format_args!("{} fault: {call:?} {then:?}", self.process));
        self.world.cover(what, 1);
    }
}
