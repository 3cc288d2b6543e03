//! `drain-done-rows`: what draining costs beside many events that are done.

use std::path::Path;

use anyhow::Result;

use crate::database::{self, Fill};
use crate::drain::Pair;
use crate::measure::Scale;
use crate::report::{Goal, Line, grouped};

const DONE: [usize; 3] = [0, 1_000_000, 5_000_000];
const EVENTS: usize = 100_000;
const ROUNDS: usize = 5;

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.of(EVENTS), scale.rounds(ROUNDS));
    let sizes = DONE.map(|full| scale.of(full));
    let shown = sizes.map(|size| grouped(size as u64)).join(", ");
    eprintln!("drain-done-rows: {shown} done and {} pending, {rounds} rounds", grouped(events as u64));

    for size in sizes.into_iter().filter(|&size| size > 0) {
        let path = dir.join(format!("done-{size}.db"));
        database::create(&path).await?;
        database::fill(&path, size, Fill::Done).await?;
    }
    let mut rates = sizes.map(|size| (size, Pair::default()));
    for round in 0..rounds {
        for (size, pair) in &mut rates {
            let path = dir.join(format!("done-{size}.db"));
            if *size == 0 {
                // What was drained before is done, so none is right only in a new database.
                let _ = std::fs::remove_file(&path);
                database::create(&path).await?;
            }
            pair.measure(&path, events, round).await?;
        }
    }
    let medians = rates.map(|(size, pair)| (size, pair.medians()));
    Ok(growth("drain-done-rows", &medians, 1.2))
}

/// For each size what we and the loop by hand come to, and our cost per event against that at the smallest.
pub(crate) fn growth(case: &str, medians: &[(usize, (f64, f64))], most: f64) -> Vec<Line> {
    let mut lines = Vec::new();
    for (size, (ours, by_hand)) in medians {
        lines.push(Line::new("sqlite", format!("{case}/{size}"), *ours, "events/s", *by_hand));
    }
    if let [(few, (at_few, _)), rest @ ..] = medians {
        for (size, (ours, _)) in rest {
            let case = format!("{case}/{size}-against-{few}");
            lines.push(
                Line::new("sqlite", case, 1e6 / ours, "µs/event", 1e6 / at_few).goal(Goal::AtMost(most)),
            );
        }
    }
    lines
}
