//! SIGHUP changes what a relay runs with, without an event that is lost or comes twice.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::daemon::{Relay, free_port, get};
use crate::relay::{configure, to_stdout};
use crate::shop::{Answer, Shop, pillarbox};

/// Long enough for anything, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A relay on a shop, whose file can be changed.
struct Running {
    shop: Shop,
    text: String,
    relay: Relay,
    port: u16,
    /// How many events were written.
    written: usize,
    seen: BTreeSet<String>,
}

impl Running {
    fn start(change: impl Fn(&str) -> String) -> Self {
        let shop = Shop::with_events(&[]);
        let port = free_port();
        let text = change(&to_stdout(&shop, port));
        let relay = Relay::start(&configure(&shop, &text));
        Self { shop, text, relay, port, written: 0, seen: BTreeSet::new() }
    }

    /// Changes the file and has it read anew.
    fn change(&mut self, from: &str, to: &str) {
        let text = self.text.replacen(from, to, 1);
        assert_ne!(text, self.text, "{from}");
        configure(&self.shop, &text);
        self.text = text;
        self.relay.signal(Signal::HUP);
    }

    /// Writes an event and gives it as it is delivered; no event is delivered twice.
    fn pass_one(&mut self) -> serde_json::Value {
        let id = format!("order-{}", self.written);
        self.shop.write(&[(&id, 0)]);
        self.written += 1;
        let event = self.relay.event();
        assert_eq!(event["id"], id, "none is lost");
        assert!(self.seen.insert(id), "none comes twice: {event}");
        event
    }

    /// Passes events until this holds.
    fn pass_until(&mut self, mut holds: impl FnMut(&Self, &serde_json::Value) -> bool) {
        let begun = Instant::now();
        loop {
            let event = self.pass_one();
            if holds(self, &event) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not change: {event}");
        }
    }
}

/// M4: limits and other options of an outbox are those of the file after SIGHUP.
#[test]
fn options_are_read_anew() {
    let mut running = Running::start(str::to_owned);
    running.pass_one();

    running.change(
        "poll_every = \"200ms\"",
        "poll_every = \"100ms\"\nworkers = 1\nbatch_size = 1\ndelete_done = true",
    );

    running.pass_until(|running, _| {
        running.shop.number("SELECT count(*) FROM outbox_event") < i64::try_from(running.written).unwrap()
    });
    let answer = running.relay.stop();
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(answer.err.contains("the file was read anew"), "{}", answer.err);
}

/// M4: sinks whose options changed are made anew, and those that events become messages by.
#[test]
fn sinks_are_made_anew() {
    let mut running = Running::start(str::to_owned);
    assert_eq!(running.pass_one()["source"], "/shop/orders");

    running.change("/shop/orders", "/shop/other-orders");

    running.pass_until(|_, event| event["source"] == "/shop/other-orders");
    assert_eq!(running.relay.stop().code, Some(0));
}

/// M4: a new sink, and a route to it, work from SIGHUP on.
#[test]
fn sinks_come_and_go() {
    let mut running = Running::start(str::to_owned);
    running.pass_one();

    let (orders, port) = ("name = \"orders\"\nevent_type = \"Order*\"\nto = \"console\"", running.port);
    running.change("[sinks.console]", "[sinks.terminal]\ntype = \"stdout\"\n[sinks.console]");
    running.change(orders, &orders.replace("console", "terminal"));

    running.pass_until(|_, _| {
        let (_, status) = get(port, "/status");
        status.contains("terminal")
    });
    running.pass_one();
    assert_eq!(running.relay.stop().code, Some(0));
}

/// M6: the numbers of a sink and a route that are gone are unknown, and not as they were.
#[test]
fn what_is_gone_has_no_numbers() {
    let terminal = "[sinks.terminal]\ntype = \"stdout\"\n[[routes]]\nname = \"pings\"\nevent_type = \"Ping\"\nto = \"terminal\"\n";
    let mut running = Running::start(|text| format!("{text}{terminal}"));
    running.pass_one();
    let port = running.port;
    let (_, before) = get(port, "/metrics");

    running.change(terminal, "");
    running.pass_until(|_, _| !get(port, "/status").1.contains("terminal"));
    let (_, after) = get(port, "/metrics");

    let route = "pillarbox_route_paused{outbox=\"outbox\",route=\"pings\"}";
    for (number, known) in [("pillarbox_sink_up{sink=\"terminal\"}", "1"), (route, "0")] {
        assert!(before.contains(&format!("{number} {known}\n")), "{before}");
        assert!(after.contains(&format!("{number} NaN\n")), "{after}");
    }
    assert!(after.contains("pillarbox_sink_up{sink=\"console\"} 1\n"), "{after}");
    assert_eq!(running.relay.stop().code, Some(0));
}

