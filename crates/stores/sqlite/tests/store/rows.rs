//! Rows as others write them, and as they come back.

use std::time::Duration;

use crate::orders::{LONG, Orders, claim, order_placed, settle, take, write};
use pillarbox::store::{
    Administration, EventStore, InsertError, Outcome, Owner, Page, Purge, Selection, Status, Take, Token,
    TxStore,
};
use pillarbox::{Event, GLOBAL, Payload};
use pillarbox_sqlite::SqliteStore;

/// W12: a row that has only an id, a type and a payload is delivered.
#[tokio::test]
async fn a_plain_insert_is_delivered() {
    let orders = Orders::new();
    let store = orders.store().await;
    orders
        .execute("INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('a', 'OrderPlaced', '{}')")
        .await;

    let taken = claim(&store, 10).await.remove(0);

    let event = taken.event.unwrap();
    assert_eq!((event.id(), event.event_type(), event.aggregate_type()), ("a", "OrderPlaced", GLOBAL));
    assert_eq!((event.key(), event.aggregate_id(), event.tenant_id()), (None, None, None));
    assert_eq!(event.payload(), &Payload::Json("{}".into()));
    assert!(event.headers().is_empty() && event.context().is_empty());
    assert!(taken.due_for < LONG && taken.created_at.saturating_since(event.occurred_at()) < LONG);
    assert_eq!((taken.lease.attempts, taken.lease.starts), (0, 0));
}

/// W9, W12: the key of a row is what its column says, and no aggregate id takes its place.
#[tokio::test]
async fn a_plain_insert_without_a_key_has_none() {
    let orders = Orders::new();
    let store = orders.store().await;
    let insert = "INSERT INTO outbox_event (event_id, event_type, aggregate_id, payload_bytes)
        VALUES ('a', 'OrderPlaced', 'order-17', x'00ff')";
    orders.execute(insert).await;

    let event = claim(&store, 10).await.remove(0).event.unwrap();

    assert_eq!((event.aggregate_id(), event.key()), (Some("order-17"), None));
    assert_eq!(event.payload(), &Payload::Bytes(vec![0, 255]));
}

/// S1: a row needs exactly one payload, and a status that exists.
#[tokio::test]
async fn the_table_refuses_rows_that_make_no_sense() {
    let orders = Orders::new();
    let store = orders.store().await;

    for values in ["NULL, NULL, 0", "'{}', x'00', 0", "'{}', NULL, 4"] {
        let insert = format!(
            "INSERT INTO outbox_event (event_id, event_type, payload, payload_bytes, status) VALUES ('a', 'b', {values})"
        );
        assert!(sqlx::query(sqlx::AssertSqlSafe(insert)).execute(store.pool()).await.is_err(), "{values}");
    }
}

/// S11: JSON text and bytes come back as they were given.
#[tokio::test]
async fn payloads_come_back_byte_for_byte() {
    let orders = Orders::new();
    let store = orders.store().await;
    let texts = [
        r#"{ "b" : 1.0, "a":1e2,"b":2 }"#,
        "\t[1 ,\n 2]\r\n ",
        r#""\u0000 \ud83d\ude00 é 😀 \/""#,
        "123456789012345678901234567890.10",
    ];
    let events: Vec<Event> = texts.iter().map(|text| Event::of_json("OrderPlaced", *text).unwrap()).collect();
    let bytes = Event::of_bytes("OrderPlaced", (0..=255).collect::<Vec<u8>>()).unwrap();
    let empty = Event::of_bytes("OrderPlaced", []).unwrap();
    let events = [events, vec![bytes, empty]].concat();

    write(&store, &events).await;

    let taken: Vec<Event> = claim(&store, 10).await.into_iter().map(|taken| taken.event.unwrap()).collect();
    assert_eq!(taken, events);
}

/// W2: events get their numbers in the order in which they were given, whatever their number is.
#[tokio::test]
async fn many_events_keep_their_order() {
    let orders = Orders::new();
    let store = orders.store().await;
    let events: Vec<Event> = (0..1_203).map(|n| order_placed(&format!("order-{n}"))).collect();

    write(&store, &events).await;

    let taken: Vec<Event> =
        claim(&store, 2_000).await.into_iter().map(|taken| taken.event.unwrap()).collect();
    assert_eq!(taken, events);
}

