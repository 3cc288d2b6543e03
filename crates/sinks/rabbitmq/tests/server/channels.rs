//! What closes a channel, or the connection, and whom that concerns.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Sink, Template};
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::proxy::{Proxy, Traffic};
use pillarbox_testkit::sinks::{SinkStage, publish};
use serde_json::json;

use crate::routing::order;
use crate::stage::RabbitMqStage;

/// A sink that fills its exchange from the event.
fn by_exchange(stage: &RabbitMqStage) -> Arc<dyn Sink> {
    let exchange: Template = "{header.exchange}".parse().unwrap();
    Arc::new(RabbitMqSink::new(stage.binary().exchange(exchange)))
}

fn order_to(id: &str, exchange: &str, key: &str) -> Event {
    let event = Event::builder("OrderPlaced").id(id).key(key).header("exchange", exchange);
    event.json_text("{}").build().unwrap()
}

/// Guarantee 7: an event whose exchange is not there is rejected, and does not close the channel of the others.
pub(crate) async fn missing_exchange_disturbs_no_other_event(stage: &RabbitMqStage) {
    let sink = by_exchange(stage);
    let missing = format!("{}-missing", stage.name);
    let events = [
        order_to("before", &stage.name, "a"),
        order_to("lost", &missing, "b"),
        order_to("after", &stage.name, "c"),
    ];

    for _ in 0..2 {
        let answers = publish(&sink, &events).await;

        assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
        let error = answers[1].as_ref().unwrap_err();
        assert!(error.is_rejected() && !error.is_final(), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("exchange `{missing}` cannot be used: NOT_FOUND")), "{text}");
        assert!(text.ends_with("declare it, durable, or correct its name"), "{text}");
    }
    assert_eq!(stage.arrived().await.len(), 4);
}

/// T5: where all events go to one exchange, its absence says nothing about them; they wait until it is declared.
pub(crate) async fn missing_exchange_of_all_events_spends_no_attempt(stage: &RabbitMqStage) {
    let missing = format!("{}-missing", stage.name);
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(stage.binary().exchange(missing.parse().unwrap())));

    let answers = publish(&sink, &[order("first"), order("second")]).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().starts_with(&format!("exchange `{missing}` cannot be used")), "{error}");
    }
    let (here, key) = (stage.here(), stage.here());
    stage
        .does(json!([
            {"do": "exchange", "name": missing, "type": "direct"},
            {"do": "bind", "queue": here, "exchange": missing, "routing_key": key},
        ]))
        .await;

    assert_eq!(publish(&sink, &[order("third")]).await, [Ok(())]);
    stage.does(json!([{"do": "delete-exchange", "name": missing}])).await;
}

/// Guarantee 3: when the exchange is deleted after it was found, nothing is acknowledged, and no attempt is spent.
pub(crate) async fn exchange_that_vanishes_loses_nothing(stage: &RabbitMqStage) {
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(stage.binary()));
    assert_eq!(publish(&sink, &[order("before")]).await, [Ok(())]);

    stage.does(json!([{"do": "delete-exchange", "name": stage.name}])).await;
    let many = publish(&sink, &[order("first"), order("second")]).await;
    let alone = publish(&sink, &[order("first")]).await;

    for error in many.into_iter().chain(alone).map(Result::unwrap_err) {
        assert!(error.is_unknown() || error.is_unavailable(), "{error:?}");
        assert!(error.to_string().contains("NOT_FOUND"), "{error}");
    }
}

/// O2: what follows a refused event in its key does not overtake it, and other keys go on.
pub(crate) async fn event_behind_a_refused_one_of_its_key_is_not_sent(stage: &RabbitMqStage) {
    let sink = by_exchange(stage);
    let events = [
        order_to("refused", &format!("{}-missing", stage.name), "order-17"),
        order_to("behind", &stage.name, "order-17"),
        order_to("other", &stage.name, "order-18"),
    ];

    let answers = publish(&sink, &events).await;

    assert!(answers[0].as_ref().unwrap_err().is_rejected());
    assert!(answers[1].as_ref().unwrap_err().is_not_sent(), "{:?}", answers[1]);
    assert_eq!(answers[2], Ok(()));
    let arrived = stage.arrived().await;
    assert_eq!(arrived.iter().map(|message| message.event_id.as_str()).collect::<Vec<_>>(), ["other"]);
}

