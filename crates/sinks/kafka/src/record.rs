//! An event as a record of Kafka.

use std::borrow::Cow;

use pillarbox::{Delivery, SinkError, Template};
use pillarbox_message::{EVENT_ID, Message, Messages};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::topic;

/// What the protocol binding of CloudEvents puts before the names of attributes.
const ATTRIBUTE: &str = "ce_";
const CONTENT_TYPE: &str = "content-type";
/// What a batch takes beside its records, in version 2 of the format.
const BATCH: usize = 61;

/// An event that is ready to be sent.
pub(crate) struct Record<'e> {
    pub(crate) topic: Cow<'e, str>,
    key: Option<&'e str>,
    message: Message<'e>,
    /// The names of attributes as headers.
    attributes: Vec<String>,
}

impl<'e> Record<'e> {
    /// The record of an event, or why no broker would take it. `limit` is what a batch may have in bytes.
    pub(crate) fn of(
        delivery: &'e Delivery,
        topic: &'e Template,
        messages: &'e Messages,
        limit: usize,
    ) -> Result<Self, SinkError> {
        let topic = match topic.as_constant() {
            Some(topic) => Cow::Borrowed(topic),
            None => Cow::Owned(topic.fill(delivery).map_err(|unfilled| refused(unfilled.to_string()))?),
        };
        if let Some(flaw) = topic::flaw(&topic) {
            return Err(refused(flaw));
        }
        let message = messages.of(delivery).map_err(|not_json| refused(not_json.to_string()))?;
        let attributes = message.attributes.iter().map(|(name, _)| format!("{ATTRIBUTE}{name}")).collect();
        let record = Self { topic, key: delivery.key(), message, attributes };
        let size = record.size();
        if size > limit {
            return Err(refused(format!(
                "the event takes {size} bytes in Kafka, and the limit is {limit}; raise `max_message_bytes` and the \
                 topic's `max.message.bytes`, or write smaller events"
            )));
        }
        Ok(record)
    }

    /// What is handed to the client.
    pub(crate) fn outgoing<T>(&self, ticket: Box<T>) -> BaseRecord<'_, str, [u8], Box<T>>
    where
        T: Send + Sync,
    {
        let mut headers = OwnedHeaders::new_with_capacity(self.headers().count());
        for (key, value) in self.headers() {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let record =
            BaseRecord::with_opaque_to(&self.topic, ticket).payload(&*self.message.body).headers(headers);
        match self.key {
            Some(key) => record.key(key),
            None => record,
        }
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let message = &self.message;
        let fixed = [(EVENT_ID, message.event_id), (CONTENT_TYPE, message.content_type)];
        let values = message.attributes.iter().map(|(_, value)| &**value);
        let attributes = self.attributes.iter().map(String::as_str).zip(values);
        fixed.into_iter().chain(attributes).chain(message.headers.iter().copied())
    }

    /// The bytes of a batch that has this record alone, not compressed.
    pub(crate) fn size(&self) -> usize {
        let text = |length: usize| varint(length) + length;
        let headers: usize = self.headers().map(|(name, value)| text(name.len()) + text(value.len())).sum();
        // Attributes, and the distances in time and place from the first record of the batch, which it is itself.
        let fixed = 1 + 1 + 1;
        let record = fixed
            + text(self.key.map_or(0, str::len))
            + text(self.message.body.len())
            + varint(self.headers().count())
            + headers;
        BATCH + text(record)
    }
}

/// How many bytes a length takes: seven bits in each, one of them for the sign.
fn varint(length: usize) -> usize {
    let bits = (usize::BITS - length.leading_zeros()) as usize + 1;
    bits.div_ceil(7)
}

fn refused(text: String) -> SinkError {
    SinkError::rejected(text).for_good()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox::{Event, EventBuilder, Source, Timestamp};
    use rdkafka::message::Headers;

    fn delivery(event: EventBuilder) -> Delivery {
        Delivery::new(event.build().unwrap(), 1, Timestamp::from_micros(0), Source::Cold)
    }

    fn order_placed() -> EventBuilder {
        Event::builder("OrderPlaced").id("01J").aggregate("Order", "order-17").json_text("{}")
    }

    fn record<'e>(delivery: &'e Delivery, topic: &'e Template, messages: &'e Messages) -> Record<'e> {
        Record::of(delivery, topic, messages, 10_000).unwrap()
    }

    fn constant() -> (Template, Messages) {
        ("orders".parse().unwrap(), Messages::from_source("/shop").unwrap())
    }

    /// K1, K2, L6: a record has its key, and headers as the protocol binding of CloudEvents names them.
    #[test]
    fn record_has_key_and_headers() {
        let (topic, messages) = constant();
        let delivery = delivery(order_placed().header("region", "eu"));
        let record = record(&delivery, &topic, &messages);

        let outgoing = record.outgoing(Box::new(()));

        assert_eq!((outgoing.topic, outgoing.key), ("orders", Some("order-17")));
        assert_eq!(outgoing.payload, Some(&b"{}"[..]));
        let headers = outgoing.headers.unwrap();
        for (name, value) in [
            ("event-id", "01J"),
            ("content-type", "application/json"),
            ("ce_specversion", "1.0"),
            ("ce_id", "01J"),
            ("ce_type", "OrderPlaced"),
            ("region", "eu"),
        ] {
            let found = headers.iter().find(|header| header.key == name).unwrap();
            assert_eq!(found.value, Some(value.as_bytes()), "{name}");
        }
    }

    /// K1: an event without a key has none in Kafka either, not an empty one.
    #[test]
    fn no_key_is_no_key() {
        let (topic, messages) = constant();
        let delivery = delivery(Event::builder("Ping").json_text("{}"));

        assert_eq!(record(&delivery, &topic, &messages).outgoing(Box::new(())).key, None);
    }

    /// K1: what cannot be published anywhere is refused for good, and says why.
    #[test]
    fn unfit_events_are_refused_for_good() {
        let messages = constant().1;
        let delivery = delivery(order_placed().tenant("acme/eu"));
        for (topic, limit, why) in [
            ("orders.{header.region}", 10_000, "has no header `region`"),
            ("orders.{tenant_id}", 10_000, "`orders.acme/eu` is no topic of Kafka: it has '/'"),
            ("orders", 100, "bytes in Kafka, and the limit is 100; raise `max_message_bytes`"),
        ] {
            let topic: Template = topic.parse().unwrap();

            let error = Record::of(&delivery, &topic, &messages, limit).err().unwrap();

            assert!(error.is_rejected() && error.is_final(), "{error:?}");
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    /// K1: lengths take as many bytes as the format gives them.
    #[test]
    fn lengths_are_counted_as_they_are_written() {
        let known = [(0, 1), (63, 1), (64, 2), (8_191, 2), (8_192, 3), (1_048_575, 3), (1_048_576, 4)];

        for (length, bytes) in known {
            assert_eq!(varint(length), bytes, "{length}");
        }
    }
}
