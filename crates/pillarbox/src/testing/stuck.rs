//! Why a drain does not come to its end.

use super::attempt::Attempt;
use super::listing::{attempt_line, listed, rows_listed};
use crate::Timestamp;
use crate::store::StoredEvent;

/// A drain does not come to its end; its text names what runs, or else what is pending.
///
/// See [`TestOutbox::try_drain`](super::TestOutbox::try_drain) for an example.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub(super) why: String,
    pub(super) running: Vec<Attempt>,
    pub(super) rows: Vec<StoredEvent>,
    pub(super) now: Timestamp,
}

impl Stuck {
    /// The calls that have not ended.
    pub fn running(&self) -> &[Attempt] {
        &self.running
    }

    /// The events that are concerned: those that are due, or in somebody's hands.
    pub fn events(&self) -> &[StoredEvent] {
        &self.rows
    }
}

impl std::error::Error for Stuck {}

impl std::fmt::Display for Stuck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        if !self.running.is_empty() {
            let lines = self.running.iter().map(attempt_line);
            return write!(f, "; this does not return:\n{}", listed(lines));
        }
        if self.rows.is_empty() {
            return f.write_str(", and none is pending");
        }
        write!(
            f,
            "; no listener runs (an interceptor may), and this is pending:\n{}",
            rows_listed(&self.rows, self.now)
        )
    }
}
