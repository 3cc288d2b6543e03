//! Events and what was done with them, a line for each, for the messages of assertions that fail.

use std::fmt::Write as _;

use super::attempt::{Answer, Attempt};
use crate::store::StoredEvent;
use crate::{Event, GLOBAL, Headers, Timestamp};

/// The most characters of a payload that are shown.
const SHOWN: usize = 200;

/// One line for each, indented.
pub(super) fn listed(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

pub(super) fn rows_listed(rows: &[StoredEvent], now: Timestamp) -> String {
    listed(rows.iter().map(|row| row_line(row, now)))
}

/// An event, with all that distinguishes it.
pub(super) fn event_line(event: &Event) -> String {
    let mut line = named(event);
    for (name, value) in [("key", event.key()), ("tenant", event.tenant_id())] {
        if let Some(value) = value {
            let _ = write!(line, ", {name} `{value}`");
        }
    }
    for (name, values) in [("headers", event.headers()), ("context", event.context())] {
        if !values.is_empty() {
            let _ = write!(line, ", {name} {}", pairs(values));
        }
    }
    let payload = match event.payload().as_json() {
        Some(json) if json.chars().count() > SHOWN => {
            format!("{}…", json.chars().take(SHOWN).collect::<String>())
        }
        Some(json) => json.to_owned(),
        None => format!("{} bytes", event.payload().as_bytes().len()),
    };
    let _ = write!(line, ": {payload}");
    line
}

/// What an event is called: its type, what it belongs to, its id.
fn named(event: &Event) -> String {
    let of = match (event.aggregate_type(), event.aggregate_id()) {
        (GLOBAL, None) => String::new(),
        (GLOBAL, Some(id)) => format!(" of `{id}`"),
        (aggregate_type, None) => format!(" of `{aggregate_type}`"),
        (aggregate_type, Some(id)) => format!(" of `{aggregate_type}` `{id}`"),
    };
    format!("`{}`{of} ({})", event.event_type(), event.id())
}

fn pairs(headers: &Headers) -> String {
    let pairs: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

/// Where an event stands.
pub(super) fn row_line(row: &StoredEvent, now: Timestamp) -> String {
    let mut line = match &row.event {
        Ok(event) => named(event),
        Err(_) => format!("({})", row.event_id),
    };
    match row.status {
        Ok(status) => {
            let _ = write!(line, ": {status}");
            if status.is_pending() && row.locked_by.is_some() {
                line.push_str(", in somebody's hands");
            } else if status.is_pending() && row.due_at > now {
                let _ = write!(line, ", due in {:?}", row.due_at.saturating_since(now));
            } else if status.is_pending() {
                line.push_str(", due");
            }
        }
        Err(code) => {
            let _ = write!(line, ": status {code}");
        }
    }
    if row.attempts > 0 {
        let _ = write!(line, ", failed attempts: {}", row.attempts);
    }
    for (what, text) in [("last error", &row.last_error), ("aside", &row.reason), ("handlers", &row.handlers)]
    {
        if let Some(text) = text {
            let _ = write!(line, ", {what}: {text}");
        }
    }
    line
}

/// Who was called, and how it ended.
pub(super) fn attempt_line(attempt: &Attempt) -> String {
    let who = match (attempt.handler_id(), attempt.is_fallback()) {
        (Some(id), false) => format!("handler `{id}`"),
        (Some(id), true) => format!("fallback of handler `{id}`"),
        (None, _) => "its listener or sink".to_owned(),
    };
    let how = match attempt.answer() {
        Answer::Running => "runs".to_owned(),
        Answer::Succeeded => "succeeded".to_owned(),
        Answer::Failed(error) => format!("failed: {error}"),
        Answer::Panicked(text) => format!("panicked: {text}"),
        Answer::CutOff => "was cut off".to_owned(),
    };
    format!("{}: {who}, attempt {}, {how}", named(attempt.event()), attempt.attempt())
}
