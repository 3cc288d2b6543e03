//! Events as the messages of a broker, in [CloudEvents 1.0](https://cloudevents.io): what the sinks have in common.
//!
//! ```
//! use pillarbox::Event;
//! use pillarbox_message::Messages;
//!
//! let messages = Messages::from_source("/shop/orders")?;
//! let event = Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text(r#"{"total":4200}"#).build()?;
//!
//! let message = messages.of(&event)?;
//! assert_eq!(message.content_type, "application/json");
//! assert_eq!(message.attribute("subject"), Some("order-17"));
//! assert_eq!(&*message.body, br#"{"total":4200}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Messages`] makes them: in binary mode, where the body is the payload, or in structured mode, where it is a JSON
//!   document with everything in it.
//! - [`Message`] is one; a sink puts its attributes and headers where its broker has a place for them.
//! - [`Finding`] is what a sink has to say about its server before it is used.
//! - [`EVENT_ID`] is the name of the header that every message carries, so that consumers recognise duplicates.

mod attributes;
mod finding;
mod structured;

use std::borrow::Cow;

pub use attributes::SPEC_VERSION;
pub use finding::{Finding, Severity};
use pillarbox::{Event, MAX_PAYLOAD, Payload};

/// The header with the event id, which every message carries in every mode.
pub const EVENT_ID: &str = "event-id";

/// Names of headers that mean something to CloudEvents or to us: a header of the event that begins so is not sent.
const RESERVED: [&str; 4] = ["ce_", "ce-", "cloudevents", EVENT_ID];
const CONTENT_TYPE: &str = "content-type";

/// What the headers of an event may come to, its context likewise, and more than its attributes come to.
const MAX_HEADERS: usize = 16_384;

/// How a message carries its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The body is the payload as it was written; all else is in headers.
    #[default]
    Binary,
    /// The body is a JSON document with the payload and all attributes in it.
    Structured,
}

/// Makes messages of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    source: String,
    mode: Mode,
    sends_context: bool,
}

/// A source that CloudEvents would not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no source of events; give a URI or a path that names this outbox, such as `/shop/orders` or \
     `https://shop.example/orders`"
)]
pub struct BadSource(String);

/// An event that cannot be put into a structured message: its payload says that it is JSON, and is not.
#[derive(Debug, thiserror::Error)]
#[error("the payload is no JSON, so it cannot be part of a structured message")]
pub struct NotJson(#[source] serde_json::Error);

impl Messages {
    /// Messages in binary mode, without context. `source` names this outbox to consumers: a URI or a path; together
    /// with the event id it is unique.
    pub fn from_source(source: impl Into<String>) -> Result<Self, BadSource> {
        let source = source.into();
        let is_fit = |character: char| character.is_ascii_graphic() && !"<>\"{}|\\^`".contains(character);
        if source.is_empty() || !source.chars().all(is_fit) {
            return Err(BadSource(source));
        }
        Ok(Self { source, mode: Mode::Binary, sends_context: false })
    }

    /// Sets the mode; by default binary.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether the event's context is sent along, as headers; by default it is not.
    #[must_use]
    pub fn with_context(mut self, sends_context: bool) -> Self {
        self.sends_context = sends_context;
        self
    }

    /// What the largest legal event comes to as a message, headers and attributes included: an upper bound, to compare
    /// with the limits of a server.
    pub fn largest(&self) -> usize {
        let body = match self.mode {
            Mode::Binary => MAX_PAYLOAD,
            Mode::Structured => MAX_PAYLOAD.div_ceil(3) * 4,
        };
        body + MAX_HEADERS * if self.sends_context { 3 } else { 2 }
    }

    /// The message of an event.
    pub fn of<'e>(&'e self, event: &'e Event) -> Result<Message<'e>, NotJson> {
        let data_type = data_type(event);
        let attributes = attributes::of(event, &self.source, data_type);
        let headers = self.headers(event);
        Ok(match self.mode {
            Mode::Binary => Message {
                event_id: event.id(),
                content_type: data_type,
                body: Cow::Borrowed(event.payload().as_bytes()),
                attributes,
                headers,
            },
            Mode::Structured => Message {
                event_id: event.id(),
                content_type: structured::CONTENT_TYPE,
                body: Cow::Owned(structured::document(event, &attributes, data_type)?),
                attributes: Vec::new(),
                headers,
            },
        })
    }

    /// The event's headers, but for those whose names are taken; then its context, if it is sent. Where both have a
    /// name, the header is sent.
    fn headers<'e>(&self, event: &'e Event) -> Vec<(&'e str, &'e str)> {
        let context = event.context().iter().filter(|(name, _)| event.headers().get(name).is_none());
        let context = context.filter(|_| self.sends_context);
        event.headers().iter().chain(context).filter(|(name, _)| !is_reserved(name)).collect()
    }
}

