//! Faults that a real broker does not make at will, by the cluster that librdkafka plays.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_kafka::{KafkaOptions, KafkaSink};
use pillarbox_message::Messages;
use pillarbox_testkit::sinks::publish;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Response};

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster() -> (Cluster, Arc<dyn Sink>) {
    cluster_and(|options| options)
}

/// A cluster, and a sink to it with further options.
fn cluster_and(further: impl FnOnce(KafkaOptions) -> KafkaOptions) -> (Cluster, Arc<dyn Sink>) {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("orders", 1, 1).unwrap();
    let messages = Messages::from_source("/shop").unwrap();
    let options = KafkaOptions::new(cluster.bootstrap_servers(), "orders".parse().unwrap(), messages);
    let options = options.delivery_timeout(Duration::from_secs(5)).connect_timeout(Duration::from_secs(3));
    (cluster, Arc::new(KafkaSink::new(further(options)).unwrap()))
}

fn order(id: &str, key: &str) -> Event {
    order_of(id, key, 2)
}

fn order_of(id: &str, key: &str, size: usize) -> Event {
    Event::builder("OrderPlaced").id(id).key(key).bytes(vec![b'o'; size]).build().unwrap()
}

/// T5: after a fatal error of the idempotent producer nothing is known of the events under way, and the next run has a
/// producer that works.
#[tokio::test(flavor = "multi_thread")]
async fn client_that_has_given_up_is_made_anew() {
    let (cluster, sink) = cluster();
    assert_eq!(publish(&sink, &[order("1", "a")]).await, [Ok(())]);
    cluster
        .request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER]);

    let answers = publish(&sink, &[order("2", "a"), order("3", "b")]).await;

    for answer in answers {
        assert!(answer.as_ref().is_err_and(|error| error.is_unknown()), "{answer:?}");
    }
    assert_eq!(publish(&sink, &[order("2", "a"), order("3", "b")]).await, [Ok(()), Ok(())]);
}

/// V2: a batch that is refused for its size kills no event, and from then on events go alone.
#[tokio::test(flavor = "multi_thread")]
async fn refused_batch_is_sent_again_one_by_one() {
    let (cluster, sink) = cluster();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let run = [order("1", "a"), order("2", "b")];

    let answers = publish(&sink, &run).await;

    for answer in answers {
        assert!(answer.as_ref().is_err_and(|error| error.is_unavailable()), "{answer:?}");
    }
    cluster.request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let answers = publish(&sink, &run).await;
    assert!(answers[0].as_ref().is_err_and(|error| error.is_final()), "{answers:?}");
    assert_eq!(answers[1], Ok(()), "it was not in the batch that was refused");
}

/// T5: what the broker acknowledges is done, also behind a refused event of its key: the destination is well, and
/// nothing comes twice.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_event_behind_a_refused_one_is_done() {
    let (cluster, sink) = cluster_and(|options| options.batch_bytes(10_000));
    assert_eq!(publish(&sink, &[order("0", "a")]).await, [Ok(())]);
    // Both are on their way before the broker refuses the first.
    cluster.broker_round_trip_time(1, Duration::from_secs(1)).unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);

    let answers = publish(&sink, &[order_of("1", "a", 20_000), order("2", "a")]).await;

    assert!(answers[0].as_ref().is_err_and(|error| error.is_final()), "{answers:?}");
    assert_eq!(answers[1], Ok(()), "it was on its way when the first was refused");
}

/// O1: what is refused before it is sent keeps back what follows it in its key, and no other.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_behind_a_failure_of_its_key() {
    let (_cluster, sink) = cluster_and(|options| options.max_message_bytes(10_000));
    let run = [order("1", "a"), order_of("2", "a", 20_000), order("3", "b"), order("4", "a")];

    let answers = publish(&sink, &run).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert!(answers[1].as_ref().is_err_and(|error| error.is_final()), "{answers:?}");
    assert!(answers[3].as_ref().is_err_and(|error| error.is_not_sent()), "{answers:?}");
}

/// T5: what the client retries by itself is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn passing_faults_are_not_noticed() {
    let (cluster, sink) = cluster();
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[
            Response::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            Response::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            Response::RD_KAFKA_RESP_ERR__TRANSPORT,
        ],
    );

    assert_eq!(publish(&sink, &[order("1", "a"), order("2", "a")]).await, [Ok(()), Ok(())]);
}

/// T5: once an outage is known, runs are answered without anything being sent, and go on when it is over.
#[tokio::test(flavor = "multi_thread")]
async fn outage_that_is_known_makes_no_unknown_events() {
    let (cluster, sink) = cluster();
    assert_eq!(publish(&sink, &[order("1", "a")]).await, [Ok(())]);
    cluster.broker_down(1).unwrap();

    let first = publish(&sink, &[order("2", "a")]).await;
    assert!(first[0].is_err());
    let second = publish(&sink, &[order("2", "a")]).await;
    let error = second[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("no broker of `127.0.0.1:"), "{error}");

    cluster.broker_up(1).unwrap();
    while publish(&sink, &[order("2", "a")]).await[0].is_err() {}
}

/// A user without access to a topic that is for all events waits until he has it.
#[tokio::test(flavor = "multi_thread")]
async fn closed_topic_is_unavailable() {
    let (cluster, sink) = cluster();
    cluster.request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);

    let answers = publish(&sink, &[order("1", "a")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("allow WRITE and DESCRIBE"), "{error}");
}

/// T5: a topic that is missing is told soon, however long the client may try to have an event acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn missing_topic_is_told_before_the_time_of_its_events_is_over() {
    let (cluster, sink) = cluster_and(|options| options.delivery_timeout(Duration::from_secs(600)));
    cluster.topic_error("orders", Response::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();

    let answers = publish(&sink, &[order("1", "a")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().starts_with("topic `orders` does not exist; create it"), "{error}");
}

/// T5: that a topic is still missing is told by the cluster, without waiting for it to appear, and to every event of a
/// run; once it is there, events arrive.
#[tokio::test(flavor = "multi_thread")]
async fn topic_that_was_closed_is_asked_for() {
    let patient = |options: KafkaOptions| {
        let options = options.delivery_timeout(Duration::from_secs(600));
        options.client_option("topic.metadata.propagation.max.ms", "600000")
    };
    let (cluster, sink) = cluster_and(patient);
    cluster.request_errors(RDKafkaApiKey::Produce, &[Response::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    assert!(publish(&sink, &[order("1", "a")]).await[0].is_err());
    let run = [order("1", "a"), order("2", "b")];

    cluster.topic_error("orders", Response::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    for answer in publish(&sink, &run).await {
        let error = answer.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
        assert!(error.to_string().starts_with("topic `orders` does not exist; create it"), "{error}");
    }
    cluster.topic_error("orders", Response::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();

    assert_eq!(publish(&sink, &run).await, [Ok(()), Ok(())]);
}
