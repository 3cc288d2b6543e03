//! What records look like to others.

use pillarbox::Event;
use pillarbox_testkit::sinks::{SinkStage, publish};

use crate::kcat;
use crate::stage::{KafkaStage, sink};

/// S11: an event without a byte of payload is an event, and deletes nothing in a compacted topic.
pub(crate) async fn empty_payload_is_no_tombstone(stage: &KafkaStage) {
    let sink = sink(stage.options());
    let event = Event::builder("Ping").id("empty").key("a").bytes(Vec::new()).build().unwrap();

    assert_eq!(publish(&sink, &[event]).await, [Ok(())]);

    // The reader refuses tombstones.
    assert_eq!(stage.arrived().await[0].body, b"");
}

/// K1: a key has the same partition as with Kafka's own client, so that both can write to one topic.
pub(crate) async fn keys_go_where_the_own_client_of_kafka_puts_them(stage: &KafkaStage) {
    let topic = stage.create("spread", 10, &[]).await;
    let sink = sink(stage.options_to(&topic));
    // Hashes that the tests of Kafka's own client have.
    let known = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("abc", 479_470_107),
        ("a-little-bit-long-string", -985_981_536),
    ];
    let order = |key: &str| Event::builder("OrderPlaced").id(key).key(key).json_text("{}").build().unwrap();
    let run = known.map(|(key, _)| order(key));

    let answers = publish(&sink, &run).await;

    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let partitions = kcat::partitions(&stage.brokers, &topic).await;
    for (key, hash) in known {
        assert_eq!(partitions[key], i64::from(hash & i32::MAX) % 10, "{key}");
    }
}

/// V2: the sink counts bytes as the broker does: what it lets through is taken, and one byte more is not sent.
pub(crate) async fn size_is_what_the_broker_counts(stage: &KafkaStage) {
    let topic = stage.create("exact", 1, &[("max.message.bytes", "50000")]).await;
    let options = stage.options_to(&topic).max_message_bytes(50_000).batch_bytes(50_000);
    let sink = sink(options);
    let order = |size: usize| {
        Event::builder("OrderPlaced")
            .id("01J")
            .key("a")
            .bytes(vec![0; size])
            .header("region", "eu")
            .build()
            .unwrap()
    };
    let mut size = 50_000;
    let text = loop {
        match &publish(&sink, &[order(size)]).await[0] {
            Ok(()) => break None,
            Err(error) if error.to_string().contains("and the limit is 50000") => size -= 1,
            Err(error) => break Some(error.to_string()),
        }
    };

    assert_eq!(text, None, "the broker refuses what the sink lets through");
    assert!(size > 49_000, "{size}");
    let (refused, too_large) = (publish(&sink, &[order(size + 1)]).await, "takes 50001 bytes in Kafka");
    assert!(refused[0].as_ref().is_err_and(|error| error.to_string().contains(too_large)), "{refused:?}");
}
