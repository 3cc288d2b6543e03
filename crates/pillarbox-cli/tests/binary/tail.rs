//! `tail` shows events as they are written, and what becomes of them.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use serde_json::Value;

use crate::follower::{Follower, news};
use crate::shop::{Answer, Shop};

/// The lines of an answer in JSON.
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
    answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What happened, in the order in which it was told.
fn told(answer: &Answer) -> Vec<String> {
    let text = |line: &Value| {
        format!("{} {}", line["event_id"].as_str().unwrap(), line["happened"].as_str().unwrap())
    };
    lines(answer).iter().map(text).collect()
}

/// M5: what there is is shown once, each event with what has become of it, for people and for scripts.
#[test]
fn events_are_shown_once() {
    let shop = Shop::with_events(&[("n-1", 0), ("d-1", 1), ("r-1", 2), ("x-1", 3)]);
    shop.execute("UPDATE outbox_event SET attempts = 1, last_error = '503' WHERE event_id = 'r-1'");

    let all = shop.run("tail", &["--once", "--json"]);
    let last = shop.run("tail", &["--once", "--json", "-n", "2"]);
    let text = shop.run("tail", &["--once", "--from", "3"]);

    let expected = [
        "n-1 written",
        "d-1 written",
        "d-1 delivered",
        "r-1 written",
        "r-1 retry",
        "x-1 written",
        "x-1 dead",
    ];
    assert_eq!(told(&all), expected);
    assert_eq!(told(&last), expected[3..]);
    let dead = &lines(&all)[6];
    assert_eq!((&dead["because"], &dead["attempts"]), (&"no such address".into(), &4.into()));
    assert_eq!((&dead["number"], &dead["event_type"]), (&4.into(), &"OrderPlaced".into()));
    assert_eq!(text.out.lines().count(), 4, "{}", text.out);
    let line = text.out.lines().next_back().unwrap();
    assert!(line.ends_with("4  x-1  OrderPlaced  order-17  4 attempts: no such address"), "{line}");
    assert!(!all.out.contains("12345678901234567890123"), "payloads are not shown: {}", all.out);
}

