//! Payloads as people and programs read them.

use pillarbox::Payload;
use serde::Serialize;
use serde_json::value::RawValue;

/// Bytes of a binary payload that are shown to people.
const SHOWN_BYTES: usize = 256;

/// A payload inside JSON; one of the three is set.
#[derive(Serialize)]
pub(crate) struct PayloadJson {
    /// JSON, digit for digit as it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// Text that should be JSON and is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
    /// Bytes, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_hex: Option<String>,
}

impl PayloadJson {
    pub(crate) fn of(payload: &Payload) -> Self {
        let mut shown = Self { payload: None, payload_text: None, payload_hex: None };
        match payload {
            Payload::Json(text) => match RawValue::from_string(text.clone()) {
                Ok(json) => shown.payload = Some(json),
                Err(_) => shown.payload_text = Some(text.clone()),
            },
            Payload::Bytes(bytes) => shown.payload_hex = Some(hex(bytes, "")),
        }
        shown
    }
}

/// A payload for people: JSON indented, bytes in hexadecimal, sixteen to a line.
pub(crate) fn pretty(payload: &Payload) -> String {
    match payload {
        Payload::Json(text) => indented(text),
        Payload::Bytes(bytes) => {
            let lines = bytes[..bytes.len().min(SHOWN_BYTES)].chunks(16).map(|line| hex(line, " "));
            let lines: Vec<String> = lines.collect();
            let rest = if bytes.len() > SHOWN_BYTES { "\n…; all of it with --json" } else { "" };
            format!("{} bytes\n{}{rest}", bytes.len(), lines.join("\n"))
        }
    }
}

fn hex(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}

/// JSON with line breaks and indentation, and otherwise untouched: parsing it would lose the order of the names
/// and the digits of large numbers. Control characters cannot stand in JSON strings; elsewhere they are dropped.
fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = json.chars().filter(|character| !character.is_control()).peekable();
    while let Some(character) = characters.next() {
        if in_string {
            text.push(character);
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                text.push('"');
            }
            '{' | '[' => {
                text.push(character);
                while characters.next_if(|next| next.is_whitespace()).is_some() {}
                match characters.next_if(|&next| next == '}' || next == ']') {
                    Some(close) => text.push(close),
                    None => {
                        depth += 1;
                        new_line(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(character);
            }
            ',' => {
                text.push(',');
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            space if space.is_whitespace() => {}
            other => text.push(other),
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_otherwise_untouched() {
        let json = r#"{"z":12345678901234567890123,"a":[ ],"t":"{\"x\": 1,}","l":[1, {"b":null}]}"#;

        let text = indented(json);

        let expected = "{\n  \"z\": 12345678901234567890123,\n  \"a\": [],\n  \"t\": \"{\\\"x\\\": 1,}\",\n  \
                        \"l\": [\n    1,\n    {\n      \"b\": null\n    }\n  ]\n}";
        assert_eq!(text, expected);
    }

    #[test]
    fn bytes_are_shown_in_hexadecimal() {
        let short = pretty(&Payload::Bytes(vec![0, 255, 16]));
        let long = pretty(&Payload::Bytes(vec![7; 300]));

        assert_eq!(short, "3 bytes\n00 ff 10");
        assert!(long.starts_with("300 bytes\n07 07"), "{long}");
        assert!(long.ends_with("all of it with --json"), "{long}");
    }
}
