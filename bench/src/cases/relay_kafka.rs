//! `relay-kafka`: from the table to Kafka, against what both halves would take one after the other, each measured alone;
//! and what waited while the sink was down, against the same without an outage.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use pillarbox::{BoxFuture, Delivery, Event, Outbox, Run, Sink, SinkError, Source, Target, Timestamp};
use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::Messages;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::database::{self, AGGREGATE, EVENT, Fill};
use crate::measure::{Deliveries, Scale, typical_round};
use crate::owned::{self, Owned};
use crate::report::{Goal, Line, grouped};

/// Where the broker is.
const BROKERS: &str = "PILLARBOX_TEST_KAFKA_BROKERS";
const EVENTS: usize = 200_000;
const EVENTS_QUICK: usize = 20_000;
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 3;
const KEYS: usize = 200;
/// As the engine does it by default: so many runs at once, of so many events.
const WORKERS: usize = 4;
const RUN: usize = 500;
/// How long the sink is down in the rounds with an outage.
const OUTAGE: Duration = Duration::from_secs(2);

/// What is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// To a sink that acknowledges at once.
    Drain { is_ordered: bool },
    /// To Kafka, from memory.
    Produce,
    /// To Kafka, from the table.
    Whole { is_ordered: bool },
    /// The same in order, after an outage.
    AfterOutage,
}

const PARTS: [Part; 6] = [
    Part::Drain { is_ordered: false },
    Part::Drain { is_ordered: true },
    Part::Produce,
    Part::Whole { is_ordered: false },
    Part::Whole { is_ordered: true },
    Part::AfterOutage,
];

pub(crate) async fn measure<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let Some(brokers) = std::env::var(BROKERS).ok().filter(|brokers| !brokers.is_empty()) else {
        eprintln!("relay-kafka: left out, for `{BROKERS}` does not name a broker");
        return Ok(Vec::new());
    };
    let (events, rounds) = (scale.pick(EVENTS, EVENTS_QUICK), scale.pick(ROUNDS, ROUNDS_QUICK));
    eprintln!("relay-kafka: {} pending, {KEYS} keys, {rounds} rounds", grouped(events as u64));
    let topic = Topic::create(&brokers).await?;
    let mut rates: [Vec<f64>; PARTS.len()] = Default::default();
    let mut measured = Ok(());
    for turn in 0..rounds * PARTS.len() {
        let part = (turn % PARTS.len() + turn / PARTS.len()) % PARTS.len();
        match rate(place, PARTS[part], &topic, events).await {
            Ok(rate) => rates[part].push(rate),
            Err(error) => measured = Err(error),
        }
        if measured.is_err() {
            break;
        }
    }
    topic.delete().await?;
    measured?;

    let [drain, drain_ordered, produce, whole, ordered, after_outage] = &rates;
    let one_after_the_other = |drain: &[f64]| -> Vec<f64> {
        drain.iter().zip(produce).map(|(drain, produce)| 1.0 / (1.0 / drain + 1.0 / produce)).collect()
    };
    let line = |case: &str, ours: &[f64], raw: &[f64]| {
        let (ours, raw) = typical_round(ours, raw);
        Line::new(D::NAME, case, ours, "events/s", raw)
    };
    Ok(vec![
        line("relay-kafka", whole, &one_after_the_other(drain)).goal(Goal::AtLeast(0.8)),
        // Without a goal: what Kafka gets from memory does not wait for the events before it in its key.
        line("relay-kafka/ordered", ordered, &one_after_the_other(drain_ordered)),
        line("relay-kafka/after-outage", after_outage, ordered).goal(Goal::AtLeast(0.8)),
    ])
}

/// Events per second.
async fn rate<D: Owned>(place: &D, part: Part, topic: &Topic, events: usize) -> Result<f64> {
    let (begun, ended) = match part {
        Part::Drain { is_ordered } => drain(place, is_ordered, Target::sink(Nowhere), events).await?,
        Part::Whole { is_ordered } => drain(place, is_ordered, Target::sink(topic.sink()?), events).await?,
        Part::Produce => produce(topic, events).await?,
        Part::AfterOutage => after_outage(place, topic, events).await?,
    };
    Ok(events as f64 / (ended - begun).as_secs_f64())
}

