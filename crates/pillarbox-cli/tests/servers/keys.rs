//! `keys` lists parked keys and frees them, `status` and `/metrics` count them, all while relays run.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::time::Instant;

use pillarbox::partition_of;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::daemon::{PATIENCE, Relay, free_port, get};
use crate::desk::Desk;

/// Nobody has a route for payments, so that the first two keys are parked; invoices are paused, so that the third waits.
const EVENTS: [(&str, &str, &str); 8] = [
    ("x-1", "PaymentTaken", "order-17"),
    ("x-2", "OrderPlaced", "order-17"),
    ("x-3", "OrderPaid", "order-17"),
    ("y-1", "PaymentTaken", "order-18"),
    ("y-2", "OrderPlaced", "order-18"),
    ("y-3", "OrderPaid", "order-18"),
    ("z-1", "InvoiceIssued", "order-19"),
    ("z-2", "OrderPlaced", "order-19"),
];
/// What relays have routes for, until the file is mended.
const ORDERS: &str = "Order*";
const ALL: &str = "*";

/// An outbox whose relays keep order and park.
struct Shop<'a> {
    desk: &'a Desk,
    directory: TempDir,
}

impl<'a> Shop<'a> {
    /// A shop whose relay has parked two keys, and was stopped.
    fn parked(desk: &'a Desk) -> Self {
        assert_eq!(desk.run("migrate", &["--mode", "ownership"]).code, Some(0));
        assert_eq!(desk.run("pause", &["invoices"]).code, Some(0));
        for (id, event_type, key) in EVENTS {
            desk.sql(&format!(
                "INSERT INTO outbox_event (event_id, event_type, event_key, payload)
                 VALUES ('{id}', '{event_type}', '{key}', '{{}}')"
            ));
        }
        let shop = Self { desk, directory: tempfile::tempdir().unwrap() };
        let (relay, _) = shop.relay("relay-0", ORDERS);
        shop.until(|status| status["parked_keys"] == 2 && status["blocked_keys"] == 3);
        let answer = relay.stop();
        assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{}", answer.err);
        shop
    }

    /// Starts a relay that has a route for these events and one for invoices, and tells its port.
    fn relay(&self, name: &str, events: &str) -> (Relay, u16) {
        let port = free_port();
        let text = format!(
            r#"
[outbox]
name = "{name}"
ordered = true
on_dead_head = "park"
poll_every = "200ms"
heartbeat_every = "200ms"
rebalance_every = "200ms"
[outbox.store]
url = '{}'
[messages]
source = "/shop/orders"
[sinks.console]
type = "stdout"
[[routes]]
name = "invoices"
event_type = "Invoice*"
to = "console"
[[routes]]
name = "rest"
event_type = "{events}"
to = "console"
[http]
listen = "127.0.0.1:{port}"
"#,
            self.desk.own.url()
        );
        let file = self.directory.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        (Relay::start(file.to_str().unwrap()), port)
    }

    /// Waits until `status` tells what is expected, and returns it.
    fn until(&self, is_expected: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let status = self.desk.run("status", &["--json"]).json();
            if is_expected(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "{status}");
        }
    }

    /// Starts two relays, and waits until each owns its half. Gives them with their ports, and what `status` tells.
    fn shared(&self) -> ([(Relay, u16); 2], Value) {
        let relays = ["relay-1", "relay-2"].map(|name| self.relay(name, ORDERS));
        let status = self.until(|status| {
            let shares = status["instances"].as_array().into_iter().flatten();
            shares.map(|instance| instance["partitions"].as_u64().unwrap()).collect::<Vec<_>>() == [128, 128]
        });
        (relays, status)
    }

    /// The keys that `keys list` tells of, each with the event that it is parked for.
    fn keys(&self, arguments: &[&str]) -> Value {
        let listed = self.desk.run("keys list", &[arguments, &["--json"]].concat()).json();
        let lines = listed["keys"].as_array().into_iter().flatten();
        lines.map(|line| json!([line["key"], line["partition"], line["parked_for"]])).collect()
    }
}

