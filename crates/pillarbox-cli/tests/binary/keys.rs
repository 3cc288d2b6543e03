//! `keys list`, `resume`, `skip` and `partition` do what they say.

use serde_json::{Value, json};

use crate::shop::{Shop, run};

/// A shop in which `x-1` is dead and its key parked, and `x-2` and `x-3` wait behind it.
fn parked() -> Shop {
    let shop = Shop::with_events(&[("x-1", 0), ("x-2", 0), ("x-3", 0)]);
    shop.deliver("x-1", &["x-1"]);
    shop
}

fn keys(listed: &Value) -> Vec<&str> {
    listed["keys"].as_array().into_iter().flatten().filter_map(|line| line["key"].as_str()).collect()
}

/// O7: parked keys are seen, with the event that they wait for, while nothing runs.
#[test]
fn parked_keys_are_listed() {
    let shop = parked();

    let text = shop.run("keys list", &["--parked"]).out;
    let listed = shop.run("keys list", &["--json"]).json();

    assert!(text.contains("order-17        192  for you: parked for the dead event x-1"), "{text}");
    assert_eq!(keys(&listed), ["order-17"]);
    let line = &listed["keys"][0];
    assert_eq!((&line["parked_for"], &line["partition"]), (&json!("x-1"), &json!(192)));
}

/// O3: writers in other languages can compare what they compute.
#[test]
fn partition_of_a_key_is_told() {
    assert_eq!(run(&["keys", "partition", "order-17"]).out, "192\n");
    assert_eq!(
        run(&["keys", "partition", "заказ-17", "--json"]).json(),
        json!({ "key": "заказ-17", "partition": pillarbox::partition_of("заказ-17") })
    );
}

#[test]
fn no_parked_keys_is_an_answer() {
    let shop = Shop::with_events(&[]);
    assert_eq!(shop.run("migrate", &["--mode", "ownership"]).code, Some(0));

    assert_eq!(shop.run("keys list", &["--parked"]).out, "no parked keys\n");
    assert_eq!(shop.run("keys list", &["--json"]).json(), json!({ "keys": [] }));
    assert_eq!(shop.run("keys skip", &["--all"]).out, "skipped 0 keys\n");
}

/// O7: a key that is resumed begins with its dead event, and goes on in order.
#[test]
fn resumed_key_tries_its_dead_event_again() {
    let shop = parked();

    let resumed = shop.run("keys resume", &["order-17"]);

    assert_eq!(resumed.out, "resumed 1 key\n", "{}", resumed.err);
    assert_eq!(shop.deliver("nothing", &["x-1", "x-2", "x-3"]), ["x-1", "x-2", "x-3"]);
}

/// O7: a key that is skipped goes on in order without its dead event, which stays dead.
#[test]
fn skipped_key_goes_on_without_its_dead_event() {
    let shop = parked();

    let skipped = shop.run("keys skip", &["order-17", "--json"]).json();

    assert_eq!(skipped, json!({ "skipped": 1 }));
    assert_eq!(shop.deliver("nothing", &["x-2", "x-3"]), ["x-2", "x-3"]);
    assert_eq!(shop.number("SELECT status FROM outbox_event WHERE event_id = 'x-1'"), 3);
}

/// O7: if one of the keys is not parked, nothing is done.
#[test]
fn unknown_key_is_not_found() {
    let shop = parked();

    for command in ["keys resume", "keys skip"] {
        let answer = shop.run(command, &["order-17", "order-18"]);

        assert_eq!(answer.code, Some(3));
        assert!(answer.err.contains("the key `order-18` is not parked"), "{}", answer.err);
    }
    assert_eq!(keys(&shop.run("keys list", &["--json"]).json()), ["order-17"]);
}

/// O7: an outbox without owners has no keys that wait, and says what it is.
#[test]
fn claims_have_no_keys() {
    let shop = Shop::with_events(&[]);

    for (command, arguments) in
        [("keys list", &[][..]), ("keys skip", &["order-17"]), ("keys resume", &["--all"])]
    {
        let answer = shop.run(command, arguments);

        assert_eq!(answer.code, Some(2));
        let expected = "no key waits here, for no order is kept: the mode of this outbox is `claims`";
        assert!(answer.err.contains(expected), "{}", answer.err);
    }
}
