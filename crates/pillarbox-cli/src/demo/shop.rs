//! The order service: writers that place orders, and listeners that serve their events.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use pillarbox::{Delivery, Event, IntoEvent, ListenerError, Outbox, Retry};
use pillarbox_sqlite::SqliteStore;
use tokio::task::JoinSet;

use super::journal::{self, Journal};
use super::orders::{Details, Ending, Order, Task};
use super::run::Run;

/// Transactions that run at once.
const WRITERS: usize = 4;
/// Deliveries of one event before it is dead, and the wait after the first that failed.
pub(super) const ATTEMPTS: u32 = 4;
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// It is not the event's fault when the demo kills itself; so often it does not.
const MAX_STARTS: u32 = 100;
/// How often to look whether all is settled, and how long to wait while nothing moves.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// One process of the order service.
pub(super) struct Shop {
    pub(super) run: Run,
    pub(super) workers: usize,
    /// Orders per second; as many as possible if `None`.
    pub(super) rate: Option<f64>,
    pub(super) journal: Arc<Journal>,
}

impl Shop {
    /// Places all orders that are not placed yet, and returns when all their events are settled.
    pub(super) async fn play(self, store: SqliteStore) -> anyhow::Result<()> {
        let outbox = self.open(store)?;
        self.place_orders(&outbox).await?;
        self.settled(&outbox).await?;
        outbox.close().await;
        Ok(())
    }

    fn open(&self, store: SqliteStore) -> anyhow::Result<Outbox<SqliteStore>> {
        let mut builder = Outbox::builder(store)
            .name(format!("demo-{}", self.run.number))
            .workers(self.workers)
            .max_starts(MAX_STARTS)
            .retry(Retry::exponential().initial(FIRST_RETRY).max_attempts(ATTEMPTS).spread());
        let tasks = [Task::Pack, Task::Charge { declines: 0 }, Task::Print { millis: 0 }, Task::Mail];
        for event_type in tasks.map(Task::event_type) {
            let journal = self.journal.clone();
            let listener = move |delivery: Delivery| serve(journal.clone(), delivery);
            builder = builder.on_aggregate("Order", event_type, listener);
        }
        Ok(builder.start()?)
    }

    async fn place_orders(&self, outbox: &Outbox<SqliteStore>) -> anyhow::Result<()> {
        let placed = self.run.placed(outbox.store().pool()).await?;
        let queue = Arc::new(Queue::new(&self.run, placed, self.rate));
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (outbox, queue, journal) = (outbox.clone(), queue.clone(), self.journal.clone());
            let run = self.run;
            writers.spawn(async move {
                while let Some(order) = queue.next().await {
                    place(&outbox, &journal, run, order).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Waits until no event of this demo is pending. If nothing moves any more, the ledger will tell.
    async fn settled(&self, outbox: &Outbox<SqliteStore>) -> anyhow::Result<()> {
        let (mut last, mut since) = (i64::MAX, Instant::now());
        loop {
            let unsettled = self.run.unsettled(outbox.store().pool()).await?;
            if unsettled == 0 || since.elapsed() > PATIENCE {
                return Ok(());
            }
            if unsettled != last {
                (last, since) = (unsettled, Instant::now());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The numbers of the orders that are still to be placed, handed out at the chosen rate.
struct Queue {
    run: Run,
    placed: HashSet<u64>,
    next: AtomicU64,
    handed_out: AtomicU64,
    rate: Option<f64>,
    start: tokio::time::Instant,
}

impl Queue {
    fn new(run: &Run, placed: HashSet<u64>, rate: Option<f64>) -> Self {
        let (next, handed_out) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { run: *run, placed, next, handed_out, rate, start: tokio::time::Instant::now() }
    }

    async fn next(&self) -> Option<Order> {
        let number = loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if !self.placed.contains(&number) {
                break number;
            }
        };
        if number > self.run.events {
            return None;
        }
        let before = self.handed_out.fetch_add(1, Ordering::Relaxed);
        if let Some(rate) = self.rate {
            let at = Duration::from_secs_f64(before as f64 / rate);
            tokio::time::sleep_until(self.start + at).await;
        }
        Some(Order::nth(self.run.seed, number))
    }
}

/// Places one order: the order and its event in one transaction, which may come to nothing.
async fn place(
    outbox: &Outbox<SqliteStore>,
    journal: &Arc<Journal>,
    run: Run,
    order: Order,
) -> anyhow::Result<()> {
    let event: Event = (&order).into_event()?;
    let id = event.id().to_owned();
    let mut tx = outbox.begin().await?;
    sqlx::query(include_str!("insert_order.sql"))
        .bind(run.number)
        .bind(order.number as i64)
        .bind(order.item)
        .bind(order.cents)
        .bind(&id)
        .execute(&mut *tx)
        .await
        .context("an order could not be placed")?;
    outbox.write(&mut tx, event).await?;
    match order.ending {
        Ending::Commit => {
            let journal = journal.clone();
            tx.after_commit(move || {
                if let Err(error) = journal.committed(&id) {
                    tracing::error!(%error, "a commit could not be noted; its latency will be missing");
                }
            });
            tx.commit().await?;
        }
        Ending::RollBack => {
            tx.rollback().await?;
            journal.rolled_back(order.number)?;
        }
        Ending::Drop => {
            drop(tx);
            journal.rolled_back(order.number)?;
        }
    }
    Ok(())
}

/// All listeners: do the work, and write down that it was done before saying so.
async fn serve(journal: Arc<Journal>, delivery: Delivery) -> Result<(), ListenerError> {
    let at = journal::now();
    let served = work(&delivery).await;
    journal.tried(delivery.id(), at, delivery.attempt(), served.is_ok())?;
    served
}

async fn work(delivery: &Delivery) -> Result<(), ListenerError> {
    let details: Details = serde_json::from_slice(delivery.payload().as_bytes())?;
    if delivery.event_type() == Task::Mail.event_type() {
        return Err(ListenerError::new("there is no such address"));
    }
    if delivery.attempt() <= details.declines {
        return Err(ListenerError::new("the payment gateway does not answer"));
    }
    if details.millis > 0 {
        tokio::time::sleep(details.printing_time()).await;
    }
    Ok(())
}
