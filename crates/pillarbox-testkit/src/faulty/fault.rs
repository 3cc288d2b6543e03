//! How calls to a store go, and what is seen of them.

use std::time::Duration;

use pillarbox::store::{
    Batch, Birth, Fetched, Floor, Found, Holding, Instance, Lease, Owner, Pulse, Settlement, Take, Taken,
    Token, Visit,
};
use pillarbox::{BoxFuture, Event, PartitionSet};

/// A call to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`EventStore::take`](pillarbox::store::EventStore::take).
    Take,
    /// [`EventStore::settle`](pillarbox::store::EventStore::settle).
    Settle,
    /// [`EventStore::renew`](pillarbox::store::EventStore::renew).
    Renew,
    /// [`EventStore::read_back`](pillarbox::store::EventStore::read_back).
    ReadBack,
    /// [`EventStore::resume`](pillarbox::store::EventStore::resume).
    Resume,
    /// [`EventStore::is_current`](pillarbox::store::EventStore::is_current).
    IsCurrent,
    /// [`TxStore::begin`](pillarbox::store::TxStore::begin).
    Begin,
    /// [`TxStore::insert`](pillarbox::store::TxStore::insert).
    Insert,
    /// [`TxStore::commit`](pillarbox::store::TxStore::commit).
    Commit,
    /// [`TxStore::rollback`](pillarbox::store::TxStore::rollback).
    Rollback,
    /// Any call of [`Administration`](pillarbox::store::Administration).
    Administer,
    /// [`Ownership::join`](pillarbox::store::Ownership::join).
    Join,
    /// [`Ownership::beat`](pillarbox::store::Ownership::beat).
    Beat,
    /// [`Ownership::acquire`](pillarbox::store::Ownership::acquire).
    Acquire,
    /// [`Ownership::release`](pillarbox::store::Ownership::release).
    Release,
    /// [`Ownership::leave`](pillarbox::store::Ownership::leave).
    Leave,
    /// [`Ownership::numbers`](pillarbox::store::Ownership::numbers).
    Numbers,
    /// [`Ownership::fetch`](pillarbox::store::Ownership::fetch).
    Fetch,
    /// [`Ownership::below`](pillarbox::store::Ownership::below).
    Below,
    /// [`Ownership::due`](pillarbox::store::Ownership::due).
    Due,
    /// [`Ownership::aside_of`](pillarbox::store::Ownership::aside_of).
    AsideOf,
    /// [`Ownership::blocked`](pillarbox::store::Ownership::blocked).
    Blocked,
    /// [`Ownership::start`](pillarbox::store::Ownership::start).
    Start,
    /// [`Ownership::skip`](pillarbox::store::Ownership::skip).
    Skip,
}

/// What happens in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It takes effect, and the answer arrives.
    Answer,
    /// It fails before it took effect, and nobody can tell.
    FailBefore,
    /// It takes effect, and then fails: the answer is lost.
    FailAfter,
    /// A commit is rolled back and says so; any other call fails before it took effect.
    RollBack,
    /// Another transaction has locked a row: a settlement or a renewal names it and does nothing else; any other
    /// call takes effect, and the answer arrives.
    Lock,
    /// It never takes effect and never answers.
    Hang,
}

/// How one call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Time that passes before the effect.
    pub before: Duration,
    /// What happens then.
    pub then: Then,
    /// Time that passes between the effect and the answer.
    pub after: Duration,
}

impl Fault {
    /// No fault, no delay.
    pub const NONE: Self = Self { before: Duration::ZERO, then: Then::Answer, after: Duration::ZERO };
}

/// What a call changed or found, told at the moment at which it took effect.
#[derive(Debug)]
pub enum Effect<'a> {
    /// Events were handed out.
    Taken(&'a Take, &'a Batch),
    /// Outcomes were recorded, but for those numbers whose lease was lost.
    Settled(&'a [Settlement], &'a [i64]),
    /// Leases were renewed for a time, but for those numbers that were lost.
    Renewed(&'a [Lease], Duration, &'a [i64]),
    /// The hot path found its rows.
    Found(Token, &'a [Found]),
    /// The leases of earlier incarnations of this owner's name were ended.
    Resumed(&'a Owner),
    /// Events were inserted into a transaction that has not been committed yet.
    Inserted(&'a [Event], Option<&'a Birth>),
    /// A settlement failed, and its caller does not know whether it took effect.
    Unsettled(&'a [Settlement]),
    /// A transaction was committed, or rolled back with an answer that says otherwise.
    Committed,
    /// An instance became a member, and these partitions are its own.
    Joined(&'a Instance, &'a [Holding]),
    /// An instance was heard of, and told these floors.
    Beaten(&'a Instance, &'a [Floor], &'a Pulse),
    /// These partitions were given to an instance, or were its own already.
    Acquired(&'a Instance, &'a [Holding]),
    /// Partitions were given back with these floors.
    GivenBack(&'a Owner, &'a [Floor]),
    /// Events of these partitions were read by this call.
    Read(Call, &'a [Visit], &'a [Fetched]),
    /// The start of an event was counted, unless its lease was lost.
    Started(&'a Taken, bool),
}

/// Decides how calls go, and sees what they did.
///
/// # Contract
/// To repeat a run from a seed, the answers must depend on nothing but the calls before.
pub trait Faults: Send + Sync + 'static {
    /// How the next call goes.
    fn next(&self, call: Call) -> Fault;

    /// A call took effect.
    fn took_effect(&self, effect: Effect<'_>);

    /// The call of the task that is polled has taken effect, or never will; its answer is on the way. Nothing, if nobody
    /// needs to know.
    fn is_over(&self) {}

    /// The answer of a call has arrived, and is no error. Nothing, if nobody needs to know.
    fn answered(&self, _call: Call) {}

    /// Changes when all sessions are cut: calls that are under way then fail, whether they have taken effect or not.
    fn session(&self) -> u64 {
        0
    }

    /// The store was asked to tell other processes that there is something new in these partitions. Nobody hears it,
    /// unless they are told.
    fn announced(&self, partitions: PartitionSet) {
        let _ = partitions;
    }

    /// Completes when another process has told that there is something new, with where it is. Nobody does, unless it is
    /// said here.
    fn heard(&self) -> BoxFuture<'_, PartitionSet> {
        Box::pin(std::future::pending())
    }
}
