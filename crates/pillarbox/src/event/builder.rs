//! Building events, with every limit checked before a database sees them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{AggregateType, CodecError, Event, EventParts, GLOBAL, Headers, MAX_PAYLOAD, Payload, Schedule};
use crate::runtime::{Clock, SystemClock};
use crate::{Timestamp, TraceContext};

const MAX_HEADERS: usize = 64;
const MAX_HEADER_NAME: usize = 128;
const MAX_HEADER_VALUE: usize = 4 * 1024;
const MAX_HEADERS_TOGETHER: usize = 16 * 1024;

/// What is wrong with an event that was to be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// A field that must not be empty is.
    #[error("`{field}` must not be empty")]
    Empty {
        /// The field.
        field: &'static str,
    },
    /// A header (or context value) has no name.
    #[error("an entry in `{field}` has an empty name")]
    EmptyName {
        /// `headers` or `context`.
        field: &'static str,
    },
    /// A field is longer than its column.
    #[error("`{field}` has {length} characters, at most {limit} are allowed")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Its length in characters.
        length: usize,
        /// The longest that is allowed.
        limit: usize,
    },
    /// A text contains the NUL character, which databases cannot store.
    #[error("`{field}` contains a NUL character, which databases cannot store; remove it")]
    Nul {
        /// The field.
        field: &'static str,
    },
    /// The payload is larger than [`MAX_PAYLOAD`].
    #[error("the payload has {size} bytes, at most {limit} are allowed; send a reference to it instead")]
    PayloadTooLarge {
        /// Its size in bytes.
        size: usize,
        /// The largest that is allowed.
        limit: usize,
    },
    /// There is no payload.
    #[error("the event has no payload; give it one with `json`, `json_text` or `bytes`")]
    NoPayload,
    /// There are two payloads.
    #[error("the event has both a JSON and a binary payload; give it one of them")]
    TwoPayloads,
    /// The JSON payload is not JSON.
    #[error("the payload is not JSON: {reason}")]
    NotJson {
        /// What and where, as the parser says.
        reason: String,
    },
    /// The value has no form as a payload.
    #[error("the payload cannot be encoded: {reason}")]
    NotEncoded {
        /// What and where, as the codec says.
        reason: String,
    },
    /// There are too many headers (or context values).
    #[error("`{field}` has {count} entries, at most {limit} are allowed")]
    TooMany {
        /// `headers` or `context`.
        field: &'static str,
        /// How many there are.
        count: usize,
        /// The most that are allowed.
        limit: usize,
    },
    /// One header (or context value) has a name or a value that is too long.
    #[error("the {part} of `{name}` in `{field}` has {size} {unit}, at most {limit} are allowed")]
    EntryTooLong {
        /// `headers` or `context`.
        field: &'static str,
        /// The entry's name, cut at 128 characters.
        name: String,
        /// `name` or `value`.
        part: &'static str,
        /// Its size.
        size: usize,
        /// `characters` for names, `bytes` for values.
        unit: &'static str,
        /// The most that is allowed.
        limit: usize,
    },
    /// All headers (or context values) together are too large.
    #[error("`{field}` has {size} bytes in all, at most {limit} are allowed")]
    TooLarge {
        /// `headers` or `context`.
        field: &'static str,
        /// Names and values together, in bytes.
        size: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// Builds an [`Event`]; made by [`Event::builder`].
///
/// | field | default | limit |
/// |---|---|---|
/// | event type | – | 1 to 128 characters |
/// | `id` | a monotonic ULID | 1 to 36 characters, unique in the table |
/// | `aggregate_type` | `__GLOBAL__` | 1 to 64 characters |
/// | `aggregate_id`, `key` | none; the key is the aggregate id | 1 to 128 characters each |
/// | `tenant` | none | 64 characters |
/// | `occurred_at` | now | – |
/// | `header`, `context` | none | each 64 entries, names of 128 characters, values of 4 KiB, 16 KiB in all |
/// | `json`, `json_text`, `bytes` | – | exactly one of them, 1 MiB |
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is written or built"]
pub struct EventBuilder {
    event_type: String,
    id: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    key: Key,
    tenant_id: Option<String>,
    occurred_at: Option<Timestamp>,
    headers: Headers,
    context: Headers,
    json: Option<Payload>,
    bytes: Option<Payload>,
    /// Why a value has no payload.
    unencoded: Option<EventError>,
    schedule: Schedule,
}

#[derive(Debug, Clone)]
enum Key {
    OfAggregate,
    Set(String),
    None,
}

impl EventBuilder {
    pub(super) fn new(event_type: &str) -> Self {
        Self {
            event_type: event_type.to_owned(),
            id: None,
            aggregate_type: None,
            aggregate_id: None,
            key: Key::OfAggregate,
            tenant_id: None,
            occurred_at: None,
            headers: Headers::new(),
            context: Headers::new(),
            json: None,
            bytes: None,
            unencoded: None,
            schedule: Schedule::Now,
        }
    }

    /// Sets the event id; it must be unique. The default is a ULID that is greater than the one before.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets aggregate type and id at once.
    pub fn aggregate(self, aggregate_type: impl AggregateType, id: impl Into<String>) -> Self {
        self.aggregate_type(aggregate_type).aggregate_id(id)
    }

    /// Sets what it happened to.
    pub fn aggregate_type(mut self, aggregate_type: impl AggregateType) -> Self {
        self.aggregate_type = Some(aggregate_type.name().to_owned());
        self
    }

    /// Sets which one it happened to; this is also the key unless [`key`](Self::key) sets another.
    pub fn aggregate_id(mut self, id: impl Into<String>) -> Self {
        self.aggregate_id = Some(id.into());
        self
    }

    /// Sets the key: events of one key belong together and, where order is on, are delivered in order.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Key::Set(key.into());
        self
    }

    /// Takes the key away: this event waits for no other, and no other for it.
    pub fn no_key(mut self) -> Self {
        self.key = Key::None;
        self
    }

    /// Sets the tenant, which is passed through to listeners and does nothing else.
    pub fn tenant(mut self, tenant_id: impl Into<String>) -> Self {
        self.tenant_id = Some(tenant_id.into());
        self
    }

    /// Sets when it happened.
    pub fn occurred_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.occurred_at = Some(at.into());
        self
    }

    /// Adds a header; the last one of a name wins.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds a context value; the last one of a name wins.
    pub fn context(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.context.insert(name, value);
        self
    }

    /// Says which trace it belongs to, by the headers `traceparent` and `tracestate`; `None` says nothing. It is only
    /// needed where no [`Tracing`](crate::Tracing) says it: for adapters, or for a trace other than the current one.
    pub fn trace_context(mut self, trace: impl Into<Option<TraceContext>>) -> Self {
        if let Some(trace) = trace.into() {
            trace.write_to(&mut self.headers);
        }
        self
    }

    /// Sets the payload: `value`, serialised as JSON, once.
    pub fn json(self, value: &impl Serialize) -> Self {
        self.encoded(serde_json::to_string(value).map(Payload::Json).map_err(CodecError::new))
    }

    /// Sets the payload: what a codec has made of a value.
    pub(super) fn encoded(mut self, payload: Result<Payload, CodecError>) -> Self {
        match payload {
            Ok(json @ Payload::Json(_)) => self.json = Some(json),
            Ok(bytes @ Payload::Bytes(_)) => self.bytes = Some(bytes),
            Err(error) => self.unencoded = Some(EventError::NotEncoded { reason: error.to_string() }),
        }
        self
    }

    /// Sets the payload: JSON text, which is checked and then kept byte for byte.
    pub fn json_text(mut self, json: impl Into<String>) -> Self {
        self.json = Some(Payload::Json(json.into()));
        self
    }

    /// Sets the payload: bytes that only you understand.
    pub fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.bytes = Some(Payload::Bytes(bytes.into()));
        self
    }

    /// Delays the first delivery by `delay` after it is written, by the database's clock.
    pub fn deliver_after(mut self, delay: Duration) -> Self {
        self.schedule = Schedule::After(delay);
        self
    }

    /// Delays the first delivery until `at`, by the database's clock.
    pub fn available_at(mut self, at: impl Into<Timestamp>) -> Self {
        self.schedule = Schedule::At(at.into());
        self
    }

    /// The event, or the first thing that is wrong with it.
    pub fn build(self) -> Result<Event, EventError> {
        let key = match self.key {
            Key::OfAggregate => self.aggregate_id.clone(),
            Key::Set(key) => Some(check_required("key", key, 128)?),
            Key::None => None,
        };
        check_headers("headers", &self.headers)?;
        check_headers("context", &self.context)?;
        let aggregate_type = self.aggregate_type.unwrap_or_else(|| GLOBAL.to_owned());
        let parts = EventParts {
            id: check_required("event_id", self.id.unwrap_or_else(next_ulid), 36)?,
            event_type: check_required("event_type", self.event_type, 128)?,
            aggregate_type: check_required("aggregate_type", aggregate_type, 64)?,
            aggregate_id: self.aggregate_id.map(|id| check_required("aggregate_id", id, 128)).transpose()?,
            key,
            tenant_id: self.tenant_id.map(|id| check("tenant_id", id, 64)).transpose()?,
            occurred_at: self.occurred_at.unwrap_or_else(|| SystemClock.wall()),
            headers: self.headers,
            context: self.context,
            payload: self.unencoded.map_or_else(|| check_payload(self.json, self.bytes), Err)?,
        };
        Ok(Event { parts: Arc::new(parts), schedule: self.schedule, placed_in: None })
    }
}

