//! What is answered, and when.

use std::time::Duration;

use pillarbox::Run;

use super::{SinkStage, assert_all_acknowledged, binary, ids, orders, publish, run_of, sorted};

/// K1, K2: every event of a run is acknowledged and arrives once.
pub async fn every_event_of_a_run_arrives_once(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let events = orders("run", 500);

    let answers = publish(&sink, &events).await;

    assert_all_acknowledged(&answers);
    let arrived = stage.arrived().await;
    let sent: Vec<&str> = events.iter().map(|event| event.id()).collect();
    assert_eq!(sorted(ids(&arrived)), sent);
}

/// O1: events of one key arrive in the order of the run.
pub async fn events_of_a_key_arrive_in_order(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let events = orders("order", 300);

    assert_all_acknowledged(&publish(&sink, &events).await);

    let arrived = stage.arrived().await;
    for key in 0..10 {
        let of_key = |id: &&str| id.rsplit('-').next().unwrap().parse::<usize>().unwrap() % 10 == key;
        let order: Vec<&str> = ids(&arrived).into_iter().filter(of_key).collect();
        assert_eq!(order.len(), 30);
        assert!(order.is_sorted(), "key {key}: {order:?}");
    }
}

/// D4: several workers publish at the same time, and each gets the answers to its own run.
pub async fn runs_at_the_same_time_are_answered_each(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let runs = ["a", "b", "c", "d"].map(|prefix| orders(prefix, 100));

    let [a, b, c, d] = &runs;
    let answers = tokio::join!(publish(&sink, a), publish(&sink, b), publish(&sink, c), publish(&sink, d));

    for answers in [answers.0, answers.1, answers.2, answers.3] {
        assert_all_acknowledged(&answers);
    }
    let sent: Vec<&str> = runs.iter().flatten().map(|event| event.id()).collect();
    assert_eq!(sorted(ids(&stage.arrived().await)), sent);
}

/// D8: a run that is dropped at any await takes nothing along: the next one is answered.
pub async fn dropped_run_leaves_the_sink_usable(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    for microseconds in [0, 50, 200, 1_000, 3_000, 10_000] {
        let (run, _answers) = Run::new(run_of(&orders("dropped", 200)));
        let _ = tokio::time::timeout(Duration::from_micros(microseconds), sink.publish(&run)).await;
    }
    let events = orders("after", 50);

    assert_all_acknowledged(&publish(&sink, &events).await);

    let arrived = stage.arrived().await;
    let after: Vec<&str> = ids(&arrived).into_iter().filter(|id| id.starts_with("after")).collect();
    let sent: Vec<&str> = events.iter().map(|event| event.id()).collect();
    assert_eq!(sorted(after), sent);
}
