//! Hints which partitions have something new. They can be lost without harm.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::PartitionSet;

/// What the reader should look at next.
#[derive(Default)]
pub(crate) struct Hints {
    hinted: Mutex<PartitionSet>,
    given: Notify,
}

impl Hints {
    /// Something may be new in these partitions.
    pub(crate) fn give(&self, partitions: PartitionSet) {
        *self.lock() |= partitions;
        self.given.notify_one();
    }

    /// Takes what was hinted; whatever is hinted from now on is for the next time.
    pub(crate) fn take(&self) -> PartitionSet {
        std::mem::take(&mut *self.lock())
    }

    /// Completes when something was hinted.
    pub(crate) async fn given(&self) {
        self.given.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, PartitionSet> {
        self.hinted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
