//! What arrives.

use pillarbox::{Event, MAX_PAYLOAD};
use pillarbox_message::{Messages, Mode};

use super::{SOURCE, SinkStage, assert_all_acknowledged, binary, only, order_placed, publish};

/// K1, K2, L6: in binary mode the body is the payload, byte for byte, and all else is in attributes and headers.
pub async fn binary_message_carries_everything(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let event = order_placed("01J").tenant("acme").header("region", "eu west, 2").build().unwrap();

    assert_all_acknowledged(&publish(&sink, std::slice::from_ref(&event)).await);

    let arrived = only(stage).await;
    assert_eq!((arrived.event_id.as_str(), arrived.content_type.as_str()), ("01J", "application/json"));
    assert_eq!(arrived.body, br#"{"total": 4200}"#);
    assert_eq!(arrived.headers.get("region").map(String::as_str), Some("eu west, 2"));
    let time = event.occurred_at().to_string();
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", "01J"),
        ("source", SOURCE),
        ("type", "OrderPlaced"),
        ("subject", "order-17"),
        ("time", &time),
        ("partitionkey", "order-17"),
        ("aggregatetype", "Order"),
        ("tenantid", "acme"),
    ] {
        assert_eq!(arrived.attributes.get(name).map(String::as_str), Some(value), "{name}");
    }
}

/// K2: in structured mode the body is a document with attributes and payload; the id is in the headers too.
pub async fn structured_message_carries_everything(stage: &impl SinkStage) {
    let sink = stage.sink(binary().mode(Mode::Structured), None).await;
    let event = order_placed("01J").header("region", "eu").build().unwrap();

    assert_all_acknowledged(&publish(&sink, &[event]).await);

    let arrived = only(stage).await;
    assert_eq!(arrived.event_id, "01J");
    assert!(arrived.content_type.starts_with("application/cloudevents+json"), "{}", arrived.content_type);
    assert_eq!(arrived.headers.get("region").map(String::as_str), Some("eu"));
    let body = String::from_utf8(arrived.body).unwrap();
    for part in [r#""id":"01J""#, r#""type":"OrderPlaced""#, r#""data":{"total": 4200}"#] {
        assert!(body.contains(part), "{part} in {body}");
    }
}

/// S11: bytes arrive as they were written, whatever they are.
pub async fn bytes_arrive_as_they_are(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let event = Event::builder("Scan").bytes(every_byte.clone()).build().unwrap();

    assert_all_acknowledged(&publish(&sink, &[event]).await);

    let arrived = only(stage).await;
    assert_eq!((arrived.body, arrived.content_type), (every_byte, "application/octet-stream".to_owned()));
}

/// X1: context is sent when that is asked for, and only then.
pub async fn context_is_sent_only_when_asked(stage: &impl SinkStage) {
    let event = |id: &str| order_placed(id).context("shard", "7").build().unwrap();
    let without = stage.sink(binary(), None).await;
    let with = stage.sink(binary().with_context(true), None).await;

    assert_all_acknowledged(&publish(&without, &[event("without")]).await);
    assert_all_acknowledged(&publish(&with, &[event("with")]).await);

    let arrived = stage.arrived().await;
    let shard = |id: &str| {
        let message = arrived.iter().find(|message| message.event_id == id).unwrap();
        message.headers.get("shard").map(String::as_str)
    };
    assert_eq!((shard("without"), shard("with")), (None, Some("7")));
}

/// X2: the trace of the writer arrives, as headers that consumers look for.
pub async fn trace_context_arrives(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let event =
        order_placed("01J").header("traceparent", parent).header("tracestate", "a=1").build().unwrap();

    assert_all_acknowledged(&publish(&sink, &[event]).await);

    let arrived = only(stage).await;
    assert_eq!(arrived.headers.get("traceparent").map(String::as_str), Some(parent));
    assert_eq!(arrived.headers.get("tracestate").map(String::as_str), Some("a=1"));
    assert_eq!(arrived.attributes.get("traceparent").map(String::as_str), Some(parent));
}

/// K1: the key is the event's key, by default its aggregate id; without one there is none.
pub async fn key_is_where_the_broker_has_it(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let events = [
        order_placed("by-aggregate").build().unwrap(),
        order_placed("by-key").key("customer-3").build().unwrap(),
        Event::builder("Ping").id("without").json_text("{}").build().unwrap(),
    ];

    assert_all_acknowledged(&publish(&sink, &events).await);

    let arrived = stage.arrived().await;
    for (id, key) in [("by-aggregate", Some("order-17")), ("by-key", Some("customer-3")), ("without", None)] {
        let message = arrived.iter().find(|message| message.event_id == id).unwrap();
        assert_eq!(message.attributes.get("partitionkey").map(String::as_str), key, "{id}");
        if message.key.is_some() {
            assert_eq!(message.key.as_deref(), key, "{id}");
        }
    }
}

/// V2: the largest legal event arrives, or is refused at once, with the limit that it exceeds; its neighbours arrive.
pub async fn largest_event_arrives_or_is_rejected_for_good(stage: &impl SinkStage) {
    for (mode, name) in [(Mode::Binary, "binary"), (Mode::Structured, "structured")] {
        let messages = Messages::from_source(SOURCE).unwrap().mode(mode);
        let sink = stage.sink(messages, None).await;
        let largest = Event::builder("OrderPlaced").id(format!("{name}-largest")).key("largest");
        let headers =
            (0..4).fold(largest, |event, number| event.header(format!("large-{number}"), "h".repeat(4_000)));
        let events = [
            order_placed(&format!("{name}-before")).key("before").build().unwrap(),
            headers.bytes(vec![0xff; MAX_PAYLOAD]).build().unwrap(),
            order_placed(&format!("{name}-after")).key("after").build().unwrap(),
        ];

        let answers = publish(&sink, &events).await;

        assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())), "{name}");
        let arrived = stage.arrived().await;
        let largest = arrived.iter().find(|message| message.event_id == events[1].id());
        match &answers[1] {
            Ok(()) => assert!(largest.unwrap().body.len() >= MAX_PAYLOAD, "{name}"),
            Err(error) => {
                assert!(error.is_rejected() && error.is_final(), "{name}: {error:?}");
                assert!(error.to_string().contains("limit"), "the limit is named: {error}");
                assert!(largest.is_none(), "{name}");
            }
        }
    }
}
