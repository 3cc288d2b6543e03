//! Assertions say what was expected and what there is instead.

use pillarbox::testing::TestOutbox;
use pillarbox::{Event, ListenerError, Retry};

use crate::shop::{
    OrderPlaced, OrderShipped, SECOND, failing, mailing, mailing_outbox, panic_of, place_order, placed,
    shipped, write,
};

#[tokio::test]
async fn written_events_are_decoded_in_the_order_of_commits() {
    let outbox = mailing_outbox();
    let mut first = outbox.begin().await.unwrap();
    let mut second = outbox.begin().await.unwrap();
    outbox.write(&mut first, placed("order-1")).await.unwrap();
    outbox.write(&mut second, placed("order-2")).await.unwrap();
    outbox.write(&mut second, shipped("order-2")).await.unwrap();

    second.commit().await.unwrap();
    first.commit().await.unwrap();

    assert_eq!(outbox.written::<OrderPlaced>(), [placed("order-2"), placed("order-1")]);
    assert_eq!(outbox.written::<OrderShipped>(), [shipped("order-2")]);
    let placed = outbox.events_of("OrderPlaced");
    assert_eq!(placed.iter().map(Event::key).collect::<Vec<_>>(), [Some("order-2"), Some("order-1")]);
    assert_eq!(outbox.events().len(), 3);
}

#[tokio::test]
async fn missing_event_is_answered_with_what_was_written() {
    let outbox = mailing_outbox();
    let event =
        Event::of(&placed("order-17")).tenant("t-1").header("source", "web").context("request", "r-1");
    let id = write(&outbox, event).await;

    let panic = panic_of(|| drop(outbox.assert_written(&placed("order-18"))));

    let expected = format!(
        "this event was not written: OrderPlaced {{ order_id: \"order-18\" }}\nwhat was written:\n  `OrderPlaced` of \
         `Order` `order-17` ({id}), key `order-17`, tenant `t-1`, headers {{source: web}}, context {{request: r-1}}: \
         {{\"order_id\":\"order-17\"}}"
    );
    assert_eq!(panic, expected);
}

#[tokio::test]
async fn nothing_written_is_told_so() {
    let outbox = mailing_outbox();
    let mut open = outbox.begin().await.unwrap();
    outbox.write(&mut open, placed("order-17")).await.unwrap();

    let panic = panic_of(|| drop(outbox.assert_written(&placed("order-17"))));

    assert!(panic.ends_with("nothing was written; was the transaction committed?"), "{panic}");
}

#[tokio::test]
async fn something_written_is_told_where_nothing_was_to_be() {
    let outbox = mailing_outbox();
    let id = place_order(&outbox, "order-17").await;

    let panic = panic_of(|| outbox.assert_nothing_written());

    assert!(panic.starts_with("nothing was to be written") && panic.contains(&id), "{panic}");
}

#[tokio::test]
async fn payload_that_is_something_else_is_told() {
    let outbox = mailing_outbox();
    let odd = Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("[]").build().unwrap();
    let id = write(&outbox, odd).await;

    let panic = panic_of(|| drop(outbox.written::<OrderPlaced>()));

    assert!(panic.contains("the payload is no `OrderPlaced`") && panic.contains(&id), "{panic}");
}

#[tokio::test]
async fn undelivered_event_is_answered_with_where_it_stands_and_what_was_tried() {
    let handlers = mailing(failing(1)).on("bill", |_: OrderPlaced| async { Ok::<(), ListenerError>(()) });
    let outbox = TestOutbox::start(|outbox| outbox.handlers(handlers).retry(Retry::fixed(60 * SECOND)));
    let id = place_order(&outbox, "order-17").await;
    outbox.drain().await;

    let not_done = panic_of(|| outbox.assert_delivered(&id));
    let not_mailed = panic_of(|| drop(outbox.assert_delivered_to(&id, "mail")));
    let not_dead = panic_of(|| drop(outbox.assert_dead(&id)));
    let not_all = panic_of(|| outbox.assert_all_delivered());

    assert!(not_done.starts_with(&format!("the event `{id}` was not delivered\n")), "{not_done}");
    let mailed = format!("the event `{id}` was not delivered to the handler `mail`\n");
    assert!(not_mailed.starts_with(&mailed), "{not_mailed}");
    assert!(not_dead.starts_with(&format!("the event `{id}` is not dead\n")), "{not_dead}");
    let name = format!("`OrderPlaced` of `Order` `order-17` ({id})");
    for panic in [&not_done, &not_mailed, &not_dead, &not_all] {
        let stands =
            format!("{name}: RETRY, due in 60s, failed attempts: 1, last error: handler `mail`: no stamps");
        assert!(panic.contains(&stands), "{panic}");
    }
    for panic in [not_done, not_mailed, not_dead] {
        let tried = format!(
            "what was tried:\n  {name}: handler `mail`, attempt 1, failed: no stamps\n  {name}: handler `bill`, attempt 1, \
             succeeded"
        );
        assert!(panic.ends_with(&tried), "{panic}");
    }
    outbox.assert_delivered_to(&id, "bill");
}

#[tokio::test]
async fn unknown_id_is_answered_with_what_was_written() {
    let outbox = mailing_outbox();
    let id = place_order(&outbox, "order-17").await;

    let panic = panic_of(|| outbox.assert_delivered("order-17"));

    assert!(panic.contains("there is no such event") && panic.contains(&id), "{panic}");
}
