//! What a ledger adds up to.

use std::fmt;

/// What a [`Ledger`](super::Ledger) adds up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Events written.
    pub written: u64,
    /// Of those, in transactions that were committed.
    pub committed: u64,
    /// In transactions that were rolled back.
    pub rolled_back: u64,
    /// In transactions of which nobody knows.
    pub unknown: u64,
    /// Events delivered at least once.
    pub delivered: u64,
    /// Events recorded as done.
    pub done: u64,
    /// Events recorded as dead.
    pub dead: u64,
    /// Deliveries beyond the first of an event.
    pub duplicates: u64,
    /// How often the first delivery of an event came while one of its key that was committed before it was inserted
    /// was not through.
    pub out_of_order: u64,
    /// Events delivered again without a cause.
    pub unexplained: Vec<String>,
    /// Events that were committed and are neither done nor dead.
    pub lost: Vec<String>,
    /// Events delivered although they were rolled back or not yet committed.
    pub ghosts: Vec<String>,
    /// Events recorded as done that no receiver has taken.
    pub false_done: Vec<String>,
}

impl Balance {
    /// Whether nothing was lost, falsely done, delivered for nothing or twice without a cause.
    pub fn is_even(&self) -> bool {
        let Self { unexplained, lost, ghosts, false_done, .. } = self;
        [unexplained, lost, ghosts, false_done].iter().all(|list| list.is_empty())
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, count) in [
            ("written", self.written),
            ("committed", self.committed),
            ("rolled back", self.rolled_back),
            ("unknown", self.unknown),
            ("delivered", self.delivered),
            ("done", self.done),
            ("dead", self.dead),
            ("duplicates", self.duplicates),
            ("out of order", self.out_of_order),
        ] {
            writeln!(f, "{name:<22}{count:>8}")?;
        }
        for (name, ids) in [
            ("unexplained duplicates", &self.unexplained),
            ("lost", &self.lost),
            ("ghosts", &self.ghosts),
            ("false done", &self.false_done),
        ] {
            writeln!(f, "{name:<22}{:>8}  {}", ids.len(), ids.join(" "))?;
        }
        Ok(())
    }
}
