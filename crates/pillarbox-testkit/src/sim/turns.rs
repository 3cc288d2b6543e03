//! Holds the turns of handlers and sinks, and what is recorded of them, against their promises.

use pillarbox::store::{Lease, Outcome, Settlement, Token};

use super::application::Kind;
use super::options::Order;
use super::sinks::route_of;
use super::standings::Recording;
use super::world::World;

impl World {
    /// A turn of a handler, or of its fallback, begins: under a lease, and not after its success. Says how many turns the
    /// handler had before.
    pub(super) fn turn_begins(&self, process: u32, id: &str, handler: &str, is_fallback: bool) -> u64 {
        let is_claimed = self.options.owned.is_none();
        // A jump of the database's clock ends leases early.
        if is_claimed && !self.clock.has_jumped() && !self.model().is_held_by(id, process) {
            self.violation(format!("{id}: {handler} runs in {process} without a lease"));
        }
        let spares = self.standings().spares(id, handler);
        let what = match self.options.has_handlers {
            true => "handlers run while another was done",
            false => "sinks tried while another was done",
        };
        self.cover(what, u64::from(spares));
        let is_passed_on = self.options.has_routes && self.standings().is_passed_on(process, id, handler);
        self.cover("progress of sinks passed on to another process", u64::from(is_passed_on));
        let begun = self.standings().begins(process, id, handler, is_fallback);
        begun.unwrap_or_else(|fault| {
            self.violation(fault);
            0
        })
    }

    /// A handler, or its fallback, has succeeded.
    pub(super) fn turn_succeeds(&self, process: u32, id: &str, handler: &str, is_fallback: bool) {
        self.cover("fallbacks that succeeded", u64::from(is_fallback));
        let is_second = self.standings().succeeds(process, id, handler);
        let what = match self.options.has_handlers {
            true => "handlers that succeeded twice",
            false => "sinks that acknowledged twice",
        };
        self.cover(what, u64::from(is_second));
        if is_second && self.is_without_faults() {
            self.violation(format!("{id}: {handler} succeeded twice, and nothing went wrong"));
        }
        if !self.ledger.is_delivered(id) {
            self.ledger.delivered(id, true);
        }
        self.turn_ends(process, id);
    }

    /// A handler, or its fallback, has failed, for the last time if `is_last`.
    pub(super) fn turn_fails(&self, process: u32, id: &str, handler: &str, is_fallback: bool, is_last: bool) {
        self.cover("fallbacks that failed", u64::from(is_fallback));
        if !is_fallback {
            self.ledger.failed(id);
        }
        if is_last {
            self.standings().fails_for_good(process, id, handler, is_fallback);
            self.turn_ends(process, id);
        }
    }

    /// The broker of a sink is down for an event.
    pub(super) fn note_absence(&self, id: &str, sink: &str) {
        let has_another = self.standings().has_another(id, sink);
        self.cover("sinks down while another had the event", u64::from(has_another));
        self.cover("events sent while all brokers were down", u64::from(self.has_no_broker()));
    }

    /// An event goes to a sink: not if it was read after the process had seen that its route is paused.
    pub(super) fn check_route(&self, process: u32, id: &str) {
        // One that is claimed may go as it was routed before it was taken anew.
        let (route, _) = route_of(Kind::of(id));
        if self.options.owned.is_some() && self.standings().is_held(process, id, route) {
            self.violation(format!("{id} is sent by {process} though {route} is paused"));
        }
    }

    /// Those that follow an event in its key wait until none of its handlers is owed.
    fn turn_ends(&self, process: u32, id: &str) {
        let is_through = self.standings().is_through(process, id);
        match is_through {
            Some(true) => self.ledger.succeeded(id),
            Some(false) if self.order() == Order::Release => self.ledger.is_through(id),
            Some(false) | None => {}
        }
    }

