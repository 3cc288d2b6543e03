//! Taking work by owning partitions: membership, leases, and reading what is owned.

use std::time::Duration;

use super::{Owner, StoreError, Taken, Token};
use crate::PARTITIONS;
use crate::runtime::BoxFuture;

/// The reason of an event that is set aside until its delay has passed: it neither waits for its key nor holds it.
pub const DELAYED: &str = "delayed";

/// The reason of an event that an operator replayed: it neither waits for its key nor holds it. One that its key is
/// parked for has no reason when it is replayed, and holds its key as a retry does.
pub const REPLAYED: &str = "replayed";

/// How events are taken from a table. There is one mode for the whole table, and it is stored in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Row by row, each with a lease of its own. No order is promised.
    #[default]
    Claims,
    /// By partitions, each of which one instance owns. Order by key can be had.
    Ownership,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Claims => "claims",
            Self::Ownership => "ownership",
        })
    }
}

/// Counts how often a partition has changed hands; one higher with every owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

impl Epoch {
    /// The highest one that a [`Token`] has room for (55 bits); a thousand hand-overs in a second reach it in a
    /// million years.
    pub const MAX: Self = Self(i64::MAX >> 8);

    /// The epoch of the next owner.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl Token {
    /// The mark of everything that is read from a partition under this epoch, which is at most [`Epoch::MAX`].
    ///
    /// It is negative, and the token of a take never is: a store sees from a lease which fence it has to check.
    pub const fn of_partition(partition: u8, epoch: Epoch) -> Self {
        Self(!((epoch.0 << 8) | partition as i64))
    }

    /// The partition and the epoch, if this is the mark of one.
    pub const fn partition(self) -> Option<(u8, Epoch)> {
        if self.0 < 0 { Some((!self.0 as u8, Epoch(!self.0 >> 8))) } else { None }
    }
}

/// An instance that takes part, as it introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Who it is.
    pub owner: Owner,
    /// Whether an operator set its name and keeps it unique: then it takes the place of earlier incarnations.
    pub is_named: bool,
    /// How it takes work.
    pub mode: Mode,
    /// How long it counts as alive after each call, and its partitions as its own; at most
    /// [`LONGEST_LEASE`](super::LONGEST_LEASE).
    pub live_for: Duration,
}

/// An instance that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub owner: Owner,
    /// For how long it has been a member without a break.
    pub joined_ago: Duration,
    /// How long ago it was last heard of.
    pub silent_for: Duration,
}

/// A partition that an instance owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which one.
    pub partition: u8,
    /// The fence for all that is done with it.
    pub epoch: Epoch,
    /// The floor that is stored: no fresh event numbered up to it is pending, nor can one appear.
    pub floor: i64,
    /// How many owners in a row have lost it without giving it back, since it was last absolved.
    pub crashes: u32,
    /// The highest number that there was when the last of them lost it: one of the events up to it may be to blame.
    pub suspect_to: i64,
}

/// How far the owner of a partition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Which one.
    pub partition: u8,
    /// Under which epoch it was read.
    pub epoch: Epoch,
    /// The floor.
    pub floor: i64,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Everybody who is alive, in the order of their names.
    pub members: Vec<Member>,
    /// The partitions that are the caller's own, in their order: what is missing was lost. The floors are those that
    /// are stored.
    pub held: Vec<Holding>,
    /// A younger incarnation of the name has joined: this one is no member, and owns nothing.
    pub is_replaced: bool,
}

/// What is known of the numbers of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The closed number: no event that is numbered up to it can still appear. It lags behind for as long as a writer's
    /// transaction is open.
    ///
    /// A floor rises to it at most, and only by a fetch that began after it was known. Where a database cannot tell, it
    /// is a hint, and [`below`](Ownership::below) finds what it has passed.
    pub closed: i64,
    /// The insertion of every event that is numbered up to this had begun when the store was asked, or it never will. It
    /// may lag behind what has been given since.
    pub given: i64,
}

/// One partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Which one.
    pub partition: u8,
    /// Under which epoch; it marks what is handed out and is checked when that is settled.
    pub epoch: Epoch,
    /// How far everything has been read.
    pub floor: i64,
    /// The numbers of events that the owner has already and that are not to be read again.
    pub in_flight: Vec<i64>,
}

/// One event that was read.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The event, with the token of its partition.
    pub taken: Taken,
    /// Its key, even if the rest could not be read.
    pub key: Option<String>,
    /// How long it has to wait for a time of its own, a delay or the next attempt; zero if that has come, or if it
    /// waits for nothing but its key. One that was written without a delay never waits, even if the clock of the read
    /// is behind that of the write: whoever is taken for delayed loses its place in its key.
    pub ready_in: Duration,
}