fn check_required(field: &'static str, text: String, limit: usize) -> Result<String, EventError> {
    if text.is_empty() {
        return Err(EventError::Empty { field });
    }
    check(field, text, limit)
}

fn check(field: &'static str, text: String, limit: usize) -> Result<String, EventError> {
    // Bytes are cheaper to count, and a text has at least as many of them as characters.
    if text.len() > limit {
        let length = text.chars().count();
        if length > limit {
            return Err(EventError::TooLong { field, length, limit });
        }
    }
    if text.contains('\0') {
        return Err(EventError::Nul { field });
    }
    Ok(text)
}

pub(super) fn check_headers(field: &'static str, headers: &Headers) -> Result<(), EventError> {
    if headers.len() > MAX_HEADERS {
        return Err(EventError::TooMany { field, count: headers.len(), limit: MAX_HEADERS });
    }
    let mut together = 0;
    for (name, value) in headers.iter() {
        if name.is_empty() {
            return Err(EventError::EmptyName { field });
        }
        let too_long = |part, size, unit, limit| EventError::EntryTooLong {
            field,
            name: name.chars().take(MAX_HEADER_NAME).collect(),
            part,
            size,
            unit,
            limit,
        };
        let length = name.chars().count();
        if length > MAX_HEADER_NAME {
            return Err(too_long("name", length, "characters", MAX_HEADER_NAME));
        }
        if value.len() > MAX_HEADER_VALUE {
            return Err(too_long("value", value.len(), "bytes", MAX_HEADER_VALUE));
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(EventError::Nul { field });
        }
        together += name.len() + value.len();
    }
    if together > MAX_HEADERS_TOGETHER {
        return Err(EventError::TooLarge { field, size: together, limit: MAX_HEADERS_TOGETHER });
    }
    Ok(())
}

fn check_payload(json: Option<Payload>, bytes: Option<Payload>) -> Result<Payload, EventError> {
    let payload = match (json, bytes) {
        (None, None) => return Err(EventError::NoPayload),
        (Some(_), Some(_)) => return Err(EventError::TwoPayloads),
        (Some(payload), None) | (None, Some(payload)) => payload,
    };
    // Before parsing: a payload that is too large is not worth it.
    let size = payload.as_bytes().len();
    if size > MAX_PAYLOAD {
        return Err(EventError::PayloadTooLarge { size, limit: MAX_PAYLOAD });
    }
    if let Payload::Json(text) = &payload {
        serde_json::from_str::<&RawValue>(text)
            .map_err(|error| EventError::NotJson { reason: error.to_string() })?;
    }
    Ok(payload)
}

/// A ULID that is greater than every one before it in this process, whatever the clock does.
fn next_ulid() -> String {
    static GENERATOR: Mutex<ulid::Generator> = Mutex::new(ulid::Generator::new());
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    generator.generate().unwrap_or_else(ulid::Overflow::commit_overflow_increment).to_string()
}
