//! `status` tells who takes part, who owns what, and what waits where.

use std::time::Duration;

use serde_json::{Value, json};

use crate::shop::Shop;

const LONG: Duration = Duration::from_secs(600);

/// A shop in which `order-17` (partition 192) is parked with two events behind it, one relay owns the upper half, and
/// another has lost the lower one.
fn shared() -> Shop {
    let shop = Shop::with_events(&[("x-1", 0), ("x-2", 0), ("x-3", 0)]);
    shop.deliver("x-1", &["x-1"]);
    shop.own("relay-1", LONG, 128..255);
    shop.own("relay-2", Duration::ZERO, 0..128);
    shop
}

/// The line that begins with this word, with single spaces.
fn line(text: &str, word: &str) -> String {
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(word));
    let found = found.unwrap_or_else(|| panic!("no line of {word}: {text}"));
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// M5, O3: an outbox whose rows are claimed says so, and has no partitions; one without instances delivers nothing.
#[test]
fn status_names_the_mode() {
    let shop = Shop::with_events(&[("n-1", 0)]);

    let text = shop.run("status", &[]).out;
    let json = shop.run("status", &["--json"]).json();

    let mode = "\n\nmode claims: events are taken row by row\n\nno instances: nobody delivers\n";
    assert!(text.ends_with(mode), "{text}");
    assert_eq!(
        (&json["mode"], &json["partitions"], &json["instances"]),
        (&json!("claims"), &json!([]), &json!([]))
    );
}

/// M5, O4: where rows are claimed people and programs see who takes part too, and who is silent.
#[test]
fn status_shows_who_claims() {
    let shop = Shop::with_events(&[]);
    shop.claim("relay-1", LONG);
    shop.claim("relay-2", Duration::ZERO);

    let text = shop.run("status", &[]).out;
    let json = shop.run("status", &["--json"]).json();

    assert!(line(&text, "relay-1").ends_with(" ago"), "{text}");
    assert!(line(&text, "relay-2").ends_with(" ago, silent"), "{text}");
    assert!(!text.contains("PARTITIONS") && !text.contains("nobody delivers"), "{text}");
    for (number, (name, is_alive)) in [("relay-1", true), ("relay-2", false)].into_iter().enumerate() {
        let told = &json["instances"][number];
        assert_eq!(json!([told["name"], told["mode"], told["is_alive"]]), json!([name, "claims", is_alive]));
    }
}

/// M5, O7: people see who takes part and since when, who is silent, what nobody owns, and where to look next.
#[test]
fn status_shows_people_who_owns_what() {
    let shop = shared();

    let text = shop.run("status", &[]).out;

    assert!(text.contains("\nmode ownership: "), "{text}");
    let (first, second) = (line(&text, "relay-1"), line(&text, "relay-2"));
    assert!(first.ends_with(" ago 127 2") && !first.contains("silent"), "{first}");
    assert!(second.ends_with(" ago, silent 0 0"), "{second}");
    assert!(line(&text, "no").starts_with("no owner 129 "), "{text}");
    assert!(line(&text, "pending").ends_with("2 in partition 192 (2)"), "{text}");
    assert!(line(&text, "blocked").ends_with("1 keys that wait; see `pillarbox keys list`"), "{text}");
    assert!(line(&text, "parked").contains(" 1 ") && text.contains("keys list --parked"), "{text}");
    assert!(!text.contains("unplaced"), "{text}");
}

/// M5, O7: programs get all of it, partition by partition.
#[test]
fn status_gives_programs_every_partition() {
    let shop = shared();

    let json = shop.run("status", &["--json"]).json();

    assert_eq!((&json["mode"], &json["pending"]), (&json!("ownership"), &json!(2)));
    assert_eq!(
        (&json["blocked_keys"], &json["parked_keys"], &json["unplaced"]),
        (&json!(1), &json!(1), &json!(0))
    );
    let told: Vec<[&Value; 4]> = json["instances"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|instance| ["name", "is_alive", "partitions", "pending"].map(|name| &instance[name]))
        .collect();
    assert_eq!(json!(told), json!([["relay-1", true, 127, 2], ["relay-2", false, 0, 0]]));
    let partitions: Vec<&Value> = json["partitions"].as_array().into_iter().flatten().collect();
    assert_eq!(partitions.len(), 256);
    assert_eq!(partitions[192]["owner"], json!("relay-1/0000000000000001"));
    assert_eq!(
        ["is_held", "fresh", "aside"].map(|name| &partitions[192][name]),
        [&json!(true), &json!(0), &json!(2)]
    );
    assert!(partitions[192]["oldest_due_seconds"].as_f64().is_some(), "{}", partitions[192]);
    assert_eq!(
        [&partitions[7]["is_held"], &partitions[7]["oldest_due_seconds"]],
        [&json!(false), &json!(null)]
    );
    assert_eq!(partitions[255]["owner"], json!(null));
}

/// M5: an instance that left without giving back what it owns is shown until that has ended.
#[test]
fn status_shows_who_left_and_still_owns() {
    let shop = shared();
    shop.execute("DELETE FROM outbox_instance WHERE name = 'relay-1'");

    let text = shop.run("status", &[]).out;

    assert!(line(&text, "relay-1").ends_with("– gone 127 2"), "{text}");
}

/// M5: an outbox that nobody reads says so, and counts what was written without a partition.
#[test]
fn status_tells_that_nobody_delivers() {
    let shop = Shop::with_events(&[]);
    assert_eq!(shop.run("migrate", &["--mode", "ownership"]).code, Some(0));
    shop.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload) VALUES ('n-1', 'OrderPlaced', '{}')",
    );

    let text = shop.run("status", &[]).out;

    assert!(text.contains("no instances: nobody delivers"), "{text}");
    assert!(line(&text, "no").starts_with("no instances"), "{text}");
    assert!(line(&text, "unplaced").starts_with("unplaced 1 "), "{text}");
    assert!(line(&text, "pending").starts_with("pending 1 in no partition"), "{text}");
}