fn is_reserved(name: &str) -> bool {
    let starts_with =
        |reserved: &str| name.get(..reserved.len()).is_some_and(|start| start.eq_ignore_ascii_case(reserved));
    name.eq_ignore_ascii_case(CONTENT_TYPE) || RESERVED.into_iter().any(starts_with)
}

/// What the payload is: what the header `content-type` says, as long as it does not contradict the payload.
fn data_type(event: &Event) -> &str {
    let told = event.headers().iter().find(|(name, _)| name.eq_ignore_ascii_case(CONTENT_TYPE));
    let told = told.map(|(_, value)| value);
    match event.payload() {
        Payload::Json(_) => told.filter(|told| structured::is_json(told)).unwrap_or("application/json"),
        Payload::Bytes(_) => told.unwrap_or("application/octet-stream"),
    }
}

/// An event as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'e> {
    /// The event's id, for the header [`EVENT_ID`] and for brokers that recognise duplicates themselves.
    pub event_id: &'e str,
    /// What the body is.
    pub content_type: &'e str,
    /// The attributes of CloudEvents, without the prefix that each transport has for them; none in structured mode.
    pub attributes: Vec<(&'static str, Cow<'e, str>)>,
    /// The event's own headers, and its context if that is sent.
    pub headers: Vec<(&'e str, &'e str)>,
    /// The body.
    pub body: Cow<'e, [u8]>,
}

