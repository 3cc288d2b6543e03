//! Values as they are bound.

use std::time::Duration;

use pillarbox::store::{DoneRows, LONGEST_LEASE, Outcome, StoreError, cut_error};

/// A thousand years. As long ago and as far ahead every database can still count.
const LONGEST: i64 = 1_000 * 31_556_952 * 1_000_000;

/// Whole microseconds, as they are stored and bound; of longer durations, a thousand years.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(LONGEST)
}

/// An error as it is kept; none if nothing failed.
pub fn kept(error: &str) -> Option<String> {
    (!error.is_empty()).then(|| cut_error(error))
}

/// An outcome, where rows that are done are kept or deleted: nothing is counted in a row that goes.
pub fn counted(outcome: &Outcome, done: DoneRows) -> &Outcome {
    if done == DoneRows::Delete && outcome.is_done() { &Outcome::Done } else { outcome }
}

/// A number of rows, as it is bound.
pub fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Refuses a lease longer than [`LONGEST_LEASE`]: it would count as one from before the clock went back.
pub fn check_lease(lease_for: Duration) -> Result<(), StoreError> {
    if lease_for > LONGEST_LEASE {
        return Err(refusal(format!("a lease of {lease_for:?} is longer than {LONGEST_LEASE:?}")));
    }
    Ok(())
}

/// The same error, as one that may pass: for a database that this store has worked with before, and that does not let
/// it in just now. Whoever waits with outcomes must not take that for a refusal of them.
pub fn for_now(error: StoreError) -> StoreError {
    match error {
        StoreError::Refused { reason, source } => StoreError::Unavailable { reason, source },
        StoreError::Config(reason) => StoreError::unavailable(reason),
        other => other,
    }
}

/// The answer to a call that makes no sense, whatever the database says.
pub fn refusal(reason: impl Into<String>) -> StoreError {
    StoreError::Refused { reason: reason.into(), source: None }
}
