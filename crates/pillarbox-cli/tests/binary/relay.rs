//! `relay` delivers what stands in the table, and says what is wrong with its file.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::BufReader;

use serde_json::Value;

use crate::daemon::{PATIENCE, Relay, free_port, get};
use crate::shop::{Answer, Shop, pillarbox};

/// A configuration that prints all events of a shop, and can be reached at `port`.
pub(crate) fn to_stdout(shop: &Shop, port: u16) -> String {
    format!(
        r#"
[outbox]
poll_every = "200ms"
[outbox.store]
url = '{}'
[messages]
source = "/shop/orders"
[sinks.console]
type = "stdout"
[[routes]]
name = "orders"
event_type = "Order*"
to = "console"
[http]
listen = "127.0.0.1:{port}"
"#,
        shop.db()
    )
}

pub(crate) fn configure(shop: &Shop, text: &str) -> String {
    let file = shop.directory().join("pillarbox.toml");
    // In one step: a relay that reads it anew finds the old one or the new one.
    let new = shop.directory().join("pillarbox.toml.new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &file).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Nobody reads what the relay prints any more.
fn stop_reading(relay: &mut Relay) {
    let (read, _) = std::io::pipe().unwrap();
    drop(std::mem::replace(&mut relay.out, BufReader::new(Box::new(read))));
}

/// K3: what was inserted by anybody is delivered, as CloudEvents, and done; SIGTERM ends it well.
#[test]
fn table_is_delivered() {
    let shop = Shop::with_events(&[("order-1", 0), ("order-2", 0), ("order-3", 0)]);
    let mut relay = Relay::start(&configure(&shop, &to_stdout(&shop, free_port())));

    let mut ids: Vec<String> = (0..3)
        .map(|_| {
            let event = relay.event();
            assert_eq!((&event["specversion"], &event["source"]), (&"1.0".into(), &"/shop/orders".into()));
            event["id"].as_str().unwrap().to_owned()
        })
        .collect();
    ids.sort();
    let answer = relay.stop();

    assert_eq!(ids, ["order-1", "order-2", "order-3"]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    let status = shop.run("status", &["--json"]).json();
    assert_eq!((&status["pending"], &status["dead"]), (&0.into(), &0.into()));
}

/// M2, M6: the relay says that it lives and works, and tells its numbers; what is not known is not 0.
#[test]
fn relay_can_be_watched() {
    let shop = Shop::with_events(&[("order-1", 0)]);
    let port = free_port();
    let mut relay = Relay::start(&configure(&shop, &to_stdout(&shop, port)));
    relay.event();

    assert_eq!(get(port, "/livez"), ("HTTP/1.0 200 OK".into(), "alive\n".into()));
    let (ready, state) = get(port, "/readyz");
    assert_eq!(ready, "HTTP/1.0 200 OK", "{state}");
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(state["outboxes"][0]["sinks"][0]["state"], "well");
    let (_, page) = get(port, "/metrics");
    for line in [
        "# TYPE pillarbox_delivered_total counter",
        "pillarbox_sink_up{sink=\"console\"} 1",
        "pillarbox_partition_pending_max{outbox=\"outbox\"} NaN",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert_eq!(relay.stop().code, Some(0));
}

/// K2: since when a sink is down is told, and stays while it is.
#[test]
fn status_says_since_when_a_sink_is_down() {
    let shop = Shop::with_events(&[("order-1", 0)]);
    let port = free_port();
    let mut relay = Relay::start(&configure(&shop, &to_stdout(&shop, port)));
    relay.event();
    let sink = || -> Value {
        let status: Value = serde_json::from_str(&get(port, "/status").1).unwrap();
        status["outboxes"][0]["sinks"][0].clone()
    };
    assert_eq!((&sink()["state"], &sink()["down_since"]), (&"well".into(), &Value::Null));

    stop_reading(&mut relay);
    shop.write(&[("order-2", 0)]);
    let begun = std::time::Instant::now();
    let down = loop {
        let seen = sink();
        if seen["state"] != "well" {
            break seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{seen}");
    };

    let since = down["down_since"].as_str().unwrap().to_owned();
    assert!(since.starts_with("20") && since.ends_with('Z'), "{down}");
    assert_eq!(sink()["down_since"], down["down_since"]);
    let url = format!("http://127.0.0.1:{port}");
    let text = shop.run("status", &["--relay", &url]).out;
    assert!(text.contains(&format!("since {since}: standard output: ")), "{text}");
    relay.stop();
}

/// M4: after SIGHUP the routes are those of the file; a broken file changes nothing, and is named.
#[test]
fn routes_are_read_anew() {
    let shop = Shop::with_events(&[("order-1", 0)]);
    let text = to_stdout(&shop, free_port());
    let config = configure(&shop, &text);
    let mut relay = Relay::start(&config);
    assert_eq!(relay.event()["id"], "order-1");

    configure(&shop, &text.replace("to = \"console\"", "to = \"consle\""));
    relay.signal(rustix::process::Signal::HUP);
    shop.write(&[("order-2", 0)]);
    assert_eq!(relay.event()["id"], "order-2", "the old routes stay");
    let answer = relay.stop();

    assert!(answer.err.contains("the routes stay as they are"), "{}", answer.err);
    assert!(answer.err.contains("did you mean `console`?"), "{}", answer.err);
}

/// M4: every mistake in the file is told with its place and a remedy, by `config check` and by the relay.
#[test]
fn broken_configuration_is_explained() {
    let shop = Shop::with_events(&[]);
    let right = to_stdout(&shop, free_port());
    for (from, to, expected) in [
        ("poll_every", "pol_every", "did you mean `poll_every`?"),
        ("\"200ms\"", "200", "a duration needs its unit"),
        ("[messages]", "[mesages]", "line 6, column 2: unknown key `mesages`; did you mean `messages`?"),
        ("source = \"/shop/orders\"", "", "line 6, column 1: `source` is missing in `messages`"),
        ("/shop/orders", "my shop", "line 7, column 10: `my shop` is no source of events"),
        ("\"stdout\"", "\"stdin\"", "line 8, column 1: sink `console`: `stdin` is no type of a sink"),
        (
            "type = \"stdout\"",
            "type = \"stdout\"\nx = 1",
            "line 10, column 1: unknown key `x` in `sinks.console`",
        ),
        ("to = \"console\"", "to = \"kafka\"", "route `orders` names sink `kafka`, which is not there"),
        ("event_type =", "event_typ =", "unknown key `event_typ` in `routes`; did you mean `event_type`?"),
        ("to = \"console\"", "to = { sink = \"console\", address = \"{kye}\" }", "did you mean `{key}`?"),
        ("listen", "lissen", "unknown key `lissen` in `http`; did you mean `listen`?"),
    ] {
        let text = right.replacen(from, to, 1);
        assert_ne!(text, right, "{from}");
        let config = configure(&shop, &text);
        for command in [&["config", "check"][..], &["relay"]] {
            let answer = Answer::of(pillarbox().args(command).args(["--config", &config]).output().unwrap());

            assert_eq!(answer.code, Some(2), "{command:?} {from}: {}", answer.err);
            assert!(answer.err.contains("pillarbox.toml"), "{}", answer.err);
            assert!(answer.err.contains(expected), "{expected} in {}", answer.err);
        }
    }
}

/// M4: the file that is printed to start from is right once it has a database.
#[test]
fn printed_defaults_are_right() {
    let shop = Shop::with_events(&[]);
    let printed = Answer::of(pillarbox().args(["config", "--print-defaults"]).output().unwrap());
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    let config = configure(&shop, &printed.out);

    let check = |program: &mut std::process::Command| {
        Answer::of(program.args(["config", "check", "--config", &config]).output().unwrap())
    };
    let missing = check(&mut pillarbox());
    assert!(missing.err.contains("no database is configured; set `store.url`"), "{}", missing.err);
    let checked = check(pillarbox().env("PILLARBOX_STORE_URL", shop.db()));

    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""), "{}", checked.out);
    assert!(checked.out.contains("is right: 1 outboxes, 1 sinks, 1 routes"), "{}", checked.out);
}

/// K1: where an event would go is shown, and that it would go nowhere is an exit code.
#[test]
fn routes_are_tested_with_an_event() {
    let shop = Shop::with_events(&[]);
    let config = configure(&shop, &to_stdout(&shop, free_port()));
    let test = |event: &str| {
        let file = shop.directory().join("event.json");
        std::fs::write(&file, event).unwrap();
        let mut program = pillarbox();
        program.args(["routes", "test"]).arg(&file).args(["--config", &config]);
        Answer::of(program.output().unwrap())
    };

    let taken = test(r#"{"event_type": "OrderPlaced", "key": "order-17"}"#);
    assert_eq!(
        (taken.code, taken.out.as_str()),
        (Some(0), "route `orders` takes it to\n  console at its own address\n")
    );
    let unroutable = test(r#"{"event_type": "Ping"}"#);
    assert_eq!(unroutable.code, Some(1));
    assert!(unroutable.out.starts_with("no route takes it"), "{}", unroutable.out);
    let broken = test(r#"{"type": "Ping"}"#);
    assert_eq!(broken.code, Some(2));
    assert!(broken.err.contains("unknown field `type`"), "{}", broken.err);
}

/// K1: an event that a sink cannot send, for its own address or exchange asks for what the event has not, is told to be dead.
#[test]
fn own_addresses_of_sinks_are_tested_with_an_event() {
    let shop = Shop::with_events(&[]);
    let test = |sink: &str, to: &str, event: &str| {
        let text = to_stdout(&shop, free_port());
        let text = text.replace("type = \"stdout\"", sink).replace("to = \"console\"", to);
        let (config, file) = (configure(&shop, &text), shop.directory().join("event.json"));
        std::fs::write(&file, event).unwrap();
        let mut program = pillarbox();
        Answer::of(program.args(["routes", "test"]).arg(&file).args(["--config", &config]).output().unwrap())
    };
    let version = Answer::of(pillarbox().arg("--version").output().unwrap()).out;
    let (with_key, without) =
        (r#"{"event_type": "OrderPlaced", "key": "order-17"}"#, r#"{"event_type": "OrderPlaced"}"#);
    let redis = "type = \"redis\"\nurl = \"redis://localhost\"\nstream = \"orders.{key}\"";
    let rabbitmq =
        "type = \"rabbitmq\"\nurl = \"amqp://localhost\"\nrouting_key = \"orders\"\nexchange = \"{key}\"";
    let hooks = "type = \"http\"\nurl = \"https://shop.example/17/{key}\"";
    let elsewhere = "to = { sink = \"console\", address = \"elsewhere\" }";
    let own = "to = \"console\"";

    for (kind, sink, to, event, code, told) in [
        ("redis", redis, own, with_key, 0, "  console at its own address, `orders.order-17`\n"),
        (
            "redis",
            redis,
            own,
            without,
            1,
            "  console: dead, for `orders.{key}` cannot be filled: the event has no key",
        ),
        ("redis", redis, elsewhere, without, 0, "  console at `elsewhere`\n"),
        ("rabbitmq", rabbitmq, elsewhere, without, 1, "  console: dead, for `{key}` cannot be filled"),
        ("http", hooks, own, with_key, 0, "  console at its own address, `https://shop.example/…`\n"),
        ("http", hooks, own, without, 1, "  console: dead, for `https://shop.example/…` cannot be filled"),
    ] {
        let answer = test(sink, to, event);
        if !version.contains(kind) {
            assert!(answer.err.contains("this program was built without"), "{}", answer.err);
            continue;
        }
        assert_eq!(answer.code, Some(code), "{kind} {to}: {}{}", answer.out, answer.err);
        assert!(answer.out.contains(told), "{told} in {}", answer.out);
    }
}

/// M4: the program says what it was built with.
#[test]
fn version_says_what_it_was_built_with() {
    let version = Answer::of(pillarbox().arg("--version").output().unwrap());

    assert!(version.out.contains("databases: sqlite"), "{}", version.out);
    assert!(version.out.contains("stdout"), "{}", version.out);
}
