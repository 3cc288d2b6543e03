//! Runs go on, one after the other and several at a time, while the server dies and comes back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::sinks::publish;
use serde_json::json;
use tokio::sync::watch;

use crate::server::RabbitMq;

/// Guarantees 2 and 3: what was acknowledged before SIGKILL is in the queue after it, and what was not is published by
/// the same sink as soon as the server is back.
pub(crate) async fn nothing_acknowledged_is_lost_when_the_server_is_killed(rabbitmq: &RabbitMq) {
    rabbitmq.does(json!([{"do": "queue", "name": "orders"}])).await;
    // Killed within a moment of declaring it, RabbitMQ may come back without the queue.
    rabbitmq.server.stop().await;
    rabbitmq.server.up().await;
    let messages = Messages::from_source("/shop").unwrap();
    let options = RabbitMqOptions::new(rabbitmq.server.url(), "orders".parse().unwrap(), messages).unwrap();
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options));
    let (acknowledged, is_back) = (Arc::new(watch::Sender::new(0)), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..4)
        .map(|worker| tokio::spawn(work(worker, sink.clone(), acknowledged.clone(), is_back.clone())))
        .collect();

    acknowledged.subscribe().wait_for(|count| *count >= 2_000).await.unwrap();
    rabbitmq.server.kill().await;
    rabbitmq.server.up().await;
    is_back.store(true, Ordering::Relaxed);
    let mut sent = BTreeSet::new();
    for worker in workers {
        sent.extend(worker.await.unwrap());
    }

    let arrived: BTreeSet<String> = rabbitmq.drained("orders").await.into_iter().collect();
    let lost: Vec<&String> = sent.difference(&arrived).collect();
    assert!(lost.is_empty(), "{} of {} events are lost: {:?}", lost.len(), sent.len(), lost[0]);
}

/// How often a run is tried once the server is back.
const TRIES: usize = 150;

/// Publishes run after run until one is acknowledged that began after the server was back; what is not acknowledged comes
/// again. Gives the ids of all that were acknowledged.
async fn work(
    worker: usize,
    sink: Arc<dyn Sink>,
    acknowledged: Arc<watch::Sender<usize>>,
    is_back: Arc<AtomicBool>,
) -> Vec<String> {
    let (mut done, mut left, mut number) = (Vec::new(), Vec::new(), 0);
    let mut tries = 0;
    loop {
        let is_last = is_back.load(Ordering::Relaxed);
        while left.len() < 100 && !is_last {
            let id = format!("{worker}-{number:06}");
            left.push(Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap());
            number += 1;
        }
        let answers = publish(&sink, &left).await;
        tries += usize::from(is_last);
        assert!(tries <= TRIES, "the server is back, and takes nothing: {:?}", answers.first());
        let mut answers = answers.into_iter();
        let is_done = |_: &mut Event| answers.next().is_some_and(|answer| answer.is_ok());
        done.extend(left.extract_if(.., is_done).map(|event| event.id().to_owned()));
        acknowledged.send_modify(|count| *count += 100 - left.len().min(100));
        if is_last && left.is_empty() {
            return done;
        }
        if !left.is_empty() {
            // As the engine does when a destination is down.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}
