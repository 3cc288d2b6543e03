//! One reading of everything that `pillarbox status` shows, and what two of them tell together.

use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use pillarbox::store::{Administration, Census, HandlerCensus, PausedRoute, Stats, StoreError};
use pillarbox_any::{AnyStore, Kind};
use serde::Serialize;

use super::relay::{self, RelayUrl};
use super::{census, handlers};
use crate::handlers::COUNTED;
use crate::{figure, pause};

/// The outbox that is looked at.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) version: u32,
}

/// How things stood at one moment.
pub(super) struct Reading {
    taken: Instant,
    stats: Stats,
    census: Census,
    owed: HandlerCensus,
    paused: Vec<PausedRoute>,
    /// Only where somebody wants to know what happened since another reading.
    highest: Option<i64>,
    pub(super) relay: Option<relay::Answer>,
}

/// What is printed as JSON.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    database: &'a str,
    /// `sqlite`, `postgres` or `mysql`.
    store: &'static str,
    schema_version: u32,
    new: u64,
    retry: u64,
    pending: u64,
    dead: u64,
    done_estimate: u64,
    /// `null` if nothing is due.
    oldest_due_seconds: Option<f64>,
    #[serde(flatten)]
    census: census::Shown,
    #[serde(flatten)]
    handlers: handlers::Shown,
    paused_routes: Vec<pause::Line>,
    /// Only if a relay was to be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<relay::Shown<'a>>,
}

/// What happened between two readings.
#[derive(Serialize)]
pub(super) struct Rates {
    /// How long that was.
    over_seconds: f64,
    /// By the numbers that were given; on servers those of transactions that were rolled back are among them.
    written_per_second: f64,
    /// What was written and neither waits nor is dead.
    delivered_per_second_estimate: f64,
}

impl Reading {
    pub(super) async fn take(store: &AnyStore, relay: Option<&RelayUrl>) -> Result<Self, StoreError> {
        let (stats, census) = (store.stats().await?, store.census().await?);
        let owed = HandlerCensus::take(store, COUNTED).await?;
        let paused = store.paused_routes().await?;
        let taken = Instant::now();
        let relay = match relay {
            Some(url) => Some(url.ask().await),
            None => None,
        };
        Ok(Self { taken, stats, census, owed, paused, highest: None, relay })
    }

    /// The same, so that it can be compared with others.
    pub(super) async fn take_in_turn(store: &AnyStore, relay: Option<&RelayUrl>) -> Result<Self, StoreError> {
        let highest = Some(store.highest().await?);
        Ok(Self { highest, ..Self::take(store, relay).await? })
    }

    /// What happened since another one; `None` if they cannot be compared.
    pub(super) fn since(&self, before: &Self) -> Option<Rates> {
        let over = self.taken.saturating_duration_since(before.taken);
        Some(Rates::between(over, (before.highest?, &before.stats), (self.highest?, &self.stats)))
    }

    pub(super) fn shown<'a>(&'a self, place: &'a Place) -> Shown<'a> {
        let stats = &self.stats;
        Shown {
            database: &place.name,
            store: place.kind.word(),
            schema_version: place.version,
            new: stats.new,
            retry: stats.retry,
            pending: stats.pending(),
            dead: stats.dead,
            done_estimate: stats.done_estimate,
            oldest_due_seconds: stats.oldest_due_for.map(|lag| lag.as_secs_f64()),
            census: census::Shown::of(&self.census),
            handlers: handlers::Shown::of(&self.owed),
            paused_routes: self.paused.iter().map(pause::Line::of).collect(),
            relay: self.relay.as_ref().map(relay::Answer::shown),
        }
    }

