//! `drain-backlog`: what draining costs when much is pending.

use anyhow::Result;

use super::done_rows::growth;
use super::drain::Pair;
use crate::database::Database;
use crate::measure::Scale;
use crate::report::{Line, grouped};

const PENDING: [usize; 2] = [10_000, 1_000_000];
const PENDING_QUICK: [usize; 2] = [4_000, 20_000];
const ROUNDS: usize = 3;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let sizes = scale.pick(PENDING, PENDING_QUICK);
    let shown = sizes.map(|size| grouped(size as u64)).join(" and ");
    eprintln!("drain-backlog: {shown} pending, {ROUNDS} rounds");

    let mut rates = sizes.map(|size| (size, Pair::default()));
    for round in 0..ROUNDS {
        for (size, pair) in &mut rates {
            let address = place.create(&format!("backlog-{size}")).await?;
            pair.measure::<D>(&address, *size, round).await?;
        }
    }
    let medians = rates.map(|(size, pair)| (size, pair.medians()));
    Ok(growth::<D>("drain-backlog", &medians, 1.2))
}