impl Message<'_> {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::EventBuilder;

    fn order_placed() -> EventBuilder {
        Event::builder("OrderPlaced").id("01").aggregate("Order", "order-17").json_text(r#"{"total": 4200}"#)
    }

    fn messages() -> Messages {
        Messages::from_source("/shop").unwrap()
    }

    /// K2, L6: in binary mode the body is the payload, byte for byte, and all else is in attributes and headers.
    #[test]
    fn binary_message_has_the_payload_as_its_body() {
        let event = order_placed().tenant("acme").header("region", "eu").build().unwrap();
        let messages = messages();

        let message = messages.of(&event).unwrap();

        assert_eq!(&*message.body, br#"{"total": 4200}"#);
        assert_eq!((message.event_id, message.content_type), ("01", "application/json"));
        assert_eq!(message.headers, [("region", "eu")]);
        for (name, value) in [
            ("specversion", "1.0"),
            ("id", "01"),
            ("source", "/shop"),
            ("type", "OrderPlaced"),
            ("subject", "order-17"),
            ("datacontenttype", "application/json"),
            ("partitionkey", "order-17"),
            ("aggregatetype", "Order"),
            ("tenantid", "acme"),
        ] {
            assert_eq!(message.attribute(name), Some(value), "{name}");
        }
        assert_eq!(message.attribute("time"), Some(&*event.occurred_at().to_string()));
    }

    /// K2: what an event does not have is left out, not sent as an empty text.
    #[test]
    fn absent_values_are_left_out() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();
        let messages = messages();

        let message = messages.of(&event).unwrap();

        for name in ["subject", "partitionkey", "aggregatetype", "tenantid", "traceparent", "tracestate"] {
            assert_eq!(message.attribute(name), None, "{name}");
        }
    }

    /// X1: context is sent when that is asked for, and only then; a header of the same name wins.
    #[test]
    fn context_is_sent_only_when_asked() {
        let event = order_placed()
            .header("user", "ada")
            .context("user", "bob")
            .context("shard", "7")
            .build()
            .unwrap();
        let (without, with) = (messages(), messages().with_context(true));

        assert_eq!(without.of(&event).unwrap().headers, [("user", "ada")]);
        assert_eq!(with.of(&event).unwrap().headers, [("user", "ada"), ("shard", "7")]);
    }

    /// L6: nobody can pass for another event by a header.
    #[test]
    fn reserved_headers_are_not_sent() {
        let names = ["ce_id", "CE-Type", "cloudEvents:id", "Event-Id", "Content-Type", "ce", "c\u{e9}_id"];
        let builder = names.into_iter().fold(order_placed(), |builder, name| builder.header(name, "x"));
        let (event, messages) = (builder.build().unwrap(), messages());

        let sent: Vec<&str> = messages.of(&event).unwrap().headers.iter().map(|(name, _)| *name).collect();

        assert_eq!(sent, ["ce", "c\u{e9}_id"]);
    }

    /// X2: the trace of the writer is among the attributes, and stays among the headers.
    #[test]
    fn trace_context_is_sent() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let event = order_placed().header("traceparent", parent).header("tracestate", "a=1").build().unwrap();
        let messages = messages();

        let message = messages.of(&event).unwrap();

        assert_eq!(message.attribute("traceparent"), Some(parent));
        assert_eq!(message.attribute("tracestate"), Some("a=1"));
        assert_eq!(message.headers, [("traceparent", parent), ("tracestate", "a=1")]);
    }

    /// X3: the writer can say what its bytes are; a JSON payload stays JSON.
    #[test]
    fn content_type_is_told_by_a_header() {
        let bytes =
            |name: &str| Event::builder("Scan").bytes(vec![1, 2]).header(name, "image/png").build().unwrap();
        let messages = messages();

        assert_eq!(messages.of(&bytes("Content-Type")).unwrap().content_type, "image/png");
        assert_eq!(messages.of(&bytes("other")).unwrap().content_type, "application/octet-stream");
        let json = |told: &str| order_placed().header("content-type", told).build().unwrap();
        assert_eq!(
            messages.of(&json("application/vnd.order+json; charset=utf-8")).unwrap().content_type,
            "application/vnd.order+json; charset=utf-8"
        );
        assert_eq!(messages.of(&json("text/plain")).unwrap().content_type, "application/json");
    }

    /// V2: the bound is above what any event comes to.
    #[test]
    fn no_message_is_larger_than_the_largest() {
        let headers = |builder: EventBuilder| {
            (0..4).fold(builder, |builder, number| {
                let value = "\u{7f}".repeat(4_000);
                builder
                    .header(format!("header-{number}"), &value)
                    .context(format!("context-{number}"), &value)
            })
        };
        let event = headers(Event::builder("Scan").bytes(vec![0xff; MAX_PAYLOAD])).build().unwrap();

        for mode in [Mode::Binary, Mode::Structured] {
            let messages = messages().mode(mode).with_context(true);
            let message = messages.of(&event).unwrap();
            let headers = message.headers.iter().map(|(name, value)| name.len() + value.len());
            let attributes = message.attributes.iter().map(|(name, value)| name.len() + value.len());

            let size = message.body.len() + headers.sum::<usize>() + attributes.sum::<usize>();
            assert!(size <= messages.largest(), "{mode:?}: {size}");
        }
    }

    /// K2: a source that is no URI is refused.
    #[test]
    fn bad_source_is_refused() {
        for bad in ["", "my shop", "sh\u{f6}p", "{shop}"] {
            let error = Messages::from_source(bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` is no source of events; give a URI")), "{error}");
        }
        for good in ["/shop", "https://shop.example/orders", "urn:shop:orders"] {
            assert!(Messages::from_source(good).is_ok(), "{good}");
        }
    }
}
