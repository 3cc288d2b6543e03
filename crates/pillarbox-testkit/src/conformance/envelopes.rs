//! What was written comes back, on every way out of the store.

use pillarbox::store::{Administration, Page};
use pillarbox::{Event, GLOBAL, MAX_PAYLOAD, Timestamp};

use super::steps::ids;
use super::{StoreHarness, claim, stored, write};

/// V1, V7, W11: every field comes back as it was given, whatever its script.
pub async fn every_field_comes_back(harness: &impl StoreHarness) {
    let event = Event::builder("Bestellung aufgegeben · 下单 🛒")
        .id("ид-17'\"\\%_;--")
        .aggregate("Zamówienie 'O\"", "заказ-17 🧾")
        .key("κλειδί-17")
        .tenant("テナント")
        .occurred_at(Timestamp::from_micros(1_772_366_399_123_456))
        .header("trace parent", "00-ü-01")
        .header("Über", "\"quoted\" \\ back\nnext\tline")
        .context("user", "жанна")
        .context("empty", "")
        .json_text("{\"ключ\":\"значение 🎉\"}")
        .build()
        .unwrap();

    assert_comes_back(harness, &[event]).await;
}

/// V1: what was not given comes back as the default.
pub async fn defaults_come_back(harness: &impl StoreHarness) {
    let event = Event::of_json("OrderPlaced", "{}").unwrap();

    assert_comes_back(harness, std::slice::from_ref(&event)).await;

    let read = stored(harness, event.id()).await.event.unwrap();
    assert_eq!(read.aggregate_type(), GLOBAL);
    assert_eq!((read.aggregate_id(), read.key(), read.tenant_id()), (None, None, None));
    assert!(read.headers().is_empty() && read.context().is_empty());
}

/// V1: an empty text is not the same as none.
pub async fn empty_text_is_not_none(harness: &impl StoreHarness) {
    let event =
        Event::builder("OrderPlaced").tenant("").header("empty", "").json_text("\"\"").build().unwrap();

    assert_comes_back(harness, &[event]).await;
}

/// V6: every field can be as long as its limit, in characters that take four bytes each.
pub async fn longest_fields_come_back(harness: &impl StoreHarness) {
    let long = |length: usize| "🧾".repeat(length);
    let event = Event::builder(long(128))
        .id(long(36))
        .aggregate(long(64), long(128))
        .key(long(128))
        .tenant(long(64))
        .header(long(128), long(1_024))
        .context(long(128), long(1_024))
        .json_text("{}")
        .build()
        .unwrap();

    assert_comes_back(harness, &[event]).await;
}

/// S11: JSON text comes back byte for byte.
pub async fn json_comes_back_byte_for_byte(harness: &impl StoreHarness) {
    let texts = [
        "{ \"b\" : 1,\t\"a\" :\r\n2 }",
        " {\"same\":1,\"same\":2} ",
        r#"{"letter":"\u0041\/","text":"\\n"}"#,
        "[1.0,1.10,1E400,-0,100000000000000000000000001]",
        "null",
        "\"order-17\"",
        "17",
        "{}",
        "\n[]\n",
    ];
    let events = texts.map(|text| Event::of_json("OrderPlaced", text).unwrap());

    write(harness, &events).await;

    for (event, text) in events.iter().zip(texts) {
        let read = stored(harness, event.id()).await.event.unwrap();
        assert_eq!(read.payload().as_json(), Some(text));
    }
}

/// S11: bytes come back as bytes, every one of them.
pub async fn every_byte_comes_back(harness: &impl StoreHarness) {
    let every: Vec<u8> = (0..=255).collect();
    let not_utf8 = vec![0xC3, 0x28, 0x00, 0xFF];
    let looks_like_json = b"{}".to_vec();

    let events = [every, not_utf8, looks_like_json].map(|bytes| Event::of_bytes("Scanned", bytes).unwrap());

    assert_comes_back(harness, &events).await;
}

/// S11: a payload of no bytes is a payload.
pub async fn no_bytes_come_back_as_no_bytes(harness: &impl StoreHarness) {
    assert_comes_back(harness, &[Event::of_bytes("Scanned", Vec::new()).unwrap()]).await;
}

