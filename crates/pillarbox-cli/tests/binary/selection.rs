//! `dead list`, `replay` and `discard` of events that have something in common: by type, time, error and key; slowly,
//! or not at all.

use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Answer, pillarbox};
use crate::shop::Shop;

/// Four dead events that differ in everything, and one that waits.
fn shop() -> Shop {
    let shop = Shop::with_events(&[("x-1", 3), ("x-2", 3), ("x-3", 3), ("x-4", 3), ("n-1", 0)]);
    let ago = |age: &str| format!("(CAST(unixepoch('now', '-{age}') AS INTEGER) * 1000000)");
    for (id, event_type, error, age, key) in [
        ("x-1", "OrderPlaced", "connection TIMED OUT", "3 days", "order-17"),
        ("x-2", "OrderShipped", "no such address", "2 hours", "order-18"),
        ("x-3", "InvoiceSent", "timed out after 30 s", "2 hours", "invoice-1"),
        ("x-4", "OrderPlaced", "no such address", "1 minutes", "order-17"),
    ] {
        shop.execute(format!(
            "UPDATE outbox_event SET event_type = '{event_type}', last_error = '{error}', event_key = '{key}', \
             aggregate_id = '{key}', tenant_id = iif('{key}' = 'invoice-1', 'globex', 'acme'), \
             created_at = {} WHERE event_id = '{id}'",
            ago(age)
        ));
    }
    shop
}

/// Many dead events, of two types in turn.
fn many(events: u32) -> Shop {
    let shop = Shop::with_events(&[]);
    shop.execute(format!(
        "WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < {events})
         INSERT INTO outbox_event (event_id, event_type, payload, status, last_error)
         SELECT 'x-' || n, iif(n % 2 = 0, 'OrderPlaced', 'InvoiceSent'), '{{}}', 3, 'timed out' FROM many"
    ));
    shop
}

fn ids(listed: &Value) -> Vec<&str> {
    let events = listed["events"].as_array().into_iter().flatten();
    events.filter_map(|event| event["event_id"].as_str()).collect()
}

/// What each filter lets pass; several hold together.
const FILTERS: [(&[&str], &[&str]); 16] = [
    (&["--type", "OrderPlaced"], &["x-1", "x-4"]),
    (&["--type", "Order*"], &["x-1", "x-2", "x-4"]),
    (&["--type", "*"], &["x-1", "x-2", "x-3", "x-4"]),
    (&["--type", "orderplaced"], &[]),
    (&["--error", "timed out"], &["x-1", "x-3"]),
    (&["--error", "TIMED"], &["x-1", "x-3"]),
    (&["--since", "1d"], &["x-2", "x-3", "x-4"]),
    (&["--until", "1d"], &["x-1"]),
    (&["--since", "3h", "--until", "1h"], &["x-2", "x-3"]),
    (&["--since", "2000-01-01T00:00:00Z", "--until", "2001-01-01T00:00:00+01:00"], &[]),
    (&["--until", "2100-01-01T00:00:00Z"], &["x-1", "x-2", "x-3", "x-4"]),
    (&["--key", "order-17"], &["x-1", "x-4"]),
    (&["--aggregate", "invoice-*"], &["x-3"]),
    (&["--tenant", "acme"], &["x-1", "x-2", "x-4"]),
    (&["--type", "Order*", "--since", "1d", "--error", "address"], &["x-2", "x-4"]),
    (&["--type", "Order*", "--since", "1d", "--error", "address", "--key", "order-17"], &["x-4"]),
];

/// K4: dead events are found by type, time, error text, key, aggregate and tenant; all of it must hold.
#[test]
fn dead_events_are_listed_by_what_they_have_in_common() {
    let shop = shop();

    for (filter, expected) in FILTERS {
        let listed = shop.run("dead list", &[filter, &["--json"]].concat()).json();

        assert_eq!(ids(&listed), expected, "{filter:?}");
    }
    let text = shop.run("dead list", &["--error", "timed out"]).out;
    assert!(text.ends_with("2 shown, and no more match of 4 dead events\n"), "{text}");
    let none = shop.run("dead list", &["--type", "Parcel*"]);
    assert_eq!((none.code, none.out.as_str()), (Some(0), "none of 4 dead events matches\n"));
}

