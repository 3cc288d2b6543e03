//! Orders that Kafka does not take, and how they are sent after all.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::stage::{ShopStage, event_that_is, order_of, place};

/// K1, K4, T4: while its topic is not there an event is refused six times, with all five delays between them, and is
/// then FAILED; FAILED becomes NEW by hand, and is sent.
pub(crate) async fn event_without_a_topic_fails_after_five_retries_and_is_replayed(stage: &ShopStage) {
    let service = stage.start();
    let (order_id, event_id) = place(&service, &order_of("ada"));

    let event = event_that_is(&service, &event_id, "FAILED");
    assert_eq!((&event["attempts"], &event["sentAt"]), (&json!(6), &Value::Null));
    let error = event["errorMessage"].as_str().unwrap();
    assert!(error.contains(&format!("topic `{}` does not exist; create it", stage.topic())), "{error}");
    let failed = service.get("/admin/outbox/failed").body;
    assert_eq!((&failed["events"][0]["eventId"], &failed["nextAfter"]), (&json!(event_id), &Value::Null));
    assert_eq!(service.get("/admin/outbox").body["failed"], 1);

    stage.create_topic(&[]).await;
    let replay = format!("/admin/outbox/{event_id}/replay");
    let replayed = service.post(&replay, "");
    assert_eq!((replayed.status, &replayed.body["attempts"]), (200, &json!(0)), "{replayed:?}");
    event_that_is(&service, &event_id, "SENT");
    let arrived = stage.arrived().await;
    let [message] = arrived.as_slice() else { panic!("{arrived:?}") };
    assert_eq!((message.key.as_deref(), &message.event_id), (Some(order_id.as_str()), &event_id));

    let again = service.post(&replay, "");
    assert_eq!(
        (again.status, &again.body["error"]),
        (409, &json!(format!("the event `{event_id}` is SENT, not FAILED")))
    );
    assert_eq!(service.post("/admin/outbox/nobody/replay", "").status, 404);
    let log = service.stop(Signal::TERM).log;
    assert!(log.contains("ERROR") && log.contains("event is dead") && log.contains(&event_id), "{log}");
}

/// K1: what the topic never takes is not tried six times; it is FAILED at once, and the error names the limit.
pub(crate) async fn event_that_the_broker_never_takes_fails_at_once(stage: &ShopStage) {
    stage.create_topic(&[("max.message.bytes", "1500")]).await;
    let service = stage.start();
    let cup = r#"{"sku":"cup","quantity":1,"unitCents":1}"#;
    let large = format!(r#"{{"customer":"ada","items":[{}]}}"#, [cup; 100].join(","));

    let (_, refused) = place(&service, &large);
    let (_, small) = place(&service, &order_of("ada"));

    let event = event_that_is(&service, &refused, "FAILED");
    let error = event["errorMessage"].as_str().unwrap();
    assert!(error.contains(&format!("limit of topic `{}`", stage.topic())), "{error}");
    assert_eq!(event["attempts"], 1, "{error}");
    event_that_is(&service, &small, "SENT");

    stage.alter_topic("max.message.bytes", "1000000").await;
    assert_eq!(service.post(&format!("/admin/outbox/{refused}/replay"), "").status, 200);
    event_that_is(&service, &refused, "SENT");
}
