//! An event as it goes to NATS.

use async_nats::header::{HeaderMap, HeaderName, HeaderValue};
use async_nats::jetstream::message::PublishMessage;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pillarbox::{Event, SinkError, Template};
use pillarbox_message::{EVENT_ID, Message, Messages};

use crate::subject::subject;

/// What CloudEvents has encoded in headers: space, double quote, percent, and all but printable ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// By it the server recognises what it has already stored, in the whole stream: so it names the subject as well, or an
/// event that goes to two subjects of a stream would be stored in one of them only.
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Headers that begin so are orders to the server, such as to empty the stream.
const ORDER: &str = "nats-";

/// What is sent for an event, and where.
pub(crate) struct Publication {
    pub(crate) subject: String,
    pub(crate) message: PublishMessage,
    /// Body and headers, as the server counts them.
    pub(crate) size: usize,
}

impl Publication {
    /// The publication of an event, or why there can be none.
    pub(crate) fn of(
        event: &Event,
        template: &Template,
        messages: &Messages,
        max_payload: usize,
    ) -> Result<Self, SinkError> {
        let for_good = |text: String| SinkError::rejected(text).for_good();
        let subject = subject(template, event)?;
        let message = messages.of(event).map_err(|error| for_good(error.to_string()))?;
        let headers = headers(&message, &subject)?;
        let size = wire_size(&headers) + message.body.len();
        if size > max_payload {
            return Err(for_good(format!(
                "the event comes to {size} bytes as a message, and the server's limit is {max_payload} \
                 (`max_payload`); raise it there"
            )));
        }
        let body = message.body.into_owned();
        Ok(Self { subject, message: PublishMessage::build().payload(body.into()).headers(headers), size })
    }
}

/// The headers of a message to a subject.
fn headers(message: &Message<'_>, subject: &str) -> Result<HeaderMap, SinkError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &message.headers {
        if !name.get(..ORDER.len()).is_some_and(|start| start.eq_ignore_ascii_case(ORDER)) {
            append(&mut headers, name, value)?;
        }
    }
    for (name, value) in &message.attributes {
        append(&mut headers, &format!("ce-{name}"), &utf8_percent_encode(value, ENCODED).to_string())?;
    }
    append(&mut headers, "content-type", message.content_type)?;
    append(&mut headers, EVENT_ID, message.event_id)?;
    append(&mut headers, MESSAGE_ID, &format!("{}@{subject}", message.event_id))?;
    Ok(headers)
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), SinkError> {
    let refused =
        |why: &str| SinkError::rejected(format!("the header `{}` {why}", name.escape_debug())).for_good();
    let no_name = |_| refused("cannot be sent: names of NATS are ASCII, without spaces and colons");
    let no_value = |_| refused("cannot be sent: its value has a line break in it");
    let name = name.parse::<HeaderName>().map_err(no_name)?;
    headers.append(name, value.parse::<HeaderValue>().map_err(no_value)?);
    Ok(())
}

/// What headers come to on the wire: a first line, a line each, an empty one.
fn wire_size(headers: &HeaderMap) -> usize {
    let line =
        |name: &HeaderName, value: &HeaderValue| AsRef::<str>::as_ref(name).len() + value.as_str().len() + 4;
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| line(name, value)));
    lines.sum::<usize>() + "NATS/1.0\r\n\r\n".len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::EventBuilder;

    fn order_placed() -> EventBuilder {
        Event::builder("OrderPlaced").id("01J").json_text("{}")
    }

    fn publication(event: EventBuilder, max_payload: usize) -> Result<Publication, SinkError> {
        let messages = Messages::from_source("/shop").unwrap();
        Publication::of(&event.build().unwrap(), &"orders".parse().unwrap(), &messages, max_payload)
    }

    fn headers_of(event: EventBuilder) -> HeaderMap {
        headers(&Messages::from_source("/shop").unwrap().of(&event.build().unwrap()).unwrap(), "orders")
            .unwrap()
    }

    /// L6: every consumer knows the event by its id, and the server by its id and the subject.
    #[test]
    fn event_is_known_by_its_id() {
        let headers = headers_of(order_placed().header("nats-msg-id", "forged").header("Event-Id", "forged"));

        for (name, expected) in [("Nats-Msg-Id", "01J@orders"), ("event-id", "01J"), ("ce-id", "01J")] {
            let values: Vec<&str> = headers.get_all(name).map(HeaderValue::as_str).collect();
            assert_eq!(values, [expected], "{name}");
        }
    }

    /// Whoever writes events gives no orders to the server.
    #[test]
    fn orders_to_the_server_are_not_sent() {
        let headers = headers_of(order_placed().header("Nats-Rollup", "all").header("natsy", "sent"));

        assert!(headers.get("Nats-Rollup").is_none());
        assert_eq!(headers.get("natsy").unwrap().as_str(), "sent");
    }

    /// K2: attributes are encoded as CloudEvents has it, headers of the event are sent as they are.
    #[test]
    fn attributes_are_encoded() {
        let event = order_placed().aggregate("Order", "größe \"5\" 100%").header("size", "größe 5");

        let headers = headers_of(event);

        assert_eq!(headers.get("ce-subject").unwrap().as_str(), "gr%C3%B6%C3%9Fe%20%225%22%20100%25");
        assert_eq!(headers.get("size").unwrap().as_str(), "größe 5");
    }

    #[test]
    fn header_that_cannot_be_sent_is_named() {
        for (name, value, why) in [
            ("due date", "x", "the header `due date` cannot be sent: names of NATS are ASCII"),
            ("größe", "x", "the header `größe` cannot be sent: names of NATS are ASCII"),
            ("a:b", "x", "the header `a:b` cannot be sent: names of NATS are ASCII"),
            ("note", "two\r\nlines", "the header `note` cannot be sent: its value has a line break"),
        ] {
            let error = publication(order_placed().header(name, value), 1 << 20).err().unwrap();

            assert!(error.is_rejected() && error.is_final(), "{error:?}");
            assert!(error.to_string().starts_with(why), "{error}");
        }
    }

    /// V2: the limit of the server counts headers too, to the byte.
    #[test]
    fn event_over_the_limit_of_the_server_is_rejected_for_good() {
        let size = publication(order_placed(), 1 << 20).ok().unwrap().size;

        assert!(publication(order_placed(), size).is_ok());
        let error = publication(order_placed(), size - 1).err().unwrap();
        assert!(error.is_rejected() && error.is_final(), "{error:?}");
        assert!(error.to_string().contains(&format!("limit is {}", size - 1)), "{error}");
    }
}
