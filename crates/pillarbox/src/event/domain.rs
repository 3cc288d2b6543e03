//! Types of yours that are events: what they are called, and what they belong to, is said once, on the type.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Event, EventBuilder, EventError, GLOBAL, IntoEvent, Payload};

/// A type of yours that is an event.
///
/// [`#[derive(Event)]`](derive@crate::Event) implements it; by hand it is this:
///
/// ```
/// use pillarbox::{DomainEvent, Event, EventBuilder, Json};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct OrderPlaced {
///     order_id: String,
///     region: String,
/// }
///
/// impl DomainEvent for OrderPlaced {
///     const EVENT_TYPE: &'static str = "OrderPlaced";
///     const AGGREGATE_TYPE: &'static str = "Order";
///     type Codec = Json;
///
///     fn describe(&self, event: EventBuilder) -> EventBuilder {
///         event.aggregate_id(&self.order_id).context("region", &self.region)
///     }
/// }
///
/// let placed = OrderPlaced { order_id: "order-17".into(), region: "eu".into() };
/// let event = Event::of(&placed).header("source", "web").build()?;
/// assert_eq!((event.key(), event.context().get("region")), (Some("order-17"), Some("eu")));
/// # Ok::<(), pillarbox::EventError>(())
/// ```
///
/// Such a value is written as it is ([`Outbox::write`](crate::Outbox::write)), and handlers get it
/// [decoded](crate::Handlers::on).
pub trait DomainEvent: Sized + Send + 'static {
    /// What happened, as it is stored: 1 to 128 characters. Give it by hand: a name that is derived from a Rust path
    /// changes when code moves.
    const EVENT_TYPE: &'static str;

    /// What it happened to: 1 to 64 characters; [`GLOBAL`] if nothing is said.
    const AGGREGATE_TYPE: &'static str = GLOBAL;

    /// How the payload is encoded; [`Json`] for most.
    type Codec: Codec<Self>;

    /// Adds what this value says of itself: aggregate id, key, tenant, headers, context.
    fn describe(&self, event: EventBuilder) -> EventBuilder {
        event
    }
}

/// Aggregate type and event type.
pub(crate) type Kind = (&'static str, &'static str);

pub(crate) fn kind_of<T: DomainEvent>() -> Kind {
    (T::AGGREGATE_TYPE, T::EVENT_TYPE)
}

impl Event {
    /// Starts an event with all that `value` says of itself; what is set afterwards wins.
    pub fn of<T: DomainEvent>(value: &T) -> EventBuilder {
        let event = Self::builder(T::EVENT_TYPE).aggregate_type(T::AGGREGATE_TYPE);
        value.describe(event.encoded(T::Codec::encode(value)))
    }

    /// The value that this event was written from.
    pub fn decode<T: DomainEvent>(&self) -> Result<T, DecodeError> {
        T::Codec::decode(self.payload()).map_err(|CodecError(reason)| DecodeError {
            event_type: T::EVENT_TYPE,
            reason: reason.to_string(),
        })
    }
}

impl<T: DomainEvent> IntoEvent for T {
    fn into_event(self) -> Result<Event, EventError> {
        Event::of(&self).build()
    }
}

/// Turns values into payloads and back.
///
/// It is chosen by the type ([`DomainEvent::Codec`]), so that every writer and every handler of an event agree.
/// [`Json`] is the default; a binary one is ten lines, as the guide shows for MessagePack and Protobuf
/// (`docs/guide/payloads.md`).
///
/// # Contract
/// - [`decode`](Codec::decode) of what [`encode`](Codec::encode) made gives the same value.
/// - An error of `decode` says what is wrong and where: it is what an operator sees of an event that is dead.
pub trait Codec<T> {
    /// The payload of a value.
    fn encode(value: &T) -> Result<Payload, CodecError>;

    /// The value of a payload.
    fn decode(payload: &Payload) -> Result<T, CodecError>;
}

