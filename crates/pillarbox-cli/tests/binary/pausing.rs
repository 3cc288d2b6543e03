//! `pause` and `resume` are kept in the database, and relays follow them.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::daemon::{Relay, free_port, get};
use crate::relay::{configure, to_stdout};
use crate::shop::Shop;

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never came that {what}");
        std::thread::yield_now();
    }
}

/// M5: a route stays paused until it is resumed; who repeats either is told so, and it is no error.
#[test]
fn paused_route_is_kept_and_resumed() {
    let shop = Shop::with_events(&[]);

    let first = shop.run("pause", &["orders"]);
    let again = shop.run("pause", &["orders", "invoices"]);
    let listed = shop.run("pause", &["--list", "--json"]).json();
    let status = shop.run("status", &["--json"]).json();
    let text = shop.run("status", &[]);
    let resumed = shop.run("resume", &["orders", "--json"]).json();
    let twice = shop.run("resume", &["orders"]);
    let all = shop.run("resume", &["--all"]);
    let none = shop.run("pause", &["--list"]);

    assert_eq!(
        first.out,
        "paused route `orders`: its events wait until `pillarbox resume orders`\n\
         whether there is such a route was not looked up; --config FILE does\n"
    );
    assert!(
        again.out.starts_with("route `orders` was paused already\npaused route `invoices`"),
        "{}",
        again.out
    );
    let names = |value: &Value| -> Vec<String> {
        let routes = value["paused_routes"].as_array().unwrap().iter();
        routes.map(|route| route["route"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(&listed), names(&status)), (vec!["invoices".into(), "orders".into()], names(&listed)));
    assert!(listed["paused_routes"][0]["since"].is_string(), "{listed}");
    assert!(
        text.out.contains(
            "routes that are paused; `pillarbox resume` lets their events go on\n  invoices  since "
        ),
        "{}",
        text.out
    );
    let expected = json!([{ "route": "orders", "was_paused": true, "recalled": 0 }]);
    assert_eq!(resumed["routes"], expected);
    assert_eq!((twice.code, twice.out.as_str()), (Some(0), "route `orders` was not paused\n"));
    assert_eq!(all.out, "resumed route `invoices`\n");
    assert_eq!(none.out, "no route is paused\n");
}

/// M4, M5: with the relay's file a misspelt name is answered with the right one; what is paused can always be resumed.
#[test]
fn names_are_looked_up_in_the_file() {
    let shop = Shop::with_events(&[]);
    let config = configure(&shop, &to_stdout(&shop, free_port()));
    let with = |command: &str, route: &str| shop.run(command, &[route, "--config", &config]);

    let misspelt = with("pause", "ordes");
    let right = with("pause", "orders");
    shop.run("pause", &["former"]);
    let former = with("resume", "former");
    let unknown = with("resume", "former");
    let missing = shop.run("pause", &["orders", "--config", "/no/such/file.toml"]);

    assert_eq!(misspelt.code, Some(2), "{}", misspelt.out);
    assert!(
        misspelt
            .err
            .contains("pillarbox.toml has no route `ordes`; did you mean `orders`? there are `orders`"),
        "{}",
        misspelt.err
    );
    assert_eq!(right.out, "paused route `orders`: its events wait until `pillarbox resume orders`\n");
    assert_eq!((former.code, former.out.as_str()), (Some(0), "resumed route `former`\n"));
    assert_eq!(unknown.code, Some(2), "{}", unknown.out);
    assert_eq!(missing.code, Some(2), "{}", missing.out);
    assert_eq!(shop.run("pause", &["--list", "--json"]).json()["paused_routes"][0]["route"], "orders");
}

/// A relay's file with a route for orders and one for pings, which keeps order.
fn ordered(shop: &Shop, port: u16) -> String {
    let text = to_stdout(shop, port).replace("[outbox]", "[outbox]\nordered = true");
    let text = text + "[[routes]]\nname = \"pings\"\nevent_type = \"Ping\"\nto = \"console\"\n";
    let file = shop.directory().join(format!("relay-{port}.toml"));
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Writes a ping, whose key is its own.
fn ping(shop: &Shop, id: &str) {
    shop.execute(format!(
        "INSERT INTO outbox_event (event_id, event_type, event_key, payload) VALUES ('{id}', 'Ping', '{id}', '{{}}')"
    ));
}

/// What a relay says of itself.
fn paused_routes(port: u16) -> Value {
    let state: Value = serde_json::from_str(&get(port, "/status").1).unwrap();
    state["outboxes"][0]["paused_routes"].clone()
}

/// M5, O2: a paused route keeps its events, which `status` explains, in every relay and across restarts; resumed, they arrive
/// in their order, and other routes never wait.
#[test]
fn relays_follow_a_pause() {
    let shop = Shop::with_events(&[]);
    let (port, other_port) = (free_port(), free_port());
    let config = ordered(&shop, port);
    shop.run("pause", &["orders"]);
    shop.write(&[("o-1", 0), ("o-2", 0), ("o-3", 0)]);
    let mut relay = Relay::start(&config);
    ping(&shop, "ping-1");
    assert_eq!(relay.event()["id"], "ping-1", "the route was paused before the first delivery");
    assert_eq!(paused_routes(port), json!(["orders"]));
    let (_, page) = get(port, "/metrics");
    assert!(page.contains("pillarbox_route_paused{outbox=\"outbox\",route=\"orders\"} 1"), "{page}");
    assert!(page.contains("pillarbox_route_paused{outbox=\"outbox\",route=\"pings\"} 0"), "{page}");

    let other = Relay::start(&ordered(&shop, other_port));
    until("the second relay knows it", || paused_routes(other_port) == json!(["orders"]));
    assert_eq!(other.stop().code, Some(0));
    assert_eq!(relay.stop().out, "");
    let mut relay = Relay::start(&config);
    shop.write(&[("o-4", 0)]);
    ping(&shop, "ping-2");
    assert_eq!(relay.event()["id"], "ping-2", "nor did the restart end it");
    until("its events say why they wait", || {
        let waits =
            "SELECT count(*) FROM outbox_event WHERE reason = 'paused: route `orders`' AND attempts = 0";
        shop.number(waits) == 1
    });
    until("only orders wait, and it is said why", || {
        let status = shop.run("status", &["--json"]).json();
        (&status["pending"], &status["paused_routes"][0]["route"]) == (&json!(4), &json!("orders"))
    });

    let resumed = shop.run("resume", &["orders"]);
    assert_eq!(resumed.out, "resumed route `orders`; 1 event that waited for it can go on\n");
    shop.write(&[("o-5", 0)]);
    let ids: Vec<Value> = (0..5).map(|_| relay.event()["id"].clone()).collect();

    assert_eq!(ids, ["o-1", "o-2", "o-3", "o-4", "o-5"]);
    until("the relay says that nothing is paused", || paused_routes(port) == json!([]));
    assert_eq!(relay.stop().code, Some(0));
}

/// M5: a relay that runs sees a pause and its end, and what waited goes out though nobody recalled it.
#[test]
fn running_relay_sees_pause_and_end() {
    let shop = Shop::with_events(&[("o-1", 0)]);
    let port = free_port();
    let mut relay = Relay::start(&configure(&shop, &to_stdout(&shop, port)));
    assert_eq!(relay.event()["id"], "o-1");

    shop.run("pause", &["orders"]);
    until("the relay has seen it", || paused_routes(port) == json!(["orders"]));
    shop.write(&[("o-2", 0)]);
    until("the event waits", || {
        shop.number("SELECT count(*) FROM outbox_event WHERE reason IS NOT NULL") == 1
    });
    // As somebody would who knows nothing of what waits.
    shop.execute("DELETE FROM outbox_meta WHERE name = 'paused:orders'");
    assert_eq!(relay.event()["id"], "o-2");

    let said = relay.stop();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("the route is paused; its events wait"), "{}", said.err);
}

/// M5, M4: what waits for a paused route goes by the other routes as soon as that one is gone from the file.
#[test]
fn events_of_a_route_that_is_gone_go_another_way() {
    let shop = Shop::with_events(&[]);
    let port = free_port();
    let text = to_stdout(&shop, port);
    shop.run("pause", &["orders"]);
    let mut relay = Relay::start(&configure(&shop, &text));
    shop.write(&[("o-1", 0)]);
    until("the event waits", || {
        shop.number("SELECT count(*) FROM outbox_event WHERE reason IS NOT NULL") == 1
    });

    configure(&shop, &text.replace("name = \"orders\"", "name = \"all\""));
    relay.signal(Signal::HUP);

    assert_eq!(relay.event()["id"], "o-1");
    assert_eq!(paused_routes(port), json!([]));
    assert_eq!(relay.stop().code, Some(0));
}
