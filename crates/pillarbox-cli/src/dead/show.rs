//! `pillarbox dead show`: one event in full.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Administration, StoredEvent};
use pillarbox::{Event, Headers};
use serde::Serialize;

use crate::command;
use crate::database::{Database, Opened};
use crate::exit::NotFound;
use crate::payload::{self, PayloadJson};
use crate::{figure, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox dead show --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE
  pillarbox dead show --db shop.db 01JQ5Z3V7N8XK4M2T9R6B0CWDE --json | jq .payload
";

/// Show one event with all its fields and its payload
///
/// Shows events of any status, so that you can see what became of one that was replayed.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct Show {
    #[command(flatten)]
    database: Database,

    /// The id of the event
    #[arg(value_name = "EVENT_ID")]
    id: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    number: i64,
    event_id: &'a str,
    status: String,
    attempts: u32,
    starts: u32,
    created_at: String,
    due_at: String,
    available_at: String,
    done_at: Option<String>,
    locked_by: Option<&'a str>,
    last_error: Option<&'a str>,
    reason: Option<&'a str>,
    /// Why the row cannot be read; the fields below are missing then.
    unreadable: Option<&'a str>,
    #[serde(flatten)]
    event: Option<Envelope<'a>>,
}

#[derive(Serialize)]
struct Envelope<'a> {
    event_type: &'a str,
    aggregate_type: &'a str,
    aggregate_id: Option<&'a str>,
    key: Option<&'a str>,
    tenant_id: Option<&'a str>,
    occurred_at: String,
    headers: std::collections::BTreeMap<&'a str, &'a str>,
    context: std::collections::BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    payload: PayloadJson,
}

impl Show {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Opened { store, name, .. } = self.database.look().await?;
        let found = store.find(&self.id).await?;
        store.close().await;
        let unknown = || NotFound(format!("no event `{}` in {name}", figure::plain(&self.id)));
        let stored = found.ok_or_else(unknown)?;
        if self.json {
            return terminal::json(&shown(&stored));
        }
        terminal::print(&text(&stored)?)
    }
}

fn shown(stored: &StoredEvent) -> Shown<'_> {
    Shown {
        number: stored.seq,
        event_id: &stored.event_id,
        status: status(stored),
        attempts: stored.attempts,
        starts: stored.starts,
        created_at: stored.created_at.to_string(),
        due_at: stored.due_at.to_string(),
        available_at: stored.available_at.to_string(),
        done_at: stored.done_at.map(|at| at.to_string()),
        locked_by: stored.locked_by.as_deref(),
        last_error: stored.last_error.as_deref(),
        reason: stored.reason.as_deref(),
        unreadable: stored.event.as_ref().err().map(String::as_str),
        event: stored.event.as_ref().ok().map(envelope),
    }
}

fn envelope(event: &Event) -> Envelope<'_> {
    Envelope {
        event_type: event.event_type(),
        aggregate_type: event.aggregate_type(),
        aggregate_id: event.aggregate_id(),
        key: event.key(),
        tenant_id: event.tenant_id(),
        occurred_at: event.occurred_at().to_string(),
        headers: event.headers().iter().collect(),
        context: event.context().iter().collect(),
        payload: PayloadJson::of(event.payload()),
    }
}

fn status(stored: &StoredEvent) -> String {
    match stored.status {
        Ok(status) => status.to_string(),
        Err(code) => format!("unknown ({code})"),
    }
}

fn text(stored: &StoredEvent) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let optional = |value: Option<&str>| value.map_or_else(|| "–".to_owned(), figure::plain);
    let mut line = |label: &str, value: &str| writeln!(text, "{label:<15}{value}");
    line("event id", &figure::plain(&stored.event_id))?;
    line("number", &stored.seq.to_string())?;
    line("status", &status(stored))?;
    line("attempts", &stored.attempts.to_string())?;
    line("starts", &stored.starts.to_string())?;
    line("created at", &stored.created_at.to_string())?;
    line("due at", &stored.due_at.to_string())?;
    line("available at", &stored.available_at.to_string())?;
    line("done at", &stored.done_at.map_or_else(|| "–".to_owned(), |at| at.to_string()))?;
    line("locked by", &optional(stored.locked_by.as_deref()))?;
    line("reason", &optional(stored.reason.as_deref()))?;
    line("last error", &optional(stored.last_error.as_deref()))?;
    match &stored.event {
        Err(why) => line("unreadable", &figure::plain(why))?,
        Ok(event) => {
            line("event type", &figure::plain(event.event_type()))?;
            line("aggregate type", &figure::plain(event.aggregate_type()))?;
            line("aggregate id", &optional(event.aggregate_id()))?;
            line("key", &optional(event.key()))?;
            line("tenant id", &optional(event.tenant_id()))?;
            line("occurred at", &event.occurred_at().to_string())?;
            line("headers", &pairs(event.headers()))?;
            line("context", &pairs(event.context()))?;
            writeln!(text, "\n{}", payload::pretty(event.payload()))?;
        }
    }
    Ok(text)
}

fn pairs(headers: &Headers) -> String {
    if headers.is_empty() {
        return "–".to_owned();
    }
    let pairs: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{}: {}", figure::plain(name), figure::plain(value)))
        .collect();
    pairs.join("\n               ")
}