/// The ids of the next events that the relay delivers.
fn delivered<const N: usize>(relay: &mut Relay) -> [String; N] {
    std::array::from_fn(|_| relay.event()["id"].as_str().unwrap().to_owned())
}

/// The line that begins with this word, with single spaces.
fn line(text: &str, word: &str) -> String {
    let found = text.lines().find(|line| line.split_whitespace().next() == Some(word));
    let found = found.unwrap_or_else(|| panic!("no line of {word}: {text}"));
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number of this name on a page of metrics; `None` where it is not known.
fn number(page: &str, name: &str) -> Option<u64> {
    let start = format!("pillarbox_{name}{{outbox=\"outbox\"}} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&start));
    found.unwrap_or_else(|| panic!("no {name}: {page}")).parse().ok()
}

/// O7: keys that wait are listed with what they wait for, and those that wait for an operator apart.
pub(crate) async fn parked_keys_are_listed(desk: &Desk) {
    let shop = Shop::parked(desk);

    let text = desk.run("keys list", &[]).out;
    let log = desk.run_loudly(&desk.own.url(), "keys list", &["--parked"]).err;

    let of = |key: &str, id: Value| json!([key, partition_of(key), id]);
    let parked = [of("order-17", json!("x-1")), of("order-18", json!("y-1"))];
    assert_eq!(shop.keys(&["--parked"]), json!(parked));
    assert_eq!(shop.keys(&[]), json!([&parked[..], &[of("order-19", json!(null))]].concat()));
    assert_eq!(line(&text, "order-17"), "order-17 192 for you: parked for the dead event x-1");
    assert!(line(&text, "order-19").contains(" for another attempt, in "), "{text}");
    assert!(log.contains("outbox_parked"), "statements are logged, and no password: {log}");
}

/// O7: a key that is resumed begins with its dead event and goes on in order, while other keys stay parked.
pub(crate) async fn resumed_key_tries_its_dead_event_again(desk: &Desk) {
    let shop = Shop::parked(desk);
    let (mut relay, _) = shop.relay("relay-1", ALL);

    let resumed = desk.run("keys resume", &["order-17"]);
    let ids = delivered(&mut relay);
    let answer = relay.stop();

    assert_eq!(resumed.out, "resumed 1 key\n", "{}", resumed.err);
    assert_eq!(ids, ["x-1", "x-2", "x-3"]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{}", answer.err);
    assert_eq!(shop.keys(&["--parked"]), json!([["order-18", partition_of("order-18"), "y-1"]]));
    assert_eq!(desk.count(3), "1");
}

/// O7: a key that is skipped goes on in order without its dead event, which stays dead, and no other key does.
pub(crate) async fn skipped_key_goes_on_without_its_dead_event(desk: &Desk) {
    let shop = Shop::parked(desk);
    let (mut relay, _) = shop.relay("relay-1", ALL);

    let skipped = desk.run("keys skip", &["order-18", "--json"]).json();
    let ids = delivered(&mut relay);
    let answer = relay.stop();

    assert_eq!(skipped, json!({ "skipped": 1 }));
    assert_eq!(ids, ["y-2", "y-3"]);
    assert_eq!((answer.code, answer.out.as_str()), (Some(0), ""), "{}", answer.err);
    assert_eq!(shop.keys(&["--parked"]), json!([["order-17", 192, "x-1"]]));
    assert_eq!(desk.sql("SELECT status FROM outbox_event WHERE event_id = 'y-1'"), "3");
}

/// O7: if one of the keys is not parked, nothing is done.
pub(crate) async fn key_that_is_not_parked_is_not_found(desk: &Desk) {
    let shop = Shop::parked(desk);

    for command in ["keys resume", "keys skip"] {
        let answer = desk.run(command, &["order-17", "order-19"]);

        assert_eq!(answer.code, Some(3));
        assert!(answer.err.contains("the key `order-19` is not parked"), "{}", answer.err);
    }
    assert_eq!(shop.keys(&["--parked"]).as_array().map(Vec::len), Some(2));
}

/// O7: an outbox without owners has no keys that wait, and says what it is.
pub(crate) async fn claims_have_no_keys(desk: &Desk) {
    desk.with_events(&[("x-1", 3)]);

    for (command, arguments) in
        [("keys list", &[][..]), ("keys skip", &["order-17"]), ("keys resume", &["--all"])]
    {
        let answer = desk.run(command, arguments);

        assert_eq!(answer.code, Some(2), "{}", answer.err);
        assert!(answer.err.contains("the mode of this outbox is `claims`"), "{}", answer.err);
    }
}

/// M5, O7: people and programs see who owns how much and since when, what waits where and for how long, and which keys
/// are held up.
pub(crate) async fn status_tells_who_shares_and_what_waits(desk: &Desk) {
    let shop = Shop::parked(desk);

    let (relays, json) = shop.shared();
    let text = desk.run("status", &[]).out;
    drop(relays);

    for (number, name) in ["relay-1", "relay-2"].into_iter().enumerate() {
        let told = &json["instances"][number];
        assert_eq!(json!([told["name"], told["is_alive"], told["mode"]]), json!([name, true, "ownership"]));
        let [joined, silent] = ["joined_ago_seconds", "silent_for_seconds"].map(|age| told[age].as_f64());
        assert!(joined > Some(0.0) && silent >= Some(0.0) && joined >= silent, "{told}");
        let line = line(&text, name);
        assert!(line.contains(" ago ") && !line.contains("silent"), "{line}");
        assert!(line.ends_with(&format!(" 128 {}", told["pending"])), "{line}");
    }
    assert_eq!(
        ["pending", "dead", "blocked_keys", "parked_keys", "unplaced"].map(|name| &json[name]),
        [6, 2, 3, 2, 0].map(|count| json!(count)).each_ref()
    );
    for key in ["order-17", "order-18", "order-19"] {
        let partition = &json["partitions"][usize::from(partition_of(key))];
        assert_eq!(partition["fresh"].as_u64().unwrap() + partition["aside"].as_u64().unwrap(), 2, "{key}");
        assert!(partition["oldest_due_seconds"].as_f64() > Some(0.0), "{key}: {partition}");
    }
    assert!(json["oldest_due_seconds"].as_f64() > Some(0.0), "{json}");
    assert_eq!(line(&text, "no"), "no owner 0 partitions that nobody reads");
    assert!(line(&text, "pending").starts_with("pending 6 in 3 partitions, most in "), "{text}");
    assert!(line(&text, "blocked").starts_with("blocked 3 "), "{text}");
    assert!(line(&text, "parked").starts_with("parked 2 "), "{text}");
}

/// O7, M2: each relay counts the partitions that it owns, and the keys that wait in them; all events that wait are
/// counted by any.
pub(crate) async fn metrics_tell_of_partitions_and_keys(desk: &Desk) {
    let shop = Shop::parked(desk);

    let (relays, _) = shop.shared();
    let ports = relays.each_ref().map(|(_, port)| *port);
    let begun = Instant::now();
    let pages = loop {
        let pages = ports.map(|port| get(port, "/metrics").1);
        let sum = |name| pages.iter().map(|page| number(page, name)).sum::<Option<u64>>();
        if (sum("keys_blocked"), sum("keys_parked")) == (Some(3), Some(2)) {
            break pages;
        }
        assert!(begun.elapsed() < PATIENCE, "{pages:?}");
    };

    for page in &pages {
        let numbers = ["instances", "partitions_assigned", "partitions_fair"].map(|name| number(page, name));
        assert_eq!(numbers, [Some(2), Some(128), Some(128)]);
        let pending = ["partitions_pending", "partition_pending_max"].map(|name| number(page, name));
        assert_eq!(pending, [Some(6), Some(2)]);
    }
}
