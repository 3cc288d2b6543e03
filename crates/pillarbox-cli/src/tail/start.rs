//! From where on events are shown.

use clap::Args;
use pillarbox::store::{Administration, Page};
use pillarbox_any::AnyStore;

use super::happening::now;
use super::watch::{WINDOW, Watch};
use crate::age::Age;

/// How many of the last events are shown if nothing else is said, where one look is all.
const LAST: u32 = 10;

/// From where on events are shown.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(super) struct Start {
    /// Begin with the last N events
    #[arg(short = 'n', long = "last", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    last: Option<u32>,

    /// Begin with events that were written since, by the clock of this machine
    #[arg(long, value_name = "TIME")]
    since: Option<Age>,

    /// Begin with this number, or at `now`, or with the `first`
    #[arg(long, value_name = "NUMBER|now|first")]
    from: Option<Begin>,
}

#[derive(Clone, Debug)]
enum Begin {
    Now,
    First,
    Number(i64),
}

impl std::str::FromStr for Begin {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        match given {
            "now" => Ok(Self::Now),
            "first" => Ok(Self::First),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err("give the number of an event, `now` or `first`".to_owned()),
            },
        }
    }
}

impl Start {
    /// A watch that begins there.
    pub(super) async fn watch(&self, store: &AnyStore, is_once: bool) -> anyhow::Result<Watch> {
        let behind = match (&self.since, &self.from, self.last) {
            (Some(age), _, _) => written_before(store, age).await?,
            (_, Some(Begin::First), _) => 0,
            (_, Some(Begin::Number(number)), _) => number - 1,
            (_, _, Some(last)) if last > 0 => before_last(store, last).await?,
            (_, None, None) if is_once => before_last(store, LAST).await?,
            _ => store.highest().await?,
        };
        watch_behind(store, behind).await
    }
}

/// A watch for higher numbers than this, and for those below that were given and are not committed yet.
async fn watch_behind(store: &AnyStore, number: i64) -> anyhow::Result<Watch> {
    let below = number.saturating_sub(WINDOW).max(0);
    let window = store.outlines(Page { after: below, limit: usize::try_from(number - below)? }).await?;
    let mut watch = Watch::behind(below);
    let there = window.iter().map(|outline| outline.seq).filter(|seq| *seq <= number);
    there.for_each(|seq| watch.pass_over(seq));
    watch.pass_to(number);
    Ok(watch)
}

/// The number behind which there are the last `count` events.
async fn before_last(store: &AnyStore, count: u32) -> anyhow::Result<i64> {
    let (highest, count) = (store.highest().await?, count as usize);
    let mut span = i64::try_from(count)?;
    loop {
        let begin = highest.saturating_sub(span).max(0);
        let mut last = std::collections::VecDeque::new();
        let mut after = begin;
        loop {
            let page = store.outlines(Page { after, limit: super::AT_ONCE }).await?;
            let Some(end) = page.last() else { break };
            after = end.seq;
            last.extend(page.iter().map(|outline| outline.seq));
            last.drain(..last.len().saturating_sub(count));
        }
        match last.front() {
            Some(first) if last.len() == count => return Ok(first - 1),
            _ if begin == 0 => return Ok(0),
            _ => span = span.saturating_mul(4),
        }
    }
}

/// The number up to which events were written longer ago: found by halving, as numbers grow with time but for a little.
async fn written_before(store: &AnyStore, age: &Age) -> anyhow::Result<i64> {
    let micros = i64::try_from(age.duration.as_micros()).unwrap_or(i64::MAX);
    let moment = now().as_micros().saturating_sub(micros);
    let (mut before, mut end) = (0, store.highest().await?);
    while before < end {
        let middle = before + (end - before) / 2;
        match store.outlines(Page { after: middle, limit: 1 }).await?.pop() {
            Some(outline) if outline.created_at.as_micros() < moment => before = outline.seq,
            // The first behind the middle is young, or there is none.
            _ => end = middle,
        }
    }
    Ok(before)
}
