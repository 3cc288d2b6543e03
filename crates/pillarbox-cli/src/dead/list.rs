//! `pillarbox dead list`: a page of dead events.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Administration, Page, StoredEvent};
use pillarbox_any::AnyStore;
use serde::Serialize;

use crate::command;
use crate::database::Database;
use crate::{figure, terminal};

/// Events read at once.
const AT_ONCE: usize = 50;
/// Characters of an error that fit into a line.
const ERROR_WIDTH: usize = 60;

const EXAMPLES: &str = "\
Examples:
  pillarbox dead list --db shop.db
  pillarbox dead list --db shop.db --limit 20 --after 1234
  pillarbox dead list --db shop.db --json | jq -r '.events[].event_id'
";

/// List dead events, the oldest first
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct List {
    #[command(flatten)]
    database: Database,

    /// The most events to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,

    /// Begin behind this number, to see the next page
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    events: Vec<Line>,
    /// What `--after` must be for the next page; `null` on the last one.
    next_after: Option<i64>,
}

#[derive(Serialize)]
struct Line {
    number: i64,
    event_id: String,
    /// `null` if the row cannot be read; so are the others.
    event_type: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    attempts: u32,
    created_at: String,
    last_error: Option<String>,
}

impl Line {
    fn of(stored: StoredEvent) -> Self {
        let event = stored.event.ok();
        let aggregate_id = event.as_ref().and_then(|event| event.aggregate_id());
        Self {
            number: stored.seq,
            event_id: stored.event_id,
            event_type: event.as_ref().map(|event| event.event_type().to_owned()),
            aggregate_type: event.as_ref().map(|event| event.aggregate_type().to_owned()),
            aggregate_id: aggregate_id.map(str::to_owned),
            attempts: stored.attempts,
            created_at: stored.created_at.to_string(),
            last_error: stored.last_error,
        }
    }
}

impl List {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let store = self.database.open().await?.store;
        let total = store.stats().await?.dead;
        let limit = self.limit as usize;
        // One more than asked for, to see whether another page follows.
        let mut events = self.lines(&store, limit + 1).await?;
        store.close().await;
        let has_more = events.len() > limit;
        events.truncate(limit);
        let next_after = events.last().map(|last| last.number).filter(|_| has_more);
        let listed = Listed { events, next_after };
        if self.json {
            return terminal::json(&listed);
        }
        terminal::print(&table(&listed, total)?)
    }

    /// Up to `most` lines, read a few at a time: payloads come with them, and may be large.
    async fn lines(&self, store: &AnyStore, most: usize) -> anyhow::Result<Vec<Line>> {
        let (mut lines, mut after) = (Vec::new(), self.after);
        while lines.len() < most {
            let page = store.dead(Page { after, limit: (most - lines.len()).min(AT_ONCE) }).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            lines.extend(page.into_iter().map(Line::of));
        }
        Ok(lines)
    }
}

fn table(listed: &Listed, total: u64) -> Result<String, std::fmt::Error> {
    if listed.events.is_empty() {
        return Ok(if total == 0 { "no dead events\n" } else { "no more dead events\n" }.to_owned());
    }
    let rows: Vec<[String; 6]> = listed.events.iter().map(cells).collect();
    let heads = ["NUMBER", "EVENT ID", "TYPE", "AGGREGATE", "ATTEMPTS", "LAST ERROR"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut table = String::new();
    for row in std::iter::once(&heads.map(str::to_owned)).chain(&rows) {
        let [number, id, kind, aggregate, attempts, error] = row;
        let [w0, w1, w2, w3, w4] = widths;
        writeln!(table, "{number:>w0$}  {id:<w1$}  {kind:<w2$}  {aggregate:<w3$}  {attempts:>w4$}  {error}")?;
    }
    let shown = listed.events.len() as u64;
    match listed.next_after {
        Some(next) => writeln!(
            table,
            "\n{} of {} shown; go on with --after {next}",
            figure::count(shown),
            figure::count(total)
        )?,
        None => writeln!(table, "\n{} in all", figure::events(total))?,
    }
    Ok(table)
}

fn cells(line: &Line) -> [String; 6] {
    let text = |value: &Option<String>| figure::plain(value.as_deref().unwrap_or("–"));
    [
        line.number.to_string(),
        figure::plain(&line.event_id),
        text(&line.event_type),
        text(&line.aggregate_id),
        line.attempts.to_string(),
        figure::short(&text(&line.last_error), ERROR_WIDTH),
    ]
}
