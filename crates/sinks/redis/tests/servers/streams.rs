//! Streams: what they are not, how they are trimmed, and what their server is like.

use std::time::Duration;

use pillarbox::Event;
use pillarbox_redis::{RedisSink, Trim};
use pillarbox_testkit::sinks::publish;

use crate::stage::{RedisStage, command, order_placed, sink};

/// Guarantee 7: an error in the middle of a run is that of its own event, and all others are answered truthfully.
pub(crate) async fn key_of_another_kind_rejects_its_own_events_only(stage: &RedisStage) {
    command::<()>(&stage.url, &format!("SET {} text", stage.key("order-3"))).await;
    let events: Vec<Event> = (0..10).map(|number| order_placed(&format!("order-{number}"))).collect();

    let answers = publish(&sink(stage.options("{aggregate_id}")), &events).await;

    for (number, answer) in answers.iter().enumerate() {
        let there = format!("order-{number}");
        if number == 3 {
            let error = answer.as_ref().unwrap_err();
            assert!(error.is_rejected() && !error.is_final(), "{error:?}");
            assert!(error.to_string().contains("holds something other than a stream"), "{error}");
        } else {
            assert_eq!(answer, &Ok(()), "{there}");
            assert_eq!(stage.event_ids(&there).await, [there]);
        }
    }
}

/// O1: what follows a failed event of its key is left for later; others are not.
pub(crate) async fn follower_of_a_failed_event_is_not_sent(stage: &RedisStage) {
    command::<()>(&stage.url, &format!("SET {} text", stage.key("bad"))).await;
    let sink = sink(stage.options("{tenant_id|none}").in_flight(1, 1));
    let of_key = |id: &str, key: &str| Event::builder("OrderPlaced").id(id).key(key).json_text("{}");
    let events = [
        of_key("refused-here", "order-1").tenant("a\tb"),
        of_key("refused-there", "order-2").tenant("bad"),
        of_key("follows-here", "order-1"),
        of_key("follows-there", "order-2"),
        of_key("other", "order-3"),
    ];

    let answers = publish(&sink, &events.map(|event| event.build().unwrap())).await;

    for index in [0, 1] {
        assert!(answers[index].as_ref().is_err_and(|error| error.is_rejected()), "{answers:?}");
        assert!(answers[index + 2].as_ref().is_err_and(|error| error.is_not_sent()), "{answers:?}");
    }
    assert_eq!(answers[4], Ok(()));
    assert_eq!(stage.event_ids("none").await, ["other"]);
}

/// Redis deletes whole blocks of a hundred, so that a little more than asked for is left.
pub(crate) async fn stream_is_trimmed_to_about_its_length(stage: &RedisStage) {
    let events: Vec<Event> = (0..500).map(|number| order_placed(&format!("order-{number}"))).collect();

    let answers = publish(&sink(stage.options("orders").trim(Trim::ToLength(50))), &events).await;

    assert!(answers.iter().all(Result::is_ok));
    let left = stage.event_ids("orders").await;
    assert!((50..250).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap(), "order-499");
}

pub(crate) async fn stream_is_trimmed_to_about_its_age(stage: &RedisStage) {
    let add = |number: u32| format!("XADD {} 1-{number} event-id old-{number}", stage.key("orders"));
    for number in 1..=200 {
        command::<String>(&stage.url, &add(number)).await;
    }

    let age = Trim::ToAge(Duration::from_secs(3_600));
    let answers = publish(&sink(stage.options("orders").trim(age)), &[order_placed("new")]).await;

    assert_eq!(answers, [Ok(())]);
    let left = stage.event_ids("orders").await;
    assert!(left.len() < 200, "{}", left.len());
    assert_eq!(left.last().unwrap(), "new");
}

/// L6: Redis recognises no duplicates; consumers do, by the event id.
pub(crate) async fn repeated_event_is_added_twice(stage: &RedisStage) {
    let sink = sink(stage.options("orders"));

    publish(&sink, &[order_placed("order-17")]).await;
    publish(&sink, &[order_placed("order-17")]).await;

    assert_eq!(stage.event_ids("orders").await, ["order-17", "order-17"]);
}

pub(crate) async fn durable_server_gives_no_cause_for_complaint(stage: &RedisStage) {
    assert_eq!(RedisSink::new(stage.options("orders")).check().await, []);
}
