//! `drain`: 100,000 pending events through the engine, against the loop by hand with the same batch size.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::{Delivery, Outbox};

use crate::database::{self, AGGREGATE, EVENT, Fill};
use crate::measure::{Deliveries, Scale, median};
use crate::raw;
use crate::report::{Goal, Line, grouped};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 5;

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.of(EVENTS), scale.rounds(ROUNDS));
    eprintln!("drain: {} pending, batches of {}, {rounds} rounds", grouped(events as u64), raw::BATCH);
    let mut rates = Pair::default();
    for round in 0..rounds {
        let path = dir.join(format!("drain-{round}.db"));
        database::create(&path).await?;
        rates.measure(&path, events, round).await?;
        std::fs::remove_file(&path)?;
    }
    let (ours, by_hand) = rates.medians();
    Ok(vec![Line::new("sqlite", "drain", ours, "events/s", by_hand).goal(Goal::AtLeast(0.6))])
}

/// Events per second, ours and by hand.
#[derive(Default)]
pub(crate) struct Pair {
    ours: Vec<f64>,
    by_hand: Vec<f64>,
}

impl Pair {
    /// Fills `events` into `path` and drains them, once by us and once by hand; in turns, who is first.
    pub(crate) async fn measure(&mut self, path: &Path, events: usize, round: usize) -> Result<()> {
        for ours in [round.is_multiple_of(2), !round.is_multiple_of(2)] {
            database::fill(path, events, Fill::Pending).await?;
            if ours {
                self.ours.push(events as f64 / by_us(path, events).await?.as_secs_f64());
            } else {
                self.by_hand.push(events as f64 / by_hand(path, events).await?.as_secs_f64());
            }
        }
        Ok(())
    }

    /// The medians: ours, by hand.
    pub(crate) fn medians(mut self) -> (f64, f64) {
        (median(&mut self.ours), median(&mut self.by_hand))
    }
}

/// How long the engine takes for the `events` that are pending in `path`.
async fn by_us(path: &Path, events: usize) -> Result<Duration> {
    let store = database::store(path).await?;
    let deliveries = Deliveries::default();
    let begun = Instant::now();
    let outbox = Outbox::builder(store.clone())
        .poller_only()
        .batch_size(raw::BATCH)
        .max_batch(raw::BATCH)
        .on_aggregate(AGGREGATE, EVENT, |_: Delivery| async { Ok::<_, Infallible>(()) })
        .metrics(deliveries.clone())
        .start()?;
    deliveries.reach(events).await?;
    let took = begun.elapsed();
    outbox.close().await;
    store.close().await;
    Ok(took)
}

async fn by_hand(path: &Path, events: usize) -> Result<Duration> {
    let pool = database::raw_pool(path).await?;
    let begun = Instant::now();
    raw::drain(&pool, events).await?;
    let took = begun.elapsed();
    pool.close().await;
    Ok(took)
}