/// M4: what cannot be changed is named, and stays; the rest is changed.
#[test]
fn what_cannot_change_is_named() {
    let mut running = Running::start(str::to_owned);
    running.pass_one();
    let (here, elsewhere) = (running.shop.db(), running.shop.directory().join("elsewhere.db"));

    running.change(&here, elsewhere.to_str().unwrap());
    running.change("poll_every", "ordered = true\npoll_every");
    running.change("listen = \"127.0.0.1:", "listen = \"127.0.0.2:");
    running.change("source = \"/shop/orders\"", "source = \"/shop\"");

    running.pass_until(|_, event| event["source"] == "/shop");
    let answer = running.relay.stop();
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    for key in ["store.url", "ordered", "http.listen"] {
        assert!(answer.err.contains(key), "{key} in {}", answer.err);
    }
    assert!(answer.err.contains("these count from the next start on"), "{}", answer.err);
    assert!(!elsewhere.exists());
}

/// M4: the log is as talkative as the file says after SIGHUP.
#[test]
fn level_is_read_anew() {
    let mut running = Running::start(|text| format!("{text}[log]\nlevel = \"error\"\n"));
    running.pass_one();

    running.change("\"error\"", "\"info\"");
    running.change("source = \"/shop/orders\"", "source = \"/shop\"");

    running.pass_until(|_, event| event["source"] == "/shop");
    let answer = running.relay.stop();
    assert!(!answer.err.contains("the relay runs"), "{}", answer.err);
    assert!(answer.err.contains("the file was read anew"), "{}", answer.err);
}

/// M4: a file that is broken changes nothing, and the log says where it is.
#[test]
fn broken_file_changes_nothing() {
    let mut running = Running::start(str::to_owned);
    running.pass_one();

    running.change("poll_every = \"200ms\"", "poll_evry = \"100ms\"\ndelete_done = true");
    running.pass_one();
    running.change("poll_evry = \"100ms\"\ndelete_done = true", "poll_every = \"100ms\"");
    running.change("source = \"/shop/orders\"", "source = \"/shop\"");

    running.pass_until(|_, event| event["source"] == "/shop");
    let rows = running.shop.number("SELECT count(*) FROM outbox_event");
    assert_eq!(rows, i64::try_from(running.written).unwrap(), "nothing was deleted");
    let answer = running.relay.stop();
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    let expected = "line 3, column 1: unknown option `poll_evry`; did you mean `poll_every`?";
    assert!(answer.err.contains(expected), "{}", answer.err);
}

/// M4: under systemd a reload with a wrong file fails before the relay hears of it, and a wrong file keeps it from being
/// started again and again.
#[test]
fn unit_of_systemd_checks_the_file_first() {
    let unit = include_str!("../../../../deploy/pillarbox-relay.service");
    let lines = |key: &str| unit.lines().filter_map(|line| line.strip_prefix(key)).collect::<Vec<_>>();
    let [start] = lines("ExecStart=")[..] else { panic!("{unit}") };
    let [check, tell] = lines("ExecReload=")[..] else { panic!("{unit}") };
    let (program, file) = (start.split(' ').next().unwrap(), start.split(' ').next_back().unwrap());
    let shop = Shop::with_events(&[]);
    let text = to_stdout(&shop, free_port());

    let reload = |text: &str| {
        let config = configure(&shop, text);
        let arguments = check.strip_prefix(program).unwrap().replace(file, &config);
        Answer::of(pillarbox().args(arguments.split_whitespace()).output().unwrap())
    };
    let (right, wrong) = (reload(&text), reload(&text.replace("poll_every", "pol_every")));

    assert_eq!(right.code, Some(0), "{}", right.err);
    let code = wrong.code.unwrap().to_string();
    assert!(wrong.err.contains("did you mean `poll_every`?"), "{}", wrong.err);
    assert_eq!(lines("RestartPreventExitStatus="), [code]);
    assert_eq!(tell, "/bin/kill -HUP $MAINPID");
}