/// K4: a page of a filtered list is full, and says where the next begins.
#[test]
fn filtered_lists_go_on_page_by_page() {
    let shop = many(1_000);

    let page = |after: &str| {
        let filter = ["--type", "Order*", "--limit", "300", "--after", after, "--json"];
        shop.run("dead list", &filter).json()
    };
    let first = page("0");
    let second = page(&first["next_after"].to_string());

    assert_eq!((ids(&first).len(), ids(&first)[0], &first["next_after"]), (300, "x-2", &json!(600)));
    assert_eq!((ids(&second).len(), ids(&second)[0], &second["next_after"]), (200, "x-602", &json!(null)));
    let text = shop.run("dead list", &["--type", "Order*", "--limit", "3"]).out;
    assert!(text.ends_with("3 shown; go on with --after 6\n"), "{text}");
}

/// K4: what matches becomes pending, and nothing else.
#[test]
fn replay_makes_those_that_match_pending() {
    let shop = shop();

    let answer = shop.run("dead replay", &["--type", "Order*", "--error", "address"]);

    assert_eq!(answer.out, "replayed 2 events\n", "{}", answer.err);
    assert_eq!(ids(&shop.run("dead list", &["--json"]).json()), ["x-1", "x-3"]);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 2"), 2);
}

/// K4: what matches is deleted when that is meant, and nothing else.
#[test]
fn discard_deletes_those_that_match_when_told_so() {
    let shop = shop();
    let filter = ["--error", "timed out", "--until", "1h"];

    let asked = shop.run("dead discard", &filter);
    let kept = shop.number("SELECT count(*) FROM outbox_event");
    let answer = shop.run("dead discard", &[&filter[..], &["--yes", "--json"]].concat()).json();

    assert_eq!((asked.code, kept), (Some(2), 5), "{}", asked.err);
    let reason =
        "this would delete 2 dead events that match for good; add --yes if you mean it, or --dry-run";
    assert!(asked.err.contains(reason), "{}", asked.err);
    assert_eq!(answer, json!({ "discarded": 2, "event_ids": ["x-1", "x-3"] }));
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 3);
}

/// K4: a dry run shows how many and the first ones, and changes nothing.
#[test]
fn dry_runs_change_nothing() {
    let shop = shop();

    for command in ["dead replay", "dead discard"] {
        for (arguments, matching, first) in [
            (&["--type", "Order*"][..], 3, "x-1"),
            (&["--all"], 4, "x-1"),
            (&["--all", "--rate", "10"], 4, "x-1"),
            (&["x-3", "x-2"], 2, "x-3"),
        ] {
            let dry = [arguments, &["--dry-run"]].concat();
            let json = shop.run(command, &[&dry[..], &["--json"]].concat()).json();
            let text = shop.run(command, &dry).out;

            assert_eq!((&json["dry_run"], &json["matching"]), (&json!(true), &json!(matching)), "{json}");
            assert_eq!(ids(&json)[0], first);
            let doing = command.replace("dead ", "would ");
            assert!(text.starts_with(&format!("{doing} {matching} events:\n\nNUMBER  ")), "{text}");
        }
    }
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 3"), 4);
    let many = many(40).run("dead replay", &["--type", "*", "--dry-run"]).out;
    assert!(many.starts_with("would replay 40 events; the first 10:\n"), "{many}");
    assert_eq!(many.lines().count(), 13, "{many}");
}

/// K4: that nothing matches is said, and is an exit code.
#[test]
fn no_match_is_told() {
    let shop = shop();

    for (command, more) in [
        ("dead replay", &[][..]),
        ("dead replay", &["--dry-run"]),
        ("dead discard", &[]),
        ("dead discard", &["--yes"]),
    ] {
        let answer = shop.run(command, &[&["--type", "Parcel*"], more].concat());

        assert_eq!((answer.code, answer.out.as_str()), (Some(3), ""), "{}", answer.err);
        assert!(answer.err.starts_with("error: no dead event in ") && answer.err.contains(" matches; see "));
    }
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 3"), 4);
}