/// W9: one event and many are written with their partitions, so that nobody has to adopt them.
#[tokio::test]
async fn written_rows_have_their_partitions() {
    let orders = Orders::new();
    let store = orders.store().await;
    let events: Vec<Event> = (0..3).map(|n| order_placed(&format!("order-{n}"))).collect();

    write(&store, &events[..1]).await;
    write(&store, &events[1..]).await;

    let select = "SELECT event_partition FROM outbox_event ORDER BY seq";
    let partitions: Vec<Option<u8>> = sqlx::query_scalar(select).fetch_all(store.pool()).await.unwrap();
    let expected: Vec<Option<u8>> = events.iter().map(|event| Some(event.partition())).collect();
    assert_eq!(partitions, expected);
}

/// S2: a replayed event has no reason where it is taken by claims: nothing there waits for a key.
#[tokio::test]
async fn replayed_row_has_no_reason_in_claims() {
    let orders = Orders::new();
    let store = orders.store().await;
    let event = order_placed("order-17");
    write(&store, std::slice::from_ref(&event)).await;
    let taken = claim(&store, 1).await;
    settle(&store, &taken, Outcome::Dead { error: "never".into(), spent: true }).await;

    store.replay(&Selection::Ids(vec![event.id().to_owned()])).await.unwrap();

    assert_eq!(store.find(event.id()).await.unwrap().unwrap().reason, None);
}

/// V6: a repeated id in a later statement of one call takes back the earlier ones.
#[tokio::test]
async fn a_repeated_id_takes_back_the_whole_call() {
    let orders = Orders::new();
    let store = orders.store().await;
    let known = order_placed("order-17");
    write(&store, std::slice::from_ref(&known)).await;
    let mut events: Vec<Event> = (0..700).map(|n| order_placed(&format!("order-{n}"))).collect();
    events.push(known.clone());
    let mut tx = store.begin().await.unwrap();

    let refused = store.insert(&mut tx, &events, None).await;

    assert!(matches!(&refused, Err(InsertError::DuplicateId { id }) if id == known.id()), "{refused:?}");
    SqliteStore::commit(tx).await.unwrap();
    assert_eq!(store.stats().await.unwrap().pending(), 1);
}

/// P3: a row that cannot be read is handed out with the column's name, and disturbs no other.
#[tokio::test]
async fn a_row_that_cannot_be_read_names_its_column() {
    let orders = Orders::new();
    let store = orders.store().await;
    let broken = [
        ("headers", "'{'"),
        ("headers", "'{\"a\":1}'"),
        ("context", "'[]'"),
        ("event_type", "CAST(x'ff' AS TEXT)"),
        ("payload", "CAST(x'22ff22' AS TEXT)"),
        ("event_id", "CAST(x'ff' AS TEXT)"),
    ];
    for (n, (column, value)) in broken.iter().enumerate() {
        let event = order_placed(&format!("order-{n}"));
        write(&store, std::slice::from_ref(&event)).await;
        let id = event.id();
        orders.execute(format!("UPDATE outbox_event SET {column} = {value} WHERE event_id = '{id}'")).await;
    }
    write(&store, &[order_placed("order-17")]).await;

    let taken = claim(&store, 10).await;

    for ((column, _), taken) in broken.iter().zip(&taken) {
        let reason = taken.event.as_ref().unwrap_err();
        assert!(reason.contains(&format!("`{column}`")), "{reason}");
    }
    assert!(taken[6].event.is_ok());
    let dead = Outcome::Dead { error: "cannot be read".into(), spent: false };
    assert!(settle(&store, &taken[..6], dead).await.is_empty());
    let listed = store.dead(Page { after: 0, limit: 10 }).await.unwrap();
    assert!(listed.iter().all(|stored| stored.event.is_err() && stored.status == Ok(Status::Dead)));
    assert_eq!(listed.len(), 6);
}

/// S2: an id that is no text is no reason to fail after the row is gone.
#[tokio::test]
async fn a_dead_row_whose_id_cannot_be_read_is_discarded() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17"), order_placed("order-18")]).await;
    orders.execute("UPDATE outbox_event SET event_id = CAST(x'61ff' AS TEXT) WHERE seq = 1").await;
    let taken = claim(&store, 10).await;
    settle(&store, &taken, Outcome::Dead { error: "cannot be read".into(), spent: false }).await;

    let discarded = store.discard(&Selection::Numbers { from: 1, to: 1 }).await.unwrap();

    assert_eq!(discarded, ["a\u{fffd}"]);
    assert_eq!(store.stats().await.unwrap().dead, 1);
}

