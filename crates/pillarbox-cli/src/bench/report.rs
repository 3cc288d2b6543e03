//! What a bench tells at its end.

use std::fmt::{self, Write};
use std::time::Duration;

use pillarbox_any::{AnyStore, Kind};
use serde::Serialize;

use super::measure::{Figures, Load};
use crate::figure;

/// What was measured, and on what.
#[derive(Serialize)]
pub(super) struct Report {
    database: String,
    /// `sqlite`, `postgres` or `mysql`.
    store: &'static str,
    #[serde(skip)]
    kind: Kind,
    /// `claims` or `ownership`.
    mode: String,
    ordered: bool,
    /// `null` if events have no key.
    keys: Option<u64>,
    events: u64,
    payload_bytes: usize,
    /// Events in a transaction.
    batch: u64,
    written_per_second: f64,
    delivered_per_second: f64,
    commit_to_listener_p50_micros: f64,
    commit_to_listener_p99_micros: f64,
    bare_insert: Bare,
    /// Each of the above as a multiple of that of a bare INSERT.
    ratio: Ratio,
}

/// A plain INSERT of as many rows as events in a transaction.
#[derive(Serialize)]
struct Bare {
    rows_per_second: f64,
    transaction_p50_micros: f64,
    transaction_p99_micros: f64,
}

#[derive(Serialize)]
struct Ratio {
    written: f64,
    delivered: f64,
    commit_to_listener_p50: f64,
    commit_to_listener_p99: f64,
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

impl Report {
    pub(super) fn of(store: &AnyStore, load: &Load, figures: Figures) -> Self {
        let Figures { bare_per_second, written_per_second, delivered_per_second, bare, hot } = figures;
        let [bare_p50, bare_p99, hot_p50, hot_p99] = [bare.p50, bare.p99, hot.p50, hot.p99].map(micros);
        Self {
            database: store.name(),
            store: store.kind().word(),
            kind: store.kind(),
            mode: load.mode.to_string(),
            ordered: load.ordered,
            keys: load.keys,
            events: load.events,
            payload_bytes: load.payload_bytes,
            batch: load.batch,
            written_per_second,
            delivered_per_second,
            commit_to_listener_p50_micros: hot_p50,
            commit_to_listener_p99_micros: hot_p99,
            bare_insert: Bare {
                rows_per_second: bare_per_second,
                transaction_p50_micros: bare_p50,
                transaction_p99_micros: bare_p99,
            },
            ratio: Ratio {
                written: written_per_second / bare_per_second,
                delivered: delivered_per_second / bare_per_second,
                commit_to_listener_p50: hot_p50 / bare_p50,
                commit_to_listener_p99: hot_p99 / bare_p99,
            },
        }
    }

    /// What is printed for people.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let time = |micros: f64| figure::time(Duration::from_secs_f64(micros / 1e6));
        let (bare, ratio) = (&self.bare_insert, &self.ratio);
        let mut text = format!("{}, {}\n", self.database, self.kind);
        writeln!(
            text,
            "{} of {} bytes, mode {}{}{}, {} in a transaction\n",
            figure::events(self.events),
            figure::count(self.payload_bytes as u64),
            self.mode,
            if self.ordered { ", ordered" } else { "" },
            self.keys.map(|keys| format!(", {} keys", figure::count(keys))).unwrap_or_default(),
            self.batch
        )?;
        writeln!(text, "  {:<24} {:>12} {:>12} {:>7}", "", "here", "bare insert", "ratio")?;
        let rate = figure::rate;
        for (label, here, bare, ratio) in [
            ("written", rate(self.written_per_second), rate(bare.rows_per_second), ratio.written),
            ("delivered", rate(self.delivered_per_second), rate(bare.rows_per_second), ratio.delivered),
            (
                "commit to listener, p50",
                time(self.commit_to_listener_p50_micros),
                time(bare.transaction_p50_micros),
                ratio.commit_to_listener_p50,
            ),
            (
                "commit to listener, p99",
                time(self.commit_to_listener_p99_micros),
                time(bare.transaction_p99_micros),
                ratio.commit_to_listener_p99,
            ),
        ] {
            writeln!(text, "  {label:<24} {here:>12} {bare:>12} {ratio:>7.2}")?;
        }
        writeln!(text, "\nThe bench has dropped its tables.")?;
        Ok(text)
    }
}
