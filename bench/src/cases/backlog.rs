//! `drain-backlog`: what draining costs when much more is pending than is drained.

use anyhow::Result;

use super::done_rows::growth;
use super::drain::{EVENTS, EVENTS_QUICK, Pair};
use crate::database::{Database, Fill};
use crate::measure::Scale;
use crate::report::{Line, grouped};

/// As many as are drained, and a backlog.
const PENDING: [usize; 2] = [EVENTS, 1_000_000];
const PENDING_QUICK: [usize; 2] = [EVENTS_QUICK, 20_000];
const ROUNDS: usize = 3;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, sizes) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(PENDING, PENDING_QUICK));
    let shown = sizes.map(|size| grouped(size as u64)).join(" and ");
    eprintln!("drain-backlog: {} of {shown} pending, {ROUNDS} rounds", grouped(events as u64));

    let mut rates = Vec::new();
    for size in sizes {
        let address = place.create(&format!("backlog-{size}")).await?;
        if size > events {
            D::fill(&address, size - events, Fill::Pending).await?;
        }
        rates.push((size, address, Pair::default()));
    }
    for round in 0..ROUNDS {
        for (_, address, pair) in &mut rates {
            // As many come after the backlog as were taken from its beginning.
            pair.measure::<D>(address, events, round).await?;
        }
    }
    let medians: Vec<_> = rates.into_iter().map(|(size, _, pair)| (size, pair.medians())).collect();
    Ok(growth::<D>("drain-backlog", &medians, 1.2))
}
