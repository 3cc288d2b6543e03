//! Deliberate bugs, by which the simulation shows that it would catch real ones.
//!
//! They exist under `--cfg pillarbox_mutant` only; in every normal build `mutant!` is `false`.

/// Whether the deliberate bug of this name is switched on.
#[cfg(pillarbox_mutant)]
macro_rules! mutant {
    ($name:ident) => {
        crate::mutant::is_on(crate::mutant::Mutant::$name)
    };
}

/// Whether the deliberate bug of this name is switched on: never in this build.
#[cfg(not(pillarbox_mutant))]
macro_rules! mutant {
    ($name:ident) => {
        false
    };
}

pub(crate) use mutant;

/// A deliberate bug.
#[cfg(pillarbox_mutant)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The memory store settles without looking at the token.
    NoFence,
    /// An event is marked done before its listener runs.
    MarkBeforeDelivery,
    /// Closing gives nothing back.
    ReleaseForgotten,
    /// The memory store hands a failed event out before its delay has passed.
    RetryBeforeItsTime,
    /// Events go to the hot path when they are written, not when they are committed.
    HotBeforeCommit,
    /// The hot path delivers what it did not find.
    HotWithoutReadBack,
    /// The memory store counts a lease given at birth from the start of the transaction.
    LeaseFromTransactionStart,
    /// The memory store writes a spent attempt to every row of its batch.
    AttemptsForWholeBatch,
    /// A surplus partition is given back while its events are in flight.
    HandOverWithoutDrain,
    /// The memory store settles what a former owner has read.
    NoEpochCheck,
    /// The memory store settles whatever event has the number.
    NoIdCheck,
    /// No heartbeat while something is delivered.
    HeartbeatOnTheDeliveryTask,
    /// Events with a key are spread like those without, so that each instance has an order of its own.
    OrderByIdAcrossInstances,
    /// A failed event does not hold its key.
    RetryLetsALaterEventPass,
    /// The closed number of the memory store passes open transactions.
    LateCommitSkipped,
    /// The closed number of the memory store passes transactions that have no identity yet.
    FloorByXmin,
    /// The closed number of the memory store passes transactions that are younger than the last that has ended.
    FloorByXmax,
    /// The memory store makes a replayed event fresh again.
    ReplayBelowTheFloor,
    /// What follows a blocked event waits in memory.
    BlockedKeyHoldsTheFloor,
    /// The hot path delivers what the owner of the partition delivers.
    HotPathPastTheOwner,
    /// The memory store lets a former owner declare an event dead.
    StaleDeadAfterTakeOver,
    /// The starts of all suspects are counted together.
    PoisonTakesNeighboursAlong,
    /// Who takes a partition over does not ask which keys are parked.
    ParkForgottenOnRestart,
    /// The memory store takes an event for delayed when its clock has gone back.
    DelayByTheClock,
    /// What is fresh is read on from the highest number that was given, and what was committed late is looked for later.
    ReadOnPastTheHorizon,
    /// How far handlers have come is not recorded when one of them has failed.
    ProgressForgotten,
    /// How far handlers have come is not recorded when an event is given back.
    ReleaseForgetsProgress,
    /// A success that could not be recorded is not remembered.
    SuccessForgotten,
    /// Where there is a fallback nobody asks who is remembered to have succeeded.
    FallbackUnasked,
    /// A fallback does not wait until its handler has failed for good.
    FallbackAtEveryFailure,
    /// A handler whose fallback has succeeded is dead.
    FallbackUncounted,
    /// An event that is done because a fallback succeeded counts no attempt.
    FallbackUnspent,
    /// An event is dead with the first of its handlers that is.
    DeadWhileOwed,
    /// Replay runs all handlers.
    ReplayOfAll,
    /// Only the first handler of an event looks at its lease.
    HandlersUnderOneLease,
    /// Which sinks have an event is not recorded when another of its sinks is down.
    SinksForgotten,
    /// An event is done though it waits for a sink that is down.
    DoneWhileOneIsDown,
    /// A sink that is down spends an attempt of the event.
    OutageSpends,
    /// Events of a paused route are sent.
    PauseIgnored,
}

#[cfg(pillarbox_mutant)]
impl Mutant {
    /// Those that only show where partitions are owned.
    pub const OF_OWNERSHIP: [Self; 17] = [
        Self::HandOverWithoutDrain,
        Self::NoEpochCheck,
        Self::NoIdCheck,
        Self::HeartbeatOnTheDeliveryTask,
        Self::OrderByIdAcrossInstances,
        Self::RetryLetsALaterEventPass,
        Self::LateCommitSkipped,
        Self::FloorByXmin,
        Self::FloorByXmax,
        Self::ReplayBelowTheFloor,
        Self::BlockedKeyHoldsTheFloor,
        Self::HotPathPastTheOwner,
        Self::StaleDeadAfterTakeOver,
        Self::PoisonTakesNeighboursAlong,
        Self::ParkForgottenOnRestart,
        Self::DelayByTheClock,
        Self::ReadOnPastTheHorizon,
    ];

    /// Those that only show where events go to handlers.
    pub const OF_HANDLERS: [Self; 10] = [
        Self::ProgressForgotten,
        Self::ReleaseForgetsProgress,
        Self::SuccessForgotten,
        Self::FallbackUnasked,
        Self::FallbackAtEveryFailure,
        Self::FallbackUncounted,
        Self::FallbackUnspent,
        Self::DeadWhileOwed,
        Self::ReplayOfAll,
        Self::HandlersUnderOneLease,
    ];

    /// Those that only show where events go by routes to named sinks.
    pub const OF_ROUTES: [Self; 4] =
        [Self::SinksForgotten, Self::DoneWhileOneIsDown, Self::OutageSpends, Self::PauseIgnored];

    /// Those that only show where rows are claimed.
    pub const OF_CLAIMS: [Self; 8] = [
        Self::NoFence,
        Self::MarkBeforeDelivery,
        Self::ReleaseForgotten,
        Self::RetryBeforeItsTime,
        Self::HotBeforeCommit,
        Self::HotWithoutReadBack,
        Self::LeaseFromTransactionStart,
        Self::AttemptsForWholeBatch,
    ];
}

#[cfg(pillarbox_mutant)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Switches a deliberate bug on, or all of them off, for code that runs on this thread.
#[cfg(pillarbox_mutant)]
pub fn switch_on(mutant: Option<Mutant>) {
    ON.set(mutant);
}

#[cfg(pillarbox_mutant)]
pub(crate) fn is_on(mutant: Mutant) -> bool {
    ON.get() == Some(mutant)
}
