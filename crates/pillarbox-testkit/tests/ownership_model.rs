//! A model of ownership: the lease of one partition, its epoch, and how it passes from one instance to another.
//!
//! It is checked in every reachable state, with instances that crash, freeze and thaw, deliveries that fail, and
//! hand-overs at any time. For each rule that makes it hold there is a twin of the model that breaks this rule;
//! the checker must find what goes wrong there, or the model proves nothing.

use stateright::{Checker, HasDiscoveries, Model, Property};

/// The events of one key, in the order of their numbers.
const EVENTS: usize = 2;
const INSTANCES: usize = 2;
/// How often the partition changes hands, each time by a take-over, a hand-over or the return of its owner.
const MOST_OWNERS: u8 = 3;

/// A rule that a twin breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// Outcomes are recorded without a look at the epoch.
    EpochCheck,
    /// A partition is given up while a delivery still runs.
    Drain,
    /// After a failure the key's next event goes on.
    StopOnFailure,
    /// A delivery goes on when the local deadline has passed.
    LocalDeadline,
    /// A lease that has not ended is taken.
    TakeOnlyEnded,
    /// A lease is taken over under its old epoch.
    NextEpoch,
}

/// One partition, and the instances that contend for it.
struct Ownership {
    broken: Option<Broken>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct State {
    lease: Lease,
    rows: [Status; EVENTS],
    instances: [Instance; INSTANCES],
    /// Events whose listener has returned success.
    delivered: [bool; EVENTS],
    /// Events that were begun.
    begun: [bool; EVENTS],
    faults: Faults,
    /// What went wrong on the way here.
    wrong: Option<Wrong>,
    seen: Seen,
}

/// The row of the partition.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Lease {
    owner: Option<usize>,
    epoch: u8,
    /// Whether it has ended by the database's clock.
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Status {
    Fresh,
    Retry,
    Done,
    Dead,
}

impl Status {
    fn is_pending(self) -> bool {
        matches!(self, Self::Fresh | Self::Retry)
    }
}

#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
struct Instance {
    is_frozen: bool,
    hold: Option<Hold>,
}

/// What an instance believes to own.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Hold {
    epoch: u8,
    /// The local deadline of the last renewal has passed; the lease itself ends later.
    is_overdue: bool,
    /// The partition is to be given up.
    is_draining: bool,
    /// Events that were delivered or given up here.
    is_through: [bool; EVENTS],
    running: Option<usize>,
    /// Outcomes that are not recorded yet, the oldest first.
    unrecorded: Vec<(usize, Status)>,
}

/// How much may still go wrong.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct Faults {
    crashes: u8,
    freezes: u8,
    failures: u8,
    hand_overs: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Wrong {
    /// An event was begun for the first time while an earlier one of its key was neither delivered nor dead.
    OutOfOrder,
    /// An outcome of an earlier owner changed a row.
    StaleOutcome,
    /// The epoch did not grow with the owner.
    SameEpoch,
}

/// What a checker that is worth its name must have met.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
struct Seen {
    take_over: bool,
    hand_over: bool,
    refused_outcome: bool,
    two_believers: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Take(usize),
    /// The heartbeat: renews the lease, or learns that it is lost.
    Beat(usize),
    /// Time passes: first for the owner, then for the database.
    Overdue(usize),
    End,
    Begin(usize),
    Succeed(usize),
    Fail(usize),
    GiveUpEvent(usize),
    Record(usize),
    Drain(usize),
    Release(usize),
    Crash(usize),
    Freeze(usize),
    Thaw(usize),
}

