//! `owned-drain`: draining by the owner of all partitions, against draining by claims, and against the loop by hand
//! that owns them.

use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::OutboxBuilder;
use pillarbox::store::{DoneRows, Mode};

use super::drain;
use crate::database::{Address, Fill};
use crate::measure::{Scale, typical_round};
use crate::owned::{self, Owned};
use crate::raw;
use crate::report::{Goal, Line, grouped};

pub(crate) const EVENTS: usize = 300_000;
pub(crate) const EVENTS_QUICK: usize = 20_000;
/// What is drained before the time is taken.
const WARM_UP: usize = EVENTS_QUICK / 10;
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;

/// Who drains.
#[derive(Clone, Copy)]
enum Side {
    Claims,
    Ours(DoneRows),
    ByHand(DoneRows),
}

const SIDES: [Side; 5] = [
    Side::Claims,
    Side::Ours(DoneRows::Keep),
    Side::ByHand(DoneRows::Keep),
    Side::Ours(DoneRows::Delete),
    Side::ByHand(DoneRows::Delete),
];

pub(crate) async fn measure<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    eprintln!("owned-drain: {} pending, runs of {}, {rounds} rounds", grouped(events as u64), raw::BATCH);
    let mut rates: [Vec<f64>; SIDES.len()] = Default::default();
    for round in 0..rounds {
        for turn in 0..SIDES.len() {
            let side = (turn + round) % SIDES.len();
            rates[side].push(rate(place, SIDES[side], events).await?);
        }
    }
    let [claims, kept, kept_by_hand, deleted, deleted_by_hand] = &rates;
    let line = |case: &str, ours: &[f64], raw: &[f64]| {
        let (ours, raw) = typical_round(ours, raw);
        Line::new(D::NAME, case, ours, "events/s", raw)
    };
    let of_the_loop = Goal::AtLeast(0.7);
    Ok(vec![
        line("owned-drain/against-claims", kept, claims).goal(D::GOALS.owned),
        line("owned-drain", kept, kept_by_hand).goal(of_the_loop),
        line("owned-drain-deleting/against-claims", deleted, claims),
        line("owned-drain-deleting", deleted, deleted_by_hand).goal(of_the_loop),
    ])
}

/// Events per second.
async fn rate<D: Owned>(place: &D, side: Side, events: usize) -> Result<f64> {
    let address = match side {
        Side::Claims => place.create("owned-drain-claims").await?,
        Side::Ours(_) | Side::ByHand(_) => owned::create(place, "owned-drain").await?,
    };
    D::fill(&address, events, Fill::Pending).await?;
    match side {
        Side::Claims => drain::rate_by_us::<D>(&address, events, WARM_UP, drain::drainer).await,
        Side::Ours(done) => {
            let owner = |store, deliveries: &_| owning::<D>(drain::drainer(store, deliveries), done);
            drain::rate_by_us::<D>(&address, events, WARM_UP, owner).await
        }
        Side::ByHand(done) => Ok(events as f64 / by_hand::<D>(&address, events, done).await?.as_secs_f64()),
    }
}

/// How long the owner takes for the `events` that are pending.
pub(crate) async fn by_us<D: Owned>(address: &Address, events: usize, done: DoneRows) -> Result<Duration> {
    drain::by_us_with::<D>(address, events, |drainer| owning::<D>(drainer, done)).await
}

fn owning<D: Owned>(drainer: OutboxBuilder<D::Store>, done: DoneRows) -> OutboxBuilder<D::Store> {
    let owner = drainer.mode(Mode::Ownership);
    match done {
        DoneRows::Keep => owner,
        DoneRows::Delete => owner.delete_done(),
    }
}

/// How long the loop takes for them.
pub(crate) async fn by_hand<D: Owned>(address: &Address, events: usize, done: DoneRows) -> Result<Duration> {
    let pool = D::pool(address).await?;
    let begun = Instant::now();
    raw::drain_owned::<D>(&pool, events, raw::BATCH, done).await?;
    let took = begun.elapsed();
    pool.close().await;
    Ok(took)
}