    /// Whether nothing goes wrong in this run but what handlers do.
    fn is_without_faults(&self) -> bool {
        let is_scripted = self.script.death_at.is_some() || self.script.fault_at.is_some();
        let fails_over = self.options.owned.is_some_and(|owned| owned.has_failovers);
        !self.options.has_faults && !self.options.has_poison && !fails_over && !is_scripted
    }

    /// A process may deliver an event from now on.
    pub(super) fn note_taken(&self, process: u32, id: &str, token: Token) {
        if self.options.are_receivers_tracked() {
            self.standings().taken(process, id, token);
        }
    }

    /// A process was told what it has taken.
    pub(super) fn note_answer(&self, process: u32) {
        if self.options.are_receivers_tracked() {
            self.standings().answered(process);
        }
    }

    /// A settlement was refused.
    pub(super) fn note_refused(&self, process: u32, settlement: &Settlement) {
        if self.options.are_receivers_tracked() {
            self.standings().refused(process, settlement);
        }
    }

    /// A settlement was recorded.
    pub(super) fn note_standings(&self, process: u32, settlement: &Settlement) {
        if !self.options.are_receivers_tracked() {
            return;
        }
        let Settlement { event_id: id, lease, outcome, handlers, .. } = settlement;
        let is_given_up = self.is_given_up(*lease, outcome);
        let recorded = self.standings().recorded(process, settlement, is_given_up);
        let Recording { is_partial, is_written_again, gives_way, repeats_death } = match recorded {
            Ok(recording) => recording,
            Err(fault) => return self.violation(fault),
        };
        if let Some(handlers) = handlers {
            self.note(format_args!("{id} has {handlers}"));
        }
        if outcome.is_done() {
            // Somebody knew of each success, though the one who settles may not have seen any.
            self.ledger.succeeded(id);
        }
        self.cover("replays undone by a repeated outcome", u64::from(repeats_death));
        let is_released = *outcome == Outcome::Released;
        if self.options.has_routes {
            self.cover("progress of sinks recorded", u64::from(is_partial));
            return;
        }
        self.cover("progress recorded", u64::from(is_partial));
        self.cover("progress recorded by a release", u64::from(is_partial && is_released));
        self.cover("progress recorded under a newer lease", u64::from(is_written_again));
        self.cover("releases written again under a newer lease", u64::from(is_written_again && is_released));
        self.cover("texts that others had overtaken", u64::from(gives_way));
    }

    /// Whether an event dies as a whole, because processes have died over it.
    fn is_given_up(&self, lease: Lease, outcome: &Outcome) -> bool {
        let is_dead =
            matches!(outcome, Outcome::Dead { spent: false, .. } | Outcome::Parked { spent: false, .. });
        is_dead && lease.starts >= self.options.max_starts
    }

    /// Why an event must not be dead, if so, besides what its handlers say.
    pub(super) fn fault_in_death_of_handled(
        &self,
        id: &str,
        lease: Lease,
        outcome: &Outcome,
    ) -> Option<String> {
        let may_kill = Kind::of(id) == Kind::Poison || !self.options.only_poison_kills();
        let is_given_up = self.is_given_up(lease, outcome);
        self.cover("dead by starts", u64::from(is_given_up));
        (is_given_up && !may_kill).then(|| format!("is dead after {} starts", lease.starts))
    }

    /// A process has learnt that a lease of it is gone.
    pub(super) fn note_lost(&self, process: u32, lease: Lease) {
        if !self.options.are_receivers_tracked() {
            return;
        }
        let Some(id) = self.model().id_of(lease.seq) else { return };
        let has_success = self.standings().lost(process, &id, lease.token);
        self.cover("leases lost between two handlers", u64::from(has_success));
    }

    /// An operator replays an event: only its dead handlers run.
    pub(super) fn note_replay(&self, id: &str) {
        if !self.options.are_receivers_tracked() {
            return;
        }
        let is_partial = self.standings().replayed(id);
        self.cover("replays of some handlers only", u64::from(is_partial));
    }
}
