//! The transactional outbox: events are written inside your database transaction and delivered after it.
//!
//! ```
//! use pillarbox::{Delivery, ListenerError, MemoryStore, Outbox};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (arrived, mut arrivals) = tokio::sync::mpsc::channel(1);
//! let outbox = Outbox::builder(MemoryStore::new())
//!     .on("OrderPlaced", move |order: Delivery| {
//!         let arrived = arrived.clone();
//!         async move { arrived.send(order).await.map_err(ListenerError::from) }
//!     })
//!     .start()?;
//!
//! let mut tx = outbox.begin().await?;
//! let id = outbox.write_json(&mut tx, "OrderPlaced", r#"{"id":17}"#).await?;
//! tx.commit().await?;
//!
//! assert_eq!(arrivals.recv().await.expect("the outbox runs").id(), id);
//! outbox.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! With a real database the store is another, statements of yours run on `&mut *tx`, and they and the event are
//! committed together.
//!
//! - [`Outbox`] writes and delivers; [`OutboxBuilder`] has all options and their defaults, and [`Settings`] read them
//!   from the environment and, with the feature `toml`, from a file.
//! - [`Event`](struct@Event) is what is written; [`derive(Event)`](derive@Event) makes a type of yours a
//!   [`DomainEvent`], and [`IntoEvent`] is for what is built by hand.
//! - [`Tx`] is a transaction of the outbox; [`Outbox::write_in`] uses one of your own.
//! - [`DomainEvent`] is a type of yours that is an event; [`Handlers`] get it decoded, several for each event, each
//!   retried on its own.
//! - [`Listener`] gets one [`Delivery`] at a time, [`Sink`] a [`Run`] of them; a [`Registry`] says who gets what.
//! - [`RetryPolicy`] says when a failed event is tried again; [`Retry`] is the built-in one.
//! - [`Interceptor`], [`AfterCommitHook`], [`MetricsExporter`], [`Outbox::counts`] and [`Outbox::census`] let you look
//!   on.
//! - [`Tracing`] carries the trace of whoever writes to whoever gets the event.
//! - [`store`] has the contracts of a store; [`MemoryStore`] is the reference.
//! - [`Runtime`] is time, randomness and tasks, so that a test runs all of it in simulated time.
//! - [`testing`] (with the feature `testing`) lets an application test what it writes and handles, in ten lines.
//!
//! Delivery is at least once: after a crash, a time-out or a lost answer an event comes again, with the same
//! [id](Event::id). Events may overtake each other.

mod ambient;
mod announcer;
mod config;
mod context;
#[doc(hidden)]
pub mod derive;
mod destination;
mod dispatcher;
mod event;
mod handler;
mod hot;
mod interceptor;
mod lanes;
mod listener;
mod memory;
mod metrics;
mod mutant;
mod namesake;
mod outbox;
mod partition;
mod partitions;
mod poller;
mod purge;
mod registry;
mod retry;
mod routing;
mod runtime;
mod settings;
mod settler;
mod shares;
mod shutdown;
mod sink;
#[doc(hidden)]
pub mod spelling;
pub mod store;
mod subscriber;
mod template;
#[cfg(feature = "testing")]
pub mod testing;
mod timestamp;
mod trace;
mod tx;

pub use ambient::{CurrentTx, NoTransaction, TransactionError};
pub use config::{ConfigError, DeadHead, Unroutable};
pub use context::ContextProvider;
pub use destination::Health;
pub use event::{
    AggregateType, Codec, CodecError, DecodeError, DomainEvent, Event, EventBuilder, EventError, EventParts,
    EventType, GLOBAL, Headers, HeadersError, IntoEvent, Json, MAX_PAYLOAD, Payload, Schedule,
};
pub use handler::{Failure, Fallback, Handler, Handlers, HandlersError, bound};
pub use interceptor::{Interceptor, after, before};
pub use listener::{Delivery, Listener, ListenerError, Source};
pub use memory::{MemoryConnection, MemoryStore, MemoryTransaction, Replica, Savepoint};
pub use metrics::{Counts, Keys, MetricsExporter, NoMetrics, Share, UnknownHandler};
#[cfg(pillarbox_mutant)]
pub use mutant::{Mutant, switch_on};
pub use outbox::{Outbox, OutboxBuilder, Receipt, Store, WriteError};
pub use partition::{PARTITIONS, PartitionSet, partition_of};
pub use pillarbox_macros::Event;
pub use poller::{Leased, PollerHandler};
pub use registry::{AlreadyRegistered, FanOut, Listeners, Registry, Target};
pub use retry::{ErrorKind, Filtered, Retry, RetryError, RetryPolicy};
pub use routing::{Explanation, Pattern, Route, Routing, RoutingError, SinkHealth};
pub use runtime::{BoxFuture, Clock, Random, Runtime, SeededRandom, Spawn, SystemClock};
pub use settings::{EffectiveOption, Origin, Settings, SettingsError, StoreSettings};
pub use shutdown::Stopped;
pub use sink::{Answers, MemorySink, Run, Sink, SinkError};
pub use template::{Template, TemplateError, Unfilled};
pub use timestamp::Timestamp;
pub use trace::{TraceContext, Tracing};
pub use tx::{AfterCommitHook, NoHook, Tx};

#[cfg(doctest)]
mod guide {
    //! The programs in the README and the guide, as tests.

    macro_rules! pages {
        ($($name:ident $path:literal)*) => {$(
            #[doc = include_str!(concat!("../../../", $path))]
            struct $name;
        )*};
    }
    pages! {
        Readme "README.md"
        GettingStarted "docs/guide/getting-started.md"
        WritingEvents "docs/guide/writing-events.md"
        ListenersAndRetries "docs/guide/listeners-and-retries.md"
        Handlers "docs/guide/handlers.md"
        Payloads "docs/guide/payloads.md"
        Order "docs/guide/order.md"
        Sinks "docs/guide/sinks.md"
        Operating "docs/guide/operating.md"
        PlainSql "docs/guide/plain-sql.md"
        Configuration "docs/guide/configuration.md"
        Topologies "docs/guide/topologies.md"
        TestingYourOutbox "docs/guide/testing-your-outbox.md"
        ComingFromNamastack "docs/guide/coming-from-namastack.md"
    }
}
