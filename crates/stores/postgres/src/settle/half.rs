//! What was recorded of settlements that failed as a whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pillarbox::store::Lease;

use super::Leases;

/// The most leases that are remembered.
const MOST_KNOWN: usize = 10_000;

/// Leases that were settled while others of the same settlement could not be, because they were locked for example. Nobody
/// was told, so they will be settled again, and must not pass for lost then.
#[derive(Default)]
pub(crate) struct HalfSettled {
    leases: Mutex<Leases>,
}

impl HalfSettled {
    pub(super) fn remember(&self, settled: Leases) {
        let mut known = self.known();
        if known.len() + settled.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(settled);
    }

    /// The numbers of those that were not settled before. What was is forgotten: it is told now.
    pub(super) fn lost(&self, unsettled: Vec<&Lease>) -> Vec<i64> {
        if unsettled.is_empty() {
            return Vec::new();
        }
        let mut known = self.known();
        let lost = unsettled.into_iter().filter(|lease| !known.remove(&(lease.seq, lease.token.0)));
        lost.map(|lease| lease.seq).collect()
    }

    fn known(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::store::Token;

    use super::*;

    /// D12: what is remembered is told once.
    #[test]
    fn what_was_settled_before_is_lost_the_next_time() {
        let half_settled = HalfSettled::default();
        let lease = |seq| Lease { seq, token: Token(7), attempts: 0, starts: 0 };
        half_settled.remember(Leases::from([(1, 7), (2, 8)]));

        assert_eq!(half_settled.lost(vec![&lease(1), &lease(2), &lease(3)]), [2, 3]);
        assert_eq!(half_settled.lost(vec![&lease(1)]), [1]);
    }

    #[test]
    fn not_more_is_remembered_than_the_most() {
        let half_settled = HalfSettled::default();
        let most = i64::try_from(MOST_KNOWN).unwrap();
        half_settled.remember((0..most).map(|seq| (seq, 7)).collect());
        half_settled.remember(Leases::from([(most, 7)]));

        assert_eq!(half_settled.known().len(), 1);
    }
}
