//! What operators ask of a store.

use std::time::Duration;

use super::{Census, Outline, PausedRoute, Progress, Revision, StoreError};
use crate::runtime::BoxFuture;
use crate::{Event, Timestamp};

/// Where an event stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// 0: never tried, or given back untried.
    New,
    /// 1: delivered.
    Done,
    /// 2: to be tried again.
    Retry,
    /// 3: given up, until an operator replays it.
    Dead,
}

impl Status {
    /// The number in the table.
    pub const fn code(self) -> u8 {
        match self {
            Self::New => 0,
            Self::Done => 1,
            Self::Retry => 2,
            Self::Dead => 3,
        }
    }

    /// The status with this number, if there is one.
    pub const fn from_code(code: i64) -> Option<Self> {
        match code {
            0 => Some(Self::New),
            1 => Some(Self::Done),
            2 => Some(Self::Retry),
            3 => Some(Self::Dead),
            _ => None,
        }
    }

    /// Whether the event waits to be delivered.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::New | Self::Retry)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::New => "NEW",
            Self::Done => "DONE",
            Self::Retry => "RETRY",
            Self::Dead => "DEAD",
        })
    }
}

/// A row as an operator sees it.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// Its number.
    pub seq: i64,
    /// Its id, even if the rest cannot be read.
    pub event_id: String,
    /// Where it stands; the number itself if it is none of the four.
    pub status: Result<Status, i64>,
    /// Failed deliveries.
    pub attempts: u32,
    /// Takes without an outcome.
    pub starts: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it became, or becomes, due.
    pub due_at: Timestamp,
    /// When it can be taken: its due time, or the end of its lease.
    pub available_at: Timestamp,
    /// When it was delivered.
    pub done_at: Option<Timestamp>,
    /// Who holds it (`name/incarnation`).
    pub locked_by: Option<String>,
    /// Why the last delivery failed.
    pub last_error: Option<String>,
    /// Why it was set aside.
    pub reason: Option<String>,
    /// How far its handlers have come: a JSON object that says of each whether it is done, owed or dead; `None` as long as
    /// none has failed, nor was cut off.
    pub handlers: Option<String>,
    /// The event, or why the row cannot be read.
    pub event: Result<Event, String>,
}

/// How many events there are, and how old the oldest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Status 0.
    pub new: u64,
    /// Status 2.
    pub retry: u64,
    /// Status 3.
    pub dead: u64,
    /// Status 1, estimated without a scan.
    pub done_estimate: u64,
    /// How long the oldest pending event has been due; `None` if none is due.
    pub oldest_due_for: Option<Duration>,
}

impl Stats {
    /// Events that wait to be delivered.
    pub fn pending(&self) -> u64 {
        self.new + self.retry
    }
}

/// A page of a listing, by number.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Start behind this number; 0 for the first page.
    pub after: i64,
    /// The most rows.
    pub limit: usize,
}

/// Which dead events an operator means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These event ids.
    Ids(Vec<String>),
    /// Those with these numbers, both ends included. For "all", take the highest number first
    /// ([`Administration::highest`]) and go up in steps, so that events that die meanwhile are not meant.
    Numbers {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
    },
}

/// One step of a purge.
#[derive(Clone, Copy, Debug)]
pub struct Purge {
    /// Delete what was done (or, for dead events, written) at least this long ago.
    pub older_than: Duration,
    /// Look at no more than this many rows.
    pub limit: usize,
    /// Start behind this number; 0 at first.
    pub after: i64,
    /// Delete dead events too.
    pub dead_too: bool,
}

/// What one step of a purge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    /// How many rows were deleted.
    pub deleted: u64,
    /// Where the next step goes on; `None` when there is nothing more to look at.
    pub next: Option<i64>,
}

