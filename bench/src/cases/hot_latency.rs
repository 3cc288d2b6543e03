//! `hot-latency`: from the commit's return to the listener's start, against one hop through a channel and one
//! read of the id by its key. `owned-latency`: the same where partitions are owned, against delivery from memory.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pillarbox::store::Mode;
use pillarbox::{Delivery, ListenerError, Outbox};
use sqlx::Pool;
use tokio::sync::mpsc;

use crate::database::{self, AGGREGATE, Database, EVENT};
use crate::measure::{Deliveries, Scale, micros, quantile};
use crate::owned::{self, Owned};
use crate::report::{Goal, Line, grouped};

const COMMITS: usize = 25_000;
/// Commits before the first that counts: connections are opened and statements prepared.
const WARM_UP: usize = 20;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let commits = scale.of(COMMITS);
    eprintln!("hot-latency: {} commits on each side", grouped(commits as u64));
    let mut ours = Ours::<D>::start(D::store(&place.create("hot-ours").await?).await?, Mode::Claims)?;
    let mut by_hand = ByHand::<D>::start(D::pool(&place.create("hot-by-hand").await?).await?);

    let (mut of_ours, mut of_hand) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + commits {
        let sample = (micros(ours.commit(number).await?), micros(by_hand.commit(number).await?));
        if number >= WARM_UP {
            of_ours.push(sample.0);
            of_hand.push(sample.1);
        }
    }
    ours.outbox.close().await;
    let lines = quantiles::<D>("hot-latency", of_ours, of_hand);
    Ok(lines.into_iter().map(|line| line.goal(Goal::AtMost(4.0))).collect())
}

pub(crate) async fn measure_owned<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let commits = scale.of(COMMITS);
    eprintln!("owned-latency: {} commits on each side", grouped(commits as u64));
    let owned = owned::create(place, "owned-latency").await?;
    let claimed = place.create("owned-latency-claims").await?;
    let mut owner = Ours::<D>::start(D::store(&owned).await?, Mode::Ownership)?;
    let mut claimer = Ours::<D>::start(D::store(&claimed).await?, Mode::Claims)?;

    let (mut of_owner, mut of_claimer) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + commits {
        let sample = (micros(owner.commit(number).await?), micros(claimer.commit(number).await?));
        if number >= WARM_UP {
            of_owner.push(sample.0);
            of_claimer.push(sample.1);
        }
    }
    owner.outbox.close().await;
    claimer.outbox.close().await;
    Ok(quantiles::<D>("owned-latency", of_owner, of_claimer))
}

fn quantiles<D: Database>(case: &str, mut ours: Vec<f64>, mut raw: Vec<f64>) -> Vec<Line> {
    [("p50", 0.5), ("p99", 0.99)]
        .map(|(name, share)| {
            let (ours, raw) = (quantile(&mut ours, share), quantile(&mut raw, share));
            Line::new(D::NAME, format!("{case}/{name}"), ours, "µs", raw)
        })
        .into()
}

/// The outbox with a listener that notes when it was called.
struct Ours<D: Database> {
    outbox: Outbox<D::Store>,
    deliveries: Deliveries,
    started: mpsc::UnboundedReceiver<Instant>,
}

impl<D: Database> Ours<D> {
    fn start(store: D::Store, mode: Mode) -> Result<Self> {
        let (starts, started) = mpsc::unbounded_channel();
        let deliveries = Deliveries::default();
        let listener = move |_: Delivery| {
            let sent = starts.send(Instant::now());
            async move { sent.map_err(ListenerError::from) }
        };
        let outbox = Outbox::builder(store)
            .mode(mode)
            .on_aggregate(AGGREGATE, EVENT, listener)
            .metrics(deliveries.clone())
            .start()?;
        Ok(Self { outbox, deliveries, started })
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = self.outbox.begin().await?;
        self.outbox.write(&mut tx, database::order_placed(number)?).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let started = self.started.recv().await.context("the listener is gone")?;
        // The outcome is recorded before anything else is measured.
        self.deliveries.reach(number + 1).await?;
        Ok(started.saturating_duration_since(committed))
    }
}

/// A task behind a channel that reads each id by its key, on a connection of its own.
struct ByHand<D: Database> {
    pool: Pool<D::Driver>,
    ids: mpsc::UnboundedSender<String>,
    read: mpsc::UnboundedReceiver<Result<Instant>>,
}

impl<D: Database> ByHand<D> {
    fn start(pool: Pool<D::Driver>) -> Self {
        let (ids, mut committed) = mpsc::unbounded_channel::<String>();
        let (reads, read) = mpsc::unbounded_channel();
        let reader = pool.clone();
        tokio::spawn(async move {
            while let Some(id) = committed.recv().await {
                if reads.send(read_back::<D>(&reader, &id).await).is_err() {
                    return;
                }
            }
        });
        Self { pool, ids, read }
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = D::begin(&self.pool).await?;
        D::insert(&mut tx, number..number + 1).await?;
        tx.commit().await?;
        let committed = Instant::now();
        self.ids.send(database::id(number))?;
        let read = self.read.recv().await.context("the reader is gone")??;
        Ok(read.saturating_duration_since(committed))
    }
}

async fn read_back<D: Database>(pool: &Pool<D::Driver>, id: &str) -> Result<Instant> {
    D::read_back(&mut *pool.acquire().await?, id).await?;
    Ok(Instant::now())
}
