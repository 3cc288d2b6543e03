//! `drain-done-rows`: what draining costs beside many events that are done.

use anyhow::Result;

use super::drain::{EVENTS, EVENTS_QUICK, Pair};
use crate::database::{Address, Database, Fill};
use crate::measure::Scale;
use crate::report::{Goal, Line, grouped};

const DONE: [usize; 3] = [0, 1_000_000, 5_000_000];
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    let sizes = DONE.map(|full| scale.of(full));
    let shown = sizes.map(|size| grouped(size as u64)).join(", ");
    eprintln!("drain-done-rows: {shown} done and {} pending, {rounds} rounds", grouped(events as u64));

    let mut rates = Vec::new();
    for size in sizes {
        rates.push((size, with_done(place, size).await?, Pair::default()));
    }
    for round in 0..rounds {
        for (size, address, pair) in &mut rates {
            if *size == 0 {
                // What was drained before is done, so none is right only in a new database.
                *address = with_done(place, 0).await?;
            }
            pair.measure::<D>(address, events, round).await?;
        }
    }
    let medians: Vec<_> = rates.into_iter().map(|(size, _, pair)| (size, pair.medians())).collect();
    Ok(growth::<D>("drain-done-rows", &medians, 1.2))
}

async fn with_done<D: Database>(place: &D, size: usize) -> Result<Address> {
    let address = place.create(&format!("done-{size}")).await?;
    if size > 0 {
        D::fill(&address, size, Fill::Done).await?;
    }
    Ok(address)
}

/// For each size what we and the loop by hand come to, and our cost per event against that at the smallest.
pub(crate) fn growth<D: Database>(case: &str, medians: &[(usize, (f64, f64))], most: f64) -> Vec<Line> {
    let mut lines = Vec::new();
    for (size, (ours, by_hand)) in medians {
        lines.push(Line::new(D::NAME, format!("{case}/{size}"), *ours, "events/s", *by_hand));
    }
    if let [(few, (at_few, _)), rest @ ..] = medians {
        for (size, (ours, _)) in rest {
            let case = format!("{case}/{size}-against-{few}");
            lines.push(
                Line::new(D::NAME, case, 1e6 / ours, "µs/event", 1e6 / at_few).goal(Goal::AtMost(most)),
            );
        }
    }
    lines
}
