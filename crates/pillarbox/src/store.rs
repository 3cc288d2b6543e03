//! What a database owes the outbox, in five small contracts.
//!
//! [`EventStore`] hands out work and records what became of it, [`TxStore`] writes inside the caller's
//! transaction, [`Ownership`] knows who takes part and hands out work by partitions, [`Administration`] serves operators,
//! and [`WakeUp`] tells of events that others wrote.
//!
//! Durations cross this boundary, never instants: the database is the only clock. (`occurred_at`, and a
//! delivery time that the user gave, are data and pass as they are.)

mod admin;
mod census;
mod diagnosis;
mod error;
mod handlers;
mod outline;
mod ownership;
mod routes;
mod tx;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

pub use admin::{Administration, Page, Purge, Purged, Selection, Stats, Status, StoredEvent};
pub use census::{Census, Registration, Tenancy};
pub use diagnosis::{Check, Diagnosis, Health};
pub use error::{CommitError, InsertError, StoreError};
pub use handlers::{
    HandlerCensus, HandlerChange, HandlerCount, HandlersChanged, Progress, Revision, handler_needle,
};
pub use outline::Outline;
pub use ownership::{
    Blocked, DELAYED, Due, Epoch, Fetched, Floor, Holding, Instance, Member, Mode, Numbers, Ownership, Pulse,
    REPLAYED, Visit,
};
pub use routes::PausedRoute;
pub(crate) use routes::paused;
pub use tx::{Birth, TxStore};

use crate::runtime::BoxFuture;
use crate::{Event, PartitionSet, Timestamp};

/// The longest lease that can be asked for. One that ends later than this from now counts as expired:
/// the database's clock went back.
pub const LONGEST_LEASE: Duration = Duration::from_secs(3_600);

/// The longest error text that a store keeps, in characters; see [`cut_error`].
pub const MAX_ERROR: usize = 4_000;

/// Marks the rows of one take, so that settling can tell whether they still belong to it.
///
/// Drawn at random (63 bits, not negative) for every take. What is claimed at birth has a token for
/// [each event](Token::of_event), and what is read from a partition one for [that](Token::of_partition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// The token that these random bits make.
    pub const fn from_bits(bits: u64) -> Self {
        Self((bits >> 1) as i64)
    }

    /// The token of one event among those that are born under this one.
    ///
    /// A failover can give an event's number to another. Were they born under the same token, an outcome that is recorded
    /// late would be taken for the other's, which would pass for done without a delivery.
    pub fn of_event(self, event_id: &str) -> Self {
        let mut hash = DefaultHasher::new();
        event_id.hash(&mut hash);
        Self(self.0 ^ Self::from_bits(hash.finish()).0)
    }
}

/// Who takes: a name that may survive a restart, and an incarnation that never does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    name: String,
    incarnation: u64,
}

impl Owner {
    /// The incarnation `incarnation` of the instance `name`.
    pub fn new(name: impl Into<String>, incarnation: u64) -> Self {
        Self { name: name.into(), incarnation }
    }

    /// The name, the same before and after a restart if the operator set it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Owner {
    /// `name/incarnation`, as it stands in `locked_by`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.name, self.incarnation)
    }
}

/// What is asked of [`EventStore::take`].
#[derive(Clone, Debug)]
pub struct Take {
    /// Who asks.
    pub owner: Owner,
    /// The mark for the rows that are handed out.
    pub token: Token,
    /// The most events to hand out.
    pub limit: usize,
    /// How long they are leased; at most [`LONGEST_LEASE`].
    pub lease_for: Duration,
    /// Leave events alone that were written less than this ago.
    pub skip_recent: Duration,
    /// Also look for leases that end implausibly late because the database's clock went back.
    pub sweep: bool,
}

/// The right to deliver one event and to record what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The event's number in its table.
    pub seq: i64,
    /// The mark of the take that gave this lease.
    pub token: Token,
    /// Failed deliveries before this one.
    pub attempts: u32,
    /// Takes without an outcome before this one: the process died, or its lease ran out.
    pub starts: u32,
}

/// One event that was handed out.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The right to deliver and settle it.
    pub lease: Lease,
    /// Its id, even if the rest could not be read.
    pub event_id: String,
    /// When it was written, by the database's clock.
    pub created_at: Timestamp,
    /// How long ago it became due, by the database's clock.
    pub due_for: Duration,
    /// How far its handlers have come, as it was [settled](Settlement::handlers) last.
    pub handlers: Option<String>,
    /// The event, or why the row cannot be read.
    pub event: Result<Event, String>,
}

