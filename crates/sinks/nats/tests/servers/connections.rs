//! Connections that are refused, fall silent, or are lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pillarbox::{Event, Sink, SinkError};
use pillarbox_nats::NatsOptions;
use pillarbox_testkit::proxy::{Proxy, Traffic};
use pillarbox_testkit::sinks::{SinkStage, publish};

use crate::stage::{NatsStage, client, messages, order_placed, sink};

/// Options for a sink to the stage's stream by way of a proxy.
fn through(stage: &NatsStage, proxy: &Proxy) -> NatsOptions {
    let (user, _) = stage.url.rsplit_once('@').unwrap();
    let subject = format!("{}.orders", stage.name).parse().unwrap();
    let options = NatsOptions::new(&format!("{user}@{}", proxy.address()), subject, messages()).unwrap();
    options.new_stream(stage.stream())
}

pub(crate) async fn wrong_password_is_unavailable_and_not_shown(stage: &NatsStage) {
    let sink = sink(stage.options("orders").user("pillarbox", "s3cret"));

    let answers = publish(&sink, &[order_placed("order-17")]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().ends_with("does not accept the credentials"), "{error}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

/// T5, guarantee 3: a server that neither answers nor hangs up is noticed, and what it has stored is not stored again.
pub(crate) async fn silent_server_is_unknown(stage: &NatsStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let sink = sink(through(stage, &proxy).ack_timeout(Duration::from_millis(500)));
    assert_eq!(publish_patiently(&sink, "before").await, Ok(()));

    proxy.set(Traffic::LosesAnswers);
    let lost = publish(&sink, &[order_placed("lost")]).await;
    proxy.set(Traffic::Flows);
    let again = publish_patiently(&sink, "lost").await;

    let error = lost[0].as_ref().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(error.to_string().contains("did not acknowledge the event in time"), "{error}");
    assert_eq!(again, Ok(()));
    assert_eq!(stage.event_ids().await, ["before", "lost"]);
}

/// Publishes an event, again and again while no answer comes: the time for answers is short here, and the machine busy.
async fn publish_patiently(sink: &Arc<dyn Sink>, id: &str) -> Result<(), SinkError> {
    let mut answer = Ok(());
    for _ in 0..20 {
        answer = publish(sink, &[order_placed(id)]).await.remove(0);
        if answer.is_ok() {
            break;
        }
    }
    answer
}

/// Guarantee 3: whoever waits for an acknowledgement on a connection that is lost is told, long before the time is over.
pub(crate) async fn lost_connection_ends_all_waiting_at_once(stage: &NatsStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let sink = sink(through(stage, &proxy).ack_timeout(Duration::from_secs(3_600)));
    assert_eq!(publish(&sink, &[order_placed("before")]).await, [Ok(())]);
    proxy.set(Traffic::LosesAnswers);

    let events = ["a", "b", "c"].map(order_placed);
    let cut = async {
        let counted = async { while stage.event_ids().await.len() < 4 {} };
        tokio::time::timeout(Duration::from_secs(60), counted).await.unwrap();
        proxy.set(Traffic::Refused);
    };
    let (answers, ()) = tokio::join!(publish(&sink, &events), cut);

    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_unknown(), "{error:?}");
        assert!(error.to_string().contains("connection to NATS was lost"), "{error}");
    }
}

/// What was called unknown does not come out later, when the server is back: it is forgotten with its connection.
pub(crate) async fn what_was_not_sent_is_not_sent_later(stage: &NatsStage) {
    let proxy = Proxy::to(stage.server()).await.unwrap();
    let options = through(stage, &proxy).in_flight(1_000, 1 << 30).ack_timeout(Duration::from_secs(5));
    let sink = sink(options);
    assert_eq!(publish(&sink, &[order_placed("before")]).await, [Ok(())]);

    // More than all buffers on the way can hold, so that some of it is still with the client.
    proxy.set(Traffic::Stands);
    let scan = |number| Event::builder("Scan").id(format!("scan-{number}")).bytes(vec![0; 500_000]).build();
    let scans: Vec<Event> = (0..60).map(|number| scan(number).unwrap()).collect();
    let answers = publish(&sink, &scans).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(|error| !error.is_rejected())));
    proxy.set(Traffic::Refused);
    proxy.set(Traffic::Flows);
    assert_eq!(publish(&sink, &[order_placed("after")]).await, [Ok(())]);

    assert_eq!(stage.event_ids().await, ["before", "after"]);
}

/// Guarantee 3: an answer that is not the stream's is no acknowledgement.
pub(crate) async fn plain_responder_is_no_acknowledgement(stage: &NatsStage) {
    let client = client(&stage.url).await;
    let mut requests = client.subscribe(format!("{}.orders", stage.name)).await.unwrap();
    client.flush().await.unwrap();
    let responder = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            client.publish(request.reply.unwrap(), "thank you".into()).await.unwrap();
        }
    });

    let answers = publish(&sink(stage.options("orders")), &[order_placed("order-17")]).await;

    responder.abort();
    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unknown(), "{error:?}");
    assert!(error.to_string().contains("something other than JetStream"), "{error}");
}
