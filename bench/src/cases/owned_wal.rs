//! `owned-wal`: what draining by the owner writes to the log that makes commits durable, and how often it commits.

use anyhow::Result;
use pillarbox::store::DoneRows;

use super::owned_drain::{EVENTS, EVENTS_QUICK, by_hand, by_us};
use crate::database::{Fill, Meter, Server};
use crate::measure::{Scale, median};
use crate::owned::{self, Owned};
use crate::report::{Line, grouped};

const ROUNDS: usize = 3;
const ROUNDS_QUICK: usize = 1;

pub(crate) async fn measure<D: Server + Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    eprintln!("owned-wal: {} events on each side, {rounds} rounds", grouped(events as u64));
    let mut lines = Vec::new();
    for (name, done) in [("owned-wal", DoneRows::Keep), ("owned-wal-deleting", DoneRows::Delete)] {
        let (mut bytes, mut commits) = (<[Vec<f64>; 2]>::default(), <[Vec<f64>; 2]>::default());
        for round in 0..rounds {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let spent = spent(place, events, done, side == 0).await?;
                bytes[side].push(spent.log_bytes as f64 / events as f64);
                commits[side].push(spent.commits as f64 / events as f64);
            }
        }
        let [ours, raw] = bytes.map(|mut samples| median(&mut samples));
        lines.push(Line::new(D::NAME, format!("{name}/bytes"), ours, "bytes/event", raw));
        // Shown per thousand: there are far fewer commits than events.
        let [ours, raw] = commits.map(|mut samples| median(&mut samples) * 1_000.0);
        lines.push(Line::new(D::NAME, format!("{name}/commits"), ours, "per 1,000 events", raw));
    }
    Ok(lines)
}

/// What draining `events` events by us, or by hand, costs.
async fn spent<D: Server + Owned>(place: &D, events: usize, done: DoneRows, is_ours: bool) -> Result<Meter> {
    place.checkpoint().await?;
    let address = owned::create(place, "owned-wal").await?;
    D::fill(&address, events, Fill::Pending).await?;
    let before = place.meter(&address).await?;
    if is_ours {
        by_us::<D>(&address, events, done).await?;
    } else {
        by_hand::<D>(&address, events, done).await?;
    }
    let after = place.meter(&address).await?;
    Ok(Meter { log_bytes: after.log_bytes - before.log_bytes, commits: after.commits - before.commits })
}
