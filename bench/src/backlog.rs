//! `drain-backlog`: what draining costs when much is pending.

use std::path::Path;

use anyhow::Result;

use crate::database;
use crate::done_rows::growth;
use crate::drain::Pair;
use crate::measure::Scale;
use crate::report::{Line, grouped};

const PENDING: [usize; 2] = [10_000, 1_000_000];
const ROUNDS: usize = 3;

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let rounds = scale.rounds(ROUNDS);
    let sizes = PENDING.map(|full| scale.of(full));
    let shown = sizes.map(|size| grouped(size as u64)).join(" and ");
    eprintln!("drain-backlog: {shown} pending, {rounds} rounds");

    let mut rates = sizes.map(|size| (size, Pair::default()));
    for round in 0..rounds {
        for (size, pair) in &mut rates {
            let path = dir.join(format!("backlog-{size}-{round}.db"));
            database::create(&path).await?;
            pair.measure(&path, *size, round).await?;
            std::fs::remove_file(&path)?;
        }
    }
    let medians = rates.map(|(size, pair)| (size, pair.medians()));
    Ok(growth("drain-backlog", &medians, 1.2))
}
