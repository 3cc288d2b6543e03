//! The event: what is written into the outbox and what listeners get.

mod builder;
mod domain;
mod headers;

use std::sync::Arc;
use std::time::Duration;

pub use builder::{EventBuilder, EventError};
pub use domain::{Codec, CodecError, DecodeError, DomainEvent, Json};
pub(crate) use domain::{Kind, kind_of};
pub use headers::{Headers, HeadersError};

use crate::mutant::mutant;
use crate::{Timestamp, TraceContext, partition_of};

/// The largest payload that an event may carry: 1 MiB.
pub const MAX_PAYLOAD: usize = 1_048_576;

/// The aggregate type of an event that names none.
pub const GLOBAL: &str = "__GLOBAL__";

/// The type of an event, given by an enum of yours or by a string.
///
/// The name is what is stored and what other programs see: give it by hand, never derive it from a Rust path.
///
/// ```
/// use pillarbox::{Event, EventType};
///
/// enum OrderEvents {
///     Placed,
///     Shipped,
/// }
///
/// impl EventType for OrderEvents {
///     fn name(&self) -> &str {
///         match self {
///             Self::Placed => "OrderPlaced",
///             Self::Shipped => "OrderShipped",
///         }
///     }
/// }
///
/// let event = Event::of_json(OrderEvents::Placed, r#"{"id":17}"#)?;
/// assert_eq!(event.event_type(), "OrderPlaced");
/// # Ok::<(), pillarbox::EventError>(())
/// ```
pub trait EventType {
    /// The name as it is stored: 1 to 128 characters.
    fn name(&self) -> &str;
}

/// The type of the aggregate that an event belongs to, given by an enum of yours or by a string.
pub trait AggregateType {
    /// The name as it is stored: 1 to 64 characters.
    fn name(&self) -> &str;
}

macro_rules! named_by_strings {
    ($($contract:ident)*) => {$(
        impl $contract for &str {
            fn name(&self) -> &str {
                self
            }
        }
        impl $contract for String {
            fn name(&self) -> &str {
                self
            }
        }
        impl<T: $contract> $contract for &T {
            fn name(&self) -> &str {
                (*self).name()
            }
        }
    )*};
}
named_by_strings!(EventType AggregateType);

/// The payload: JSON text, kept byte for byte, or bytes that only you understand.
#[derive(Clone, PartialEq, Eq)]
pub enum Payload {
    /// JSON text.
    Json(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Payload {
    /// The payload as it was given, whichever kind it is.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The JSON text, unless the payload is bytes.
    pub fn as_json(&self) -> Option<&str> {
        match self {
            Self::Json(text) => Some(text),
            Self::Bytes(_) => None,
        }
    }
}

impl std::fmt::Debug for Payload {
    /// Leaves the content out: it may be large, and it may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.as_json().is_some() { "Json" } else { "Bytes" };
        write!(f, "{kind}({} bytes)", self.as_bytes().len())
    }
}

/// When an event may be delivered for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// As soon as it is committed.
    #[default]
    Now,
    /// This long after it was written, by the database's clock.
    After(Duration),
    /// Not before this point in time, by the database's clock.
    At(Timestamp),
}

/// An event: immutable once built, and cheap to clone.
///
/// Build one with [`Event::builder`], or with the short forms [`Event::of_json`] and [`Event::of_bytes`].
/// Every limit is checked then, so that an event that exists can be written.
///
/// ```
/// use pillarbox::Event;
///
/// let event = Event::builder("OrderPlaced")
///     .aggregate("Order", "order-17")
///     .header("source", "web")
///     .json_text(r#"{"id":"order-17","total":4200}"#)
///     .build()?;
///
/// assert_eq!(event.key(), Some("order-17"));
/// # Ok::<(), pillarbox::EventError>(())
/// ```
///
/// Two events are equal when all that a listener sees of them is equal; the [`Schedule`] and the
/// [partition](Event::partition) are not part of that.
#[derive(Clone)]
pub struct Event {
    parts: Arc<EventParts>,
    schedule: Schedule,
    /// Where its writer places it, if it has no key.
    placed_in: Option<u8>,
}

/// All that makes up an event, for stores that read it back from their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventParts {
    /// Unique; at most 36 characters.
    pub id: String,
    /// What happened; at most 128 characters.
    pub event_type: String,
    /// What it happened to; [`GLOBAL`] if nothing was said.
    pub aggregate_type: String,
    /// Which one it happened to.
    pub aggregate_id: Option<String>,
    /// Events of one key belong together; the aggregate id unless something else was said.
    pub key: Option<String>,
    /// Passed through for applications with several tenants.
    pub tenant_id: Option<String>,
    /// When it happened, as the writer says.
    pub occurred_at: Timestamp,
    /// Sent along to brokers.
    pub headers: Headers,
    /// Values captured from the writer's surroundings; not sent to brokers unless asked.
    pub context: Headers,
    /// What there is to say.
    pub payload: Payload,
}

impl Event {
    /// Starts an event of the given type; see [`EventBuilder`].
    pub fn builder(event_type: impl EventType) -> EventBuilder {
        EventBuilder::new(event_type.name())
    }

    /// An event with a JSON payload and defaults for all else.
    pub fn of_json(event_type: impl EventType, json: impl Into<String>) -> Result<Self, EventError> {
        Self::builder(event_type).json_text(json).build()
    }

