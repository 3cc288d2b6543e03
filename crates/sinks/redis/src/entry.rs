//! An event as an entry of a stream.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pillarbox::{Event, SinkError, Template};
use pillarbox_message::{EVENT_ID, Messages};
use redis::Cmd;

use crate::options::Trim;

/// What the name of a stream may come to: far below what Redis takes, and more than anybody means.
const MAX_KEY: usize = 1_024;

/// What the fields of the event's own headers begin with, so that they cannot be taken for any other field.
const HEADER: &str = "header.";

/// The command that adds an event to its stream.
pub(crate) struct Entry {
    pub(crate) stream: String,
    pub(crate) command: Cmd,
    /// What the command comes to on the wire.
    pub(crate) size: usize,
}

impl Entry {
    /// The entry of an event, or why there can be none.
    pub(crate) fn of(
        event: &Event,
        template: &Template,
        messages: &Messages,
        trim: Option<Trim>,
    ) -> Result<Self, SinkError> {
        let for_good = |text: String| SinkError::rejected(text).for_good();
        let stream = template.fill(event).map_err(|error| for_good(error.to_string()))?;
        if let Some(fault) = fault(&stream) {
            let shown: String = stream.chars().take(200).flat_map(char::escape_debug).collect();
            return Err(for_good(format!("`{shown}` is no name for a stream: {fault}")));
        }
        let message = messages.of(event).map_err(|error| for_good(error.to_string()))?;

        let mut command = redis::cmd("XADD");
        command.arg(&stream);
        add_trim(&mut command, trim);
        command.arg("*").arg(EVENT_ID).arg(message.event_id).arg("content-type").arg(message.content_type);
        for (name, value) in &message.attributes {
            command.arg(format!("ce_{name}")).arg(&**value);
        }
        for (name, value) in &message.headers {
            command.arg(format!("{HEADER}{name}")).arg(*value);
        }
        command.arg("body").arg(&*message.body);
        let size = command.get_packed_command().len();
        Ok(Self { stream, command, size })
    }
}

/// What is wrong with the name of a stream.
fn fault(stream: &str) -> Option<String> {
    if stream.is_empty() {
        return Some("it is empty".to_owned());
    }
    if stream.len() > MAX_KEY {
        return Some(format!("it has {} bytes, and the limit is {MAX_KEY}", stream.len()));
    }
    stream.contains(char::is_control).then(|| "it has control characters in it".to_owned())
}

fn add_trim(command: &mut Cmd, trim: Option<Trim>) {
    match trim {
        Some(Trim::ToLength(length)) => {
            command.arg("MAXLEN").arg("~").arg(length);
        }
        Some(Trim::ToAge(age)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            command.arg("MINID").arg("~").arg(format!("{}-0", now.saturating_sub(age).as_millis()));
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event: &Event, template: &str, trim: Option<Trim>) -> Result<Entry, SinkError> {
        Entry::of(event, &template.parse().unwrap(), &Messages::from_source("/shop").unwrap(), trim)
    }

    fn arguments(entry: &Entry) -> Vec<String> {
        let text = |argument| match argument {
            redis::Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        entry.command.args_iter().map(text).collect()
    }

    /// K2, L6: the fields, and headers that cannot be taken for any of them.
    #[test]
    fn fields_do_not_collide() {
        let event = Event::builder("OrderPlaced").id("01J").json_text("[1]");
        let event = event.header("body", "forged").header("region", "eu").build().unwrap();

        let entry = entry(&event, "orders", None).unwrap();

        let arguments = arguments(&entry);
        assert_eq!(
            arguments[..7],
            ["XADD", "orders", "*", "event-id", "01J", "content-type", "application/json"]
        );
        let value = |name: &str| {
            let fields: Vec<usize> =
                (3..arguments.len()).step_by(2).filter(|at| arguments[*at] == name).collect();
            assert_eq!(fields.len(), 1, "{name}");
            arguments[fields[0] + 1].as_str()
        };
        assert_eq!((value("ce_id"), value("ce_type"), value("ce_source")), ("01J", "OrderPlaced", "/shop"));
        assert_eq!((value("header.body"), value("header.region"), value("body")), ("forged", "eu", "[1]"));
    }

    #[test]
    fn trimming_is_approximate() {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();

        let by_length = entry(&event, "orders", Some(Trim::ToLength(7))).unwrap();
        assert_eq!(arguments(&by_length)[2..6], ["MAXLEN", "~", "7", "*"]);
        let by_age = arguments(&entry(&event, "orders", Some(Trim::ToAge(Duration::from_secs(60)))).unwrap());
        assert_eq!((&*by_age[2], &*by_age[3], &*by_age[5]), ("MINID", "~", "*"));
        let oldest: u128 = by_age[4].strip_suffix("-0").unwrap().parse().unwrap();
        assert!(oldest > 1_700_000_000_000);
    }

    #[test]
    fn name_that_does_not_fit_is_rejected_for_good() {
        let event =
            |tenant: &str| Event::builder("OrderPlaced").tenant(tenant).json_text("{}").build().unwrap();

        let error = entry(&event("a\r\nb"), "shop:{tenant_id}", None).err().unwrap();
        assert!(error.is_rejected() && error.is_final(), "{error:?}");
        assert!(error.to_string().ends_with("it has control characters in it"), "{error}");
        assert!(!error.to_string().contains('\n'), "{error:?}");
        let error = entry(&event("acme"), &"x".repeat(1_025), None).err().unwrap();
        assert!(error.to_string().ends_with("it has 1025 bytes, and the limit is 1024"), "{error}");
    }
}
