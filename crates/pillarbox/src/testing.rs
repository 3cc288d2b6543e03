//! An outbox for the tests of an application: in memory, on the real engine, on a clock that the test moves.
//!
//! Needs the feature `testing`, among the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! pillarbox = { path = "../pillarbox/crates/pillarbox", features = ["testing"] }
//! ```
//!
//! ```
//! use pillarbox::testing::TestOutbox;
//! use pillarbox::{Handlers, ListenerError, Outbox, Store};
//! # use std::time::Duration;
//! # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, pillarbox::Event)]
//! # #[event(type = "OrderPlaced", aggregate = "Order", id = self.order_id.clone())]
//! # struct OrderPlaced { order_id: String }
//! # async fn place_order<S: Store>(outbox: &Outbox<S>, id: &str) -> Result<String, Box<dyn std::error::Error>> {
//! #     let mut tx = outbox.begin().await?;
//! #     let id = outbox.write(&mut tx, OrderPlaced { order_id: id.into() }).await?;
//! #     tx.commit().await?;
//! #     Ok(id)
//! # }
//! # fn handlers() -> Handlers {
//! #     Handlers::new().on("mail", |_: OrderPlaced| async { Ok::<(), ListenerError>(()) })
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers()));
//!
//! let id = place_order(&outbox, "order-17").await?;
//! outbox.drain().await;
//!
//! assert_eq!(outbox.written::<OrderPlaced>(), [OrderPlaced { order_id: "order-17".into() }]);
//! outbox.assert_delivered_to(&id, "mail");
//! # Ok(())
//! # }
//! ```
//!
//! - [`TestOutbox`] is the outbox: it starts it, delivers what is due, moves its clock, and tells and asserts what was
//!   written and what became of it.
//! - [`TestOutboxBuilder`] has the options of the test itself: seed, time of day, patience.
//! - [`Attempt`] is one call of a listener, a handler, a fallback or a sink, and [`Answer`] how it ended.
//! - [`Stuck`] says why a drain does not come to its end.
//!
//! # Time
//! The clock of a test stands still. It is moved by [`advance`](TestOutbox::advance),
//! [`advance_regardless`](TestOutbox::advance_regardless), [`drain_all`](TestOutbox::drain_all) and
//! [`close`](TestOutbox::close), and by nothing else. All but the second wait for what runs before each step, so a
//! listener that awaits something real (a socket, a container, a timer of tokio's) takes no time on it and is never timed
//! out because the test is an hour further. Listeners do not see this clock: what they read or sleep by is real.
//! Tokio's own paused clock (`start_paused`) is of no use here: while something real is awaited it runs ahead, and the
//! patience of a drain with it.

mod activity;
mod assertions;
mod attempt;
mod clock;
mod driver;
mod listing;
mod observer;
mod setup;
mod stuck;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use attempt::{Answer, Attempt};
pub use setup::TestOutboxBuilder;
pub use stuck::Stuck;

use self::activity::Activity;
use self::attempt::Log;
use self::clock::TestClock;
use crate::runtime::{Clock, Runtime};
use crate::{MemoryStore, Outbox, OutboxBuilder, Timestamp};

/// An outbox under test; it dereferences to the real [`Outbox`] on a [`MemoryStore`], which the application's code gets.
///
/// It works under any `#[tokio::test]`, with one thread or several. It need not be closed: what still runs ends with the
/// test. Heartbeats and idle polls are rarer than in production unless they are set, so that a month passes quickly. See the [module](self) for an example, and for what time means here.
///
/// What it does not do: execute SQL. Code that has statements of its own runs on a SQLite file in a temporary directory,
/// and what it writes is read from there.
pub struct TestOutbox {
    outbox: Outbox<MemoryStore>,
    runtime: Runtime,
    clock: Arc<TestClock>,
    activity: Arc<Activity>,
    log: Arc<Log>,
    patience: Duration,
}

impl TestOutbox {
    /// Starts an outbox with all that `configure` says to its real builder.
    ///
    /// ```
    /// use pillarbox::testing::TestOutbox;
    /// use pillarbox::{Delivery, ListenerError, OutboxBuilder, Store};
    ///
    /// // What the application configures, on whatever store.
    /// fn configured<S: Store>(outbox: OutboxBuilder<S>) -> OutboxBuilder<S> {
    ///     outbox.ordered().on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let outbox = TestOutbox::start(configured);
    /// # outbox.drain().await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the options make no sense, with what [`OutboxBuilder::start`] says to them; outside a tokio runtime; and if the
    /// builder that comes back is not the one that was given, or has another [runtime](OutboxBuilder::runtime).
    #[track_caller]
    pub fn start(configure: impl FnOnce(OutboxBuilder<MemoryStore>) -> OutboxBuilder<MemoryStore>) -> Self {
        Self::builder().start(configure)
    }

    /// Starts building one, for a test that needs another seed, time of day or patience.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let outbox = TestOutbox::builder().seed(42).start(|outbox| outbox.workers(1));
    /// # outbox.drain().await;
    /// # }
    /// ```
    pub fn builder() -> TestOutboxBuilder {
        TestOutboxBuilder::default()
    }

    /// The real outbox, for code that keeps a clone of it.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{MemoryStore, Outbox};
    /// struct Shop {
    ///     outbox: Outbox<MemoryStore>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let outbox = TestOutbox::start(|outbox| outbox);
    /// let shop = Shop { outbox: outbox.outbox().clone() };
    /// # drop(shop);
    /// # }
    /// ```
    pub fn outbox(&self) -> &Outbox<MemoryStore> {
        &self.outbox
    }

    /// The clock, randomness and tasks of this test, for another outbox on the same [store](Outbox::store).
    ///
    /// [`drain`](Self::drain) waits for this one only, so the other should be one that [only
    /// writes](OutboxBuilder::writer_only).
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::Outbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let relay = TestOutbox::start(|outbox| outbox.poller_only());
    /// let service = Outbox::builder(relay.store().clone()).runtime(relay.runtime()).writer_only().start()?;
    ///
    /// let mut tx = service.begin().await?;
    /// service.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// tx.commit().await?;
    /// assert_eq!(relay.pending().len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    /// The time of day on the test's clock.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// let noon = outbox.now();
    /// outbox.advance(Duration::from_secs(60)).await;
    /// assert_eq!(outbox.now(), noon.saturating_add(Duration::from_secs(60)));
    /// # }
    /// ```
    pub fn now(&self) -> Timestamp {
        self.clock.wall()
    }
}

impl Deref for TestOutbox {
    type Target = Outbox<MemoryStore>;

    fn deref(&self) -> &Outbox<MemoryStore> {
        &self.outbox
    }
}

impl std::fmt::Debug for TestOutbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestOutbox")
            .field("now", &format_args!("{}", self.now()))
            .field("counts", &self.outbox.counts())
            .finish_non_exhaustive()
    }
}