/// Guarantee 7: when the server closes the channel over one event, the others of the run are not blamed: none is
/// acknowledged and none rejected; the one that comes alone is.
pub(crate) async fn event_that_closes_the_channel_is_rejected_when_it_comes_alone(stage: &RabbitMqStage) {
    let sink = by_exchange(stage);
    // Nobody but RabbitMQ itself may publish here, and it exists: only the attempt tells.
    let closed = "amq.rabbitmq.trace";
    let events = [order_to("innocent", &stage.name, "a"), order_to("guilty", closed, "b")];

    let together = publish(&sink, &events).await;
    let guilty = publish(&sink, &events[1..]).await.remove(0).unwrap_err();
    let innocent = publish(&sink, &events[..1]).await.remove(0);

    assert!(together.iter().flatten().count() <= 1, "{together:?}");
    for error in together.into_iter().filter_map(Result::err) {
        assert!(error.is_unknown(), "{error:?}");
    }
    assert!(guilty.is_rejected() && !guilty.is_final(), "{guilty:?}");
    assert!(guilty.to_string().contains("ACCESS_REFUSED"), "{guilty}");
    assert_eq!(innocent, Ok(()));
}

/// V6: headers that do not fit into a frame would end the connection of all; they are refused before, with the limit.
pub(crate) async fn headers_beyond_the_frame_are_rejected_for_good(stage: &RabbitMqStage) {
    let url = format!("{}?frame_max=8192", stage.url);
    let options =
        RabbitMqOptions::new(&url, stage.here().parse().unwrap(), Messages::from_source("/shop").unwrap());
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options.unwrap()));
    let with_headers = |id: &str, count: usize| {
        let event = Event::builder("OrderPlaced").id(id).json_text("{}");
        (0..count)
            .fold(event, |event, number| event.header(format!("h{number}"), "h".repeat(4_000)))
            .build()
            .unwrap()
    };
    let events = [with_headers("small", 1), with_headers("large", 3), with_headers("after", 1)];

    let answers = publish(&sink, &events).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && error.is_final(), "{error:?}");
    assert!(error.to_string().contains("the limit of the connection is a frame of 8192"), "{error}");
}

/// T5: workers that wait for the same silent server wait once, not one after the other.
pub(crate) async fn silent_server_costs_one_time_limit_for_all(stage: &RabbitMqStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    proxy.set(Traffic::Stands);
    let url = stage.url.replace(&stage.server().to_string(), &proxy.address().to_string());
    let options =
        RabbitMqOptions::new(&url, stage.here().parse().unwrap(), Messages::from_source("/shop").unwrap());
    let options = options.unwrap().connect_timeout(Duration::from_millis(700));
    let sink: Arc<dyn Sink> = Arc::new(RabbitMqSink::new(options));

    let runs: Vec<_> = (0..20)
        .map(|number| {
            let sink = sink.clone();
            tokio::spawn(async move { publish(&sink, &[order(format!("{number}"))]).await })
        })
        .collect();
    // Ten times the limit is patience; twenty of them in a row would take longer.
    let all = async {
        for run in runs {
            let error = run.await.unwrap().remove(0).unwrap_err();
            assert!(error.is_unavailable(), "{error:?}");
            assert!(error.to_string().contains("did not answer within 700ms"), "{error}");
        }
    };
    tokio::time::timeout(Duration::from_secs(7), all).await.expect("the workers waited one after the other");
    proxy.set(Traffic::Flows);

    assert_eq!(publish(&sink, &[order("after")]).await, [Ok(())]);
}

/// D8: channels that were lost leave no trace: the client refuses numbers of channels that the server has closed.
pub(crate) async fn many_lost_channels_leave_the_sink_usable(stage: &RabbitMqStage) {
    let sink = by_exchange(stage);
    let missing = format!("{}-missing", stage.name);

    // More than a connection has numbers for.
    for number in 0..2_100 {
        let events = [order_to(&format!("{number}"), &missing, "a")];
        assert!(publish(&sink, &events).await[0].as_ref().unwrap_err().is_rejected());
    }

    assert_eq!(publish(&sink, &[order_to("after", &stage.name, "a")]).await, [Ok(())]);
}
