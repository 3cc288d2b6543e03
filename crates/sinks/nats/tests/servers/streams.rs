//! Streams that are missing, full, or made by the sink.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use pillarbox::Event;
use pillarbox_nats::NewStream;
use pillarbox_testkit::sinks::publish;

use crate::stage::{NatsStage, order_placed, sink};

/// K2: an event that comes again is recognised by the server, and acknowledged.
pub(crate) async fn repeated_event_is_stored_once(stage: &NatsStage) {
    let sink = sink(stage.options("orders").new_stream(stage.stream()));
    let events = [order_placed("order-17"), order_placed("order-18")];

    let first = publish(&sink, &events).await;
    let again = publish(&sink, &events).await;

    assert_eq!((first, again), (vec![Ok(()), Ok(())], vec![Ok(()), Ok(())]));
    assert_eq!(stage.event_ids().await, ["order-17", "order-18"]);
}

/// K2, guarantee 3: an event that goes to two subjects of one stream is stored in both.
pub(crate) async fn second_subject_of_a_stream_gets_the_event_too(stage: &NatsStage) {
    stage.make_stream(Config { subjects: vec![format!("{}.>", stage.name)], ..Default::default() }).await;

    for subject in ["orders", "audit"] {
        let answers = publish(&sink(stage.options(subject)), &[order_placed("order-17")]).await;
        assert_eq!(answers, [Ok(())], "{subject}");
    }

    assert_eq!(stage.event_ids().await, ["order-17", "order-17"]);
}

/// T5: a stream that its operator has not made yet spends no attempts.
pub(crate) async fn subject_that_no_stream_takes_is_unavailable(stage: &NatsStage) {
    for subject in ["orders", "{event_type}"] {
        let answers = publish(&sink(stage.options(subject)), &[order_placed("order-17")]).await;

        let error = answers[0].as_ref().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().starts_with("no stream takes `"), "{error}");
    }
}

/// Guarantee 7: where other events of the same template have a stream, the one that has none is refused alone.
pub(crate) async fn odd_subject_is_rejected_alone(stage: &NatsStage) {
    stage.make_stream(Config { subjects: vec![format!("{}.acme", stage.name)], ..Default::default() }).await;
    let sink = sink(stage.options("{tenant_id}"));
    let events = ["acme", "globex"]
        .map(|tenant| Event::builder("OrderPlaced").tenant(tenant).json_text("{}").build().unwrap());

    let answers = publish(&sink, &events).await;

    assert_eq!(answers[0], Ok(()));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
    assert!(error.to_string().contains(".globex`, though there is one for others of `"), "{error}");
}

/// T5: a full stream says nothing about the event.
pub(crate) async fn full_stream_is_unavailable(stage: &NatsStage) {
    stage.make_stream(Config { max_messages: 2, discard: DiscardPolicy::New, ..Default::default() }).await;
    let events = ["a", "b", "c", "d"].map(order_placed);

    let answers = publish(&sink(stage.options("orders")), &events).await;

    assert_eq!(answers[..2], [Ok(()), Ok(())]);
    for answer in &answers[2..] {
        let error = answer.as_ref().unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().contains("maximum messages exceeded"), "{error}");
    }
}

/// Guarantee 7: a full subject is a matter of its events.
pub(crate) async fn full_subject_is_rejected(stage: &NatsStage) {
    stage
        .make_stream(Config {
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            discard_new_per_subject: true,
            ..Default::default()
        })
        .await;
    let sink = sink(stage.options("{aggregate_id}"));
    let order = |id: &str, order: &str| {
        Event::builder("OrderPlaced").id(id).aggregate("Order", order).json_text("{}").build().unwrap()
    };
    let events = [order("a", "order-17"), order("b", "order-17"), order("c", "order-18")];

    let answers = publish(&sink, &events).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
}

/// V2: the stream's own limit is told by the server.
pub(crate) async fn event_over_the_limit_of_the_stream_is_rejected_for_good(stage: &NatsStage) {
    stage.make_stream(Config { max_message_size: 2_000, ..Default::default() }).await;
    let large = Event::builder("Scan").id("large").bytes(vec![0; 3_000]).build().unwrap();

    let events = [order_placed("before"), large, order_placed("after")];
    let answers = publish(&sink(stage.options("orders")), &events).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && error.is_final(), "{error:?}");
    assert!(error.to_string().contains("limit, `max_msg_size`"), "{error}");
}

/// A stream that the sink makes is made again when somebody has deleted it.
pub(crate) async fn deleted_stream_is_made_anew(stage: &NatsStage) {
    let sink = sink(stage.options("orders").new_stream(stage.stream()));
    assert_eq!(publish(&sink, &[order_placed("before")]).await, [Ok(())]);
    stage.jetstream().await.delete_stream(&stage.name).await.unwrap();

    let missing = publish(&sink, &[order_placed("missing")]).await;
    let after = publish(&sink, &[order_placed("after")]).await;

    assert!(missing[0].as_ref().unwrap_err().is_unavailable(), "{missing:?}");
    assert_eq!(after, [Ok(())]);
    assert_eq!(stage.event_ids().await, ["after"]);
}

/// What an operator has set stays.
pub(crate) async fn existing_stream_stays_as_it_is(stage: &NatsStage) {
    stage.make_stream(Config { max_messages: 77, ..Default::default() }).await;
    let other = NewStream::new(&stage.name, ["nobody"]).max_age(std::time::Duration::from_secs(3_600));
    let sink = sink(stage.options("orders").new_stream(other));

    assert_eq!(publish(&sink, &[order_placed("order-17")]).await, [Ok(())]);

    let stream = stage.jetstream().await.get_stream(&stage.name).await.unwrap();
    let config = &stream.cached_info().config;
    assert_eq!((config.max_messages, config.max_age.as_secs()), (77, 0));
}

/// O1: what follows a failed event of its key is left for later; others are not.
pub(crate) async fn follower_of_a_failed_event_is_not_sent(stage: &NatsStage) {
    stage.make_stream(Config { max_message_size: 2_000, ..Default::default() }).await;
    let sink = sink(stage.options("{tenant_id|none}").in_flight(1, 1));
    let of_key = |id: &str, key: &str| Event::builder("OrderPlaced").id(id).key(key);
    let events = [
        of_key("refused-here", "order-1").tenant("*").json_text("{}"),
        of_key("refused-there", "order-2").bytes(vec![0; 3_000]),
        of_key("follows-here", "order-1").json_text("{}"),
        of_key("follows-there", "order-2").json_text("{}"),
        of_key("other", "order-3").json_text("{}"),
    ];

    let answers = publish(&sink, &events.map(|event| event.build().unwrap())).await;

    for index in [0, 1] {
        assert!(answers[index].as_ref().is_err_and(|error| error.is_rejected()), "{answers:?}");
        assert!(answers[index + 2].as_ref().is_err_and(|error| error.is_not_sent()), "{answers:?}");
    }
    assert_eq!(answers[4], Ok(()));
    assert_eq!(stage.event_ids().await, ["other"]);
}
