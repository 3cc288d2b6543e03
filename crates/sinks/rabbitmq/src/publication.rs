//! An event as RabbitMQ gets it: where it goes, its properties and its body.

use std::borrow::Cow;
use std::cell::Cell;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use pillarbox::{Event, SinkError, Template};
use pillarbox_message::{EVENT_ID, Message};

/// An event, ready to be sent.
#[derive(Debug)]
pub(crate) struct Publication<'e> {
    /// Its place in the run.
    pub(crate) index: usize,
    pub(crate) event_id: &'e str,
    pub(crate) key: Option<&'e str>,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Cow<'e, [u8]>,
}

/// As in the binding of CloudEvents to AMQP 1.0; there is none to AMQP 0.9.1.
const PREFIX: &str = "cloudEvents_";
/// Headers by which RabbitMQ routes, or in which it counts: a text there closes the channel, or worse.
const OF_THE_BROKER: [&str; 3] = ["CC", "BCC", "x-death"];
/// Written to disk by durable queues before it is confirmed.
const PERSISTENT: u8 = 2;
/// What a header frame has beside the properties: frame type, channel, size and end, class, weight, body size, flags.
const HEADER_FRAME: usize = 8 + 14;
/// What AMQP allows for a short text, in bytes.
const MAX_SHORT: usize = 255;

/// Fills an address, and refuses values that mean more than themselves, or nothing, to those who bind queues.
pub(crate) fn filled(what: &str, template: &Template, event: &Event) -> Result<ShortString, SinkError> {
    let unfit = Cell::new(None);
    let filled = template.fill_with(event, |value| {
        if value.chars().any(is_unfit) {
            unfit.set(Some(value));
        }
        Cow::Borrowed(value)
    });
    let filled = filled.map_err(|error| SinkError::rejected(error.to_string()).for_good())?;
    if let Some(value) = unfit.get() {
        return Err(SinkError::rejected(format!(
            "`{value}` cannot be part of the {what} `{template}`: it has a space, a control character, or `*` or `#`, \
             which are wildcards of bindings; fill it from another field"
        ))
        .for_good());
    }
    short(what, filled)
}

fn is_unfit(character: char) -> bool {
    character.is_whitespace() || character.is_control() || matches!(character, '*' | '#')
}

fn short(what: &str, text: String) -> Result<ShortString, SinkError> {
    let length = text.len();
    ShortString::try_new(text).map_err(|_| {
        let text = format!("the {what} has {length} bytes, and the limit of AMQP is {MAX_SHORT}");
        SinkError::rejected(text).for_good()
    })
}

/// What the event says of itself beside its body.
pub(crate) fn properties(event: &Event, message: &Message<'_>) -> Result<BasicProperties, SinkError> {
    let mut headers = FieldTable::default();
    let text = |value: &str| AMQPValue::LongString(value.into());
    headers.insert(EVENT_ID.into(), text(message.event_id));
    for (name, value) in &message.headers {
        if !OF_THE_BROKER.contains(name) {
            headers.insert(short("name of a header", (*name).to_owned())?, text(value));
        }
    }
    for (name, value) in &message.attributes {
        // The binding puts this one into the property of the same meaning.
        if *name != "datacontenttype" {
            headers.insert(short("name of an attribute", format!("{PREFIX}{name}"))?, text(value));
        }
    }
    let mut properties = BasicProperties::default()
        .with_content_type(short("content type", message.content_type.to_owned())?)
        .with_delivery_mode(PERSISTENT)
        .with_message_id(short("event id", message.event_id.to_owned())?)
        .with_headers(headers);
    // Both are among the attributes as well: what does not fit here is not lost.
    if let Ok(event_type) = ShortString::try_new(event.event_type()) {
        properties = properties.with_type(event_type);
    }
    if let Ok(seconds) = u64::try_from(event.occurred_at().as_micros().div_euclid(1_000_000)) {
        properties = properties.with_timestamp(seconds);
    }
    Ok(properties)
}

impl Publication<'_> {
    /// Refuses properties that do not fit into one frame: the server would end the connection, and with it all that
    /// others have under way.
    pub(crate) fn fits(&self, frame_max: u32) -> Result<(), SinkError> {
        let size = header_frame(&self.properties);
        if size <= usize::try_from(frame_max).unwrap_or(usize::MAX) {
            return Ok(());
        }
        Err(SinkError::rejected(format!(
            "headers and attributes come to {size} bytes, and the limit of the connection is a frame of {frame_max}; \
             raise `frame_max` of the server (and in the URL, if it is there), or send less in headers"
        ))
        .for_good())
    }
}

