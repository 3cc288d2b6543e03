//! `drain`: 100,000 pending events through the engine, against the loop by hand with the same batch size.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::{Delivery, Outbox, OutboxBuilder, Store};

use crate::database::{AGGREGATE, Address, Database, EVENT, Fill};
use crate::measure::{Deliveries, Scale, median};
use crate::raw;
use crate::report::{Line, grouped};

pub(crate) const EVENTS: usize = 100_000;
/// Enough that opening connections does not count for much.
pub(crate) const EVENTS_QUICK: usize = 4_000;
const ROUNDS: usize = 5;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    eprintln!("drain: {} pending, batches of {}, {ROUNDS} rounds", grouped(events as u64), raw::BATCH);
    let mut rates = Pair::default();
    for round in 0..ROUNDS {
        let address = place.create("drain").await?;
        rates.measure::<D>(&address, events, round).await?;
    }
    let (ours, by_hand) = rates.medians();
    Ok(vec![Line::new(D::NAME, "drain", ours, "events/s", by_hand).goal(D::GOALS.drain)])
}

/// Events per second, ours and by hand.
#[derive(Default)]
pub(crate) struct Pair {
    ours: Vec<f64>,
    by_hand: Vec<f64>,
}

impl Pair {
    /// Fills `events` into an outbox and drains them, once by us and once by hand; in turns, who is first.
    pub(crate) async fn measure<D: Database>(
        &mut self,
        address: &Address,
        events: usize,
        round: usize,
    ) -> Result<()> {
        for ours in [round.is_multiple_of(2), !round.is_multiple_of(2)] {
            D::fill(address, events, Fill::Pending).await?;
            if ours {
                self.ours.push(events as f64 / by_us::<D>(address, events).await?.as_secs_f64());
            } else {
                self.by_hand.push(events as f64 / by_hand::<D>(address, events).await?.as_secs_f64());
            }
        }
        Ok(())
    }

    /// The medians: ours, by hand.
    pub(crate) fn medians(mut self) -> (f64, f64) {
        (median(&mut self.ours), median(&mut self.by_hand))
    }
}

/// How long the engine takes for the `events` that are pending.
pub(crate) async fn by_us<D: Database>(address: &Address, events: usize) -> Result<Duration> {
    by_us_with::<D>(address, events, |drainer| drainer).await
}

/// How long it takes with these options.
pub(crate) async fn by_us_with<D: Database>(
    address: &Address,
    events: usize,
    options: impl FnOnce(OutboxBuilder<D::Store>) -> OutboxBuilder<D::Store>,
) -> Result<Duration> {
    let store = D::store(address).await?;
    let deliveries = Deliveries::default();
    let begun = Instant::now();
    let outbox = options(drainer(store.clone(), &deliveries)).start()?;
    deliveries.reach(events).await?;
    let took = begun.elapsed();
    outbox.close().await;
    D::close(&store).await;
    Ok(took)
}

/// Events per second that an outbox drains, counted from when `warm_up` of them are recorded: opening connections and
/// joining take as long whatever there is to be drained.
pub(crate) async fn rate_by_us<D: Database>(
    address: &Address,
    events: usize,
    warm_up: usize,
    outbox: impl FnOnce(D::Store, &Deliveries) -> OutboxBuilder<D::Store>,
) -> Result<f64> {
    let store = D::store(address).await?;
    let deliveries = Deliveries::default();
    let outbox = outbox(store.clone(), &deliveries).start()?;
    deliveries.reach(warm_up).await?;
    let (begun, before) = (Instant::now(), deliveries.recorded());
    deliveries.reach(events).await?;
    let rate = (events as u64 - before) as f64 / begun.elapsed().as_secs_f64();
    outbox.close().await;
    D::close(&store).await;
    Ok(rate)
}

/// An outbox that takes batches of the size that the loop takes, for a listener that does nothing.
pub(crate) fn drainer<S: Store>(store: S, deliveries: &Deliveries) -> OutboxBuilder<S> {
    takes_batches(store, deliveries)
        .on_aggregate(AGGREGATE, EVENT, |_: Delivery| async { Ok::<_, Infallible>(()) })
}

/// An outbox that takes batches of the size that the loop takes, for nobody yet.
pub(crate) fn takes_batches<S: Store>(store: S, deliveries: &Deliveries) -> OutboxBuilder<S> {
    let outbox = Outbox::builder(store).poller_only().batch_size(raw::BATCH).max_batch(raw::BATCH);
    outbox.metrics(deliveries.clone())
}

/// How long the loop takes for them.
pub(crate) async fn by_hand<D: Database>(address: &Address, events: usize) -> Result<Duration> {
    let pool = D::pool(address).await?;
    let begun = Instant::now();
    raw::drain::<D>(&pool, events).await?;
    let took = begun.elapsed();
    pool.close().await;
    Ok(took)
}
