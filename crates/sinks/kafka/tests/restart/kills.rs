//! The broker dies while events are on their way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Sink, SinkError};
use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::Messages;
use pillarbox_testkit::servers::PrivateServer;
use pillarbox_testkit::sinks::{Arrived, publish};
use tokio::sync::watch;

use crate::kcat;

const WRITERS: usize = 3;
const RUN: usize = 100;

/// K1, guarantee 3: a broker that is killed under load and started again has everything that was acknowledged, and
/// everything else arrives when it comes again, each key in its order.
pub(crate) async fn nothing_acknowledged_is_lost_when_the_broker_is_killed(server: &PrivateServer) {
    let messages = Messages::from_source("/shop").unwrap();
    let options = KafkaOptions::new(server.url(), "orders".parse().unwrap(), messages);
    let sink: Arc<dyn Sink> =
        Arc::new(KafkaSink::new(options.delivery_timeout(Duration::from_secs(5))).unwrap());
    let progress = Progress::default();
    let (stop, stopped) = watch::channel(false);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(sink.clone(), writer, progress.clone(), stopped.clone())))
        .collect();

    for round in 1..=2 {
        progress.reach(round * 3_000).await;
        server.kill().await;
        progress.miss().await;
        server.up().await;
    }
    progress.reach(9_000).await;
    stop.send(true).unwrap();
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }

    let arrived = kcat::read(server.url(), "orders").await;
    let there: BTreeSet<String> = arrived.iter().map(|message| message.event_id.clone()).collect();
    assert!(acknowledged.is_subset(&there), "{:?}", acknowledged.difference(&there).next());
    assert_eq!(acknowledged, there, "every event was acknowledged in the end");
    for writer in 0..WRITERS {
        assert_in_order(&arrived, writer);
    }
}

/// How many events are acknowledged, and how many were not at first.
#[derive(Clone)]
struct Progress(Arc<watch::Sender<(usize, usize)>>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new((0, 0))))
    }
}

impl Progress {
    fn count(&self, answers: &[Result<(), SinkError>]) {
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        self.0.send_modify(|(done, missed)| {
            *done += answers.len() - failed;
            *missed += failed;
        });
    }

    async fn reach(&self, count: usize) {
        self.0.subscribe().wait_for(|(done, _)| *done >= count).await.unwrap();
    }

    /// Waits until an event is not acknowledged.
    async fn miss(&self) {
        let mut progress = self.0.subscribe();
        let missed = progress.borrow().1;
        progress.wait_for(|(_, now)| *now > missed).await.unwrap();
    }
}

/// Publishes runs of one key, one after the other as the engine does, until it is told to stop; gives the ids.
async fn write(
    sink: Arc<dyn Sink>,
    writer: usize,
    progress: Progress,
    stopped: watch::Receiver<bool>,
) -> Vec<String> {
    let mut ids = Vec::new();
    while !*stopped.borrow() {
        let first = ids.len();
        let order = |number: usize| {
            let event = Event::builder("OrderPlaced")
                .id(format!("{writer}-{number:06}"))
                .key(format!("order-{writer}"));
            event.json_text("{}").build().unwrap()
        };
        let mut left: Vec<Event> = (first..first + RUN).map(order).collect();
        ids.extend(left.iter().map(|event| event.id().to_owned()));
        while !left.is_empty() {
            let answers = publish(&sink, &left).await;
            progress.count(&answers);
            let rejected =
                answers.iter().flat_map(|answer| answer.as_ref().err()).find(|error| error.is_rejected());
            assert_eq!(rejected, None, "a broker that is down says nothing about an event");
            let mut answers = answers.into_iter();
            left.retain(|_| answers.next().is_some_and(|answer| answer.is_err()));
        }
    }
    ids
}

/// Duplicates aside: what comes again comes with all that follows it.
fn assert_in_order(arrived: &[Arrived], writer: usize) {
    let prefix = format!("{writer}-");
    let mut highest = "";
    let mut last = "";
    for id in arrived.iter().map(|message| message.event_id.as_str()).filter(|id| id.starts_with(&prefix)) {
        assert!(id > last || id <= highest, "{id} came after {last}");
        // A first arrival follows directly on the one before it.
        if id > highest {
            let number = |id: &str| id.rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
            assert_eq!(number(id), Some(number(highest).map_or(0, |number| number + 1)), "after {highest}");
            highest = id;
        }
        last = id;
    }
}
