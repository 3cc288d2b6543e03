//! Hints which partitions have something new. They can be lost without harm.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What the reader should look at next.
#[derive(Default)]
pub(crate) struct Hints {
    hinted: Mutex<Hinted>,
    given: Notify,
}

/// Partitions that should be looked at.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hinted {
    /// All of them.
    pub(crate) all: bool,
    /// These at least.
    pub(crate) some: BTreeSet<u8>,
}

impl Hints {
    /// Something may be new in these partitions.
    pub(crate) fn give(&self, partitions: impl IntoIterator<Item = u8>) {
        self.lock().some.extend(partitions);
        self.given.notify_one();
    }

    /// Something may be new anywhere.
    pub(crate) fn give_all(&self) {
        self.lock().all = true;
        self.given.notify_one();
    }

    /// Takes what was hinted; whatever is hinted from now on is for the next time.
    pub(crate) fn take(&self) -> Hinted {
        std::mem::take(&mut *self.lock())
    }

    /// Completes when something was hinted.
    pub(crate) async fn given(&self) {
        self.given.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Hinted> {
        self.hinted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
