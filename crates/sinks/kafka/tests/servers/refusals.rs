//! Events that the broker refuses, or cannot place, while others of the run are on their way.

use pillarbox::{Event, SinkError};
use pillarbox_testkit::sinks::{Arrived, SinkStage, publish};

use crate::stage::{KafkaStage, sink};

fn order(id: &str, key: &str, size: usize) -> Event {
    Event::builder("OrderPlaced").id(id).key(key).bytes(vec![b'o'; size]).build().unwrap()
}

fn ids(arrived: &[Arrived]) -> Vec<&str> {
    arrived.iter().map(|message| message.event_id.as_str()).collect()
}

/// O1, guarantee 5: the broker itself refuses an event in the middle of a run. What follows it in its key is done, or was
/// not sent and comes again; nothing of it arrives twice or out of order, and other keys do not notice.
pub(crate) async fn order_is_kept_when_the_broker_refuses_an_event(stage: &KafkaStage) {
    let topic = stage.create("narrow", 1, &[("max.message.bytes", "300000")]).await;
    let sink = sink(stage.options_to(&topic));
    let mut run = vec![order("a-1", "a", 100), order("b-1", "b", 100), order("a-2", "a", 400_000)];
    run.extend([order("b-2", "b", 100), order("a-3", "a", 100), order("a-4", "a", 100)]);

    let answers = publish(&sink, &run).await;

    let published: Vec<bool> = answers[..4].iter().map(Result::is_ok).collect();
    assert_eq!(published, [true, true, false, true], "{answers:?}");
    let refused = answers[2].as_ref().unwrap_err();
    assert!(refused.is_rejected() && refused.is_final(), "{refused:?}");
    assert!(refused.to_string().contains(&format!("limit of topic `{topic}`")), "{refused}");
    let mut again = Vec::new();
    for (event, answer) in run[4..].iter().zip(&answers[4..]) {
        let Err(error) = answer else { continue };
        assert!(error.is_not_sent(), "the destination is well: {error:?}");
        again.push(event.clone());
    }
    // As the engine has it: the refused one is dead, what was not sent comes again.
    assert!(publish(&sink, &again).await.iter().all(Result::is_ok));
    let arrived = stage.arrived_in(&topic).await;
    let of_a: Vec<&str> = ids(&arrived).into_iter().filter(|id| id.starts_with('a')).collect();
    assert_eq!(of_a, ["a-1", "a-3", "a-4"]);
}

/// V2: a broker refuses batches, not events. A batch that is too large for the topic kills none of the small events in
/// it; the large one is found.
pub(crate) async fn refused_batch_kills_no_small_event(stage: &KafkaStage) {
    let topic = stage.create("narrow", 1, &[("max.message.bytes", "20000")]).await;
    let sink = sink(stage.options_to(&topic));
    let mut left: Vec<Event> = (0..100).map(|number| order(&format!("{number:03}"), "a", 1_000)).collect();
    left.insert(50, order("large", "b", 30_000));
    let mut dead = Vec::new();

    for _ in 0..3 {
        let answers = publish(&sink, &left).await;
        let told: Vec<(Event, Result<(), SinkError>)> = left.drain(..).zip(answers).collect();
        for (event, answer) in told {
            match answer {
                Ok(()) => {}
                Err(error) if error.is_final() => dead.push(event.id().to_owned()),
                Err(error) => {
                    assert!(error.is_unavailable() || error.is_not_sent(), "{error:?}");
                    left.push(event);
                }
            }
        }
    }

    assert_eq!((left.len(), dead), (0, vec!["large".to_owned()]));
    let sent: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    let arrived = stage.arrived_in(&topic).await;
    let mut arrived = ids(&arrived);
    // Several events of a key are in one run, so nothing is promised of their order: a batch behind the refused one may be
    // stored before what was in it.
    arrived.sort_unstable();
    assert_eq!(arrived, sent);
}

/// T5: a topic that all events go to and that is not there is a destination that is down, and no event is to blame.
pub(crate) async fn missing_topic_of_all_is_unavailable(stage: &KafkaStage) {
    let topic = format!("{}.missing", stage.topic);
    let sink = sink(stage.options_to(&topic).client_option("allow.auto.create.topics", "false"));

    let answers = publish(&sink, &[order("1", "a", 10)]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains(&format!("topic `{topic}` does not exist; create it")), "{error}");
    stage.create("missing", 1, &[]).await;
    assert_eq!(publish(&sink, &[order("1", "a", 10)]).await, [Ok(())], "it is found once it is there");
}

/// T5: a topic that one event asks for and that is not there is that event's own trouble.
pub(crate) async fn missing_topic_of_one_event_is_rejected(stage: &KafkaStage) {
    let template = format!("{}.{{key|elsewhere}}", stage.topic);
    let sink = sink(stage.options_to(&template).client_option("allow.auto.create.topics", "false"));
    let without_key = Event::builder("Ping").id("2").json_text("{}").build().unwrap();

    let answers = publish(&sink, &[order("1", "missing", 10), without_key]).await;

    let error = answers[0].as_ref().unwrap_err();
    assert!(error.is_rejected() && !error.is_final(), "{error:?}");
    assert_eq!(answers[1], Ok(()));
    assert_eq!(ids(&stage.arrived_elsewhere().await), ["2"]);
}

/// K1: what a compacted topic does not take is refused for good, at the latest when it comes alone, and takes no
/// neighbour along.
pub(crate) async fn event_without_a_key_is_refused_by_a_compacted_topic(stage: &KafkaStage) {
    let topic = stage.create("compacted", 1, &[("cleanup.policy", "compact")]).await;
    let sink = sink(stage.options_to(&topic));
    let without_key = Event::builder("Ping").id("2").json_text("{}").build().unwrap();

    let run = [order("1", "a", 10), without_key, order("3", "b", 10)];
    publish(&sink, &run).await;
    let answers = publish(&sink, &run).await;

    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && error.is_final(), "{error:?}");
    assert!(error.to_string().contains("compacted"), "{error}");
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
}

/// D8: a client that has room for a few events only takes a large run all the same, in order.
pub(crate) async fn full_client_loses_and_reorders_nothing(stage: &KafkaStage) {
    let topic = stage.create("full", 1, &[]).await;
    let sink = sink(stage.options_to(&topic).client_option("queue.buffering.max.messages", "7"));
    let run: Vec<Event> = (0..200).map(|number| order(&format!("{number:03}"), "a", 100)).collect();

    let answers = publish(&sink, &run).await;

    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let sent: Vec<&str> = run.iter().map(|event| event.id()).collect();
    assert_eq!(ids(&stage.arrived_in(&topic).await), sent);
}
