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
