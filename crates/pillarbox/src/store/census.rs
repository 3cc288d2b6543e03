//! Who takes part, who owns what, and what waits where.

use std::time::Duration;

use super::{Epoch, Mode, Owner};

/// Who takes part, who owns which partition, and what waits in each, as the table was at one moment.
///
/// All spans of time are by the database's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// How events are taken.
    pub mode: Mode,
    /// The list of members, in the order of their names; those too who have fallen silent and were not struck off yet.
    pub instances: Vec<Registration>,
    /// All partitions, in their order; none with [`Mode::Claims`].
    pub partitions: Vec<Tenancy>,
    /// Pending events that have no partition yet, because somebody wrote them without, or with a number that is none: the
    /// next fetch gives them theirs. 0 with [`Mode::Claims`], where nobody looks for it.
    pub unplaced: u64,
    /// Keys of which an event was set aside because it failed or because its key waits, and those that are parked: as
    /// many as [`Ownership::blocked`](super::Ownership::blocked) tells of all partitions.
    ///
    /// They wait where keys hold back. Where they do not (without
    /// [`ordered`](crate::OutboxBuilder::ordered), or with
    /// [`stop_on_first_failure(false)`](crate::OutboxBuilder::stop_on_first_failure)), the table looks the same: each key
    /// with an event that waits for another attempt counts, though nothing waits behind it.
    pub blocked_keys: u64,
    /// Keys that wait for an operator. One that is parked in several partitions, because a writer computed them wrongly,
    /// counts in each.
    pub parked_keys: u64,
}

/// An instance on the list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Who it is.
    pub owner: Owner,
    /// How it takes work.
    pub mode: Mode,
    /// For how long it has been a member without a break.
    pub joined_ago: Duration,
    /// How long ago it was last heard of.
    pub silent_for: Duration,
    /// Whether it counts as alive: it was heard of within the time that it has set itself.
    pub is_alive: bool,
}

/// A partition, with its owner and what waits in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    /// Which one.
    pub partition: u8,
    /// Who owns it, or has lost it without giving it back; nobody if it was released or never owned.
    pub owner: Option<Owner>,
    /// Whether its lease has not ended: if it has, anybody can take it.
    pub is_held: bool,
    /// How often it has changed hands.
    pub epoch: Epoch,
    /// Pending events that nobody has tried: status 0.
    pub fresh: u64,
    /// Pending events that were set aside: status 2.
    pub aside: u64,
    /// How long the oldest pending event has been due; `None` if none is due.
    pub oldest_due_for: Option<Duration>,
}

impl Tenancy {
    /// Events that wait to be delivered.
    pub fn pending(&self) -> u64 {
        self.fresh + self.aside
    }
}

impl Census {
    /// Those that count as alive.
    pub fn alive(&self) -> impl Iterator<Item = &Registration> {
        self.instances.iter().filter(|instance| instance.is_alive)
    }

    /// The partitions that an instance owns under a lease that has not ended.
    pub fn held_by<'a>(&'a self, owner: &'a Owner) -> impl Iterator<Item = &'a Tenancy> {
        self.partitions.iter().filter(move |tenancy| tenancy.is_held && tenancy.owner.as_ref() == Some(owner))
    }

    /// The partitions that nobody owns, or whose lease has ended: nothing of them is delivered until somebody takes
    /// them.
    pub fn free(&self) -> impl Iterator<Item = &Tenancy> {
        self.partitions.iter().filter(|tenancy| !tenancy.is_held)
    }

    /// Events that wait to be delivered, in all partitions and in none; 0 with [`Mode::Claims`], where
    /// [`stats`](super::Administration::stats) counts them.
    pub fn pending(&self) -> u64 {
        self.unplaced + self.partitions.iter().map(Tenancy::pending).sum::<u64>()
    }
}