impl Model for Ownership {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            lease: Lease { owner: None, epoch: 0, has_ended: false },
            rows: [Status::Fresh; EVENTS],
            instances: Default::default(),
            delivered: [false; EVENTS],
            begun: [false; EVENTS],
            faults: Faults { crashes: 1, freezes: 1, failures: 1, hand_overs: 1 },
            wrong: None,
            seen: Seen::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::End);
        for instance in 0..INSTANCES {
            let all = [
                Action::Take,
                Action::Beat,
                Action::Overdue,
                Action::Begin,
                Action::Succeed,
                Action::Fail,
                Action::GiveUpEvent,
                Action::Record,
                Action::Drain,
                Action::Release,
                Action::Crash,
                Action::Freeze,
                Action::Thaw,
            ];
            actions.extend(all.map(|action| action(instance)));
        }
        // What is not possible now leads nowhere.
        actions.retain(|&action| self.next_state(state, action).is_some());
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        if last.wrong.is_some() {
            return None;
        }
        let mut state = last.clone();
        let is_possible = match action {
            Action::Take(instance) => self.take(&mut state, instance),
            Action::Beat(instance) => beat(&mut state, instance),
            Action::Overdue(instance) => self.overdue(&mut state, instance),
            Action::End => end(&mut state),
            Action::Begin(instance) => self.begin(&mut state, instance),
            Action::Succeed(instance) => self.finish(&mut state, instance, Status::Done),
            Action::Fail(instance) => self.finish(&mut state, instance, Status::Retry),
            Action::GiveUpEvent(instance) => self.finish(&mut state, instance, Status::Dead),
            Action::Record(instance) => self.record(&mut state, instance),
            Action::Drain(instance) => drain(&mut state, instance),
            Action::Release(instance) => self.release(&mut state, instance),
            Action::Crash(instance) => crash(&mut state, instance),
            Action::Freeze(instance) => freeze(&mut state, instance),
            Action::Thaw(instance) => self.thaw(&mut state, instance),
        };
        let believers = state.instances.iter().filter(|instance| instance.hold.is_some()).count();
        state.seen.two_believers |= believers > 1;
        (is_possible == Some(()) && state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.lease.epoch <= MOST_OWNERS
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("events of a key are begun in order", |_, state: &State| {
                state.wrong != Some(Wrong::OutOfOrder)
            }),
            Property::always("an earlier owner records nothing", |_, state: &State| {
                state.wrong != Some(Wrong::StaleOutcome)
            }),
            Property::always("epochs grow with every owner", |_, state: &State| {
                state.wrong != Some(Wrong::SameEpoch)
            }),
            Property::always("done means delivered", |_, state: &State| {
                (0..EVENTS).all(|event| state.rows[event] != Status::Done || state.delivered[event])
            }),
            Property::always("one instance delivers at a time", |_, state: &State| {
                let awake = state.instances.iter().filter(|instance| !instance.is_frozen);
                awake.filter_map(|instance| instance.hold.as_ref()?.running).count() <= 1
            }),
            Property::sometimes("everything is done", |_, state: &State| {
                state.rows == [Status::Done; EVENTS]
            }),
            Property::sometimes("everything is done after a take-over", |_, state: &State| {
                state.seen.take_over && state.rows == [Status::Done; EVENTS]
            }),
            Property::sometimes("a partition is handed over", |_, state: &State| state.seen.hand_over),
            Property::sometimes("an earlier owner is refused", |_, state: &State| state.seen.refused_outcome),
            Property::sometimes("two believe to own", |_, state: &State| state.seen.two_believers),
        ]
    }
}

impl Ownership {
    fn obeys(&self, rule: Broken) -> bool {
        self.broken != Some(rule)
    }

    /// Takes the partition if it is free or its lease has ended.
    fn take(&self, state: &mut State, instance: usize) -> Option<()> {
        let State { lease, instances, seen, .. } = state;
        let is_free = lease.owner.is_none() || lease.has_ended || !self.obeys(Broken::TakeOnlyEnded);
        let is_able = instances[instance].hold.is_none() && !instances[instance].is_frozen;
        if !is_free || !is_able || lease.owner == Some(instance) && !lease.has_ended {
            return None;
        }
        seen.take_over |= lease.owner.is_some();
        let epoch = lease.epoch + u8::from(self.obeys(Broken::NextEpoch) || lease.owner.is_none());
        if epoch == lease.epoch {
            state.wrong = Some(Wrong::SameEpoch);
        }
        *lease = Lease { owner: Some(instance), epoch, has_ended: false };
        let is_through = [false; EVENTS];
        instances[instance].hold = Some(Hold {
            epoch,
            is_overdue: false,
            is_draining: false,
            is_through,
            running: None,
            unrecorded: Vec::new(),
        });
        Some(())
    }

    /// The local deadline passes: what runs is cut off, for it was taken before the request that renewed.
    fn overdue(&self, state: &mut State, instance: usize) -> Option<()> {
        let Instance { is_frozen, hold } = &mut state.instances[instance];
        let hold = hold.as_mut()?;
        hold.is_overdue = true;
        if !*is_frozen && self.obeys(Broken::LocalDeadline) {
            hold.running = None;
        }
        Some(())
    }

    /// Begins the next event: the first that is pending in the table and not through here.
    fn begin(&self, state: &mut State, instance: usize) -> Option<()> {
        let hold = awake(state, instance)?;
        let may_begin = !hold.is_overdue || !self.obeys(Broken::LocalDeadline);
        if !may_begin || hold.is_draining || hold.running.is_some() {
            return None;
        }
        let is_through = hold.is_through;
        let event = (0..EVENTS).find(|&event| state.rows[event].is_pending() && !is_through[event])?;
        let is_settled = |earlier: usize| state.delivered[earlier] || state.rows[earlier] == Status::Dead;
        let given_up = |earlier: usize| {
            let holds = state.instances.iter().filter_map(|instance| instance.hold.as_ref());
            holds.flat_map(|hold| &hold.unrecorded).any(|&outcome| outcome == (earlier, Status::Dead))
        };
        let is_in_order = (0..event).all(|earlier| is_settled(earlier) || given_up(earlier));
        if !state.begun[event] && !is_in_order {
            state.wrong = Some(Wrong::OutOfOrder);
        }
        state.begun[event] = true;
        awake(state, instance)?.running = Some(event);
        Some(())
    }

