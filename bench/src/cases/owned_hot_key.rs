//! `owned-hot-key`: the events of one key in order, against the loop by hand that reads one event at a time.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::drain;
use crate::database::{Address, Fill};
use crate::measure::{Scale, typical_round};
use crate::owned::{self, Owned};
use crate::raw;
use crate::report::{Goal, Line, grouped};

const KEY: &str = "order-17";
/// In order by us, enough that joining does not count for much, and by hand.
const EVENTS: [usize; 2] = [150_000, 2_000];
const EVENTS_QUICK: [usize; 2] = [20_000, 500];
const ROUNDS: usize = 3;

pub(crate) async fn measure<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    let [in_runs, alone] = events.map(|events| grouped(events as u64));
    eprintln!("owned-hot-key: {in_runs} events in runs, {alone} one by one, {ROUNDS} rounds");
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let side = (turn + round) % 2;
            let address = owned::create(place, "owned-hot-key").await?;
            D::fill(&address, events[side], Fill::Key(KEY)).await?;
            let took = match side {
                0 => drain::by_us_with::<D>(&address, events[side], |drainer| drainer.ordered()).await?,
                _ => one_by_one::<D>(&address, events[side]).await?,
            };
            rates[side].push(events[side] as f64 / took.as_secs_f64());
        }
    }
    let (ours, by_hand) = typical_round(&rates[0], &rates[1]);
    Ok(vec![Line::new(D::NAME, "owned-hot-key", ours, "events/s", by_hand).goal(Goal::AtLeast(20.0))])
}

/// How long the loop takes for them, one by one.
async fn one_by_one<D: Owned>(address: &Address, events: usize) -> Result<Duration> {
    let pool = D::pool(address).await?;
    let begun = Instant::now();
    raw::drain_key::<D>(&pool, KEY, events).await?;
    let took = begun.elapsed();
    pool.close().await;
    Ok(took)
}
