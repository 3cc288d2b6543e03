//! Identities of transactions, for rules about floors that are wrong.
//!
//! A transaction gets its numbers first and its identity later: here with the next statement that inserts. The right
//! rule knows nothing of identities.

use std::collections::BTreeMap;

use crate::mutant::mutant;

/// The open transactions that have numbers, by their first one, with their identities.
#[derive(Clone, Default)]
pub(super) struct Identities {
    open: BTreeMap<i64, Option<u64>>,
    last: u64,
    last_ended: u64,
}

impl Identities {
    pub(super) fn opened(&mut self, first: i64) {
        self.open.insert(first, None);
    }

    pub(super) fn cut_off(&mut self) {
        self.open.clear();
    }

    pub(super) fn identified(&mut self, first: i64) {
        if let Some(identity @ None) = self.open.get_mut(&first) {
            self.last += 1;
            *identity = Some(self.last);
        }
    }

    pub(super) fn ended(&mut self, first: i64) {
        if let Some(identity) = self.open.remove(&first).flatten() {
            self.last_ended = self.last_ended.max(identity);
        }
    }

    /// The closed number by a wrong rule, if one is switched on.
    pub(super) fn closed_wrongly(&self, last_seq: i64) -> Option<i64> {
        let is_seen = |identity: Option<u64>| {
            if mutant!(LateCommitSkipped) {
                Some(false)
            } else if mutant!(FloorByXmin) {
                Some(identity.is_some())
            } else if mutant!(FloorByXmax) {
                Some(identity.is_none_or(|identity| identity <= self.last_ended))
            } else {
                None
            }
        };
        is_seen(None)?;
        let seen = self.open.iter().find(|(_, identity)| is_seen(**identity) == Some(true));
        Some(seen.map_or(last_seq, |(first, _)| first - 1))
    }
}