/// The answer to a [`Take`].
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// What was handed out: the earliest available first, ties by number.
    pub events: Vec<Taken>,
    /// When this is shorter than asked for: how long until the next pending event can be taken, if there is
    /// one; for an event that is only too recent, until it no longer is.
    pub next_due_in: Option<Duration>,
}

/// An event of the hot path whose row exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The event's id.
    pub event_id: String,
    /// Its number.
    pub seq: i64,
    /// When it was written, by the database's clock.
    pub created_at: Timestamp,
}

/// What became of a taken event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was delivered.
    Done,
    /// A handler failed and all the same nothing is left to do, because its fallback succeeded: done, with an attempt
    /// spent.
    FellBack {
        /// Why the handler failed; kept as the last error, cut at [`MAX_ERROR`] characters.
        error: String,
    },
    /// It was not delivered and is to be tried again.
    Retry {
        /// How long to wait.
        after: Duration,
        /// Why it failed; kept as the last error, cut at [`MAX_ERROR`] characters. If it is empty, nothing failed now,
        /// and the last error stays.
        error: String,
        /// Whether this counts as an attempt.
        spent: bool,
    },
    /// It cannot run now; nothing is spent and its due time stays.
    Aside {
        /// When to look again; `None` (until its key goes on) only for the owner of its partition.
        until: Option<Duration>,
        /// Why, for people who look.
        reason: String,
    },
    /// It will not be tried again until an operator replays it.
    Dead {
        /// Why; kept as the last error, cut at [`MAX_ERROR`] characters. If it is empty, the last error stays.
        error: String,
        /// Whether this counts as an attempt.
        spent: bool,
    },
    /// It is dead, and its key waits until an operator replays, skips or discards it. Only for the owner of its
    /// partition; an event without a key is just dead.
    Parked {
        /// Why; kept as the last error, cut at [`MAX_ERROR`] characters. If it is empty, the last error stays.
        error: String,
        /// Whether this counts as an attempt.
        spent: bool,
    },
    /// It was not tried; give it back as it was.
    Released,
}

impl Outcome {
    /// Whether the event waits to be taken again.
    pub fn comes_again(&self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Aside { .. } | Self::Released)
    }

    /// Whether the event is done.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::FellBack { .. })
    }

    /// Whether this outcome counts as an attempt.
    pub fn spends(&self) -> bool {
        matches!(
            self,
            Self::FellBack { .. }
                | Self::Retry { spent: true, .. }
                | Self::Dead { spent: true, .. }
                | Self::Parked { spent: true, .. }
        )
    }

    /// Whether only the owner of a partition may settle so: under the token of a take it is refused.
    pub fn needs_owner(&self) -> bool {
        matches!(self, Self::Aside { until: None, .. } | Self::Parked { .. })
    }
}

/// One outcome to be recorded under the lease that it was made under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The event's id: after a failover its number may be another's.
    pub event_id: String,
    /// The lease, as it was taken.
    pub lease: Lease,
    /// What became of the event.
    pub outcome: Outcome,
    /// How far its handlers have come, in the engine's own words; `None` leaves what is stored. DONE forgets it.
    pub handlers: Option<String>,
    /// How far they had come when the event was handed out. The owner of a partition says nothing of handlers over what
    /// an operator has [changed](Administration::revise) since; the token of a take is gone by then.
    pub handlers_before: Option<String>,
}

impl Settlement {
    /// What became of an event, with nothing to say of its handlers.
    pub fn new(event_id: impl Into<String>, lease: Lease, outcome: Outcome) -> Self {
        Self { event_id: event_id.into(), lease, outcome, handlers: None, handlers_before: None }
    }

    /// What became of an event that was handed out.
    pub fn of(taken: &Taken, outcome: Outcome) -> Self {
        let handlers_before = taken.handlers.clone();
        Self { handlers_before, ..Self::new(&taken.event_id, taken.lease, outcome) }
    }
}

/// What happens to the row of a delivered event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoneRows {
    /// It stays, with the status DONE.
    #[default]
    Keep,
    /// It is deleted.
    Delete,
}

