//! `wake-up`: from a commit in this process to the listener of a relay in another, against the barest hint that
//! the database has.

use std::time::Duration;

use anyhow::{Context, Result};
use pillarbox::{Delivery, ListenerError, Outbox};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;

use crate::database::{self, AGGREGATE, Address, Database, EVENT};
use crate::measure::{Deliveries, Scale, micros, quantile};
use crate::process::{self, Process, Role};
use crate::report::{Goal, Line, grouped};

const COMMITS: usize = 2_500;
/// Commits before the first that counts: connections are opened and statements prepared.
const WARM_UP: usize = 5;
/// Longer than the whole case: what is measured is the wake-up, not the poll.
const NEVER: Duration = Duration::from_secs(3_600);

/// A database that can tell other processes that there is something new.
pub(crate) trait Hints: Database {
    /// What the median has to show.
    const GOAL: Option<Goal>;

    /// Both ends of a hint by hand.
    type ByHand: Send;

    fn by_hand(&self, address: &Address) -> impl Future<Output = Result<Self::ByHand>> + Send;

    /// How long a hint takes from one end to the other.
    fn hint(by_hand: &mut Self::ByHand, number: usize) -> impl Future<Output = Result<Duration>> + Send;
}

pub(crate) async fn measure<D: Hints>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let commits = scale.of(COMMITS);
    eprintln!("wake-up: {} commits on each side", grouped(commits as u64));
    let mut ours = Ours::<D>::start(&place.create("wake-up").await?).await?;
    let mut by_hand = place.by_hand(&place.create("wake-up-by-hand").await?).await?;

    let (mut of_ours, mut of_hand) = (Vec::new(), Vec::new());
    for number in 0..WARM_UP + commits {
        let sample = (micros(ours.commit(number).await?), micros(D::hint(&mut by_hand, number).await?));
        if number >= WARM_UP {
            of_ours.push(sample.0);
            of_hand.push(sample.1);
        }
    }
    ours.relay.end().await?;
    let mut lines = Vec::new();
    for (name, share, goal) in [("p50", 0.5, D::GOAL), ("p99", 0.99, None)] {
        let (ours, by_hand) = (quantile(&mut of_ours, share), quantile(&mut of_hand, share));
        lines.push(Line::new(D::NAME, format!("wake-up/{name}"), ours, "µs", by_hand).goal(goal));
    }
    Ok(lines)
}

/// A writer here and a relay in another process.
struct Ours<D: Database> {
    writer: Outbox<D::Store>,
    relay: Process,
}

impl<D: Database> Ours<D> {
    async fn start(address: &Address) -> Result<Self> {
        let mut relay = Process::start::<D>(Role::Relay, address)?;
        relay.number().await?;
        relay.go().await?;
        let writer = Outbox::builder(D::store(address).await?).writer_only().start()?;
        Ok(Self { writer, relay })
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = self.writer.begin().await?;
        self.writer.write(&mut tx, database::order_placed(number)?).await?;
        tx.commit().await?;
        let committed = now();
        let started = self.relay.number().await?;
        Ok(Duration::from_nanos(started.saturating_sub(committed)))
    }
}

/// In the other process: prints when the listener was called, once the outcome is recorded.
pub(crate) async fn relay<D: Database>(address: &Address) -> Result<()> {
    let (starts, mut started) = mpsc::unbounded_channel();
    let deliveries = Deliveries::default();
    let listener = move |_: Delivery| {
        let sent = starts.send(now());
        async move { sent.map_err(ListenerError::from) }
    };
    let relay = Outbox::builder(D::store(address).await?)
        .on_aggregate(AGGREGATE, EVENT, listener)
        .metrics(deliveries.clone())
        .poller_only()
        .poll_every(NEVER)
        .start()?;
    process::ready().await?;
    let printing = async {
        for count in 1.. {
            let at = started.recv().await.context("the listener is gone")?;
            deliveries.reach(count).await?;
            process::say(at)?;
        }
        Ok(())
    };
    tokio::select! {
        printed = printing => printed,
        ended = process::ended() => {
            relay.close().await;
            ended
        }
    }
}

/// Nanoseconds on a clock that all processes of the machine share.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
