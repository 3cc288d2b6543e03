//! Orders that go well, and what is left of them.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::process::{eventually, follow};
use crate::stage::{ShopStage, event_that_is, order_of, place};

const README: &str = include_str!("../../README.md");

/// Q1, K1: an order arrives on the topic, keyed by its id, with the event id in the headers and all that there is to
/// say in the payload; then its event is SENT.
pub(crate) async fn order_arrives_on_the_topic(stage: &ShopStage) {
    stage.create_topic(&[]).await;
    let service = stage.start();

    let (order_id, event_id) = place(&service, &order_of("ada"));

    let event = event_that_is(&service, &event_id, "SENT");
    assert_eq!((&event["attempts"], &event["errorMessage"]), (&json!(0), &Value::Null));
    assert!(event["sentAt"].is_string(), "{event}");
    let arrived = stage.arrived().await;
    let [message] = arrived.as_slice() else { panic!("{arrived:?}") };
    assert_eq!((message.key.as_deref(), &message.event_id), (Some(order_id.as_str()), &event_id));
    assert_eq!(message.attributes["type"], "OrderCreated");
    assert_eq!(message.attributes["source"], "/shop/orders");
    let mut payload: Value = serde_json::from_slice(&message.body).unwrap();
    assert!(payload["createdAt"].take().as_str().is_some_and(|at| at.ends_with('Z')));
    let items = json!([{ "sku": "teapot", "quantity": 2, "unitCents": 1_250 }]);
    let whole = json!({ "eventId": event_id, "orderId": order_id, "customer": "ada", "items": items,
        "totalCents": 2_500, "createdAt": null });
    assert_eq!(payload, whole);
    let order = service.get(&format!("/orders/{order_id}")).body;
    assert_eq!(
        (&order["customer"], &order["items"], &order["totalCents"]),
        (&json!("ada"), &items, &json!(2_500))
    );
    assert_eq!(
        (&order["events"][0]["eventId"], &order["events"][0]["status"]),
        (&json!(event_id), &json!("SENT"))
    );
}

/// Q1, W1: an order whose transaction is rolled back at its very end sends nothing, and leaves no trace.
pub(crate) async fn rolled_back_order_sends_nothing(stage: &ShopStage) {
    stage.create_topic(&[]).await;
    let service = stage.start();
    stage
        .execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE 'no orders of mallory'; END $$; \
             CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW WHEN (NEW.customer = 'mallory') EXECUTE FUNCTION refuse()",
        )
        .await;

    let refused = service.post("/orders", &order_of("mallory"));
    let (_, event_id) = place(&service, &order_of("ada"));

    assert_eq!(refused.status, 500, "{refused:?}");
    event_that_is(&service, &event_id, "SENT");
    let arrived: Vec<String> = stage.arrived().await.into_iter().map(|message| message.event_id).collect();
    assert_eq!(arrived, [event_id]);
    assert_eq!(stage.number("SELECT count(*) FROM outbox_event").await, 1);
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 1);
    let log = service.stop(Signal::TERM).log;
    assert!(log.contains("no orders of mallory"), "{log}");
}

