//! Taking work by owning partitions: membership, leases, and reading what is owned.

use std::time::Duration;

use super::{Owner, StoreError, Taken, Token};
use crate::PARTITIONS;
use crate::runtime::BoxFuture;

/// An event that was set aside for one of these reasons neither waits for its key nor holds it.
pub const DELAYED: &str = "delayed";
/// See [`DELAYED`].
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

impl Token {
    /// The token of everything that is read from a partition under this epoch. Those of takes are never negative,
    /// these always are.
    pub const fn of_partition(partition: u8, epoch: Epoch) -> Self {
        Self(!((epoch.0 << 8) | partition as i64))
    }

    /// The partition and the epoch, if this is the token of one.
    pub const fn partition(self) -> Option<(u8, Epoch)> {
        if self.0 < 0 { Some((!self.0 as u8, Epoch(!self.0 >> 8))) } else { None }
    }
}

/// How often a partition has changed hands; grows by one each time. At most 54 bits are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

/// An instance that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who it is.
    pub owner: Owner,
    /// How it takes work.
    pub mode: Mode,
    /// How long ago it joined.
    pub joined_ago: Duration,
    /// How long ago it was last heard of.
    pub silent_for: Duration,
}

/// A partition that an instance has got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Which one; below [`PARTITIONS`].
    pub partition: u8,
    /// The fence for all that is done with it.
    pub epoch: Epoch,
    /// No fresh event numbered up to this is pending, nor can one appear.
    pub floor: i64,
    /// How many owners in a row have lost it without giving it back.
    pub crashes: u32,
    /// Events numbered up to this were there to be delivered when the last of them was lost.
    pub suspect_to: i64,
}

/// What an instance tells with a heartbeat.
#[derive(Clone, Debug)]
pub struct Beat {
    /// Who it is.
    pub owner: Owner,
    /// How long it counts as alive from now, and its partitions as its own; at most
    /// [`LONGEST_LEASE`](super::LONGEST_LEASE).
    pub live_for: Duration,
    /// Floors that have risen since the last one.
    pub floors: Vec<Floor>,
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
    /// Whether everything up to `suspect_to` is settled: nobody is suspected any more.
    pub is_absolved: bool,
}

/// The answer to a [`Beat`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// Everybody who is alive, in the order of their names.
    pub members: Vec<Member>,
    /// The partitions that are the caller's own, each with its epoch, now for as long as it asked.
    pub held: Vec<(u8, Epoch)>,
    /// The name of a younger incarnation has taken this one's place: it owns nothing and never will again.
    pub is_replaced: bool,
}

/// What is asked of [`Ownership::fetch`].
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The partitions to be read, with the floors to read from.
    pub visits: Vec<Visit>,
    /// The most events from one partition.
    pub limit: usize,
}

/// One partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Which one.
    pub partition: u8,
    /// Under which epoch; it marks what is handed out and is not checked here.
    pub epoch: Epoch,
    /// Only events numbered above this.
    pub floor: i64,
    /// Not these, which the owner has already.
    pub in_flight: Vec<i64>,
}

/// A key that must not go on: one of its events was set aside, or it is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The key.
    pub key: String,
    /// The lowest number of its events that are set aside; none if it is parked and nothing has followed.
    pub first: Option<i64>,
    /// The event that it is parked for.
    pub parked_for: Option<String>,
}

/// Owning partitions, and reading from those that are owned.
///
/// Reading writes nothing. What is read carries [`Token::of_partition`], and
/// [`EventStore::settle`](super::EventStore::settle) applies an outcome under such a token only while the partition has
/// this epoch, whatever the time is: checked in the same statement, with the row of the partition locked for every
/// outcome but DONE.
///
/// # Contract
/// - All times are the database's. At one moment of its clock a partition has at most one owner whose lease has not
///   ended. Epochs only grow: by one with every new owner, and when an owner takes its own back after a restart.
/// - A partition is free if it was released, or if its lease has ended, or if that ends later than
///   [`LONGEST_LEASE`](super::LONGEST_LEASE) from now. A table that was just made has [`PARTITIONS`] free ones with the
///   floor 0.
/// - Nothing is handed out below the floor that is asked for. A floor that is stored never falls, except by
///   [`acquire`](Self::acquire) and [`join`](Self::join) after the numbers of the table went back.
/// - A key's rows are all in its partition. Rows without a partition are given theirs before a fetch reads: by their
///   key, or spread by their number.
pub trait Ownership: Send + Sync + 'static {
    /// Registers an instance, to count as alive for `live_for`, and returns the partitions that an earlier incarnation
    /// of its name has left: they are its own now, under the next epoch. Only a name that an operator set may take over
    /// (`takes_over`).
    ///
    /// Fails with [`StoreError::Config`], naming them, if instances of another mode are alive; otherwise the mode of
    /// the table is now this one.
    fn join<'a>(
        &'a self,
        owner: &'a Owner,
        mode: Mode,
        takes_over: bool,
        live_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;

    /// Says that the instance is alive, stores its floors, and makes its leases end `live_for` from now. Leases that
    /// have ended and that nobody has taken are renewed as well.
    fn beat(&self, beat: Beat) -> BoxFuture<'_, Result<Pulse, StoreError>>;

    /// Takes those of `wanted` that are free, each for itself, and returns them.
    ///
    /// One that was not released counts a crash, and its `suspect_to` becomes the highest number of the table.
    fn acquire<'a>(
        &'a self,
        owner: &'a Owner,
        wanted: &'a [u8],
        live_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<Holding>, StoreError>>;

    /// Gives partitions back, with nothing of theirs in flight, so that anybody can take them at once. What is not the
    /// owner's under this epoch stays as it is.
    fn release<'a>(&'a self, owner: &'a Owner, held: &'a [Floor]) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Strikes the instance off the list. What it still owns stays its own until the lease ends.
    fn leave<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<(), StoreError>>;

    /// The closed number: no event that is numbered up to it can still appear. Never falls while this process is
    /// connected, and may lag behind for as long as a writer's transaction is open.
    fn closed(&self) -> BoxFuture<'_, Result<i64, StoreError>>;

    /// Fresh events (status 0) of the visited partitions above their floors, in the order of their numbers.
    fn fetch(&self, fetch: Fetch) -> BoxFuture<'_, Result<Vec<Taken>, StoreError>>;

    /// Events of these partitions that were set aside (status 2) and are due, the earliest first, at most `limit`, and
    /// how long until the next one is.
    fn due<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<(Vec<Taken>, Option<Duration>), StoreError>>;

    /// Events of one key that were set aside, in the order of their numbers, at most `limit`, whether they are due or
    /// not.
    fn aside_of<'a>(
        &'a self,
        visit: &'a Visit,
        key: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Taken>, StoreError>>;

    /// The keys of a partition that must not go on.
    fn blocked<'a>(&'a self, partition: u8) -> BoxFuture<'a, Result<Vec<Blocked>, StoreError>>;

    /// Fresh events of the visited partitions below their floors, at most `limit`: there should be none.
    fn below<'a>(
        &'a self,
        visits: &'a [Visit],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Taken>, StoreError>>;

    /// Counts a start of an event of a suspected partition, before it is delivered, under the lease that was read.
    /// False if the lease was lost.
    fn start<'a>(&'a self, lease: &'a super::Lease) -> BoxFuture<'a, Result<bool, StoreError>>;
}

const _: () = assert!(PARTITIONS == 256, "a partition is a byte");
