//! Several stores on one database, as several processes have them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Administration, EventStore, Status, TxStore, WakeUp};
use pillarbox::{Outbox, PartitionSet, Runtime};
use pillarbox_mysql::MySqlStore;
use pillarbox_testkit::acceptance::Desk;
use pillarbox_testkit::conformance::{claim_one, order_placed, take, write};
use sqlx::Executor;
use tokio::time::timeout;

use crate::stage::MySqlStage;

/// S3, P5: what another process committed is taken here, at the next poll: nothing wakes this one.
pub(crate) async fn write_elsewhere_is_found_by_polling(stage: &MySqlStage) {
    let elsewhere = stage.options().connect().await.unwrap();
    let event = order_placed("order-17");

    let mut tx = elsewhere.begin().await.unwrap();
    elsewhere.insert(&mut tx, std::slice::from_ref(&event), None).await.unwrap();
    MySqlStore::commit(tx).await.unwrap();
    elsewhere.announce(PartitionSet::ALL).await;

    assert!(timeout(Duration::ZERO, stage.store.changed()).await.is_err());
    assert_eq!(claim_one(stage).await.event, Ok(event));
    assert!(elsewhere.take(take(10)).await.unwrap().events.is_empty());
    elsewhere.close().await;
}

/// S5: eight stores that take at once get different events, and together all of them.
pub(crate) async fn takes_of_several_stores_are_disjoint(stage: &MySqlStage) {
    let events: Vec<_> = (0..800).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(stage, &events).await;
    let mut takers = Vec::new();
    for _ in 0..8 {
        let store = Arc::new(stage.options().connect().await.unwrap());
        takers.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            while store.stats().await.unwrap().oldest_due_for.is_some() {
                let taken = store.take(take(25)).await.unwrap().events;
                if taken.is_empty() {
                    break;
                }
                mine.extend(taken.into_iter().map(|taken| taken.event_id));
            }
            store.close().await;
            mine
        }));
    }

    let mut all = Vec::new();
    for taker in takers {
        all.extend(taker.await.unwrap());
    }

    let different: HashSet<&String> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "some were taken twice");
    all.extend(stage.store.take(take(800)).await.unwrap().events.into_iter().map(|taken| taken.event_id));
    assert_eq!(all.len(), events.len());
}

/// S5: a transaction that holds a row does not stop others from being taken, nor is the row forgotten.
pub(crate) async fn locked_row_is_passed_over(stage: &MySqlStage) {
    let events = ["order-1", "order-2", "order-3"].map(order_placed);
    write(stage, &events).await;
    let mut holder = stage.connection().await;
    holder.execute("START TRANSACTION").await.unwrap();
    let lock = sqlx::query("SELECT seq FROM outbox_event WHERE event_id = ? FOR UPDATE").bind(events[1].id());
    lock.fetch_one(&mut holder).await.unwrap();

    let taken = stage.store.take(take(10)).await.unwrap();
    holder.execute("ROLLBACK").await.unwrap();
    let rest = stage.store.take(take(10)).await.unwrap();

    let ids: Vec<&str> = taken.events.iter().map(|taken| taken.event_id.as_str()).collect();
    assert_eq!(ids, [events[0].id(), events[2].id()]);
    assert_eq!(rest.events[0].event_id, events[1].id());
}

/// W12: rows that other programs write by plain SQL are delivered, with defaults for all that was not said.
pub(crate) async fn plain_sql_is_delivered(stage: &MySqlStage) {
    let (listener, mut desk) = Desk::open();
    let store = MySqlStore::clone(&stage.store);
    let outbox = Outbox::builder(store).runtime(Runtime::tokio()).on("OrderPlaced", listener);
    let outbox = outbox.poll_every(Duration::from_millis(20)).start().unwrap();

    stage
        .run(
            "INSERT INTO outbox_event (event_id, event_type, payload)
            VALUES ('01K4B1Z0QX0V7J8M2C9D3E5F6G', 'OrderPlaced', '{\"id\":17}');
            INSERT INTO outbox_event (event_id, event_type, payload_bytes, event_key)
            VALUES ('01K4B1Z0QX0V7J8M2C9D3E5F6H', 'OrderPlaced', x'00FF', 'order-17')",
        )
        .await;
    let mut deliveries = desk.accept_many(2).await;
    outbox.close().await;

    deliveries.sort_by(|a, b| a.id().cmp(b.id()));
    assert_eq!(deliveries[0].payload().as_json(), Some("{\"id\":17}"));
    assert_eq!((deliveries[1].payload().as_bytes(), deliveries[1].key()), (&[0, 255][..], Some("order-17")));
    for delivery in &deliveries {
        assert_eq!(stage.status(delivery.id()).await, Some(Status::Done));
    }
}

/// W11, P3: a date that is none is the trouble of its own row and of no other.
pub(crate) async fn zero_date_disturbs_no_other(stage: &MySqlStage) {
    stage
        .run(
            "SET sql_mode = '';
            INSERT INTO outbox_event (event_id, event_type, payload, occurred_at)
            VALUES ('zero', 'OrderPlaced', '{}', '0000-00-00');
            INSERT INTO outbox_event (event_id, event_type, payload, created_at, due_at)
            VALUES ('odd', 'OrderPlaced', '{}', '0000-00-00', '0000-00-00')",
        )
        .await;
    write(stage, &[order_placed("order-17")]).await;

    let taken = stage.store.take(take(10)).await.unwrap().events;

    let readable: Vec<_> = taken.iter().map(|taken| (taken.event_id.as_str(), taken.event.is_ok())).collect();
    assert!(readable.contains(&("zero", false)), "{readable:?}");
    assert!(readable.contains(&("odd", true)), "{readable:?}");
    assert_eq!(taken.len(), 3);
}

/// W12: a statement on the outbox by the administrator's console sees what a store wrote, as text.
pub(crate) async fn people_can_read_what_is_stored(stage: &MySqlStage) {
    let event = order_placed("Bestellung-ü-17");
    write(stage, std::slice::from_ref(&event)).await;

    let found =
        "SELECT COUNT(*) FROM outbox_event WHERE event_key = 'Bestellung-ü-17' AND aggregate_id LIKE '%-ü-%'";

    assert_eq!(stage.number(found).await, 1);
    assert!(stage.store.find(event.id()).await.unwrap().is_some());
}