/// What was set aside and is due.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The events, the earliest first, ties by number.
    pub events: Vec<Fetched>,
    /// When these are fewer than asked for: how long until the next is due, if one ever is.
    pub next_due_in: Option<Duration>,
}

/// A key that must not go on: one of its events was set aside and holds it, or it is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its partition.
    pub partition: u8,
    /// The key.
    pub key: String,
    /// The lowest number of its events that are set aside; none if it is parked and nothing has followed.
    pub first: Option<i64>,
    /// How long that event has to wait for a time of its own; zero if it waits for nothing but its key, which is then
    /// to be read at once unless it is parked.
    pub ready_in: Duration,
    /// The id of the dead event that it is parked for.
    pub parked_for: Option<String>,
}

/// Taking part, in either mode; owning partitions, and reading from those that are owned.
///
/// # Contract
/// Who takes part:
/// - A member counts as alive until `live_for` has passed since it was last heard of, or until it leaves. Only members of
///   one mode are alive at a time.
/// - A named instance that joins takes the place of earlier incarnations of its name. Each of them is told so when it beats
///   or asks, even if the younger has left or died by then, until it leaves itself or
///   [`LONGEST_LEASE`](super::LONGEST_LEASE) has passed; a census does not list it. After that it is an instance like any
///   other: nothing is left that was its own.
///
/// Who owns:
/// - All times are the database's. At one moment of its clock a partition has at most one owner whose lease has not
///   ended, and every owner has a higher epoch than those before.
/// - A partition is free if it was released, or if its lease has ended, or if that ends later than
///   [`LONGEST_LEASE`](super::LONGEST_LEASE) from now. A table that was just made has [`PARTITIONS`] free ones. The
///   same rule tells who is alive.
/// - A partition that gets an owner without having been released counts a crash, and the highest number that was given
///   so far becomes its `suspect_to`. It is absolved, and has no crashes, at the first heartbeat at which its floor has
///   reached `suspect_to` and no event numbered up to that is set aside.
/// - A stored floor never falls, except that one above the highest number is 0 for the next owner: numbers went back.
/// - Every call may be repeated when its answer was lost: nothing is taken, counted or given back twice.
///
/// What is read:
/// - Reading writes nothing and leases nothing. What is read carries [`Token::of_partition`]. A row that cannot be
///   decoded is handed out with the reason, and disturbs no other.
/// - *Fresh* events have status 0, whether they are due or not: who reads one that is not sets it [aside](DELAYED).
///   Events that are set *aside* have status 2.
/// - Rows without a partition are given theirs before a fetch reads: by their key, or spread by their number.
///
/// What is settled, by [`EventStore::settle`](super::EventStore::settle) under the token of a partition:
/// - An outcome is lost unless its row is pending in the partition and that of the event with this id (a failover can
///   take numbers back, and give them to others), and the partition has this epoch; time plays no part. That is checked by the statement that applies it, and but for DONE with the partition locked against the
///   next owner, so that the outcome of an earlier one never comes after.
/// - An outcome that says something of [handlers](super::Settlement::handlers) is lost if what is stored of them is neither
///   what was read nor what it says: an operator has [changed](super::Administration::revise) it.
/// - [`Released`](super::Outcome::Released) leaves an event as it was read: fresh or aside, with the same times.
/// - [`Aside`](super::Outcome::Aside) without an end is for events that wait for their key. It is refused where nobody
///   would bring them back: without a key, and for the reasons [`DELAYED`] and [`REPLAYED`].
/// - [`Parked`](super::Outcome::Parked) parks the event's key, unless that is parked for another one already. The key
///   stays so until the event is replayed or discarded, or its key is [skipped](Self::skip); a purge leaves the event.
/// - A repetition counts no attempt and no start twice; a time to wait may begin anew.
///
/// Modes:
/// - In the mode `claims` nobody acquires or reads, and in the mode `ownership` nobody takes: these calls fail with
///   [`StoreError::Config`].
/// - When the mode changes, all that was held in the other one has ended: leases of takes, owners (with their epochs),
///   waits without an end and parked keys. Every floor lies below what is fresh.
pub trait Ownership: Send + Sync + 'static {
    /// Makes the instance a member, and returns the partitions that are its own. If it is named, those that an earlier
    /// incarnation of its name has left are its own now, under the next epoch, and this incarnation is the
    /// [current](super::EventStore::is_current) one.
    ///
    /// Fails with [`StoreError::Config`], naming them, if members of the other mode are alive; earlier incarnations of
    /// its own name do not count. Otherwise the mode of the table is now this one.
    fn join<'a>(&'a self, instance: &'a Instance) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;

    /// Says that the instance is alive, stores floors that have risen, and makes its leases end `live_for` from now;
    /// those too that have ended and that nobody has taken. Who was struck off after a silence is a member again.
    ///
    /// Fails with [`StoreError::Config`] if the mode of the table is another by now. After an outage tell no floors,
    /// and go on from those that are answered: a failover may have taken numbers back, and only what is stored went
    /// back with them.
    fn beat<'a>(
        &'a self,
        instance: &'a Instance,
        floors: &'a [Floor],
    ) -> BoxFuture<'a, Result<Pulse, StoreError>>;

    /// Takes those of `wanted` that are free, each for itself, and returns them with those that are the instance's own
    /// already. Nothing is given to an instance that was replaced.
    fn acquire<'a>(
        &'a self,
        instance: &'a Instance,
        wanted: &'a [u8],
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;

    /// Stores floors and gives their partitions back, which have nothing in flight any more, so that anybody can take
    /// them at once. What is not the owner's under this epoch stays as it is.
    fn release<'a>(&'a self, owner: &'a Owner, floors: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Strikes the instance off the list of members. What it still owns stays its own until the lease ends.
    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Which numbers have been given, and up to which of them nothing can still appear.
    fn numbers(&self) -> BoxFuture<'_, Result<Numbers, StoreError>>;

    /// Fresh events of the visited partitions above their floors, at most `limit` of each, in the order of their
    /// numbers.
    fn fetch<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;

    /// Fresh events of the visited partitions numbered up to their floors, at most `limit` of each, in the order of
    /// their numbers: there should be none. Where that would mean to read all that is done, each call looks at a part
    /// (a hundred thousand numbers at least), and the next one goes on from there.
    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;

    /// Events of the visited partitions that were set aside and are due, at most `limit` together.
    fn due<'a>(&'a self, visits: &'a [Visit], limit: usize) -> BoxFuture<'a, Result<Due, StoreError>>;

    /// Events of one key that were set aside and hold it or wait for it, due or not, at most `limit`, in the order of
    /// their numbers.
    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, StoreError>>;

    /// The keys of these partitions that must not go on, all of them, each once.
    fn blocked<'a>(&'a self, partitions: &'a [u8]) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>>;

    /// Counts a start of an event that may be to blame for a crash, before it is delivered: `lease.starts + 1`, fenced
    /// like an outcome. False if the lease was lost. Every outcome but DONE takes it back.
    fn start<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Frees parked keys for an operator, leaving the events that they were parked for dead, and returns how many were
    /// parked.
    fn skip<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<u64, StoreError>>;
}