/// What operators ask of a store.
///
/// # Contract
/// - [`replay`](Administration::replay) and [`discard`](Administration::discard) touch dead events only.
///   A replayed event is status 2, with no attempts and no starts, due now; its last error is kept.
/// - [`purge`](Administration::purge) never touches pending events, nor dead ones unless asked, and holds
///   its locks for one step only.
/// - A [`census`](Administration::census) is one snapshot and changes nothing: who fell silent is still listed. It works
///   in both modes.
/// - [`revise`](Administration::revise) changes an event only if it is not done and has exactly the text that was told. One
///   that is leased by a take is left alone; one whose lease has ended belongs to nobody afterwards, so that who overslept
///   records nothing. A pending event becomes available when it is due, unless it waits for nothing but its key; a dead one
///   stays dead, unless it is to be replayed.
/// - A route is paused for everybody who reads it from the same tables, until somebody resumes it. Of several who pause or
///   resume it at once, one is told that something changed. Any text of up to 64 characters is kept byte for byte.
/// - [`recall`](Administration::recall) touches pending events only that were set aside with exactly that reason until some
///   time; not one that is leased, nor one that waits for nothing but its key. They can be taken when they are due, and
///   have no reason any more.
/// - An [`Outline`] is told of rows that cannot be read, too.
/// - Nothing here costs a scan of done rows.
pub trait Administration: Send + Sync + 'static {
    /// Counts.
    fn stats(&self) -> BoxFuture<'_, Result<Stats, StoreError>>;

    /// Who takes part, who owns which partition, and what waits in each.
    ///
    /// With [`Mode::Ownership`](super::Mode::Ownership) it reads every pending row once by its partition and, of those
    /// set aside, once by its key.
    fn census(&self) -> BoxFuture<'_, Result<Census, StoreError>>;

    /// The highest number given so far; 0 if there is none.
    fn highest(&self) -> BoxFuture<'_, Result<i64, StoreError>>;

    /// One event by its id.
    fn find<'a>(&'a self, event_id: &'a str) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>>;

    /// The events of an aggregate, in the order of their numbers, without a scan.
    fn find_by_aggregate<'a>(
        &'a self,
        aggregate_id: &'a str,
        page: Page,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>>;

    /// Dead events, in the order of their numbers.
    fn dead(&self, page: Page) -> BoxFuture<'_, Result<Vec<StoredEvent>, StoreError>>;

    /// Makes dead events pending again, and returns how many.
    fn replay<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Deletes dead events, and returns the ids of the deleted.
    fn discard<'a>(&'a self, selection: &'a Selection) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// Events that are not done and of whose handlers something is stored, at most `limit`, in no order; only such as may
    /// name `handler`, if that is given. Those whose text is no text of the engine's are among them.
    ///
    /// Reads pending and dead events by their indexes, as [`stats`](Self::stats) does, until there are enough.
    fn progress<'a>(
        &'a self,
        handler: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Progress>, StoreError>>;

    /// Changes what is stored of the handlers of these events, in one transaction, and returns the numbers of those that
    /// were changed. For [`HandlerChange`](super::HandlerChange), which knows what a text may become.
    fn revise<'a>(&'a self, revisions: &'a [Revision]) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;

    /// Deletes old events, one bounded step at a time.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged, StoreError>>;

    /// The routes that are paused, in the order of their names.
    fn paused_routes(&self) -> BoxFuture<'_, Result<Vec<PausedRoute>, StoreError>>;

    /// Pauses a route, and returns whether it was not paused before. Relays see it when they next look.
    fn pause_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Ends the pause of a route, and returns whether it was paused. For its events see [`PausedRoute::recall`].
    fn resume_route<'a>(&'a self, route: &'a str) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Lets events be taken that were set aside with this reason, at most `limit`, and returns how many; none if there is
    /// no such event. For [`PausedRoute::recall`].
    ///
    /// Reads what was set aside by its index until there are enough.
    fn recall<'a>(&'a self, reason: &'a str, limit: usize) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Events of any status without what they carry, in the order of their numbers.
    fn outlines(&self, page: Page) -> BoxFuture<'_, Result<Vec<Outline>, StoreError>>;

    /// The same for these numbers, as far as there are such events, in the order of their numbers.
    fn outlines_of<'a>(&'a self, numbers: &'a [i64]) -> BoxFuture<'a, Result<Vec<Outline>, StoreError>>;
}
