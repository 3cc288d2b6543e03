//! `owned-aside`: draining in order beside a key in backoff and ten thousand events of a parked one, against draining
//! without them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox::{DeadHead, Delivery, ListenerError, Outbox, OutboxBuilder, Retry};

use super::drain;
use super::owned_drain::EVENTS_QUICK;
use crate::database::{AGGREGATE, Address, EVENT, Fill};
use crate::measure::{Deliveries, Scale, typical_round};
use crate::owned::{self, Owned};
use crate::raw;
use crate::report::{Goal, Line, grouped};
use crate::statements;

/// Keys of the events that are drained.
const KEYS: usize = 200;
/// The key whose first event is dead, and how many follow it.
const PARKED: &str = "parked";
const PARKED_EVENTS: usize = 10_000;
/// The key whose first event fails again and again, and how many follow it.
const FAILING: &str = "failing";
const FAILING_EVENTS: usize = 100;
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// Longer than it takes to set all of them aside.
const PATIENCE: Duration = Duration::from_secs(120);
/// Many short rounds instead of a few long ones: from one to the next the speed of a shared machine changes by more than the
/// five per cent that are looked for.
const EVENTS: usize = 100_000;
const ROUNDS: usize = 25;
/// What is delivered before the time is taken: joining, and reading once which keys are held back.
const WARM_UP: usize = EVENTS_QUICK / 10;
const ROUNDS_QUICK: usize = 3;

const BESIDE: usize = 0;
const WITHOUT: usize = 1;

pub(crate) async fn measure<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    let parked = grouped(PARKED_EVENTS as u64);
    eprintln!("owned-aside: {} pending beside {parked}, {rounds} rounds", grouped(events as u64));
    let addresses =
        [owned::create(place, "owned-aside").await?, owned::create(place, "owned-aside-without").await?];
    set_aside::<D>(&addresses[BESIDE]).await?;

    let mut rates: [Vec<f64>; 2] = Default::default();
    for round in 0..rounds {
        for turn in 0..2 {
            let side = (turn + round) % 2;
            rates[side].push(filled_and_drained::<D>(&addresses[side], events).await?);
        }
    }
    // Apart from the others: being counted slows statements down.
    let mut statements = [0.0; 2];
    for (side, address) in addresses.iter().enumerate() {
        let counted = statements::counted(filled_and_drained::<D>(address, events)).await?;
        statements[side] = counted as f64 * 1_000.0 / events as f64;
    }

    let (beside, without) = typical_round(&rates[BESIDE], &rates[WITHOUT]);
    let more = statements[BESIDE] - statements[WITHOUT];
    Ok(vec![
        Line::new(D::NAME, "owned-aside", beside, "events/s", without).goal(Goal::AtLeast(0.95)),
        Line::new(D::NAME, "owned-aside/more-statements", more, "per 1,000 events", statements[WITHOUT])
            .goal(Goal::Below(10.0)),
    ])
}

/// Adds the events that cannot run, and lets an outbox set them aside.
async fn set_aside<D: Owned>(address: &Address) -> Result<()> {
    D::fill(address, PARKED_EVENTS, Fill::Key(PARKED)).await?;
    D::fill(address, FAILING_EVENTS, Fill::Key(FAILING)).await?;
    let store = D::store(address).await?;
    let outbox = drainer::<D>(store.clone(), &Deliveries::default()).start()?;
    let begun = Instant::now();
    while D::fresh(address).await? > 0 {
        ensure!(begun.elapsed() < PATIENCE, "events that cannot run were not set aside");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    outbox.close().await;
    D::close(&store).await;
    Ok(())
}

/// Adds `events` that can run, and says how many of them do in a second.
async fn filled_and_drained<D: Owned>(address: &Address, events: usize) -> Result<f64> {
    D::fill(address, events, Fill::Keys(KEYS)).await?;
    drain::rate_by_us::<D>(address, events, WARM_UP, drainer::<D>).await
}

/// An outbox whose listener does nothing but refuse two keys.
fn drainer<D: Owned>(store: D::Store, deliveries: &Deliveries) -> OutboxBuilder<D::Store> {
    Outbox::builder(store)
        .ordered()
        .on_dead_head(DeadHead::Park)
        .retry(Retry::fixed(RETRY_AFTER).max_attempts(u32::MAX))
        .poller_only()
        .batch_size(raw::BATCH)
        .on_aggregate(AGGREGATE, EVENT, |delivery: Delivery| async move {
            match delivery.key() {
                Some(PARKED) => Err(ListenerError::permanent("this event can never be delivered")),
                Some(FAILING) => Err(ListenerError::new("this event cannot be delivered now")),
                _ => Ok(()),
            }
        })
        .metrics(deliveries.clone())
}