const _: () = assert!(PARTITIONS == 256, "a partition is a byte");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// O5: the fence of a partition is never mistaken for the token of a take, nor the other way round.
    #[test]
    fn tokens_at_the_limits_come_back() {
        for partition in [0, 1, 127, 128, 255] {
            for epoch in [Epoch(0), Epoch(1), Epoch(255), Epoch(256), Epoch(Epoch::MAX.0 - 1), Epoch::MAX] {
                let token = Token::of_partition(partition, epoch);

                assert!(token.0 < 0, "{token:?}");
                assert_eq!(token.partition(), Some((partition, epoch)));
            }
        }
        for bits in [0, 1, u64::MAX / 2, u64::MAX] {
            assert_eq!(Token::from_bits(bits).partition(), None);
        }
    }

    proptest! {
        /// O5: two partitions, and two epochs of one, never have the same token.
        #[test]
        fn tokens_of_partitions_are_distinct(
            one in (any::<u8>(), 0..=Epoch::MAX.0),
            other in (any::<u8>(), 0..=Epoch::MAX.0),
        ) {
            let token = |(partition, epoch)| Token::of_partition(partition, Epoch(epoch));

            prop_assert_eq!(token(one).partition(), Some((one.0, Epoch(one.1))));
            prop_assert_eq!(token(one) == token(other), one == other);
        }

        /// O5: whatever a take draws is no partition's.
        #[test]
        fn tokens_of_takes_are_of_no_partition(bits in any::<u64>()) {
            prop_assert_eq!(Token::from_bits(bits).partition(), None);
        }
    }
}