    /// An event with a binary payload and defaults for all else.
    pub fn of_bytes(event_type: impl EventType, bytes: impl Into<Vec<u8>>) -> Result<Self, EventError> {
        Self::builder(event_type).bytes(bytes).build()
    }

    /// Puts an event together again from what a store kept of it, without checking limits anew.
    pub fn restore(parts: EventParts) -> Self {
        Self { parts: Arc::new(parts), schedule: Schedule::Now, placed_in: None }
    }

    /// All parts at once, for stores.
    pub fn parts(&self) -> &EventParts {
        &self.parts
    }

    /// The unique id; a monotonic ULID unless you set one. Consumers recognise duplicates by it.
    pub fn id(&self) -> &str {
        &self.parts.id
    }

    /// What happened.
    pub fn event_type(&self) -> &str {
        &self.parts.event_type
    }

    /// What it happened to; [`GLOBAL`] if nothing was said.
    pub fn aggregate_type(&self) -> &str {
        &self.parts.aggregate_type
    }

    /// Which one it happened to.
    pub fn aggregate_id(&self) -> Option<&str> {
        self.parts.aggregate_id.as_deref()
    }

    /// Events of one key belong together: the aggregate id unless something else was said.
    pub fn key(&self) -> Option<&str> {
        self.parts.key.as_deref()
    }

    /// The partition that its row belongs to, for stores: that of its key. Without a key it is one that its writer owns,
    /// or one by its id, so that such events are spread evenly.
    pub fn partition(&self) -> u8 {
        match self.key() {
            Some(key) if !mutant!(OrderByIdAcrossInstances) => partition_of(key),
            _ => self.placed_in.unwrap_or_else(|| partition_of(self.id())),
        }
    }

    /// Adds context values, under names that it has not got already.
    pub(crate) fn add_context(&mut self, captured: &Headers) -> Result<(), EventError> {
        if captured.is_empty() {
            return Ok(());
        }
        let parts = Arc::make_mut(&mut self.parts);
        for (name, value) in captured.iter() {
            if parts.context.get(name).is_none() {
                parts.context.insert(name, value);
            }
        }
        builder::check_headers("context", &parts.context)
    }

    /// Adds the trace of its writer, unless it says something of one already. What would exceed the limits stays out: for
    /// want of a trace no write fails.
    pub(crate) fn add_trace(&mut self, trace: &TraceContext) {
        if TraceContext::is_in(self.headers()) || TraceContext::is_in(self.context()) {
            return;
        }
        let bare = TraceContext { tracestate: None, ..trace.clone() };
        for trace in [trace, &bare] {
            let mut headers = self.headers().clone();
            trace.write_to(&mut headers);
            match builder::check_headers("headers", &headers) {
                Ok(()) => {
                    Arc::make_mut(&mut self.parts).headers = headers;
                    return;
                }
                Err(error) => tracing::debug!(event_id = self.id(), %error, "its trace does not fit"),
            }
        }
    }

    /// Places an event without a key.
    pub(crate) fn place_in(&mut self, partition: u8) {
        self.placed_in = Some(partition);
    }

    /// The tenant, passed through and not looked at.
    pub fn tenant_id(&self) -> Option<&str> {
        self.parts.tenant_id.as_deref()
    }

    /// When it happened, as the writer says; when it was built unless something else was said.
    pub fn occurred_at(&self) -> Timestamp {
        self.parts.occurred_at
    }

    /// Headers, sent along to brokers.
    pub fn headers(&self) -> &Headers {
        &self.parts.headers
    }

    /// Values captured from the writer's surroundings.
    pub fn context(&self) -> &Headers {
        &self.parts.context
    }

    /// The trace that it belongs to, by its headers or else by its context; `None` if they name none.
    pub fn trace_context(&self) -> Option<TraceContext> {
        [self.headers(), self.context()].into_iter().find_map(TraceContext::of)
    }

    /// The payload, serialised once.
    pub fn payload(&self) -> &Payload {
        &self.parts.payload
    }

    /// When it may be delivered for the first time; [`Schedule::Now`] once it has been taken from a store.
    pub fn schedule(&self) -> Schedule {
        self.schedule
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.parts == other.parts
    }
}

impl Eq for Event {}

impl std::fmt::Debug for Event {
    /// Shows what identifies it, and nothing of what it carries.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event")
            .field("id", &self.id())
            .field("event_type", &self.event_type())
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

/// Anything that can be written to the outbox: an [`Event`], an [`EventBuilder`], or a type of yours. For most types
/// [`DomainEvent`] is the better choice: they can be handled as well.
///
/// ```
/// use pillarbox::{Event, EventError, IntoEvent};
///
/// struct OrderPlaced {
///     id: String,
/// }
///
/// impl IntoEvent for OrderPlaced {
///     fn into_event(self) -> Result<Event, EventError> {
///         Event::builder("OrderPlaced")
///             .aggregate("Order", &self.id)
///             .json(&std::collections::BTreeMap::from([("id", &self.id)]))
///             .build()
///     }
/// }
/// # assert_eq!(OrderPlaced { id: "17".into() }.into_event().unwrap().key(), Some("17"));
/// ```
pub trait IntoEvent {
    /// The event, or what is wrong with it.
    fn into_event(self) -> Result<Event, EventError>;
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event, EventError> {
        Ok(self)
    }
}

impl IntoEvent for EventBuilder {
    fn into_event(self) -> Result<Event, EventError> {
        self.build()
    }
}