/// P3: what no CHECK would let in is pending, not done, and is handed out with the column's name.
#[tokio::test]
async fn a_row_that_makes_no_sense_names_its_column() {
    let orders = Orders::new();
    let store = orders.store().await;
    let broken =
        [("status", "7"), ("status", "-1"), ("attempts", "-1"), ("starts", "-5"), ("starts", "1 << 62")];
    for (n, (column, value)) in broken.iter().enumerate() {
        let event = order_placed(&format!("order-{n}"));
        write(&store, std::slice::from_ref(&event)).await;
        let update = format!("UPDATE outbox_event SET {column} = {value} WHERE event_id = '{}'", event.id());
        orders.execute(format!("PRAGMA ignore_check_constraints = ON; {update}")).await;
    }
    write(&store, &[order_placed("order-17")]).await;
    let before = store.stats().await.unwrap();

    let taken = claim(&store, 10).await;

    assert_eq!((before.pending(), before.done_estimate), (6, 0));
    for ((column, _), taken) in broken.iter().zip(&taken) {
        let reason = taken.event.as_ref().unwrap_err();
        assert!(reason.contains(&format!("`{column}`")), "{reason}");
    }
    assert!(taken[5].event.is_ok());
    let dead = Outcome::Dead { error: "cannot be read".into(), spent: false };
    assert!(settle(&store, &taken[..5], dead).await.is_empty());
    let after = store.stats().await.unwrap();
    assert_eq!((after.pending(), after.dead, after.done_estimate), (1, 5, 0));
}

/// S2: a status that does not exist is shown as it is.
#[tokio::test]
async fn an_unknown_status_is_shown() {
    let orders = Orders::new();
    let store = orders.store().await;
    let event = order_placed("order-17");
    write(&store, std::slice::from_ref(&event)).await;

    orders.execute("PRAGMA ignore_check_constraints = ON; UPDATE outbox_event SET status = 7").await;

    assert_eq!(store.find(event.id()).await.unwrap().unwrap().status, Err(7));
}

/// S10: a name that is the beginning of another's does not resume that one's leases.
#[tokio::test]
async fn a_name_resumes_only_its_own_leases() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-1"), order_placed("order-2"), order_placed("order-3")]).await;
    for (token, name) in [(1, "a"), (2, "a/b"), (3, "%")] {
        let owner = Owner::new(name, 1);
        store.take(Take { owner, token: Token(token), ..take(1) }).await.unwrap();
    }

    let resumed = store.resume(&Owner::new("a", 2)).await.unwrap();

    assert_eq!(resumed, 1);
    assert_eq!(claim(&store, 10).await[0].event.as_ref().unwrap().key(), Some("order-1"));
}

/// S9: purging walks on over rows that stay, and ends where all rows are young.
#[tokio::test]
async fn a_purge_ends_where_all_rows_are_young() {
    let orders = Orders::new();
    let store = orders.store().await;
    let events: Vec<Event> = (0..30).map(|n| order_placed(&format!("order-{n}"))).collect();
    write(&store, &events).await;
    let taken = claim(&store, 30).await;
    settle(&store, &taken, Outcome::Done).await;
    let old = "UPDATE outbox_event SET created_at = 1, done_at = 1 WHERE seq <= 5 OR seq = 8";
    orders.execute(old).await;

    let mut after = Some(0);
    let mut deleted = Vec::new();
    while let Some(from) = after {
        let step = Purge { older_than: LONG, limit: 4, after: from, dead_too: false };
        let purged = store.purge(step).await.unwrap();
        deleted.push(purged.deleted);
        after = purged.next;
    }

    assert_eq!(deleted, [4, 2, 0]);
}

/// Durations of any length are stored without an overflow.
#[tokio::test]
async fn an_endless_delay_is_no_overflow() {
    let orders = Orders::new();
    let store = orders.store().await;
    let delayed = Event::builder("OrderPlaced").deliver_after(Duration::MAX).json_text("{}").build().unwrap();
    write(&store, &[delayed, order_placed("order-17")]).await;

    let taken = claim(&store, 10).await;

    let later = Outcome::Retry { after: Duration::MAX, error: "not now".into(), spent: true };
    assert!(settle(&store, &taken, later).await.is_empty());
    assert_eq!(store.stats().await.unwrap().pending(), 2);
}