/// Q1: what makes no sense is refused with the name of the field, and writes nothing.
pub(crate) async fn bad_input_is_refused_by_field(stage: &ShopStage) {
    let service = stage.start();
    let items = |items: &str| format!(r#"{{"customer":"ada","items":{items}}}"#);

    for (body, status, expected) in [
        (order_of(""), 422, "`customer` has 0 characters, and must have 1 to 100"),
        (order_of(r"a\u0000da"), 422, "`customer` has a control character"),
        (items("[]"), 422, "`items` has 0 items"),
        (
            items(r#"[{"sku":"cup","quantity":0,"unitCents":1}]"#),
            422,
            "`items[0].quantity` is 0, and must be 1 to 1000",
        ),
        (items(r#"[{"sku":"cup","quantity":1,"unitCents":-1}]"#), 422, "`items[0].unitCents` is -1"),
        (items(r#"[{"sku":"cup","quantity":"1","unitCents":1}]"#), 422, "items[0].quantity: invalid type"),
        (items(r#"[{"sku":"cup","quantity":1}]"#), 422, "missing field `unitCents`"),
        (r#"{"customer":"ada"}"#.to_owned(), 422, "missing field `items`"),
        ("{".to_owned(), 400, "JSON"),
    ] {
        let refused = service.post("/orders", &body);

        assert_eq!(refused.status, status, "{body}: {refused:?}");
        let error = refused.body["error"].as_str().unwrap();
        assert!(error.contains(expected), "{expected} in {error}");
    }
    let missing = service.get("/orders/order-17");
    assert_eq!((missing.status, &missing.body["error"]), (404, &json!("there is no order `order-17`")));
    assert_eq!(
        stage.number("SELECT (SELECT count(*) FROM outbox_event) + (SELECT count(*) FROM orders)").await,
        0
    );
}

/// K4: what was sent 30 days ago is deleted, what was sent later or FAILED is kept.
pub(crate) async fn sent_events_are_purged_after_thirty_days(stage: &ShopStage) {
    stage.create_topic(&[]).await;
    let service = stage.start();
    let events: Vec<String> = (0..3).map(|_| place(&service, &order_of("ada")).1).collect();
    let [old, young, failed] = events.as_slice() else { panic!("{events:?}") };
    for event_id in &events {
        event_that_is(&service, event_id, "SENT");
    }
    assert_eq!(service.stop(Signal::TERM).code, Some(0));

    let age =
        |event_id: &str, set: &str| format!("UPDATE outbox_event SET {set} WHERE event_id = '{event_id}'");
    stage.execute(age(old, "done_at = now() - interval '31 days'")).await;
    stage.execute(age(young, "done_at = now() - interval '29 days'")).await;
    stage.execute(age(failed, "status = 3, done_at = NULL, created_at = now() - interval '31 days'")).await;
    let service = stage.start();

    eventually("the old one is gone", || {
        (service.get(&format!("/admin/outbox/{old}")).status == 404).then_some(())
    });
    event_that_is(&service, young, "SENT");
    event_that_is(&service, failed, "FAILED");
    assert_eq!(stage.number("SELECT count(*) FROM orders").await, 3, "orders are not the outbox's to delete");
}

/// K3, D9: SIGTERM ends it in good order; the next start sends what is left, and nothing twice.
pub(crate) async fn sigterm_loses_nothing_and_repeats_nothing(stage: &ShopStage) {
    stage.create_topic(&[]).await;
    let service = stage.start();
    let placed: BTreeSet<String> = (0..50).map(|_| place(&service, &order_of("ada")).1).collect();

    let ended = service.stop(Signal::TERM);
    let service = stage.start();

    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.log);
    for event_id in &placed {
        event_that_is(&service, event_id, "SENT");
    }
    let arrived: Vec<String> = stage.arrived().await.into_iter().map(|message| message.event_id).collect();
    assert_eq!((arrived.len(), arrived.into_iter().collect::<BTreeSet<_>>()), (50, placed));
}

/// Q1: who starts it without telling it where everything is hears what is missing, and no password.
pub(crate) async fn missing_variable_is_named(_: &ShopStage) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_example-order-service"));
    program.env("DATABASE_URL", "postgres://shop:open-sesame@localhost/shop").env_remove("KAFKA_BROKERS");

    let ran = program.output().unwrap();

    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success());
    assert!(said.contains("`KAFKA_BROKERS` is not set; for example KAFKA_BROKERS=localhost:9092"), "{said}");
    assert!(!said.contains("open-sesame"), "{said}");
}

/// Q1: whoever follows the page sees what it shows.
pub(crate) async fn lines_of_the_readme_work(stage: &ShopStage) {
    stage.create_topic(&[]).await;
    let service = stage.start();

    assert_eq!(follow(README, &service), 4);
}
