//! `dead list`, `show`, `replay` and `discard` do what they say.

use serde_json::{Value, json};

use crate::shop::Shop;

fn ids(listed: &Value) -> Vec<&str> {
    let events = listed["events"].as_array().into_iter().flatten();
    events.filter_map(|event| event["event_id"].as_str()).collect()
}

#[test]
fn dead_events_are_listed_page_by_page() {
    let shop = Shop::with_events(&[("x-1", 3), ("n-1", 0), ("x-2", 3), ("x-3", 3)]);

    let first = shop.run("dead list", &["--limit", "2", "--json"]).json();
    let after = first["next_after"].to_string();
    let second = shop.run("dead list", &["--limit", "2", "--after", &after, "--json"]).json();
    let text = shop.run("dead list", &["--limit", "2"]).out;

    assert_eq!(ids(&first), ["x-1", "x-2"]);
    assert_eq!(ids(&second), ["x-3"]);
    assert_eq!(second["next_after"], json!(null));
    assert!(text.ends_with("2 of 3 shown; go on with --after 3\n"), "{text}");
}

#[test]
fn a_long_page_is_listed_whole() {
    let shop = Shop::with_events(&[]);
    shop.execute(
        "WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 130)
         INSERT INTO outbox_event (event_id, event_type, payload, status)
         SELECT 'x-' || n, 'OrderPlaced', '{}', 3 FROM many",
    );

    let page = shop.run("dead list", &["--limit", "120", "--json"]).json();
    let whole = shop.run("dead list", &["--limit", "130", "--json"]).json();

    assert_eq!((ids(&page).len(), &page["next_after"]), (120, &json!(120)));
    assert_eq!((ids(&whole).len(), &whole["next_after"]), (130, &json!(null)));
}

#[test]
fn no_dead_events_is_an_answer() {
    let shop = Shop::with_events(&[("n-1", 0)]);

    assert_eq!(shop.run("dead list", &[]).out, "no dead events\n");
    assert_eq!(shop.run("dead list", &["--json"]).json(), json!({ "events": [], "next_after": null }));
}

/// S11: the payload is shown digit for digit.
#[test]
fn an_event_is_shown_with_every_field_and_its_payload() {
    let shop = Shop::with_events(&[("x-1", 3)]);

    let text = shop.run("dead show", &["x-1"]).out;
    let json = shop.run("dead show", &["x-1", "--json"]);

    for line in [
        "event id       x-1\n",
        "status         DEAD\n",
        "attempts       4\n",
        "last error     no such address\n",
        "event type     OrderPlaced\n",
        "aggregate id   order-17\n",
        "tenant id      acme\n",
        "headers        source: web\n",
        "context        user: anna\n",
        "\n{\n  \"total\": 12345678901234567890123,\n  \"id\": \"order-17\"\n}\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(
        json.out.contains(r#""payload": {"total":12345678901234567890123,"id":"order-17"}"#),
        "{}",
        json.out
    );
    assert_eq!(json.json()["headers"], json!({ "source": "web" }));
}

#[test]
fn a_row_that_cannot_be_read_is_listed_and_shown_with_the_reason() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    shop.execute("UPDATE outbox_event SET headers = 'no json'");

    let listed = shop.run("dead list", &["--json"]).json();
    let text = shop.run("dead show", &["x-1"]).out;

    assert_eq!(ids(&listed), ["x-1"]);
    assert!(text.contains("\nunreadable     "), "{text}");
}

#[test]
fn texts_from_the_table_cannot_play_tricks_on_the_terminal() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    shop.execute("UPDATE outbox_event SET last_error = 'gone' || char(27) || '[2J' || char(10) || 'x-2'");

    for (command, arguments) in [("dead list", &[][..]), ("dead show", &["x-1"])] {
        let text = shop.run(command, arguments).out;

        assert!(text.contains("gone\\u{1b}[2J\\nx-2"), "{text}");
    }
}

#[test]
fn an_unknown_event_is_not_found() {
    let shop = Shop::with_events(&[("x-1", 3), ("d-1", 1)]);

    for (command, arguments, reason) in [
        ("dead show", &["nobody"][..], "no event `nobody` in "),
        ("dead replay", &["x-1", "nobody"], "no event `nobody` in "),
        ("dead discard", &["x-1", "nobody"], "no event `nobody` in "),
        ("dead replay", &["x-1", "d-1"], "the event `d-1` is DONE, not DEAD"),
        ("dead discard", &["x-1", "d-1"], "the event `d-1` is DONE, not DEAD"),
    ] {
        let answer = shop.run(command, arguments);

        assert_eq!(answer.code, Some(3), "{}", answer.err);
        assert!(answer.err.contains(reason), "{}", answer.err);
    }
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 3"), 1, "nothing was changed");
}

/// S2: a replayed event is pending, has all its attempts before it, and keeps its last error.
#[test]
fn replay_makes_the_named_events_pending() {
    let shop = Shop::with_events(&[("x-1", 3), ("x-2", 3), ("x-3", 3)]);

    let answer = shop.run("dead replay", &["x-1", "x-3"]);

    assert_eq!(answer.out, "replayed 2 events\n", "{}", answer.err);
    let left = shop.run("dead list", &["--json"]).json();
    assert_eq!(ids(&left), ["x-2"]);
    let replayed = shop.run("dead show", &["x-1", "--json"]).json();
    assert_eq!(
        [&replayed["status"], &replayed["attempts"], &replayed["last_error"]],
        [&json!("RETRY"), &json!(0), &json!("no such address")]
    );
}

/// K4: all of them, however many and however far apart, and then it ends.
#[test]
fn replay_all_reaches_every_dead_event_and_ends() {
    let shop = Shop::with_events(&[("n-1", 0)]);
    shop.execute(
        "WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 25000)
         INSERT INTO outbox_event (seq, event_id, event_type, payload, status)
         SELECT iif(n > 12500, 5000000000 + n, 10 + n), 'x-' || n, 'OrderPlaced', '{}', 3 FROM many",
    );

    let first = shop.run("dead replay", &["--all", "--json"]).json();
    let second = shop.run("dead replay", &["--all"]);

    assert_eq!(first, json!({ "replayed": 25_000 }));
    assert_eq!(second.out, "replayed 0 events\n");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 2"), 25_000);
}

#[test]
fn discard_deletes_the_named_events() {
    let shop = Shop::with_events(&[("x-1", 3), ("x-2", 3)]);

    let answer = shop.run("dead discard", &["x-1", "--json"]).json();

    assert_eq!(answer, json!({ "discarded": 1, "event_ids": ["x-1"] }));
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE event_id = 'x-2'"), 1);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 1);
}

#[test]
fn discard_all_asks_first_and_deletes_dead_events_only() {
    let shop = Shop::with_events(&[("n-1", 0), ("d-1", 1), ("r-1", 2), ("x-1", 3), ("x-2", 3)]);

    let asked = shop.run("dead discard", &["--all"]);
    let before = shop.number("SELECT count(*) FROM outbox_event");
    let answer = shop.run("dead discard", &["--all", "--yes"]);

    assert_eq!((asked.code, before), (Some(2), 5));
    assert!(asked.err.contains("all dead events (2) for good; add --yes"), "{}", asked.err);
    assert_eq!(answer.out, "discarded 2 events\n");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 3);
}