/// A value that cannot be encoded, or a payload that cannot be decoded; every error turns into one by `?`.
#[derive(Debug)]
pub struct CodecError(Box<dyn std::error::Error + Send + Sync>);

impl CodecError {
    /// An error with this reason.
    pub fn new(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for CodecError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

impl std::fmt::Display for CodecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A payload that is not what its type says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the payload is no `{event_type}`: {reason}")]
pub struct DecodeError {
    event_type: &'static str,
    reason: String,
}

/// Payloads as JSON text, by serde. Unknown fields are passed over and missing ones are an error, unless the type says
/// otherwise (`deny_unknown_fields`, `default`).
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(value: &T) -> Result<Payload, CodecError> {
        Ok(Payload::Json(serde_json::to_string(value)?))
    }

    fn decode(payload: &Payload) -> Result<T, CodecError> {
        // Text need not be looked through for bytes that are none.
        let decoded = match payload.as_json() {
            Some(text) => serde_json::from_str(text),
            None => serde_json::from_slice(payload.as_bytes()),
        };
        Ok(decoded?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct OrderPlaced {
        order_id: String,
        total: u64,
    }

    impl DomainEvent for OrderPlaced {
        const EVENT_TYPE: &'static str = "OrderPlaced";
        const AGGREGATE_TYPE: &'static str = "Order";
        type Codec = Json;

        fn describe(&self, event: EventBuilder) -> EventBuilder {
            event.aggregate_id(&self.order_id).tenant("shop").header("source", "web").context("region", "eu")
        }
    }

    fn placed() -> OrderPlaced {
        OrderPlaced { order_id: "order-17".into(), total: 4_200 }
    }

    /// W10: all that a type says of itself is in its event.
    #[test]
    fn event_says_what_its_type_says() {
        let event = placed().into_event().unwrap();

        assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPlaced", "Order"));
        assert_eq!((event.aggregate_id(), event.key()), (Some("order-17"), Some("order-17")));
        assert_eq!((event.tenant_id(), event.headers().get("source")), (Some("shop"), Some("web")));
        assert_eq!(event.context().get("region"), Some("eu"));
        assert_eq!(event.payload().as_json(), Some(r#"{"order_id":"order-17","total":4200}"#));
    }

    /// W10, X1: what is given by hand wins over what the type says.
    #[test]
    fn by_hand_wins_over_the_type() {
        let event = Event::of(&placed()).key("customer-3").context("region", "us").build().unwrap();

        assert_eq!((event.key(), event.context().get("region")), (Some("customer-3"), Some("us")));
    }

    /// X3: what was written is what is read, and an error says what and where.
    #[test]
    fn payload_comes_back() {
        let event = placed().into_event().unwrap();
        assert_eq!(event.decode::<OrderPlaced>(), Ok(placed()));

        let other = Event::of_json("OrderPlaced", r#"{"order_id":"order-17"}"#).unwrap();
        let error = other.decode::<OrderPlaced>().unwrap_err();
        let said = "the payload is no `OrderPlaced`: missing field `total` at line 1 column 23";
        assert_eq!(error.to_string(), said);
    }

    /// X3: fields that are new in a later version are passed over by an earlier one.
    #[test]
    fn unknown_fields_are_passed_over() {
        let json = r#"{"order_id":"order-17","total":4200,"currency":"EUR"}"#;

        assert_eq!(Event::of_json("OrderPlaced", json).unwrap().decode::<OrderPlaced>(), Ok(placed()));
    }

    /// V2: a value that cannot be encoded is found when the event is built.
    #[test]
    fn value_that_cannot_be_encoded_is_named() {
        #[derive(Serialize, Deserialize)]
        struct Stock(BTreeMap<Vec<u8>, u64>);
        impl DomainEvent for Stock {
            const EVENT_TYPE: &'static str = "StockTaken";
            type Codec = Json;
        }

        let error = Stock([(vec![1], 2)].into()).into_event().unwrap_err();

        assert_eq!(error.to_string(), "the payload cannot be encoded: key must be a string");
    }
}
