//! `run-sink`: runs to a sink against single deliveries by four workers, when each answer takes 2 ms, and against a
//! listener that does nothing.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::store::TxStore;
use pillarbox::{BoxFuture, Delivery, MemoryStore, Outbox, OutboxBuilder, Run, Sink, Store, Target};

use crate::database::{self, AGGREGATE, Database, EVENT, Fill};
use crate::measure::{Deliveries, Scale, median};
use crate::report::{Goal, Line, grouped};

const ANSWER_AFTER: Duration = Duration::from_millis(2);
/// In runs, alone, and to nobody.
const EVENTS: [usize; 3] = [100_000, 10_000, 100_000];
const EVENTS_QUICK: [usize; 3] = [10_000, 1_000, 10_000];
const ROUNDS: usize = 3;

pub(crate) async fn measure<D: Database>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    let [in_runs, alone, to_nobody] = events.map(|events| grouped(events as u64));
    eprintln!("run-sink: {in_runs} events in runs, {alone} alone, {to_nobody} to nobody, {ROUNDS} rounds");

    let mut memory: [Vec<f64>; 3] = Default::default();
    let mut database: [Vec<f64>; 3] = Default::default();
    for round in 0..ROUNDS {
        for turn in 0..events.len() {
            let kind = (turn + round) % events.len();
            let events = events[kind];
            memory[kind].push(rate(in_memory(events).await?, target(kind), events).await?);
            let address = place.create("sink").await?;
            D::fill(&address, events, Fill::Pending).await?;
            let store = D::store(&address).await?;
            database[kind].push(rate(store.clone(), target(kind), events).await?);
            D::close(&store).await;
        }
    }
    let [memory_runs, memory_alone, _] = memory.map(|mut rates| median(&mut rates));
    let [in_runs, alone, to_nobody] = database.map(|mut rates| median(&mut rates));
    Ok(vec![
        Line::new("memory", "run-sink", memory_runs, "events/s", memory_alone).goal(Goal::AtLeast(20.0)),
        Line::new(D::NAME, "run-sink", in_runs, "events/s", alone).goal(D::GOALS.run_sink),
        Line::new(D::NAME, "run-sink/against-drain", in_runs, "events/s", to_nobody).goal(Goal::AtLeast(0.8)),
    ])
}

/// Who receives the events: a sink, a listener, nobody.
fn target(kind: usize) -> Target {
    match kind {
        0 => Target::sink(SlowSink),
        1 => Target::listener(slow_listener),
        _ => Target::listener(|_: Delivery| async { Ok::<_, Infallible>(()) }),
    }
}

/// A broker that answers a run after 2 ms.
struct SlowSink;

impl Sink for SlowSink {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            tokio::time::sleep(ANSWER_AFTER).await;
            run.answer_rest(&Ok(()));
        })
    }
}

/// The same broker, asked for each event alone.
async fn slow_listener(_: Delivery) -> Result<(), Infallible> {
    tokio::time::sleep(ANSWER_AFTER).await;
    Ok(())
}

/// A memory store with `events` pending.
async fn in_memory(events: usize) -> Result<MemoryStore> {
    let store = MemoryStore::new();
    let mut tx = TxStore::begin(&store).await?;
    let events = (0..events).map(database::order_placed).collect::<Result<Vec<_>>>()?;
    store.insert(MemoryStore::connection_mut(&mut tx), &events, None).await?;
    MemoryStore::commit(tx).await?;
    Ok(store)
}

/// Events per second from `store` to `target`, with the engine's defaults: four workers.
async fn rate<S: Store>(store: S, target: Target, events: usize) -> Result<f64> {
    let deliveries = Deliveries::default();
    let builder: OutboxBuilder<S> = Outbox::builder(store).poller_only();
    let begun = Instant::now();
    let outbox = builder.route(AGGREGATE, EVENT, target).metrics(deliveries.clone()).start()?;
    deliveries.reach(events).await?;
    let took = begun.elapsed();
    outbox.close().await;
    Ok(events as f64 / took.as_secs_f64())
}
