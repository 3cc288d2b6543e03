//! What every case needs of a database: new outboxes, a store on them, and the same work by hand.

use std::fmt;
use std::ops::Range;

use anyhow::Result;
use pillarbox::store::TxStore;
use pillarbox::{Event, Store};
use sqlx::{Pool, Transaction};

use crate::cases::Case;
use crate::measure::Scale;
use crate::report::{Goal, Line};

/// Taking raises `starts`, and being done leaves it as it is.
pub(crate) const TAKEN_ONCE: &str = "SELECT count(*) FROM outbox_event WHERE status = 1 AND starts = 1";

/// The aggregate type and the event type of every event that is measured.
pub(crate) const AGGREGATE: &str = "Order";
pub(crate) const EVENT: &str = "OrderPlaced";

/// A connection of the driver of a database, as statements by hand need it.
pub(crate) type Connection<D> = <<D as Database>::Driver as sqlx::Database>::Connection;

/// An event as the loop by hand reads it: number, id, types, aggregate, key, headers, attempts and payload.
pub(crate) type Claimed =
    (i64, String, String, String, Option<String>, Option<String>, Option<String>, i32, Option<String>);

/// Which database an outbox is in: a path or a URL, complete enough for another process.
#[derive(Clone)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn new(address: impl Into<String>) -> Self {
        Self(address.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What filled-in events are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Pending, each with a key of its own.
    Pending,
    /// Pending, with so many keys in turn.
    Keys(usize),
    /// Pending, all with this key.
    Key(&'static str),
    /// Done, each with a key of its own.
    Done,
}

impl Fill {
    /// The key of the event with this number.
    pub(crate) fn key(self, number: i64) -> String {
        match self {
            Self::Pending | Self::Done => format!("order-{number}"),
            Self::Keys(keys) => format!("order-{}", number % keys as i64),
            Self::Key(key) => key.to_owned(),
        }
    }
}

/// What the results of a database have to show, where databases differ.
pub(crate) struct Goals {
    pub(crate) write: Goal,
    pub(crate) drain: Goal,
    pub(crate) run_sink: Option<Goal>,
    /// Draining by ownership, measured against draining by claims.
    pub(crate) owned: Option<Goal>,
}

/// A place where databases of one kind are made, and how a careful engineer would use one by hand.
///
/// By hand means: the same driver, table, indexes and settings as the store's, statements that stay prepared, and
/// nothing that the work does not need.
pub(crate) trait Database: Sized + Send + Sync + 'static {
    /// As it stands in results and on the command line.
    const NAME: &'static str;
    /// The cases that there are for it, in the order in which they run.
    const CASES: &'static [Case];
    const GOALS: Goals;

    type Driver: sqlx::Database;
    type Store: Store + TxStore<Connection = Connection<Self>> + Clone;

    /// Makes a database with an empty outbox and an empty table `orders`; empties one of that name.
    fn create(&self, name: &str) -> impl Future<Output = Result<Address>> + Send;

    /// Removes all that was made here.
    fn clear(&self) -> impl Future<Output = Result<()>> + Send;

    /// Runs one of [`CASES`](Self::CASES).
    fn measure(&self, case: Case, scale: Scale) -> impl Future<Output = Result<Vec<Line>>> + Send;

    /// The store, with the settings that a user gets.
    fn store(address: &Address) -> impl Future<Output = Result<Self::Store>> + Send;

    /// Closes the connections of a store.
    fn close(store: &Self::Store) -> impl Future<Output = ()> + Send;

    /// A pool with the settings of the store, for statements by hand.
    fn pool(address: &Address) -> impl Future<Output = Result<Pool<Self::Driver>>> + Send;

    /// Begins a transaction that may write.
    fn begin(
        pool: &Pool<Self::Driver>,
    ) -> impl Future<Output = Result<Transaction<'static, Self::Driver>>> + Send;

    /// Inserts order `number`: the business of the business transaction.
    fn place_order(
        connection: &mut Connection<Self>,
        number: usize,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Inserts the events of these orders in one statement.
    fn insert(
        connection: &mut Connection<Self>,
        numbers: Range<usize>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Reads the number and the time of an event by its id.
    fn read_back(connection: &mut Connection<Self>, id: &str) -> impl Future<Output = Result<()>> + Send;

    /// Takes up to `limit` events that are due, for five minutes.
    fn claim(
        connection: &mut Connection<Self>,
        token: i64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Claimed>>> + Send;

    /// Marks events as done in one statement if they still carry `token`, and says how many did.
    fn settle(
        connection: &mut Connection<Self>,
        token: i64,
        claimed: &[Claimed],
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Adds `count` events to the outbox, up to 100,000 of them at once, and leaves the database in order.
    fn fill(address: &Address, count: usize, kind: Fill) -> impl Future<Output = Result<()>> + Send;
}

/// A database in a server, which many processes use at once.
pub(crate) trait Server: Database {
    /// Writes down what the server still has in memory only, so that it does not have to later.
    fn checkpoint(&self) -> impl Future<Output = Result<()>> + Send;

    /// What the server has written and committed so far, nobody being connected to the outbox.
    fn meter(&self, address: &Address) -> impl Future<Output = Result<Meter>> + Send;

    /// How many events are done that were taken exactly once.
    fn taken_once(address: &Address) -> impl Future<Output = Result<u64>> + Send;

    /// How many pages of the index of fresh events were touched so far, by whom ever, and how often it was searched;
    /// `None` if the server does not say.
    fn pages(address: &Address) -> impl Future<Output = Result<Option<Pages>>> + Send;

    /// Opens a transaction that sees the outbox as it is now, for as long as it lives.
    fn snapshot(address: &Address)
    -> impl Future<Output = Result<Transaction<'static, Self::Driver>>> + Send;
}

/// Numbers that only grow.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    /// Bytes of the log that makes commits durable.
    pub(crate) log_bytes: u64,
    pub(crate) commits: u64,
}

/// Numbers that only grow.
#[derive(Clone, Copy)]
pub(crate) struct Pages {
    pub(crate) touched: u64,
    pub(crate) searches: u64,
}

impl fmt::Debug for Address {
    /// Without what follows the scheme: a password may be in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split_once("://").map_or("a path", |(scheme, _)| scheme);
        write!(f, "Address({scheme})")
    }
}

/// The id that events by hand have.
pub(crate) fn id(number: usize) -> String {
    format!("{number:026}")
}

/// The aggregate's id, which is the key too.
pub(crate) fn order(number: usize) -> String {
    format!("order-{number}")
}

/// The JSON payload of order `number`.
pub(crate) fn payload(number: usize) -> String {
    format!(
        r#"{{"order":"order-{number}","customer":"customer-4711","total":129900,"currency":"EUR","items":[{{"sku":"A-17","count":2}},{{"sku":"B-4","count":1}}]}}"#
    )
}

/// The event of order `number`.
pub(crate) fn order_placed(number: usize) -> Result<Event> {
    Ok(Event::builder(EVENT).aggregate(AGGREGATE, order(number)).json_text(payload(number)).build()?)
}