/// When the events of a table begin to go to a target, and when all are there.
async fn drain<D: Owned>(
    place: &D,
    is_ordered: bool,
    target: Target,
    events: usize,
) -> Result<(Instant, Instant)> {
    let address = match is_ordered {
        true => owned::create(place, "relay-kafka-ordered").await?,
        false => place.create("relay-kafka").await?,
    };
    D::fill(&address, events, Fill::Keys(KEYS)).await?;
    let (store, deliveries) = (D::store(&address).await?, Deliveries::default());
    let builder = Outbox::builder(store.clone()).poller_only().route(AGGREGATE, EVENT, target);
    let builder = if is_ordered { builder.ordered() } else { builder };
    let begun = Instant::now();
    let outbox = builder.metrics(deliveries.clone()).start()?;
    deliveries.reach(events).await?;
    let ended = Instant::now();
    outbox.close().await;
    D::close(&store).await;
    Ok((begun, ended))
}

/// The same in order, from the first run after an outage on.
async fn after_outage<D: Owned>(place: &D, topic: &Topic, events: usize) -> Result<(Instant, Instant)> {
    let gate = Arc::new(Gate { sink: topic.sink()?, begun: OnceLock::new(), opened: OnceLock::new() });
    let (_, ended) = drain(place, true, Target::sink(gate.clone()), events).await?;
    Ok((*gate.opened.get().context("nothing was sent after the outage")?, ended))
}

/// The same for events from memory, in runs as the engine makes them.
async fn produce(topic: &Topic, events: usize) -> Result<(Instant, Instant)> {
    let sink = Arc::new(topic.sink()?);
    let key = |number: usize| -> Result<Event> { database::order_placed(number % KEYS) };
    let events = (0..events).map(key).collect::<Result<Vec<Event>>>()?;
    let runs = |worker: usize| -> Vec<Vec<Delivery>> {
        let runs = events.chunks(RUN).skip(worker).step_by(WORKERS);
        runs.map(|run| run.iter().map(delivery).collect()).collect()
    };
    let runs: Vec<Vec<Vec<Delivery>>> = (0..WORKERS).map(runs).collect();
    let begun = Instant::now();
    let workers: Vec<_> = runs.into_iter().map(|runs| tokio::spawn(publish(sink.clone(), runs))).collect();
    for worker in workers {
        worker.await??;
    }
    Ok((begun, Instant::now()))
}

fn delivery(event: &Event) -> Delivery {
    Delivery::new(event.clone(), 1, Timestamp::from_micros(0), Source::Cold)
}

async fn publish(sink: Arc<KafkaSink>, runs: Vec<Vec<Delivery>>) -> Result<()> {
    for deliveries in runs {
        let count = deliveries.len();
        let (run, mut answers) = Run::new(deliveries);
        sink.publish(&run).await;
        let acknowledged =
            std::iter::from_fn(|| answers.waiting()).filter(|(_, answer)| answer.is_ok()).count();
        ensure!(acknowledged == count, "{acknowledged} of {count} events were acknowledged");
    }
    Ok(())
}

/// Acknowledges everything at once.
struct Nowhere;

impl Sink for Nowhere {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move { run.answer_rest(&Ok(())) })
    }
}

/// A sink that is down for a while when it is first asked.
struct Gate {
    sink: KafkaSink,
    /// When the outage began.
    begun: OnceLock<Instant>,
    /// When the first run passed.
    opened: OnceLock<Instant>,
}

impl Sink for Gate {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        if self.begun.get_or_init(Instant::now).elapsed() < OUTAGE {
            return Box::pin(async move { run.answer_rest(&Err(SinkError::unavailable("an outage"))) });
        }
        self.opened.get_or_init(Instant::now);
        self.sink.publish(run)
    }
}

/// A topic of its own.
struct Topic {
    name: String,
    brokers: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Topic {
    async fn create(brokers: &str) -> Result<Self> {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", brokers).create()?;
        let name = format!("pillarbox_bench_{}", std::process::id());
        let new = NewTopic::new(&name, 4, TopicReplication::Fixed(1));
        for created in admin.create_topics([&new], &AdminOptions::new()).await? {
            created.map_err(|(topic, code)| anyhow::anyhow!("topic `{topic}`: {code}"))?;
        }
        Ok(Self { name, brokers: brokers.to_owned(), admin })
    }

    async fn delete(&self) -> Result<()> {
        self.admin.delete_topics(&[self.name.as_str()], &AdminOptions::new()).await?;
        Ok(())
    }

    fn sink(&self) -> Result<KafkaSink> {
        let messages = Messages::from_source("/bench")?;
        Ok(KafkaSink::new(KafkaOptions::new(&self.brokers, self.name.parse()?, messages))?)
    }
}