    fn finish(&self, state: &mut State, instance: usize, outcome: Status) -> Option<()> {
        let goes_on = outcome != Status::Retry || !self.obeys(Broken::StopOnFailure);
        let hold = awake(state, instance)?;
        let event = hold.running.take()?;
        hold.unrecorded.push((event, outcome));
        hold.is_through[event] = goes_on;
        if outcome == Status::Done {
            state.delivered[event] = true;
        } else {
            state.faults.failures = state.faults.failures.checked_sub(1)?;
        }
        Some(())
    }

    /// Records the oldest outcome, if the epoch in the table is still the one of its owner.
    fn record(&self, state: &mut State, instance: usize) -> Option<()> {
        let hold = awake(state, instance)?;
        let epoch = hold.epoch;
        let (event, outcome) = (!hold.unrecorded.is_empty()).then(|| hold.unrecorded.remove(0))?;
        let is_owner = state.lease.epoch == epoch && state.lease.owner == Some(instance);
        state.seen.refused_outcome |= !is_owner;
        if !is_owner && self.obeys(Broken::EpochCheck) || !state.rows[event].is_pending() {
            return Some(());
        }
        if !is_owner {
            state.wrong = Some(Wrong::StaleOutcome);
        }
        state.rows[event] = outcome;
        Some(())
    }

    /// Gives the partition up, once nothing runs any more and everything is recorded.
    fn release(&self, state: &mut State, instance: usize) -> Option<()> {
        let hold = awake(state, instance)?;
        let is_drained = hold.running.is_none() && hold.unrecorded.is_empty();
        let epoch = hold.epoch;
        if !hold.is_draining || !is_drained && self.obeys(Broken::Drain) {
            return None;
        }
        if is_drained {
            state.instances[instance].hold = None;
        }
        if state.lease.epoch == epoch && state.lease.owner == Some(instance) {
            state.lease.owner = None;
            state.seen.hand_over = true;
        }
        Some(())
    }

    /// A process that was frozen goes on; a deadline that has passed is noticed before anything else.
    fn thaw(&self, state: &mut State, instance: usize) -> Option<()> {
        let Instance { is_frozen, hold } = &mut state.instances[instance];
        if !std::mem::take(is_frozen) {
            return None;
        }
        if let Some(hold) = hold.as_mut().filter(|hold| hold.is_overdue && self.obeys(Broken::LocalDeadline))
        {
            hold.running = None;
        }
        Some(())
    }
}

/// What `instance` believes to own, unless it is frozen.
fn awake(state: &mut State, instance: usize) -> Option<&mut Hold> {
    let instance = &mut state.instances[instance];
    instance.hold.as_mut().filter(|_| !instance.is_frozen)
}

fn beat(state: &mut State, instance: usize) -> Option<()> {
    let epoch = awake(state, instance)?.epoch;
    if state.lease.epoch == epoch && state.lease.owner == Some(instance) {
        state.lease.has_ended = false;
        awake(state, instance)?.is_overdue = false;
    } else {
        state.instances[instance].hold = None;
    }
    Some(())
}

/// The lease ends by the database's clock: later than the owner's deadline, if there is an owner to notice.
fn end(state: &mut State) -> Option<()> {
    let owner = &state.instances[state.lease.owner?];
    let is_current = owner.hold.as_ref().filter(|hold| hold.epoch == state.lease.epoch);
    state.lease.has_ended = is_current.is_none_or(|hold| hold.is_overdue);
    Some(())
}

fn drain(state: &mut State, instance: usize) -> Option<()> {
    awake(state, instance)?.is_draining = true;
    state.faults.hand_overs = state.faults.hand_overs.checked_sub(1)?;
    Some(())
}

/// All that the process knew is gone; another starts in its place.
fn crash(state: &mut State, instance: usize) -> Option<()> {
    state.faults.crashes = state.faults.crashes.checked_sub(1)?;
    state.instances[instance] = Instance::default();
    Some(())
}

fn freeze(state: &mut State, instance: usize) -> Option<()> {
    awake(state, instance)?;
    state.faults.freezes = state.faults.freezes.checked_sub(1)?;
    state.instances[instance].is_frozen = true;
    Some(())
}

/// O1, O3, O5: order, one owner and the fence hold in every state that can be reached.
#[test]
fn ownership_holds_in_every_state() {
    let checker = Ownership { broken: None }.checker().threads(2).spawn_bfs().join();

    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "{} states", checker.unique_state_count());
}

/// O1, O3, O5: without any one of its rules it does not hold.
#[test]
fn each_rule_is_needed() {
    for (rule, property) in [
        (Broken::EpochCheck, "an earlier owner records nothing"),
        (Broken::Drain, "one instance delivers at a time"),
        (Broken::StopOnFailure, "events of a key are begun in order"),
        (Broken::LocalDeadline, "one instance delivers at a time"),
        (Broken::TakeOnlyEnded, "one instance delivers at a time"),
        (Broken::NextEpoch, "epochs grow with every owner"),
    ] {
        let checker = Ownership { broken: Some(rule) }.checker();
        let checker = checker.finish_when(HasDiscoveries::AnyFailures).threads(2).spawn_bfs().join();

        let found = checker.discovery(property);
        assert!(found.is_some(), "without {rule:?} nothing was found to be wrong with: {property}");
    }
}
