//! The transactional outbox.

mod event;
mod retry;
mod runtime;
pub mod store;
mod timestamp;

pub use event::{
    AggregateType, Event, EventBuilder, EventError, EventParts, EventType, GLOBAL, Headers, HeadersError,
    IntoEvent, MAX_PAYLOAD, Payload, Schedule,
};
pub use retry::{Retry, RetryError, RetryPolicy};
pub use runtime::{BoxFuture, Clock, Random, Runtime, Spawn, SystemClock};
pub use timestamp::Timestamp;
