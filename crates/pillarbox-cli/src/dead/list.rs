//! `pillarbox dead list`: a page of dead events.

use std::fmt::Write;

use clap::Args;
use pillarbox::store::{Administration, StoredEvent};
use serde::Serialize;

use super::filter::Filter;
use super::walk::Walk;
use crate::command;
use crate::database::Database;
use crate::{figure, terminal};

/// Events read at once where all are listed.
const AT_ONCE: usize = 50;
/// Characters of an error that fit into a line.
const ERROR_WIDTH: usize = 60;

const EXAMPLES: &str = "\
Examples:
  pillarbox dead list --db shop.db
  pillarbox dead list --db shop.db --limit 20 --after 1234
  pillarbox dead list --db shop.db --type 'Order*' --since 2h --error 'timed out'
  pillarbox dead list --db shop.db --json | jq -r '.events[].event_id'
";

/// List dead events, the oldest first
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct List {
    #[command(flatten)]
    database: Database,

    #[command(flatten)]
    filter: Filter,

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

/// An event in short.
#[derive(Serialize)]
pub(super) struct Line {
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
    pub(super) fn of(stored: StoredEvent) -> Self {
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
        let Self { database, filter, limit, after, json } = self;
        let is_filtered = !filter.is_empty();
        let sieve = filter.sieve()?;
        let store = database.look().await?.store;
        let total = store.stats().await?.dead;
        let limit = limit as usize;
        let bar = terminal::bar(total, "  looking {wide_bar} {percent} % · {msg}");
        let mut walk = Walk::new(sieve, after, i64::MAX);
        let mut events = Vec::new();
        // One more than asked for, to see whether another page follows.
        while events.len() <= limit {
            let most = if is_filtered { usize::MAX } else { (limit + 1 - events.len()).min(AT_ONCE) };
            let Some(page) = walk.page(&store, most).await? else { break };
            events.extend(page.into_iter().map(Line::of));
            bar.set_position(walk.passed());
            bar.set_message(figure::events(events.len() as u64));
        }
        bar.finish_and_clear();
        store.close().await;
        let has_more = events.len() > limit;
        events.truncate(limit);
        let next_after = events.last().map(|last| last.number).filter(|_| has_more);
        let listed = Listed { events, next_after };
        if json {
            return terminal::json(&listed);
        }
        terminal::print(&text(&listed, total, is_filtered)?)
    }
}

fn text(listed: &Listed, total: u64, is_filtered: bool) -> Result<String, std::fmt::Error> {
    if listed.events.is_empty() {
        return Ok(match (total, is_filtered) {
            (0, _) => "no dead events\n".to_owned(),
            (_, false) => "no more dead events\n".to_owned(),
            (_, true) => format!("none of {} matches\n", figure::dead_events(total)),
        });
    }
    let mut text = table(&listed.events)?;
    let (shown, all) = (figure::count(listed.events.len() as u64), figure::count(total));
    match (listed.next_after, is_filtered) {
        (Some(next), false) => writeln!(text, "\n{shown} of {all} shown; go on with --after {next}")?,
        (Some(next), true) => writeln!(text, "\n{shown} shown; go on with --after {next}")?,
        (None, false) => writeln!(text, "\n{} in all", figure::events(total))?,
        (None, true) => {
            writeln!(text, "\n{shown} shown, and no more match of {}", figure::dead_events(total))?
        }
    }
    Ok(text)
}

/// Events in columns.
pub(super) fn table(lines: &[Line]) -> Result<String, std::fmt::Error> {
    let rows: Vec<[String; 6]> = lines.iter().map(cells).collect();
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
