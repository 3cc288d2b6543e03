//! `wal`: what draining writes to the log that makes commits durable, and how often it commits.

use anyhow::Result;

use super::drain;
use crate::database::{Fill, Meter, Server};
use crate::measure::{Scale, median};
use crate::report::{Goal, Line, grouped};

const EVENTS: usize = 100_000;
/// Enough that what connecting costs does not count.
const EVENTS_QUICK: usize = 10_000;
const ROUNDS: usize = 3;

pub(crate) async fn measure<D: Server>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    eprintln!("wal: {} events on each side, {ROUNDS} rounds", grouped(events as u64));
    let (mut bytes, mut commits) = (<[Vec<f64>; 2]>::default(), <[Vec<f64>; 2]>::default());
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let spent = spent(place, events, side == 0).await?;
            bytes[side].push(spent.log_bytes as f64 / events as f64);
            commits[side].push(spent.commits as f64 / events as f64);
        }
    }
    let [ours, by_hand] = bytes.map(|mut samples| median(&mut samples));
    let of_log = Line::new(D::NAME, "wal/bytes", ours, "bytes/event", by_hand);
    // Shown per thousand: there are far fewer commits than events.
    let [ours, by_hand] = commits.map(|mut samples| median(&mut samples) * 1_000.0);
    let of_commits = Line::new(D::NAME, "wal/commits", ours, "per 1,000 events", by_hand);
    Ok(vec![of_log.goal(Goal::AtMost(1.1)), of_commits.goal(Goal::AtMost(1.1))])
}

/// What draining `events` events by us, or by hand, costs.
async fn spent<D: Server>(place: &D, events: usize, by_us: bool) -> Result<Meter> {
    place.checkpoint().await?;
    let address = place.create("wal").await?;
    D::fill(&address, events, Fill::Pending).await?;
    let before = place.meter(&address).await?;
    if by_us {
        drain::by_us::<D>(&address, events).await?;
    } else {
        drain::by_hand::<D>(&address, events).await?;
    }
    let after = place.meter(&address).await?;
    Ok(Meter { log_bytes: after.log_bytes - before.log_bytes, commits: after.commits - before.commits })
}
