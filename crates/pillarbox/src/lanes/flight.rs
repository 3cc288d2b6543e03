//! An event from its arrival until what became of it is recorded.

use std::sync::Arc;

use crate::store::{Fetched, Taken};

/// An event that was read, and whose outcome is not recorded yet.
#[derive(Debug)]
pub(super) struct Flight {
    /// Its key, if it goes by one.
    pub(super) key: Option<Arc<str>>,
    pub(super) origin: Origin,
    pub(super) stage: Stage,
}

/// Where it stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Among the fresh ones.
    Fresh,
    /// Aside.
    Aside,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for others.
    Waits(Box<Taken>),
    /// It may run as soon as no other suspect does.
    Suspect(Box<Taken>),
    /// It is queued or delivered.
    Runs,
    /// Its outcome is being recorded.
    Ends {
        /// Whether it is given back as it was.
        released: bool,
    },
}

impl Flight {
    pub(super) fn new(fetched: Fetched, key: Option<Arc<str>>, origin: Origin) -> Self {
        Self { key, origin, stage: Stage::Waits(Box::new(fetched.taken)) }
    }

    /// Takes the event out, if it has not been begun, and leaves the stage `next`.
    pub(super) fn take(&mut self, next: Stage) -> Option<Box<Taken>> {
        match std::mem::replace(&mut self.stage, next) {
            Stage::Waits(taken) | Stage::Suspect(taken) => Some(taken),
            begun => {
                self.stage = begun;
                None
            }
        }
    }
}