/// How long the frame with these properties is.
fn header_frame(properties: &BasicProperties) -> usize {
    let short = |text: &Option<ShortString>| text.as_ref().map_or(0, |text| 1 + text.as_str().len());
    let headers = properties.headers().as_ref().map_or(0, |table| {
        let entry = |(name, value): (&ShortString, &AMQPValue)| {
            let value = if let AMQPValue::LongString(text) = value { text.len() } else { 0 };
            1 + name.as_str().len() + 1 + 4 + value
        };
        4 + table.into_iter().map(entry).sum::<usize>()
    });
    let texts = [properties.content_type(), properties.message_id(), properties.kind()].map(short);
    HEADER_FRAME + texts.iter().sum::<usize>() + headers + size_of::<u8>() + size_of::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pillarbox_message::Messages;

    fn order_placed() -> pillarbox::EventBuilder {
        Event::builder("OrderPlaced").id("01").aggregate("Order", "order-17").json_text("{}")
    }

    fn properties_of(event: &Event) -> Result<BasicProperties, SinkError> {
        let messages = Messages::from_source("/shop").unwrap();
        properties(event, &messages.of(event).unwrap())
    }

    fn routing_key(template: &str, event: &Event) -> Result<ShortString, SinkError> {
        filled("routing key", &template.parse().unwrap(), event)
    }

    /// K2: values with wildcards, spaces or control characters are refused; what the template itself says is not.
    #[test]
    fn dangerous_value_is_refused() {
        for unfit in ["a*", "#", "a b", "a\tb", "a\u{7f}"] {
            let event = order_placed().header("region", unfit).build().unwrap();

            let error = routing_key("shop.{header.region}", &event).unwrap_err();

            assert!(error.is_rejected() && error.is_final(), "{error:?}");
            let text = error.to_string();
            let start = format!("`{unfit}` cannot be part of the routing key `shop.{{header.region}}`");
            assert!(text.starts_with(&start), "{text}");
        }
        let event = order_placed().build().unwrap();
        assert_eq!(routing_key("my queue.{event_type}", &event).unwrap().as_str(), "my queue.OrderPlaced");
    }

    /// K2: what is too long for AMQP is refused with its length and the limit, and panics nowhere.
    #[test]
    fn long_texts_are_refused() {
        let event = order_placed().header("region", "r".repeat(256)).build().unwrap();
        let long =
            order_placed().header("content-type", format!("a/{}+json", "b".repeat(300))).build().unwrap();
        let wide = Event::builder("\u{1f980}".repeat(100)).json_text("{}").build().unwrap();

        let error = routing_key("{header.region}", &event).unwrap_err();
        assert_eq!(error.to_string(), "the routing key has 256 bytes, and the limit of AMQP is 255");
        assert!(properties_of(&long).unwrap_err().to_string().starts_with("the content type has 307 bytes"));
        assert_eq!(properties_of(&wide).unwrap().kind(), &None);
    }

    /// K2: headers that RabbitMQ takes for its own are not sent: a text in `CC` closes the channel.
    #[test]
    fn headers_of_the_broker_are_not_sent() {
        let event =
            order_placed().header("CC", "x").header("BCC", "x").header("x-death", "x").header("cc", "y");

        let properties = properties_of(&event.build().unwrap()).unwrap();

        let headers = properties.headers().as_ref().unwrap();
        let sent = ["CC", "BCC", "x-death", "cc"].map(|name| headers.contains_key(name));
        assert_eq!(sent, [false, false, false, true]);
    }

    /// K2: an event from before 1970 has no timestamp rather than a wrong one.
    #[test]
    fn time_before_1970_is_left_out() {
        let at = |micros| {
            let event = order_placed().build().unwrap();
            let parts = event.parts().clone();
            let occurred_at = pillarbox::Timestamp::from_micros(micros);
            *properties_of(&Event::restore(pillarbox::EventParts { occurred_at, ..parts }))
                .unwrap()
                .timestamp()
        };

        assert_eq!((at(-1), at(0), at(1_999_999)), (None, Some(0), Some(1)));
    }

    /// K2: the length of the header frame is what the encoder makes of it.
    #[test]
    fn header_frame_is_measured_exactly() {
        use lapin::protocol::basic::gen_properties;
        let event = order_placed().header("region", "eu").build().unwrap();
        let properties = properties_of(&event).unwrap();

        let mut buffer = [0; 4096];
        let cursor = std::io::Cursor::new(&mut buffer[..]);
        let (_, written) = gen_properties(&properties)(cursor.into()).unwrap().into_inner();

        // The encoder counts the flags, two bytes, which are among the fixed part here.
        assert_eq!(header_frame(&properties), HEADER_FRAME - 2 + usize::try_from(written).unwrap());
    }
}
