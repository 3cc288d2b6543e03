//! What another client found at a broker, held against what was written.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::{Arrival, Broker};
use crate::database::KEYS;

/// What events are said to come from.
pub(crate) const SOURCE: &str = "/shop/orders";

/// Says what is right of arrivals: all events of `0..count` are there, each complete, and first arrivals are in the order
/// of their key. Gives how many came again.
pub(crate) fn judge<B: Broker>(arrivals: &[Arrival], count: usize) -> usize {
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for arrival in arrivals {
        let number: usize = arrival.id.trim_start_matches("event-").parse().unwrap();
        assert_complete::<B>(arrival, number);
        if seen.insert(number) {
            let before = last.insert(number % KEYS, number);
            let expected = before.map_or(number % KEYS, |before| before + KEYS);
            assert_eq!(number, expected, "the next of its key, after {before:?}");
        }
    }
    let lost = (0..count).find(|number| !seen.contains(number));
    assert_eq!((lost, seen.len()), (None, count), "of {count} events {} arrived", seen.len());
    arrivals.len() - seen.len()
}

/// Nothing of the event is missing or wrong.
fn assert_complete<B: Broker>(arrival: &Arrival, number: usize) {
    let key = format!("order-{}", number % KEYS);
    let attribute = |name: &str| arrival.headers.get(&format!("{}{name}", B::ATTRIBUTE)).map(String::as_str);
    assert_eq!(arrival.id, format!("event-{number:07}"));
    assert_eq!(arrival.headers.get("event-id"), Some(&arrival.id));
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", &arrival.id),
        ("source", SOURCE),
        ("type", "OrderPlaced"),
        ("subject", &key),
        ("partitionkey", &key),
        ("aggregatetype", "Order"),
        ("tenantid", "acme"),
    ] {
        assert_eq!(attribute(name), Some(value), "{name} of {arrival:?}");
    }
    assert!(attribute("time").is_some(), "{arrival:?}");
    let region = arrival.headers.get(&format!("{}region", B::HEADER)).map(String::as_str);
    assert_eq!(region, Some("eu-1"), "{arrival:?}");
    assert_eq!(arrival.body, format!("{{\"number\":{number}}}"));
}
