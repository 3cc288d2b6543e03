//! What becomes of events that RabbitMQ routes, or does not.

use std::sync::Arc;

use pillarbox::{Event, Sink, Template};
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::sinks::{SinkStage, publish};
use serde_json::json;

use crate::stage::RabbitMqStage;

pub(crate) fn order(id: impl Into<String>) -> Event {
    Event::builder("OrderPlaced").id(id).json_text("{}").build().unwrap()
}

/// An event of the region that the routing key is filled with.
fn order_in(id: &str, region: &str) -> Event {
    Event::builder("OrderPlaced").id(id).header("region", region).json_text("{}").build().unwrap()
}

fn messages() -> Messages {
    Messages::from_source("/shop").unwrap()
}

/// A sink whose routing key ends with the event's region.
fn by_region(stage: &RabbitMqStage) -> Arc<dyn Sink> {
    let routing_key: Template = format!("{}.{{header.region}}", stage.name).parse().unwrap();
    let options = RabbitMqOptions::new(&stage.url, routing_key, messages()).unwrap();
    Arc::new(RabbitMqSink::new(options.exchange(stage.name.parse().unwrap())))
}

/// Guarantee 3, K2: RabbitMQ confirms a message that no queue takes, and drops it. That is not success; the text says
/// what to do, and a binding can still be made.
pub(crate) async fn unroutable_event_is_not_acknowledged(stage: &RabbitMqStage) {
    let sink = by_region(stage);

    let answers = publish(&sink, &[order_in("unroutable", "nowhere")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
    let expected = format!(
        "exchange `{0}` routes `{0}.nowhere` to no queue; bind a queue to it for that routing key",
        stage.name
    );
    assert_eq!(error.to_string(), expected);
}

/// Guarantee 3: confirms and returns come in different orders, and many at once; each event has its own answer.
pub(crate) async fn returned_events_in_the_middle_of_a_run_are_told_from_the_others(stage: &RabbitMqStage) {
    let sink = by_region(stage);
    let is_lost = |round: usize, number: usize| (number * 7 + round).is_multiple_of(3);

    for round in 0..5 {
        let region = |number| if is_lost(round, number) { "nowhere" } else { "here" };
        let events: Vec<Event> =
            (0..200).map(|number| order_in(&format!("{round}-{number:03}"), region(number))).collect();
        let answers = publish(&sink, &events).await;

        let arrived = stage.arrived().await;
        let arrived: Vec<&str> = arrived.iter().map(|message| message.event_id.as_str()).collect();
        for (number, answer) in answers.iter().enumerate() {
            let has_arrived = arrived.contains(&events[number].id());
            assert_eq!(has_arrived, !is_lost(round, number), "{round}-{number}");
            assert_eq!(answer.is_ok(), has_arrived, "{round}-{number}: {answer:?}");
        }
    }
}

/// T5: once somebody binds a queue, the same sink publishes the event.
pub(crate) async fn event_is_published_once_a_queue_is_bound(stage: &RabbitMqStage) {
    let sink = by_region(stage);
    let event = order_in("later", "later");
    assert!(publish(&sink, std::slice::from_ref(&event)).await[0].is_err());

    let (queue, key) = (stage.here(), format!("{}.later", stage.name));
    stage.does(json!([{"do": "bind", "queue": queue, "exchange": stage.name, "routing_key": key}])).await;

    assert_eq!(publish(&sink, &[event]).await, [Ok(())]);
    assert_eq!(stage.arrived().await[0].event_id, "later");
}

/// K2: without an exchange the routing key is the name of a queue, and one that is not there is named.
pub(crate) async fn default_exchange_leads_to_the_queue_of_that_name(stage: &RabbitMqStage) {
    let routing_key: Template = format!("{}.{{header.region}}", stage.name).parse().unwrap();
    let options = RabbitMqOptions::new(&stage.url, routing_key, messages()).unwrap();
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options));

    let answers = publish(&sink, &[order_in("found", "here"), order_in("lost", "nowhere")]).await;

    assert_eq!(answers[0], Ok(()));
    let error = answers[1].as_ref().unwrap_err().to_string();
    assert_eq!(
        error,
        format!("there is no queue `{}.nowhere`; declare it, or correct the routing key", stage.name)
    );
    assert_eq!(stage.arrived().await[0].event_id, "found");
}

/// L6, K2: what AMQP has a place for is there: it is persistent, and has the event's id, type and time.
pub(crate) async fn event_has_the_properties_of_amqp(stage: &RabbitMqStage) {
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(stage.binary()));
    let event = order("01J");

    assert_eq!(publish(&sink, std::slice::from_ref(&event)).await, [Ok(())]);

    let message = stage.drained(&stage.here()).await.remove(0);
    let seconds = event.occurred_at().as_micros() / 1_000_000;
    for (name, value) in [
        ("delivery_mode", json!(2)),
        ("message_id", json!("01J")),
        ("type", json!("OrderPlaced")),
        ("timestamp", json!(seconds)),
        ("content_type", json!("application/json")),
        ("routing_key", json!(stage.here())),
    ] {
        assert_eq!(message[name], value, "{name}");
    }
    assert_eq!(message["headers"].get("cloudEvents_datacontenttype"), None);
}

/// T5: a queue that is full and rejects says nothing about the event: no attempt is spent, and it is published when
/// there is room again.
pub(crate) async fn full_queue_is_told_from_a_refused_event(stage: &RabbitMqStage) {
    let full = format!("{}.full", stage.name);
    let arguments = json!({"x-max-length": 1, "x-overflow": "reject-publish"});
    stage.does(json!([{"do": "queue", "name": full, "arguments": arguments}])).await;
    let options = RabbitMqOptions::new(&stage.url, full.parse().unwrap(), messages()).unwrap();
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options));

    assert_eq!(publish(&sink, &[order("first")]).await, [Ok(())]);
    let refused = publish(&sink, &[order("second")]).await.remove(0).unwrap_err();
    stage.drained(&full).await;
    let accepted = publish(&sink, &[order("second")]).await.remove(0);

    assert!(refused.is_unknown(), "{refused:?}");
    assert!(refused.to_string().contains("one is full and set to `reject-publish`"), "{refused}");
    assert_eq!(accepted, Ok(()));
    stage.does(json!([{"do": "delete", "name": full}])).await;
}
