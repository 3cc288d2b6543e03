//! The transactional outbox.

mod ambient;
mod config;
mod dispatcher;
mod event;
mod hot;
mod interceptor;
mod listener;
mod memory;
mod metrics;
mod outbox;
mod poller;
mod purge;
mod registry;
mod retry;
mod runtime;
mod settler;
mod shutdown;
mod sink;
pub mod store;
mod timestamp;
mod tx;

pub use ambient::{CurrentTx, NoTransaction, TransactionError};
pub use config::{ConfigError, Unroutable};
pub use event::{
    AggregateType, Event, EventBuilder, EventError, EventParts, EventType, GLOBAL, Headers, HeadersError,
    IntoEvent, MAX_PAYLOAD, Payload, Schedule,
};
pub use interceptor::{Interceptor, after, before};
pub use listener::{Delivery, Listener, ListenerError, Source};
pub use memory::{MemoryConnection, MemoryStore, MemoryTransaction, Savepoint};
pub use metrics::{Counts, MetricsExporter, NoMetrics};
pub use outbox::{Outbox, OutboxBuilder, Receipt, Store, WriteError};
pub use poller::{Leased, PollerHandler};
pub use registry::{AlreadyRegistered, FanOut, Listeners, Registry, Target};
pub use retry::{Retry, RetryError, RetryPolicy};
pub use runtime::{BoxFuture, Clock, Random, Runtime, Spawn, SystemClock};
pub use sink::{MemorySink, Run, Sink, SinkError};
pub use timestamp::Timestamp;
pub use tx::{AfterCommitHook, NoHook, Tx};