/// K4: a row that cannot be read has no type, but it has a time and an error.
#[test]
fn rows_that_cannot_be_read_are_found_by_their_error() {
    let shop = shop();
    shop.execute("UPDATE outbox_event SET headers = 'no json' WHERE event_id = 'x-3'");

    let by_error = shop.run("dead list", &["--error", "after 30", "--json"]).json();
    let by_type = shop.run("dead list", &["--type", "*", "--json"]).json();

    assert_eq!((ids(&by_error), ids(&by_type)), (vec!["x-3"], vec!["x-1", "x-2", "x-4"]));
}

/// K4: at a rate, which events wait for in turn, all that match become pending, and nothing else.
#[test]
fn replay_at_a_rate_reaches_all_that_match() {
    let shop = many(60);

    let some = shop.run("dead replay", &["--type", "Order*", "--rate", "100/s", "--json"]).json();
    let dead = shop.number("SELECT count(*) FROM outbox_event WHERE status = 3");
    let all = shop.run("dead replay", &["--all", "--rate", "1000", "--json"]).json();

    assert_eq!((some, dead), (json!({ "replayed": 30 }), 30));
    assert_eq!(all, json!({ "replayed": 30 }));
}

/// K4: interrupted, it says how far it came; what was done stays done, and the same command does the rest.
#[test]
fn interrupted_replay_says_how_far_it_came() {
    let shop = many(2_000);
    let mut program = pillarbox();
    program.args(["dead", "replay", "--type", "Order*", "--rate", "50", "--json", "--db"]).arg(shop.file());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pending = || shop.number("SELECT count(*) FROM outbox_event WHERE status = 2");
    while pending() == 0 {
        std::thread::yield_now();
    }

    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let answer = Answer::of(child.wait_with_output().unwrap());

    assert_eq!(answer.code, Some(1), "{}", answer.err);
    assert!(answer.err.contains("interrupted; what was done stays done"), "{}", answer.err);
    let told: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(told, json!({ "replayed": pending(), "interrupted": true }));
    let rest = shop.run("dead replay", &["--type", "Order*", "--json"]).json();
    assert_eq!(rest["replayed"], json!(1_000 - told["replayed"].as_u64().unwrap()));
}

/// K4: what cannot be meant is refused before anything is done, with the option, the value and the remedy.
#[test]
fn filters_that_make_no_sense_are_refused() {
    let shop = shop();

    for (arguments, reasons) in [
        (&["--type", ""][..], &["--type <PATTERN>", "`Order*`"][..]),
        (&["--error", " "], &["--error <TEXT>", "`timed out`"]),
        (&["--key", ""], &["--key <PATTERN>", "write it"]),
        (&["--since", "yesterday"], &["'yesterday'", "--since <WHEN>", "`2h`", "`2026-03-01T12:00:00Z`"]),
        (&["--until", "2026-02-30T00:00:00Z"], &["2026-02-30", "--until <WHEN>", "no such day"]),
        (&["--until", "2026-02-20T00:00:00"], &["--until <WHEN>", "time zone"]),
        (&["--since", "1h", "--until", "2h"], &["--since 1h is not before --until 2h", "exchange them"]),
        (&["--rate", "0", "--all"], &["'0'", "--rate <N[/s]>", "for example `100`"]),
        (&["--rate", "-5", "--all"], &["'-5'", "--rate <N[/s]>", "for example `100`"]),
        (&["--rate", "fast", "--all"], &["'fast'", "--rate <N[/s]>", "for example `100`"]),
        (&["--all", "--type", "Order*"], &["--all", "cannot be used with", "--type"]),
        (&["x-1", "--error", "timed out"], &["EVENT_ID", "cannot be used with", "--error"]),
        (&["--rate", "5"], &["nothing says which dead events are meant", "EVENT_ID", "--all"]),
    ] {
        for command in ["dead replay", "dead discard"] {
            let answer = shop.run(command, arguments);

            assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{arguments:?} {}", answer.err);
            for reason in reasons {
                assert!(answer.err.contains(reason), "{reason}: {}", answer.err);
            }
        }
    }
    let listed = shop.run("dead list", &["--since", "1h", "--until", "2h"]);
    assert_eq!(listed.code, Some(2), "{}", listed.err);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 3"), 4);
}
