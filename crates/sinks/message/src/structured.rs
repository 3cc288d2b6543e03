//! The structured mode: one JSON document with everything in it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillarbox::{Event, Payload};
use serde_json::value::RawValue;

use crate::NotJson;

pub(crate) const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The document of an event.
pub(crate) fn document(
    event: &Event,
    attributes: &[(&'static str, Cow<'_, str>)],
    data_type: &str,
) -> Result<Vec<u8>, NotJson> {
    let payload = event.payload().as_bytes();
    let mut document = Vec::with_capacity(payload.len() * 4 / 3 + 512);
    document.push(b'{');
    for (name, value) in attributes {
        push_name(&mut document, name);
        // A text always has a form in JSON.
        let _ = serde_json::to_writer(&mut document, value);
        document.push(b',');
    }
    push_data(&mut document, event.payload(), data_type)?;
    document.push(b'}');
    Ok(document)
}

fn push_data(document: &mut Vec<u8>, payload: &Payload, data_type: &str) -> Result<(), NotJson> {
    match json_in(payload, data_type) {
        Some(text) => {
            // Whoever wrote it by plain SQL may have written anything, and it must not break out of the document.
            let data: &RawValue = serde_json::from_str(text).map_err(NotJson)?;
            push_name(document, "data");
            document.extend_from_slice(data.get().as_bytes());
        }
        None => {
            push_name(document, "data_base64");
            document.push(b'"');
            document.extend_from_slice(STANDARD.encode(payload.as_bytes()).as_bytes());
            document.push(b'"');
        }
    }
    Ok(())
}

/// The JSON text of a payload; bytes that say that they are JSON are so, too.
fn json_in<'p>(payload: &'p Payload, data_type: &str) -> Option<&'p str> {
    match payload {
        Payload::Json(text) => Some(text),
        Payload::Bytes(bytes) => std::str::from_utf8(bytes).ok().filter(|_| is_json(data_type)),
    }
}

/// Whether a content type is one of JSON.
pub(crate) fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    media_type.ends_with("/json") || media_type.ends_with("+json")
}

fn push_name(document: &mut Vec<u8>, name: &str) {
    document.push(b'"');
    document.extend_from_slice(name.as_bytes());
    document.extend_from_slice(b"\":");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{Messages, Mode};
    use pillarbox::{Event, EventParts};

    fn document(event: &Event) -> Value {
        let messages = Messages::from_source("/shop").unwrap().mode(Mode::Structured);
        let message = messages.of(event).unwrap();
        assert_eq!(message.content_type, "application/cloudevents+json; charset=utf-8");
        assert_eq!(message.attributes, []);
        serde_json::from_slice(&message.body).unwrap()
    }

    /// K2: the document has attributes and payload, and whatever they contain it stays JSON.
    #[test]
    fn document_has_everything() {
        let event =
            Event::builder("Order\"Placed").id("01").aggregate("Order", "17").json_text(r#"{"total": 4200}"#);
        let event = event.build().unwrap();

        let document = document(&event);

        let expected = json!({
            "specversion": "1.0", "id": "01", "source": "/shop", "type": "Order\"Placed", "subject": "17",
            "datacontenttype": "application/json", "time": event.occurred_at().to_string(), "partitionkey": "17",
            "aggregatetype": "Order", "data": {"total": 4200},
        });
        assert_eq!(document, expected);
    }

    /// K2: bytes are sent as base64, unless they say that they are JSON.
    #[test]
    fn bytes_are_sent_as_base64() {
        let scan = Event::builder("Scan").bytes(vec![0xff, 0, 1]).build().unwrap();
        let json =
            Event::builder("Scan").bytes(b"[1]".to_vec()).header("content-type", "application/json").build();

        assert_eq!(document(&scan)["data_base64"], "/wAB");
        assert_eq!(document(&json.unwrap())["data"], json!([1]));
    }

    /// K2: a payload that is no JSON does not break out of its document.
    #[test]
    fn broken_payload_is_refused() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();
        let payload = pillarbox::Payload::Json(r#"1,"id":"forged""#.to_owned());
        let event = Event::restore(EventParts { payload, ..event.parts().clone() });
        let messages = Messages::from_source("/shop").unwrap().mode(Mode::Structured);

        let error = messages.of(&event).unwrap_err();

        assert_eq!(error.to_string(), "the payload is no JSON, so it cannot be part of a structured message");
    }
}
