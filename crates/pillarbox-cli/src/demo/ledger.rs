//! The ledger: what was ordered, what arrived and what the outbox says, compared.
//!
//! It rests on the orders, on what the listeners wrote down and on the rows of the events, and on no counter of
//! the outbox.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pillarbox::store::Status;
use serde::Serialize;
use sqlx::SqlitePool;

use super::journal::{Records, Try};
use super::run::Run;

/// What it comes to.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ledger {
    pub(super) seed: u64,
    pub(super) events: u64,
    /// Orders that were committed, each with its event.
    pub(super) written: u64,
    pub(super) rolled_back: u64,
    /// Orders that are neither.
    pub(super) unaccounted: u64,
    /// Events that a listener has served.
    pub(super) delivered: u64,
    /// Calls of listeners after a failure.
    pub(super) retried: u64,
    pub(super) dead: u64,
    /// Deliveries of an event that had been delivered before.
    pub(super) duplicates: u64,
    /// Duplicates within the life of one process: no crash explains them.
    pub(super) unexplained: u64,
    /// Commits that are not in the database, and committed orders whose event is missing, still pending, or DONE
    /// without a delivery.
    pub(super) lost: u64,
    /// Events of transactions that did not commit: delivered, or in the table.
    pub(super) ghosts: u64,
    /// How often the process was killed.
    pub(super) crashes: u32,
    pub(super) latency: Option<Latency>,
    pub(super) balanced: bool,
}

/// From commit to listener, in microseconds.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) p50_micros: u64,
    pub(super) p99_micros: u64,
    pub(super) max_micros: u64,
}

impl Latency {
    pub(super) fn p50(&self) -> Duration {
        Duration::from_micros(self.p50_micros)
    }

    pub(super) fn p99(&self) -> Duration {
        Duration::from_micros(self.p99_micros)
    }
}

/// What the database says about one run.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// The status of each committed order's event; `None` if the event is missing.
    pub(super) orders: HashMap<String, Option<i64>>,
    /// Events in the table that no order knows.
    pub(super) ghost_rows: u64,
    /// Events of earlier runs, which are none of this ledger's business.
    pub(super) earlier: HashSet<String>,
}

impl Books {
    pub(super) async fn read(pool: &SqlitePool, run: &Run) -> anyhow::Result<Self> {
        let orders: Vec<(String, Option<i64>)> =
            sqlx::query_as(include_str!("rows.sql")).bind(run.number).fetch_all(pool).await?;
        let ghost_rows: i64 = sqlx::query_scalar(include_str!("ghost_rows.sql")).fetch_one(pool).await?;
        let earlier: Vec<String> = sqlx::query_scalar("SELECT event_id FROM orders WHERE run <> ?1")
            .bind(run.number)
            .fetch_all(pool)
            .await?;
        let (orders, earlier) = (orders.into_iter().collect(), earlier.into_iter().collect());
        Ok(Self { orders, ghost_rows: ghost_rows.unsigned_abs(), earlier })
    }
}

impl Ledger {
    /// Compares the books with what the listeners wrote down.
    pub(super) fn draw_up(run: &Run, books: &Books, records: &Records, crashes: u32) -> Self {
        let of_this_run = |one: &&Try| !books.earlier.contains(&one.event_id);
        let tries: Vec<&Try> = records.tries.iter().filter(of_this_run).collect();
        let deliveries = Deliveries::count(&tries);
        let is_lost = |(id, status): (&String, &Option<i64>)| match status.and_then(Status::from_code) {
            Some(Status::Done) => !deliveries.times.contains_key(id.as_str()),
            Some(Status::Dead) => false,
            Some(Status::New | Status::Retry) | None => true,
        };
        let is_dead = |status: &Option<i64>| *status == Some(i64::from(Status::Dead.code()));
        let is_ghost = |id: &&str| !books.orders.contains_key(*id);
        let called: HashSet<&str> = tries.iter().map(|one| one.event_id.as_str()).collect();

        let is_gone = |id: &&String| !books.orders.contains_key(*id);
        let gone = records.committed.keys().filter(is_gone).count() as u64;

        let (written, rolled_back) = (books.orders.len() as u64, records.rolled_back.len() as u64);
        let delivered = deliveries.times.len() as u64;
        let mut ledger = Self {
            seed: run.seed,
            events: run.events,
            written,
            rolled_back,
            unaccounted: run.events.abs_diff(written + rolled_back),
            delivered,
            retried: tries.iter().filter(|one| one.attempt > 1).count() as u64,
            dead: books.orders.values().filter(|status| is_dead(status)).count() as u64,
            duplicates: deliveries.times.values().sum::<u64>() - delivered,
            unexplained: deliveries.unexplained,
            lost: gone + books.orders.iter().filter(|&order| is_lost(order)).count() as u64,
            ghosts: books.ghost_rows + called.iter().filter(|id| is_ghost(id)).count() as u64,
            crashes,
            latency: latency(records, &tries),
            balanced: false,
        };
        let faults = [ledger.lost, ledger.ghosts, ledger.unexplained, ledger.unaccounted];
        ledger.balanced = faults == [0; 4];
        ledger
    }
}

/// How often each event was delivered.
struct Deliveries<'a> {
    times: HashMap<&'a str, u64>,
    unexplained: u64,
}

impl<'a> Deliveries<'a> {
    fn count(tries: &[&'a Try]) -> Self {
        let mut times: HashMap<&str, u64> = HashMap::new();
        let mut by_process: HashMap<(&str, u32), u64> = HashMap::new();
        for one in tries.iter().filter(|one| one.delivered) {
            *times.entry(&one.event_id).or_default() += 1;
            *by_process.entry((&one.event_id, one.incarnation)).or_default() += 1;
        }
        let unexplained = by_process.values().map(|times| times - 1).sum();
        Self { times, unexplained }
    }
}

/// From each commit to the first call of a listener.
fn latency(records: &Records, tries: &[&Try]) -> Option<Latency> {
    let mut first: HashMap<&str, i64> = HashMap::new();
    for one in tries {
        let at = first.entry(&one.event_id).or_insert(one.at);
        *at = one.at.min(*at);
    }
    let waited = |(id, at): (&&str, &i64)| Some((at - records.committed.get(*id)?).max(0).unsigned_abs());
    let mut waited: Vec<u64> = first.iter().filter_map(waited).collect();
    waited.sort_unstable();
    let last = waited.len().checked_sub(1)?;
    let rank = |percent: usize| waited[last * percent / 100];
    Some(Latency { p50_micros: rank(50), p99_micros: rank(99), max_micros: waited[last] })
}

#[cfg(test)]
mod tests;