/// M5: payloads are shown if they are asked for, digit for digit.
#[test]
fn payloads_are_shown_if_asked_for() {
    let shop = Shop::with_events(&[("n-1", 0)]);

    let json = shop.run("tail", &["--once", "--json", "--payload"]);
    let text = shop.run("tail", &["--once", "--payload"]);

    assert!(json.out.contains(r#""payload":{"total":12345678901234567890123,"#), "{}", json.out);
    assert!(text.out.contains("\n      \"total\": 12345678901234567890123"), "{}", text.out);
}

/// M5: only events of some types and keys are shown, from some number or time on.
#[test]
fn events_are_chosen() {
    let shop = Shop::with_events(&[("a-1", 0), ("a-2", 0), ("b-1", 0), ("b-2", 0)]);
    shop.execute("UPDATE outbox_event SET event_key = substr(event_id, 1, 1), created_at = 1000000 * seq");
    shop.execute("UPDATE outbox_event SET event_type = 'Ping' WHERE event_id = 'b-2'");
    shop.execute(
        "UPDATE outbox_event SET created_at = (unixepoch() - 60) * 1000000 WHERE event_id LIKE 'b%'",
    );

    for (arguments, expected) in [
        (&["--key", "a"][..], &["a-1", "a-2"][..]),
        (&["--key", "a", "--key", "b", "--type", "P*"], &["b-2"]),
        (&["--type", "Order*", "--type", "Pong"], &["a-1", "a-2", "b-1"]),
        (&["--type", "order*"], &[]),
        (&["-n", "3"], &["a-2", "b-1", "b-2"]),
        (&["-n", "100"], &["a-1", "a-2", "b-1", "b-2"]),
        (&["--since", "1h"], &["b-1", "b-2"]),
        (&["--since", "1s"], &[]),
        (&["--since", "2w", "--key", "a"], &[]),
        (&["--from", "2"], &["a-2", "b-1", "b-2"]),
        (&["--from", "first"], &["a-1", "a-2", "b-1", "b-2"]),
        (&["--from", "now"], &[]),
    ] {
        let answer = shop.run("tail", &[&["--once", "--json"], arguments].concat());

        let expected: Vec<String> = expected.iter().map(|id| format!("{id} written")).collect();
        assert_eq!(told(&answer), expected, "{arguments:?}");
    }
}

/// M5: the last events are found behind gaps of any size.
#[test]
fn last_events_are_found_behind_gaps() {
    let shop = Shop::with_events(&[("a-1", 0), ("a-2", 0), ("a-3", 0), ("a-4", 0)]);
    shop.execute("UPDATE outbox_event SET seq = 1000000 WHERE event_id = 'a-4'");
    shop.execute("UPDATE sqlite_sequence SET seq = 2000000 WHERE name = 'outbox_event'");

    let answer = shop.run("tail", &["--once", "--json", "-n", "2"]);

    assert_eq!(told(&answer), ["a-3 written", "a-4 written"]);
}

/// M5: it follows events from their commit to their end, tells every change once, and ctrl-c ends it well.
#[test]
fn news_is_shown_as_it_happens() {
    let shop = Shop::with_events(&[("o-1", 0)]);
    let mut tail = Follower::of(&shop.db(), &["-n", "1"]);
    assert_eq!(tail.happened(), news("written", "o-1"));

    shop.write(&[("o-2", 0), ("o-3", 0)]);
    assert_eq!(tail.happened(), news("written", "o-2"));
    assert_eq!(tail.happened(), news("written", "o-3"));
    shop.execute(
        "UPDATE outbox_event SET status = 2, reason = 'paused: route `orders`' WHERE event_id = 'o-2'",
    );
    let waits = tail.news();
    assert_eq!((&waits["happened"], &waits["because"]), (&"waits".into(), &"paused: route `orders`".into()));
    shop.execute("UPDATE outbox_event SET status = 1, done_at = created_at WHERE event_id = 'o-1'");
    assert_eq!(tail.happened(), news("delivered", "o-1"));
    shop.execute(
        "UPDATE outbox_event SET status = 2, attempts = 1, last_error = '503' WHERE event_id = 'o-3'",
    );
    assert_eq!(tail.happened(), news("retry", "o-3"));
    shop.execute(
        "UPDATE outbox_event SET status = 3, attempts = 2, last_error = '410' WHERE event_id = 'o-3'",
    );
    assert_eq!(tail.news()["because"], "410");
    // With `delete_done` a row that is delivered goes.
    shop.execute("DELETE FROM outbox_event WHERE event_id = 'o-2'");
    let gone = tail.news();
    assert_eq!((&gone["happened"], &gone["because"]), (&"delivered".into(), &"it is deleted".into()));

    tail.interrupt();
    let answer = tail.ended();
    assert_eq!((answer.code, answer.out.as_str(), answer.err.as_str()), (Some(0), "", ""));
}

/// M5: an event that is committed after others with higher numbers is shown, be it from before the start.
#[test]
fn late_commits_are_shown() {
    let shop = Shop::with_events(&[("o-1", 0), ("o-9", 0)]);
    let place = |id: &str, number: i64| {
        shop.execute(format!("UPDATE outbox_event SET seq = {number} WHERE event_id = '{id}'"));
    };
    place("o-9", 9);
    let mut tail = Follower::of(&shop.db(), &["-n", "1"]);
    assert_eq!(tail.happened(), news("written", "o-9"));

    // A number that was given before the start, and one of later on.
    for (id, number) in [("o-5", 5), ("o-20", 20), ("o-15", 15)] {
        shop.execute(format!(
            "INSERT INTO outbox_event (seq, event_id, event_type, payload) VALUES ({number}, '{id}', 'Ping', '{{}}')"
        ));
        assert_eq!(tail.happened(), news("written", id));
    }
}

/// M5: a reader that goes away ends it, and is no failure.
#[test]
fn reader_that_goes_away_ends_it() {
    let shop = Shop::with_events(&[("o-1", 0)]);
    let mut tail = Follower::of(&shop.db(), &["-n", "1"]);
    tail.news();

    tail.close_pipe();
    shop.write(&[("o-2", 0)]);

    let answer = tail.ended();
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
}
