//! `owned-instances`: one and two processes that own the partitions of the same outbox.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox::PARTITIONS;
use pillarbox::store::Mode;

use super::claimers::{Claimer, rate_from};
use super::drain::drainer;
use crate::database::{Address, Fill, Server};
use crate::measure::{Deliveries, Scale, typical_round};
use crate::owned::{self, Owned};
use crate::process::{self, Role};
use crate::report::{Goal, Line, grouped};

const EVENTS: usize = 100_000;
const EVENTS_QUICK: usize = 40_000;
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;
/// Often enough that shares are found within a second.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(200);
/// Nobody tells of events that a benchmark fills in; each time all partitions are looked at.
const POLL_EVERY: Duration = Duration::from_millis(200);
const MARGIN: Duration = Duration::from_secs(1);
/// After which silence an owner counts as dead.
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// Longer than finding the shares takes.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn measure<D: Server + Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    eprintln!("owned-instances: {} pending, {rounds} rounds", grouped(events as u64));
    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..rounds {
        for turn in 0..2 {
            let instances = (turn + round) % 2 + 1;
            rates[instances - 1].push(rate_of(place, instances, events).await?);
        }
    }
    let (two, one) = typical_round(&rates[1], &rates[0]);
    Ok(vec![Line::new(D::NAME, "owned-instances/2-against-1", two, "events/s", one).goal(Goal::AtLeast(0.9))])
}

/// Events per second that so many instances come to together. The events come when each has its share.
async fn rate_of<D: Server + Owned>(place: &D, instances: usize, events: usize) -> Result<f64> {
    let address = owned::create(place, "owned-instances").await?;
    let mut owners = Vec::new();
    for _ in 0..instances {
        owners.push(Claimer::start::<D>(Role::Own, &address).await?);
    }
    let begun = async {
        balanced::<D>(&address, instances).await?;
        D::fill(&address, events, Fill::Pending).await
    };
    let rate = rate_from(owners, events, begun).await?;
    let left = D::fresh(&address).await?;
    ensure!(left == 0, "{left} of {events} events are still pending");
    Ok(rate)
}

/// Completes when so many instances own the same number of partitions.
pub(crate) async fn balanced<D: Owned>(address: &Address, instances: usize) -> Result<()> {
    let begun = Instant::now();
    loop {
        let shares = D::shares(address).await?;
        let fair = PARTITIONS as u64 / instances as u64;
        if shares.len() == instances && shares.iter().all(|share| *share == fair) {
            return Ok(());
        }
        ensure!(begun.elapsed() < PATIENCE, "{instances} instances own {shares:?} partitions");
        tokio::time::sleep(HEARTBEAT_EVERY / 4).await;
    }
}

/// In the other process: an outbox that owns its share.
pub(crate) async fn own<D: Owned>(address: &Address) -> Result<()> {
    let deliveries = Deliveries::default();
    let outbox = drainer(D::store(address).await?, &deliveries)
        .mode(Mode::Ownership)
        .poll_every(POLL_EVERY)
        .margin(MARGIN)
        .heartbeat_every(HEARTBEAT_EVERY)
        .rebalance_every(HEARTBEAT_EVERY)
        .silent_after(SILENT_AFTER);
    process::ready().await?;
    let outbox = outbox.start()?;
    let counting = deliveries.clone();
    process::say_changes(move || counting.recorded(), outbox.close()).await
}