/// V2: the largest payload comes back, as text and as bytes.
pub async fn largest_payload_comes_back(harness: &impl StoreHarness) {
    let text = format!("\"{}\"", "ü".repeat(MAX_PAYLOAD / 2 - 1));
    let bytes: Vec<u8> = (0..MAX_PAYLOAD).map(|n| (n % 251) as u8).collect();
    assert_eq!(text.len(), MAX_PAYLOAD);

    let events = [Event::of_json("Report", text).unwrap(), Event::of_bytes("Report", bytes).unwrap()];

    assert_comes_back(harness, &events).await;
}

/// V1, X1: headers and context come back apart from each other, as many as there can be.
pub async fn headers_and_context_stay_apart(harness: &impl StoreHarness) {
    let mut builder = Event::builder("OrderPlaced").json_text("{}");
    for n in 0..64 {
        builder = builder.header(format!("name-{n}"), format!("header {n}"));
        builder = builder.context(format!("name-{n}"), format!("context {n}"));
    }
    let only_header = Event::builder("OrderPlaced").header("a", "1").json_text("{}").build().unwrap();
    let only_context = Event::builder("OrderPlaced").context("a", "1").json_text("{}").build().unwrap();

    assert_comes_back(harness, &[builder.build().unwrap(), only_header, only_context]).await;
}

/// V1, W11: `occurred_at` keeps its microseconds, before 1970 too.
pub async fn occurred_at_comes_back_exactly(harness: &impl StoreHarness) {
    let year_1900 = -2_208_988_800_000_001;
    let year_2300 = 10_413_792_000_000_001;

    let events = [0, 1, 999_999, -1, -999_999, 1_772_366_399_999_999, year_1900, year_2300].map(|micros| {
        let occurred_at = Timestamp::from_micros(micros);
        Event::builder("OrderPlaced").occurred_at(occurred_at).json_text("{}").build().unwrap()
    });

    assert_comes_back(harness, &events).await;
}

/// W9: the key is the aggregate id, another one, or none, and comes back as such.
pub async fn key_comes_back(harness: &impl StoreHarness) {
    let builder = || Event::builder("OrderPlaced").aggregate("Order", "order-17").json_text("{}");
    let default = builder().build().unwrap();
    let another = builder().key("customer-4").build().unwrap();
    let none = builder().no_key().build().unwrap();

    write(harness, &[default.clone(), another.clone(), none.clone()]).await;

    for (event, key) in [(default, Some("order-17")), (another, Some("customer-4")), (none, None)] {
        let read = stored(harness, event.id()).await.event.unwrap();
        assert_eq!((read.aggregate_id(), read.key()), (Some("order-17"), key));
    }
}

/// S1, S8, W9: keys and aggregate ids compare by their bytes: neither case nor a space at the end is alike.
pub async fn keys_and_aggregates_compare_by_bytes(harness: &impl StoreHarness) {
    let names = ["order-a", "order-A", "order-a ", "order-á", "order-a\u{301}", "order-%", "order-_"];
    let events = names.map(super::order_placed);

    write(harness, &events).await;

    let page = Page { after: 0, limit: 10 };
    for (name, event) in names.iter().zip(&events) {
        let rows = harness.store().find_by_aggregate(name, page).await.unwrap();
        assert_eq!(ids(&rows), [event.id()]);
        assert_eq!(rows[0].event.as_ref().unwrap().key(), Some(*name));
    }
}

/// Writes the events and compares what is found by id, and what is taken, with what was written.
async fn assert_comes_back(harness: &impl StoreHarness, events: &[Event]) {
    write(harness, events).await;

    for event in events {
        let found = stored(harness, event.id()).await.event.unwrap();
        assert!(found.parts() == event.parts(), "found {:?}", found.parts());
    }
    let taken = claim(harness, events.len()).await.events;
    assert_eq!(ids(&taken), ids(events));
    for (taken, event) in taken.into_iter().zip(events) {
        let taken = taken.event.unwrap();
        assert!(taken.parts() == event.parts(), "taken {:?}", taken.parts());
    }
}
