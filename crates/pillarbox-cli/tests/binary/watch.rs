//! `status --watch` and `status --relay` do what they say.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::shop::{Answer, Shop, pillarbox, run};

/// A watch that runs; killed when it is dropped.
struct Watch {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Watch {
    fn start(shop: &Shop, arguments: &[&str]) -> Self {
        let mut program = pillarbox();
        program.args(["status", "--watch=100ms", "--db"]).arg(shop.file()).args(arguments);
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// The first reading like this.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let seen = self.json();
            if is_it(&seen) {
                return seen;
            }
        }
    }

    /// Ends it as Ctrl-C does.
    fn stop(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// A server that gives the same answer to whoever asks; its address.
fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

const TWO_SINKS: &str = "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"outboxes\": [{\
    \"name\": \"shop\", \"trouble\": null, \"delivered\": 1234, \"failed\": 2, \"dead\": 1, \"sinks\": [\
    {\"name\": \"kafka\", \"state\": \"down\", \"last_error\": \"no broker answers\"},\
    {\"name\": \"audit\", \"state\": \"well\", \"last_error\": null}]}]}";

/// M6: each reading is an object on a line, from the second on with what happened since the one before.
#[test]
fn watch_prints_a_line_for_each_reading() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    let mut watch = Watch::start(&shop, &["--json"]);

    let first = watch.json();
    shop.write(&[("n-1", 0), ("n-2", 0)]);
    let written = watch.until(|seen| seen["rates"]["written_per_second"].as_f64() > Some(0.0));
    shop.execute("UPDATE outbox_event SET status = 1, done_at = created_at WHERE event_id = 'n-1'");
    let delivered = watch.until(|seen| seen["new"] == 1);

    assert_eq!((&first["error"], &first["rates"], &first["dead"]), (&json!(null), &json!(null), &json!(1)));
    assert!(first["at"].as_str().is_some_and(|at| at.ends_with('Z')), "{first}");
    assert_eq!(written["new"], 2, "{written}");
    assert_eq!(delivered["rates"]["written_per_second"], 0.0, "{delivered}");
    assert!(delivered["rates"]["delivered_per_second_estimate"].as_f64() > Some(0.0), "{delivered}");
    assert_eq!(watch.stop(), Some(0));
}

/// M6: for people it is a line too, where there is no terminal; estimates are marked.
#[test]
fn watch_prints_lines_for_people() {
    let shop = Shop::with_events(&[("n-1", 0), ("x-1", 3)]);
    let mut watch = Watch::start(&shop, &[]);

    let (first, second) = (watch.line(), watch.line());

    assert!(first.contains("Z  new 1  retry 0  dead 1  done ~0  oldest due "), "{first}");
    assert!(second.ends_with("  written 0.0/s  delivered ~0.0/s\n"), "{second}");
    assert_eq!(watch.stop(), Some(0));
}

/// M6: a reading that fails is unknown, never 0, and the watch goes on.
#[test]
fn failed_readings_are_unknown_and_tried_again() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    let mut watch = Watch::start(&shop, &["--json"]);
    watch.json();

    shop.execute("ALTER TABLE outbox_event RENAME TO elsewhere");
    let unknown = watch.until(|seen| !seen["error"].is_null());
    shop.execute("ALTER TABLE elsewhere RENAME TO outbox_event");
    let known = watch.until(|seen| seen["error"].is_null());

    assert!(unknown["error"].as_str().is_some_and(|error| error.contains("there is no outbox")), "{unknown}");
    assert_eq!((&unknown["dead"], &unknown["rates"]), (&json!(null), &json!(null)), "{unknown}");
    assert_eq!(known["dead"], 1, "{known}");
    assert_eq!(watch.stop(), Some(0));
}

/// K2: how sinks are doing is shown as the relay tells it.
#[test]
fn status_shows_how_the_sinks_of_a_relay_are_doing() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    let address = server(TWO_SINKS);
    let url = format!("http://{address}");

    let text = shop.run("status", &["--relay", &url]);
    let json = shop.run("status", &["--relay", &address, "--json"]).json();
    let mut program = pillarbox();
    program.args(["status", "--db"]).arg(shop.file()).env("PILLARBOX_RELAY", &url);
    let environment = Answer::of(program.output().unwrap());

    let relay = format!("\nrelay at {url}\n");
    for line in [
        relay.as_str(),
        "  outbox `shop`: 1,234 delivered, 2 failed, 1 dead since it was started\n",
        "  SINK   STATE   LAST ERROR\n  kafka  down    no broker answers\n  audit  well    –\n",
    ] {
        assert!(text.out.contains(line), "{line}{}", text.out);
        assert!(environment.out.contains(line), "{line}{}", environment.out);
    }
    assert_eq!((&json["relay"]["url"], &json["relay"]["error"]), (&json!(url), &json!(null)));
    assert_eq!(json["relay"]["outboxes"][0]["sinks"][0]["state"], "down");
    assert_eq!(json["dead"], 1);
}

/// M6: a relay that cannot be reached is unknown, with the reason; the rest is shown.
#[test]
fn status_says_why_a_relay_cannot_be_asked() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let other = server("HTTP/1.0 404 Not Found\r\n\r\n");

    for (address, reason) in
        [(&nobody, "it cannot be reached ("), (&other, "it answers `HTTP/1.0 404 Not Found`")]
    {
        let text = shop.run("status", &["--relay", address]);
        let json = shop.run("status", &["--relay", address, "--json"]);

        assert_eq!((text.code, json.code), (Some(1), Some(1)), "{}", text.err);
        assert!(text.out.contains("given up; see `pillarbox dead list`"), "{}", text.out);
        assert!(text.out.contains(&format!("relay at http://{address}: unknown, {reason}")), "{}", text.out);
        assert!(text.err.contains(&format!("the relay at http://{address}: {reason}")), "{}", text.err);
        let json: Value = serde_json::from_str(&json.out).unwrap();
        assert_eq!((&json["dead"], &json["relay"]["outboxes"]), (&json!(1), &json!(null)));
        assert!(json["relay"]["error"].as_str().is_some_and(|error| error.contains(reason)), "{json}");
    }
    let mut watch = Watch::start(&shop, &["--relay", &nobody]);
    let (_, second) = (watch.line(), watch.line());
    assert!(second.contains("dead 1  ") && second.contains("it cannot be reached"), "{second}");
    assert_eq!(watch.stop(), Some(0));
}

#[test]
fn watches_and_relays_that_make_no_sense_are_refused() {
    for (arguments, reasons) in [
        (&["--watch=often"][..], &["'often'", "--watch", "no number"][..]),
        (&["--watch=0s"], &["'0s'", "--watch", "at least `100ms`"]),
        (&["--relay", "localhost"], &["'localhost'", "--relay <URL>", "`http://127.0.0.1:9464`"]),
        (&["--relay", "https://localhost:9464"], &["--relay <URL>", "plain HTTP", "`http://127.0.0.1:9464`"]),
        (&["--relay", "http://a:secret@localhost:9464"], &["--relay <URL>", "no password"]),
    ] {
        let answer = run(&[&["status", "--db", "x"], arguments].concat());

        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{}", answer.err);
        for reason in reasons {
            assert!(answer.err.contains(reason), "{reason}: {}", answer.err);
        }
        assert!(!answer.err.contains("secret"), "{}", answer.err);
    }
}
