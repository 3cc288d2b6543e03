//! Connections that are refused, fall silent, or are lost.

use std::time::Duration;

use pillarbox::{Delivery, Event, Run, Source, Timestamp};
use pillarbox_redis::RedisSink;
use pillarbox_testkit::proxy::{Proxy, Traffic};
use pillarbox_testkit::sinks::{SinkStage, publish};

use crate::stage::{RedisStage, command, options, order_placed, sink};

pub(crate) async fn wrong_password_is_unavailable_and_not_shown(stage: &RedisStage) {
    let sink = sink(stage.options("orders").user("default", "s3cret"));

    let answers = publish(&sink, &[order_placed("order-17")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("does not accept user and password"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

/// A relay starts while its server is down.
pub(crate) async fn absent_server_is_a_warning(_: &RedisStage) {
    let findings = RedisSink::new(options("redis://127.0.0.1:1/0", "orders")).check().await;

    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(!findings[0].is_refusal());
    assert!(findings[0].text.starts_with("Redis at 127.0.0.1:1 cannot be used"), "{}", findings[0]);
}

/// T5: a server that neither answers nor hangs up is noticed, and the next run goes another way.
pub(crate) async fn silent_server_is_unknown_and_given_up(stage: &RedisStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let sink = sink(stage.through(proxy.address(), "orders").answer_timeout(Duration::from_secs(3)));
    assert_eq!(publish(&sink, &[order_placed("before")]).await, [Ok(())]);

    proxy.set(Traffic::LosesAnswers);
    let lost = publish(&sink, &[order_placed("lost")]).await;
    proxy.set(Traffic::Flows);
    // The line for answers on the old connection is one short for ever: on it this would never be answered.
    let after = publish(&sink, &[order_placed("after")]).await;

    let error = lost[0].as_ref().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(error.to_string().contains("no answer in time"), "{error}");
    assert_eq!(after, [Ok(())]);
    assert_eq!(stage.event_ids("orders").await, ["before", "lost", "after"]);
}

/// Guarantee 3: whoever waits for an answer on a connection that is lost is told, long before the time is over.
pub(crate) async fn lost_connection_ends_all_waiting_at_once(stage: &RedisStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let sink = sink(stage.through(proxy.address(), "orders").answer_timeout(Duration::from_secs(3_600)));
    assert_eq!(publish(&sink, &[order_placed("before")]).await, [Ok(())]);
    proxy.set(Traffic::LosesAnswers);

    let events = ["a", "b", "c"].map(order_placed);
    let cut = async {
        let counted = async { while stage.event_ids("orders").await.len() < 4 {} };
        tokio::time::timeout(Duration::from_secs(60), counted).await.unwrap();
        proxy.set(Traffic::Refused);
    };
    let (answers, ()) = tokio::join!(publish(&sink, &events), cut);

    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
    }
}

/// D8: what comes back for a run that was dropped is not taken for the answer to the next one.
pub(crate) async fn answer_to_a_dropped_run_is_taken_for_no_other(stage: &RedisStage) {
    command::<()>(&stage.url, &format!("SET {} text", stage.key("bad"))).await;
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let sink = sink(stage.through(proxy.address(), "{aggregate_id}"));
    assert_eq!(publish(&sink, &[order_placed("first")]).await, [Ok(())]);

    for round in 0..5 {
        proxy.set(Traffic::Stands);
        let refused: Vec<Event> = (0..3).map(|_| order_placed("bad")).collect();
        let deliveries =
            refused.into_iter().map(|event| Delivery::new(event, 1, Timestamp::from_micros(0), Source::Cold));
        let (run, _answers) = Run::new(deliveries.collect());
        let dropped = tokio::time::timeout(Duration::from_millis(50), sink.publish(&run)).await;
        assert!(dropped.is_err(), "nothing is answered while all stands");
        proxy.set(Traffic::Flows);

        let good = format!("good-{round}");
        let answers = publish(&sink, &[order_placed(&good), order_placed("bad"), order_placed("good")]).await;

        assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
        assert!(answers[1].as_ref().unwrap_err().is_rejected(), "{answers:?}");
        assert_eq!(stage.event_ids(&good).await, [good]);
    }
}
