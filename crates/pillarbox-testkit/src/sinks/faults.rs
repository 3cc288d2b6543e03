//! Servers that are away, fall silent, or cut the connection.

use std::net::SocketAddr;
use std::time::Duration;

use super::{
    SinkStage, assert_all_acknowledged, binary, ids, orders, publish, publish_to, publish_until_done, sorted,
};
use crate::port;
use crate::proxy::{Proxy, Traffic};

/// How long a sink may take to notice that nobody answers, in these cases.
const SILENCE: Duration = Duration::from_secs(4);

/// T5: a server that is not there says nothing about the events. None has arrived, so none is lost or unknown.
pub async fn absent_server_is_unavailable(stage: &impl SinkStage) {
    let nobody = SocketAddr::from(([127, 0, 0, 1], port::free()));
    let sink = stage.sink(binary(), Some(nobody)).await;

    let answers = publish_to(&sink, &orders("absent", 3), Vec::new(), 2 * super::PATIENCE).await;

    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_unavailable(), "{error:?}");
    }
}

/// Guarantee 3: an answer that is lost is not success; published again, every event is there at least once.
pub async fn lost_answers_are_not_success(stage: &impl SinkStage) {
    let proxy = Proxy::between(stage.proxied(), stage.server()).await.unwrap();
    let sink = stage.sink(binary(), Some(proxy.address())).await;
    assert_all_acknowledged(&publish(&sink, &orders("first", 10)).await);
    let events = orders("lost", 20);

    proxy.set(Traffic::LosesAnswers);
    let answers = publish_to(&sink, &events, Vec::new(), SILENCE).await;
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(!error.is_rejected(), "the events are not to blame: {error:?}");
    }
    // The way is made anew, so that no answer of before is taken for one of later.
    proxy.set(Traffic::Refused);
    proxy.set(Traffic::Flows);
    publish_until_done(&sink, &events).await;

    let arrived = stage.arrived().await;
    let mut lost: Vec<&str> = ids(&arrived).into_iter().filter(|id| id.starts_with("lost")).collect();
    lost = sorted(lost);
    lost.dedup();
    let sent: Vec<&str> = events.iter().map(|event| event.id()).collect();
    assert_eq!(lost, sent);
}

/// T5: a connection that was cut is made anew, by the sink itself.
pub async fn cut_connection_is_made_anew(stage: &impl SinkStage) {
    let proxy = Proxy::between(stage.proxied(), stage.server()).await.unwrap();
    let sink = stage.sink(binary(), Some(proxy.address())).await;
    assert_all_acknowledged(&publish(&sink, &orders("before", 10)).await);

    proxy.set(Traffic::Refused);
    let answers = publish_to(&sink, &orders("cut", 10), Vec::new(), SILENCE).await;
    assert!(answers.iter().all(Result::is_err), "nothing can have been acknowledged");
    proxy.set(Traffic::Flows);
    let events = orders("after", 10);
    publish_until_done(&sink, &events).await;

    let arrived = stage.arrived().await;
    let mut after: Vec<&str> = ids(&arrived).into_iter().filter(|id| id.starts_with("after")).collect();
    after = sorted(after);
    after.dedup();
    assert_eq!(after.len(), events.len());
}
