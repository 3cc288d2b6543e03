//! The event envelope: its defaults, its limits, and what is refused before a database sees it.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, UNIX_EPOCH};

use pillarbox::{
    AggregateType, Clock, Event, EventBuilder, EventError, EventType, GLOBAL, Headers, HeadersError,
    IntoEvent, MAX_PAYLOAD, Payload, Schedule, SystemClock, Timestamp,
};
use proptest::prelude::*;

/// A text field of an event: its name in errors, its limit, and how to build an event with it.
type Field = (&'static str, usize, fn(String) -> EventBuilder);

const REQUIRED: [Field; 5] = [
    ("event_type", 128, |text| Event::builder(text).json_text("{}")),
    ("event_id", 36, |text| order_placed().id(text)),
    ("aggregate_type", 64, |text| order_placed().aggregate_type(text)),
    ("aggregate_id", 128, |text| order_placed().aggregate_id(text)),
    ("key", 128, |text| order_placed().key(text)),
];
const TENANT: Field = ("tenant_id", 64, |text| order_placed().tenant(text));

/// Headers and context: their name in errors, and how to add an entry.
type Entries = (&'static str, fn(EventBuilder, String, String) -> EventBuilder);

const ENTRIES: [Entries; 2] = [
    ("headers", |builder, name, value| builder.header(name, value)),
    ("context", |builder, name, value| builder.context(name, value)),
];

fn order_placed() -> EventBuilder {
    Event::builder("OrderPlaced").json_text("{}")
}

fn text_fields() -> impl Iterator<Item = Field> {
    REQUIRED.into_iter().chain([TENANT])
}

/// V1
#[test]
fn what_is_not_said_has_a_default() {
    let before = SystemClock.wall();
    let event = order_placed().build().unwrap();
    let after = SystemClock.wall();

    assert_eq!(event.id().len(), 26);
    assert_eq!(event.event_type(), "OrderPlaced");
    assert_eq!((event.aggregate_type(), event.aggregate_id()), (GLOBAL, None));
    assert_eq!((event.key(), event.tenant_id()), (None, None));
    assert!((before..=after).contains(&event.occurred_at()));
    assert!(event.headers().is_empty() && event.context().is_empty());
    assert_eq!(event.schedule(), Schedule::Now);
}

/// V1, V4, V7
#[test]
fn what_is_said_is_kept() {
    let event = Event::builder("OrderPlaced")
        .id("event-1")
        .aggregate("Order", "order-17")
        .key("customer-4")
        .tenant("acme")
        .occurred_at(UNIX_EPOCH + Duration::from_micros(5))
        .header("source", "fax")
        .header("source", "web")
        .context("user", "ada")
        .json_text(r#" {"id" : 17} "#)
        .build()
        .unwrap();

    assert_eq!((event.id(), event.event_type()), ("event-1", "OrderPlaced"));
    assert_eq!((event.aggregate_type(), event.aggregate_id()), ("Order", Some("order-17")));
    assert_eq!((event.key(), event.tenant_id()), (Some("customer-4"), Some("acme")));
    assert_eq!(event.occurred_at(), Timestamp::from_micros(5));
    assert_eq!(event.headers().iter().collect::<Vec<_>>(), [("source", "web")]);
    assert_eq!(event.context().get("user"), Some("ada"));
    assert_eq!(event.payload().as_json(), Some(r#" {"id" : 17} "#));
}

/// V1
#[test]
fn a_binary_payload_is_not_text() {
    let event = Event::of_bytes("Thumbnail", [0, 159, 255]).unwrap();

    assert_eq!(event.payload(), &Payload::Bytes(vec![0, 159, 255]));
    assert_eq!(event.payload().as_bytes(), [0, 159, 255]);
    assert_eq!(event.payload().as_json(), None);
}

/// V1: within a millisecond too.
#[test]
fn default_ids_increase() {
    let ids: Vec<_> = (0..10_000).map(|_| order_placed().build().unwrap().id().to_owned()).collect();

    assert!(ids.is_sorted_by(|a, b| a < b));
}

/// V1
#[test]
fn default_ids_are_unique_and_increasing_in_every_thread() {
    let ids = || (0..2_000).map(|_| order_placed().build().unwrap().id().to_owned()).collect::<Vec<_>>();

    let per_thread: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ids)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    assert!(per_thread.iter().all(|ids| ids.is_sorted_by(|a, b| a < b)));
    assert_eq!(per_thread.iter().flatten().collect::<HashSet<_>>().len(), 16_000);
}

/// W9
#[test]
fn the_key_is_the_aggregate_id_unless_said_otherwise() {
    let order = || order_placed().aggregate("Order", "order-17");

    assert_eq!(order().build().unwrap().key(), Some("order-17"));
    assert_eq!(order().key("customer-4").build().unwrap().key(), Some("customer-4"));
    assert_eq!(order().no_key().build().unwrap().key(), None);
    assert_eq!(order_placed().key("customer-4").build().unwrap().aggregate_id(), None);
}

/// V3: there is no way to change an event, so clones may share all of it.
#[test]
fn a_clone_shares_the_payload() {
    let event = Event::of_bytes("Thumbnail", vec![7; MAX_PAYLOAD]).unwrap();
    let clone = event.clone();

    assert_eq!(clone, event);
    assert!(std::ptr::eq(clone.payload().as_bytes(), event.payload().as_bytes()));
}

#[test]
fn an_event_can_cross_threads() {
    fn assert_shared<T: Send + Sync + Clone + 'static>() {}

    assert_shared::<Event>();
    assert_shared::<EventBuilder>();
}

#[test]
fn debug_shows_no_payload() {
    let json = Event::builder("CardAdded").json_text(r#"{"card":"4242"}"#);
    let bytes = Event::builder("CardAdded").bytes("4242");

    for builder in [json, bytes] {
        let event = builder.clone().build().unwrap();
        let shown = format!("{builder:?} {event:?} {:?}", event.parts());
        // Bytes would show as numbers: 52 is the digit 4.
        assert!(!shown.contains("4242") && !shown.contains("52, 50"), "{shown}");
        assert!(shown.contains("CardAdded"));
    }
}

/// V4, V5
#[test]
fn types_are_enums_or_strings() {
    enum Placed {
        Order,
    }
    impl EventType for Placed {
        fn name(&self) -> &str {
            "OrderPlaced"
        }
    }
    impl AggregateType for Placed {
        fn name(&self) -> &str {
            "Order"
        }
    }

    let typed = Event::builder(Placed::Order).aggregate(&Placed::Order, "order-17").json_text("{}");
    let dynamic = Event::builder(format!("Order{}", "Placed")).aggregate(String::from("Order"), "order-17");

    for event in [typed.build().unwrap(), dynamic.json_text("{}").build().unwrap()] {
        assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPlaced", "Order"));
    }
    assert_eq!(Event::of_json(&Placed::Order, "1").unwrap().event_type(), "OrderPlaced");
    let borrowed = String::from("A::B");
    assert_eq!(Event::of_json(&borrowed, "1").unwrap().event_type(), borrowed);
}

/// V4
#[test]
fn builders_and_events_can_be_written_alike() {
    let event = order_placed().build().unwrap();

    assert_eq!(event.clone().into_event().unwrap(), event);
    assert_eq!(order_placed().id(event.id()).into_event().unwrap().id(), event.id());
    assert_eq!(Event::builder("OrderPlaced").into_event(), Err(EventError::NoPayload));
}

/// W11: a store gives back what it was given, but for the delay, which has passed by then.
#[test]
fn an_event_is_restored_from_its_parts() {
    let event = order_placed().header("source", "web").deliver_after(Duration::from_secs(1)).build().unwrap();

    let restored = Event::restore(event.parts().clone());

    assert_eq!(restored, event);
    assert_eq!(restored.schedule(), Schedule::Now);
}

/// V8
#[test]
fn the_first_delivery_can_be_delayed() {
    let (delay, at) = (Duration::from_secs(90), Timestamp::from_micros(1_772_366_400_000_000));

    assert_eq!(order_placed().deliver_after(delay).build().unwrap().schedule(), Schedule::After(delay));
    assert_eq!(order_placed().available_at(at).build().unwrap().schedule(), Schedule::At(at));
}

/// V2
#[test]
fn a_payload_may_have_one_mebibyte_and_not_a_byte_more() {
    let json = |size: usize| Event::of_json("Upload", format!("\"{}\"", "x".repeat(size - 2)));
    let bytes = |size: usize| Event::of_bytes("Upload", vec![0; size]);

    for build in [&json as &dyn Fn(usize) -> Result<Event, EventError>, &bytes] {
        assert_eq!(build(1_048_576).unwrap().payload().as_bytes().len(), 1_048_576);
        let error = build(1_048_577).unwrap_err();
        assert_eq!(error, EventError::PayloadTooLarge { size: 1_048_577, limit: 1_048_576 });
        let text = error.to_string();
        assert!(text.contains("1048577") && text.contains("1048576"), "{text}");
    }
}

/// V1
#[test]
fn exactly_one_payload_is_needed() {
    let none = Event::builder("OrderPlaced");
    let both = order_placed().bytes([1]);

    assert_eq!(none.build(), Err(EventError::NoPayload));
    assert_eq!(both.build(), Err(EventError::TwoPayloads));
    assert!(Event::of_bytes("Ping", []).unwrap().payload().as_bytes().is_empty());
}

#[test]
fn json_that_is_not_json_is_refused() {
    for text in
        ["", " ", "{", "{}}", "{'id':17}", "{\"id\":}", "[1,]", "NaN", "nul", "\"a\0b\"", "\u{feff}{}"]
    {
        let error = Event::of_json("OrderPlaced", text).unwrap_err();
        assert!(matches!(error, EventError::NotJson { .. }), "{text:?}: {error}");
    }
    let no_text_keys = Event::builder("OrderPlaced").json(&BTreeMap::from([((1, 2), 3)])).build();
    assert!(matches!(no_text_keys, Err(EventError::NotEncoded { .. })));
}

#[test]
fn json_of_any_shape_is_kept_byte_for_byte() {
    let deep = "[".repeat(MAX_PAYLOAD / 2) + &"]".repeat(MAX_PAYLOAD / 2);

    for text in ["null", "17", "\"ü\"", "{\"b\":1.0,\"a\":1e400,\"a\":2}", "\t[ ]\n", "\"\\u0000\"", &deep] {
        assert_eq!(Event::of_json("OrderPlaced", text).unwrap().payload().as_json(), Some(text));
    }
}

/// V6: the limit counts characters, not bytes.
#[test]
fn every_text_may_be_as_long_as_its_limit_and_not_a_character_longer() {
    for (field, limit, build) in text_fields() {
        for character in ["x", "ü", "🦀"] {
            assert!(build(character.repeat(limit)).build().is_ok(), "{field} of {limit} {character}");

            let error = build(character.repeat(limit + 1)).build().unwrap_err();
            assert_eq!(error, EventError::TooLong { field, length: limit + 1, limit });
            assert!(error.to_string().contains(&format!("`{field}`")), "{error}");
        }
    }
}

/// V6
#[test]
fn required_texts_are_not_empty() {
    for (field, _, build) in REQUIRED {
        assert_eq!(build(String::new()).build(), Err(EventError::Empty { field }));
    }
}

/// V6
#[test]
fn no_text_contains_nul() {
    for (field, _, build) in text_fields() {
        for text in ["\0", "\0order", "or\0der", "order\0"] {
            assert_eq!(build(text.into()).build(), Err(EventError::Nul { field }), "{text:?}");
        }
    }
    for (field, add) in ENTRIES {
        let with = |name: &str, value: &str| add(order_placed(), name.into(), value.into()).build();
        assert_eq!(with("sou\0rce", "web"), Err(EventError::Nul { field }));
        assert_eq!(with("source", "web\0"), Err(EventError::Nul { field }));
    }
}

/// V6
#[test]
fn there_are_at_most_64_headers() {
    for (field, add) in ENTRIES {
        let with = |count| (0..count).fold(order_placed(), |event, n| add(event, n.to_string(), "v".into()));

        assert!(with(64).build().is_ok());
        assert_eq!(with(65).build(), Err(EventError::TooMany { field, count: 65, limit: 64 }));
        let repeated = add(with(64), "7".into(), "the last one wins".into());
        assert!(repeated.build().is_ok());
    }
}

/// V6: names are counted in characters, values in bytes.
#[test]
fn header_names_and_values_have_limits() {
    for (field, add) in ENTRIES {
        let with = |name: &str, value: String| add(order_placed(), name.to_owned(), value).build();
        let name = "ü".repeat(128);

        assert!(with(&name, String::new()).is_ok());
        assert!(with("n", "x".repeat(4096)).is_ok());
        assert!(with("n", "ü".repeat(2048)).is_ok());
        assert_eq!(with("", String::new()), Err(EventError::EmptyName { field }));
        let too_long = with(&format!("{name}x"), String::new()).unwrap_err();
        let (size, limit, unit) = (129, 128, "characters");
        assert_eq!(too_long, EventError::EntryTooLong { field, name, part: "name", size, unit, limit });
        let too_long = with("n", "ü".repeat(2048) + "x").unwrap_err();
        let (name, size, limit, unit) = ("n".to_owned(), 4097, 4096, "bytes");
        assert_eq!(too_long, EventError::EntryTooLong { field, name, part: "value", size, unit, limit });
    }
}

/// V6
#[test]
fn headers_have_at_most_16_kib_together() {
    for (field, add) in ENTRIES {
        let three = (0..3).fold(order_placed(), |event, n| add(event, n.to_string(), "v".repeat(4095)));
        let rest = |bytes: usize| add(three.clone(), "r".into(), "v".repeat(bytes - 1)).build();

        assert!(rest(4096).is_ok());
        assert_eq!(rest(4097), Err(EventError::TooLarge { field, size: 16_385, limit: 16_384 }));
    }
}

/// S11: what a store kept is read back, and what it cannot have kept is an error.
#[test]
fn stored_headers_that_are_wrong_are_refused() {
    assert!(Headers::from_json(None).unwrap().is_empty());
    assert!(Headers::from_json(Some("{}")).unwrap().is_empty());
    assert!(matches!(Headers::from_json(Some("{\"a\"")), Err(HeadersError::NotJson(_))));
    for text in ["[]", "null", "17", r#"{"a":1}"#, r#"{"a":null}"#] {
        assert!(matches!(Headers::from_json(Some(text)), Err(HeadersError::NotStrings)), "{text}");
    }
}

proptest! {
    #[test]
    fn headers_survive_their_stored_form(
        pairs in prop::collection::btree_map(any::<String>(), any::<String>(), 0..20),
    ) {
        let headers: Headers = pairs.clone().into_iter().collect();

        let stored = headers.to_json();

        prop_assert_eq!(stored.is_none(), pairs.is_empty());
        prop_assert_eq!(Headers::from_json(stored.as_deref()).unwrap(), headers);
    }

    /// V6
    #[test]
    fn a_required_text_is_refused_exactly_when_it_breaks_a_rule(
        text in "[a-zü🦀]{0,140}\0?",
        (_, limit, build) in prop::sample::select(REQUIRED.to_vec()),
    ) {

        let fits = (1..=limit).contains(&text.chars().count()) && !text.contains('\0');

        prop_assert_eq!(build(text).build().is_ok(), fits);
    }
}
