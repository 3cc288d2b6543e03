//! `wake-up`: from the commit of a process that only writes to the listener of a relay on the same file, against
//! a loop by hand that asks the file every millisecond and claims what is new.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pillarbox::{Delivery, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use sqlx::SqlitePool;
use tokio::sync::mpsc;

use crate::database::{self, AGGREGATE, EVENT};
use crate::measure::{Deliveries, Scale, micros, quantile};
use crate::raw;
use crate::report::{Line, grouped};

const COMMITS: usize = 2_500;
/// Longer than the whole case: what is measured is the wake-up, not the poll.
const NEVER: Duration = Duration::from_secs(3_600);
/// How often the loop by hand looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub(crate) async fn measure(dir: &Path, scale: Scale) -> Result<Vec<Line>> {
    let commits = scale.of(COMMITS);
    eprintln!("wake-up: {} commits on each side", grouped(commits as u64));
    let mut ours = Ours::start(&dir.join("wake-up.db")).await?;
    let by_hand = dir.join("wake-up-by-hand.db");
    database::create(&by_hand).await?;
    let mut by_hand = ByHand::start(&by_hand).await?;

    let (mut of_ours, mut of_hand) = (Vec::new(), Vec::new());
    for number in 0..commits {
        of_ours.push(micros(ours.commit(number).await?));
        of_hand.push(micros(by_hand.commit(number).await?));
    }
    ours.relay.close().await;
    let mut lines = Vec::new();
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let (ours, by_hand) = (quantile(&mut of_ours, share), quantile(&mut of_hand, share));
        lines.push(Line::new("sqlite", format!("wake-up/{name}"), ours, "µs", by_hand));
    }
    Ok(lines)
}

/// A writer and a relay, each with a store of its own, as two processes have.
struct Ours {
    writer: Outbox<SqliteStore>,
    relay: Outbox<SqliteStore>,
    deliveries: Deliveries,
    started: mpsc::UnboundedReceiver<Instant>,
}

impl Ours {
    async fn start(path: &Path) -> Result<Self> {
        let (starts, started) = mpsc::unbounded_channel();
        let deliveries = Deliveries::default();
        let listener = move |_: Delivery| {
            let sent = starts.send(Instant::now());
            async move { sent.map_err(ListenerError::from) }
        };
        let relay = Outbox::builder(database::store(path).await?)
            .on_aggregate(AGGREGATE, EVENT, listener)
            .metrics(deliveries.clone())
            .poller_only()
            .poll_every(NEVER)
            .start()?;
        let writer = Outbox::builder(database::store(path).await?).writer_only().start()?;
        Ok(Self { writer, relay, deliveries, started })
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = self.writer.begin().await?;
        self.writer.write(&mut tx, database::order_placed(number)?).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let started = self.started.recv().await.context("the listener is gone")?;
        self.deliveries.reach(number + 1).await?;
        Ok(started.saturating_duration_since(committed))
    }
}

/// A task that looks whether the file has changed, and claims if it has.
struct ByHand {
    writer: SqlitePool,
    claimed: mpsc::UnboundedReceiver<Result<Instant>>,
}

impl ByHand {
    async fn start(path: &Path) -> Result<Self> {
        let reader = database::raw_pool(path).await?;
        let (claims, claimed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Err(error) = look(&reader, &claims).await {
                if claims.send(Err(error)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { writer: database::raw_pool(path).await?, claimed })
    }

    async fn commit(&mut self, number: usize) -> Result<Duration> {
        let mut tx = raw::begin(&self.writer).await?;
        raw::insert(&mut tx, number).await?;
        tx.commit().await?;
        let committed = Instant::now();
        let claimed = self.claimed.recv().await.context("the relay by hand is gone")??;
        Ok(claimed.saturating_duration_since(committed))
    }
}

/// Looks until nobody wants to know any more.
async fn look(pool: &SqlitePool, claims: &mpsc::UnboundedSender<Result<Instant>>) -> Result<()> {
    let mut connection = pool.acquire().await?;
    let (mut seen, mut token) = (0, 0);
    while !claims.is_closed() {
        let version: i64 = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut *connection).await?;
        if version != seen {
            seen = version;
            token += 1;
            for _ in raw::claim(&mut connection, token, raw::BATCH).await? {
                claims.send(Ok(Instant::now()))?;
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