/// Hands out work under leases and records what became of it.
///
/// # Contract
/// - A taken event is handed out to nobody else before its lease ends (by the database's clock at the
///   statement) or is settled. Only pending events (status 0 or 2) that are available are handed out: the
///   earliest available first, ties by number. A take raises `starts`; [`Lease`] has the value before.
/// - A row that cannot be decoded is handed out with the reason, and disturbs no other.
/// - A settlement changes its row only while the row is pending and carries the lease's token; time plays no
///   part. What it did not change is reported as lost. Repeating a settlement changes nothing more.
/// - Every outcome but DONE restores `starts` to the lease's value. A spent attempt is written as
///   `lease.attempts + 1`, never by counting up, and only over `lease.attempts`: if the row says otherwise,
///   the settlement is lost. Not so [DONE](Outcome::FellBack), which is true whoever has counted since: it is recorded, and
///   the row keeps its attempts.
/// - A lease longer than [`LONGEST_LEASE`] is refused, at birth and in a renewal too, and so is an outcome that
///   [needs an owner](Outcome::needs_owner).
/// - Under the token of a partition [`Ownership`] says what a settlement does.
/// - One settlement that the database refuses is an error for the whole call with nothing applied, so that
///   the caller can bisect. So are rows that another transaction has locked, for a settlement and a renewal:
///   [`StoreError::Locked`] names them, so that the caller can leave them out.
/// - [`Retry`](Outcome::Retry) moves the due time, [`Aside`](Outcome::Aside) and
///   [`Released`](Outcome::Released) do not. An empty error leaves the last one as it is.
/// - What a settlement says of [handlers](Settlement::handlers) is stored with its outcome and handed out again with the
///   event, byte for byte; DONE forgets it, and replay keeps it.
/// - An error means that nothing is known about the effect, except where [`StoreError`] says so.
pub trait EventStore: Send + Sync + 'static {
    /// Hands out up to `take.limit` events under a lease.
    fn take(&self, take: Take) -> BoxFuture<'_, Result<Batch, StoreError>>;

    /// Records outcomes, all or none, and returns the numbers of those whose lease was lost.
    fn settle<'a>(
        &'a self,
        settlements: &'a [Settlement],
        done: DoneRows,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;

    /// Makes leases end `lease_for` from now, and returns the numbers of those that were lost.
    fn renew<'a>(
        &'a self,
        leases: &'a [Lease],
        lease_for: Duration,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;

    /// Which of these events, born under `token`, are pending under [theirs](Token::of_event): committed, and still
    /// ours.
    fn read_back<'a>(
        &'a self,
        token: Token,
        event_ids: &'a [String],
    ) -> BoxFuture<'a, Result<Vec<Found>, StoreError>>;

    /// Ends all leases of earlier incarnations of `owner`'s name, and returns how many there were.
    ///
    /// Only for names that an operator set and keeps unique. `starts` stays: these takes had no outcome.
    fn resume<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Whether no other incarnation of `owner`'s name has [joined](Ownership::join) after it: false if it was
    /// replaced, or if another of its name is alive.
    ///
    /// Only for names that an operator set, and for those who have joined: who has not is no successor yet of an earlier
    /// incarnation that is still listed.
    fn is_current<'a>(&'a self, owner: &'a Owner) -> BoxFuture<'a, Result<bool, StoreError>>;
}

/// Carries hints between processes that there is something to take: losing one costs latency and nothing else.
///
/// # Contract
/// - After [`announce`](WakeUp::announce) in one process, [`changed`](WakeUp::changed) completes in every other
///   that waits for it or asks next; more often is allowed.
/// - Its answers name all partitions that were announced since the one before; more are allowed, and all of them where
///   nobody knows which.
/// - Neither fails: a database that cannot be reached, or that has no such way, keeps its hints to itself.
pub trait WakeUp: Send + Sync + 'static {
    /// Completes when another process may have written events since the last call, with the partitions that they may
    /// be in; never, if the database has no way to know. Cancelling it loses nothing.
    fn changed(&self) -> BoxFuture<'_, PartitionSet>;

    /// Tells other processes that events of these partitions were committed which they may take; does nothing where
    /// they see it by themselves. Called after the commit, outside of any transaction, and never twice at once by one
    /// outbox.
    fn announce(&self, partitions: PartitionSet) -> BoxFuture<'_, ()>;
}

/// Cuts an error text at [`MAX_ERROR`] characters, on a character boundary, and takes NUL out of it.
pub fn cut_error(error: &str) -> String {
    error.chars().filter(|&character| character != '\0').take(MAX_ERROR).collect()
}
