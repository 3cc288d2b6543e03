//! A read of the table, from its question to its answer.

use std::sync::Arc;

use crate::store::{Numbers, Visit};

/// A read that is under way.
///
/// Hand it to [`Lanes::answer`](super::Lanes::answer) with what it brought, or to [`Lanes::fail`](super::Lanes::fail):
/// until then its partitions are not read again.
#[derive(Debug)]
#[must_use = "its partitions are not read again until it is answered"]
pub(crate) struct Read {
    pub(super) number: u64,
    pub(super) kind: Kind,
    pub(super) visits: Vec<Visit>,
    pub(super) limit: usize,
}

/// What is read.
#[derive(Debug)]
pub(super) enum Kind {
    /// Fresh events, where these numbers were known before.
    Fresh { numbers: Numbers },
    /// Fresh events behind a crowd, to see whose they are, where these numbers were known before.
    Behind { numbers: Numbers },
    /// Fresh events that should not be there.
    Below,
    /// Events whose time has come.
    Due,
    /// Events of a key that are aside, where `leaving` was the lowest number on its way there.
    Key { key: Arc<str>, leaving: Option<i64> },
    /// Which keys are parked; these were.
    Parked { keys: Vec<(u8, Arc<str>)> },
}

impl Read {
    /// The partitions to be read; one, if it is the read of a key.
    pub(crate) fn visits(&self) -> &[Visit] {
        &self.visits
    }

    /// The most events to bring, as the methods of [`Ownership`](crate::store::Ownership) count them.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The key whose events are to be read, if it is the read of one.
    pub(crate) fn key(&self) -> Option<&str> {
        match &self.kind {
            Kind::Key { key, .. } => Some(key),
            Kind::Fresh { .. } | Kind::Behind { .. } | Kind::Below | Kind::Due | Kind::Parked { .. } => None,
        }
    }
}