    /// What is printed for people; with what happened since the last one, if that is wanted.
    pub(super) fn table(&self, place: &Place, rates: Option<&Rates>) -> Result<String, fmt::Error> {
        let Place { name, kind, version } = place;
        let stats = &self.stats;
        let mut table = format!("{name}, {kind}, schema version {version}\n\n");
        for (label, value, remark) in [
            ("new", figure::count(stats.new), "never tried"),
            ("retry", figure::count(stats.retry), "to be tried again"),
            ("dead", figure::count(stats.dead), "given up; see `pillarbox dead list`"),
            ("done", format!("~{}", figure::count(stats.done_estimate)), "delivered; an estimate"),
            ("oldest due", self.lag(), "how long the oldest has been waiting"),
        ] {
            super::write_line(&mut table, label, &value, remark)?;
        }
        if let Some(rates) = rates {
            rates.write_to(&mut table)?;
        }
        let paused = if self.paused.is_empty() { String::new() } else { pause::table(&self.paused)? + "\n" };
        write!(table, "\n{paused}{}{}", handlers::table(&self.owed)?, census::table(&self.census)?)?;
        if let Some(relay) = &self.relay {
            table.push_str(&relay.table()?);
        }
        Ok(table)
    }

    /// The same in a line.
    pub(super) fn line(&self, rates: Option<&Rates>) -> String {
        let stats = &self.stats;
        let [new, retry, dead, done] =
            [stats.new, stats.retry, stats.dead, stats.done_estimate].map(figure::count);
        let rates = rates.map(Rates::line).unwrap_or_default();
        let relay = self.relay.as_ref().and_then(relay::Answer::error);
        let relay = relay.map(|reason| format!("  {reason}")).unwrap_or_default();
        format!(
            "new {new}  retry {retry}  dead {dead}  done ~{done}  oldest due {}{rates}{relay}",
            self.lag()
        )
    }

    fn lag(&self) -> String {
        self.stats.oldest_due_for.map_or_else(|| "–".to_owned(), figure::time)
    }
}

impl Rates {
    fn between(over: Duration, before: (i64, &Stats), after: (i64, &Stats)) -> Self {
        let seconds = over.as_secs_f64().max(1e-3);
        let open = |stats: &Stats| i64::try_from(stats.pending() + stats.dead).unwrap_or(i64::MAX);
        let written = after.0.saturating_sub(before.0);
        let left = open(after.1).saturating_sub(open(before.1));
        let per_second = |events: i64| events.max(0) as f64 / seconds;
        Self {
            over_seconds: seconds,
            written_per_second: per_second(written),
            delivered_per_second_estimate: per_second(written.saturating_sub(left)),
        }
    }

    fn figures(&self) -> (String, String) {
        (
            figure::rate(self.written_per_second),
            format!("~{}", figure::rate(self.delivered_per_second_estimate)),
        )
    }

    fn write_to(&self, table: &mut String) -> fmt::Result {
        let (written, delivered) = self.figures();
        super::write_line(table, "written", &written, "since the last reading, by the numbers given")?;
        super::write_line(
            table,
            "delivered",
            &delivered,
            "an estimate: written, and neither waits nor is dead",
        )
    }

    fn line(&self) -> String {
        let (written, delivered) = self.figures();
        format!("  written {written}  delivered {delivered}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(new: u64, dead: u64) -> Stats {
        Stats { new, retry: 0, dead, done_estimate: 0, oldest_due_for: None }
    }

    /// M6: what was written and neither waits nor is dead was delivered.
    #[test]
    fn rates_follow_from_two_readings() {
        let rates = Rates::between(Duration::from_secs(2), (100, &stats(10, 1)), (140, &stats(20, 3)));

        assert_eq!((rates.written_per_second, rates.delivered_per_second_estimate), (20.0, 14.0));
    }

    /// M6: discarded and replayed events make no rate below zero.
    #[test]
    fn rates_are_never_negative() {
        let rates = Rates::between(Duration::ZERO, (100, &stats(0, 0)), (90, &stats(50, 0)));

        assert_eq!((rates.written_per_second, rates.delivered_per_second_estimate), (0.0, 0.0));
    }
}
