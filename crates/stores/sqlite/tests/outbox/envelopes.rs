//! Events as they reach listeners, from memory and from the table.

use std::time::Duration;

use pillarbox::store::{Administration, Status, TxStore};
use pillarbox::{Event, EventBuilder, ListenerError, Retry, Source, Timestamp};
use pillarbox_sqlite::SqliteStore;
use pillarbox_testkit::acceptance::Desk;

use crate::stage::{SqliteStage, placed};

/// An event with all that an event can have but a payload.
fn complete(id: &str) -> EventBuilder {
    Event::builder("OrderPlaced")
        .id(id)
        .aggregate("Order", "order-17")
        .key("customer-é-4")
        .tenant("tenant-1")
        .occurred_at(Timestamp::from_micros(1_234_567_890_123_457))
        .header("content-type", "text/plain; \"quoted\"")
        .header("empty", "")
        .context("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
}

/// W11: the same event comes from memory and, after a failure, from the table, alike in every field.
#[tokio::test]
async fn hot_and_cold_envelopes_are_equal() {
    let stage = SqliteStage::fresh().await;
    let (listener, mut desk) = Desk::open();
    let retry = Retry::fixed(Duration::from_millis(1));
    let outbox = stage.builder().on_aggregate("Order", "OrderPlaced", listener).retry(retry).start().unwrap();
    let json = complete("json").json_text("{ \"b\" : 1.0,\t\"a\":1e2,\"b\":\"😀\\u0000\" }").build().unwrap();
    let bytes = complete("bytes").bytes((0..=255).collect::<Vec<u8>>()).build().unwrap();

    for written in [json, bytes] {
        let mut tx = outbox.begin().await.unwrap();
        outbox.write(&mut tx, written.clone()).await.unwrap();
        tx.commit().await.unwrap();
        let call = desk.next().await;
        let hot = call.delivery.clone();
        call.fail(ListenerError::new("not now"));
        let cold = desk.accept().await;

        assert_eq!((hot.source(), cold.source()), (Source::Hot, Source::Cold));
        assert_eq!(hot.event().parts(), written.parts());
        assert_eq!(cold.event().parts(), written.parts());
        assert_eq!(hot.created_at(), cold.created_at());
    }
    outbox.close().await;
}

/// P3: a row that was damaged ends dead, with the reason, and its neighbours are delivered.
#[tokio::test]
async fn damaged_row_ends_dead_and_its_neighbours_are_delivered() {
    let damages = [
        ("headers = '{\"a\":'", "the column `headers` cannot be read"),
        ("status = 7", "the column `status` holds 7, which is no status"),
    ];
    for (damage, expected) in damages {
        let stage = SqliteStage::fresh().await;
        let events = ["order-1", "order-2", "order-3"].map(placed);
        let mut tx = stage.store.begin().await.unwrap();
        stage.store.insert(&mut tx, &events, None).await.unwrap();
        SqliteStore::commit(tx).await.unwrap();
        stage.damage("order-2", damage).await;
        let (listener, mut desk) = Desk::open();

        let outbox = stage.builder().on("OrderPlaced", listener).skip_recent(Duration::ZERO).start().unwrap();
        let mut delivered = desk.accept_many(2).await;
        outbox.close().await;

        delivered.sort_by_key(|delivery| delivery.id().to_owned());
        assert_eq!(
            delivered.iter().map(|delivery| delivery.id()).collect::<Vec<_>>(),
            ["order-1", "order-3"]
        );
        assert_eq!(stage.status("order-1").await, Some(Status::Done));
        assert_eq!(stage.status("order-3").await, Some(Status::Done));
        let damaged = stage.store.find("order-2").await.unwrap().unwrap();
        assert_eq!(damaged.status, Ok(Status::Dead));
        let reason = damaged.last_error.unwrap();
        assert!(reason.contains(expected), "{reason}");
        assert!(desk.waiting().is_none());
    }
}
