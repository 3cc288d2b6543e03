//! What is told of an event.

use std::time::{SystemTime, UNIX_EPOCH};

use pillarbox::store::Outline;
use pillarbox::{Payload, Timestamp};
use serde::Serialize;

use crate::figure;
use crate::payload::{self, PayloadJson};

/// Characters of a remark that fit into a line.
const REMARK_WIDTH: usize = 80;

/// Something that happened to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// It was committed.
    Written,
    /// Its receiver has it.
    Delivered,
    /// It is gone: delivered, and deleted.
    Deleted,
    /// A delivery failed, or it was replayed.
    Retry,
    /// It was set aside.
    Waits,
    /// It was given up.
    Dead,
}

#[derive(Serialize)]
struct Shown<'a> {
    /// When; where the table does not say, when it was seen, by the clock of this machine.
    at: String,
    happened: &'static str,
    number: i64,
    event_id: &'a str,
    event_type: &'a str,
    aggregate_id: Option<&'a str>,
    key: Option<&'a str>,
    attempts: u32,
    /// Why it failed, waits or is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
    #[serde(flatten)]
    payload: Option<PayloadJson>,
}

impl Happening {
    /// One line of JSON.
    pub(super) fn json(self, outline: &Outline, payload: Option<&Payload>) -> serde_json::Result<String> {
        let shown = Shown {
            at: self.at(outline).to_string(),
            happened: self.word(),
            number: outline.seq,
            event_id: &outline.event_id,
            event_type: &outline.event_type,
            aggregate_id: outline.aggregate_id.as_deref(),
            key: outline.key.as_deref(),
            attempts: outline.attempts,
            because: self.because(outline),
            payload: payload.map(PayloadJson::of),
        };
        serde_json::to_string(&shown).map(|line| line + "\n")
    }

    /// One line for people, and the payload below it.
    pub(super) fn text(self, outline: &Outline, payload: Option<&Payload>) -> String {
        let key = outline.key.as_ref().map(|key| format!("  {}", figure::plain(key)));
        let remark = self.remark(outline).map(|remark| format!("  {remark}"));
        let mut text = format!(
            "{}  {:<9}  {:>6}  {}  {}{}{}\n",
            self.at(outline),
            self.word(),
            outline.seq,
            figure::plain(&outline.event_id),
            figure::plain(&outline.event_type),
            key.unwrap_or_default(),
            remark.unwrap_or_default(),
        );
        for line in payload.map(payload::pretty).unwrap_or_default().lines() {
            text.extend(["    ", line, "\n"]);
        }
        text
    }

    fn word(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Delivered | Self::Deleted => "delivered",
            Self::Retry => "retry",
            Self::Waits => "waits",
            Self::Dead => "dead",
        }
    }

    fn at(self, outline: &Outline) -> Timestamp {
        match self {
            Self::Written => outline.created_at,
            Self::Delivered => outline.done_at.unwrap_or_else(now),
            Self::Deleted | Self::Retry | Self::Waits | Self::Dead => now(),
        }
    }

    fn because(self, outline: &Outline) -> Option<&str> {
        match self {
            Self::Written | Self::Delivered => None,
            Self::Deleted => Some("it is deleted"),
            Self::Waits => outline.reason.as_deref(),
            Self::Retry | Self::Dead => outline.last_error.as_deref(),
        }
    }

    fn remark(self, outline: &Outline) -> Option<String> {
        let because =
            self.because(outline).map(|because| figure::short(&figure::plain(because), REMARK_WIDTH));
        match self {
            Self::Written => None,
            Self::Delivered => {
                let took = outline.done_at.map(|done_at| done_at.saturating_since(outline.created_at));
                took.map(|took| format!("after {}", figure::time(took)))
            }
            Self::Deleted => Some("(deleted)".to_owned()),
            Self::Waits => because,
            Self::Retry | Self::Dead => {
                let attempts = match outline.attempts {
                    1 => "1 attempt".to_owned(),
                    attempts => format!("{attempts} attempts"),
                };
                Some(because.map_or_else(|| attempts.clone(), |because| format!("{attempts}: {because}")))
            }
        }
    }
}

/// By the clock of this machine.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
