//! `dead list`, `show`, `replay` and `discard` do what they say.

use serde_json::{Value, json};

use crate::desk::Desk;

fn ids(listed: &Value) -> Vec<&str> {
    let events = listed["events"].as_array().into_iter().flatten();
    events.filter_map(|event| event["event_id"].as_str()).collect()
}

pub(crate) async fn dead_events_are_listed_page_by_page(desk: &Desk) {
    desk.with_events(&[("x-1", 3), ("n-1", 0), ("x-2", 3), ("x-3", 3)]);

    let first = desk.run("dead list", &["--limit", "2", "--json"]).json();
    let after = first["next_after"].to_string();
    let second = desk.run("dead list", &["--limit", "2", "--after", &after, "--json"]).json();
    let text = desk.run("dead list", &["--limit", "2"]).out;

    assert_eq!(ids(&first), ["x-1", "x-2"]);
    assert_eq!((ids(&second), &second["next_after"]), (vec!["x-3"], &json!(null)));
    assert!(text.ends_with("2 of 3 shown; go on with --after 3\n"), "{text}");
}

/// S11: the payload is shown digit for digit.
pub(crate) async fn an_event_is_shown_with_its_payload(desk: &Desk) {
    desk.with_events(&[("x-1", 3)]);

    let text = desk.run("dead show", &["x-1"]).out;
    let json = desk.run("dead show", &["x-1", "--json"]).out;

    for line in ["event id       x-1\n", "status         DEAD\n", "last error     no such address\n"] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(json.contains(r#""payload": {"total":12345678901234567890123}"#), "{json}");
}

/// S2, K4: those that are named become pending, and then all of them.
pub(crate) async fn replay_makes_dead_events_pending(desk: &Desk) {
    desk.with_events(&[("x-1", 3), ("x-2", 3), ("x-3", 3), ("d-1", 1)]);

    let named = desk.run("dead replay", &["x-1"]);
    let replayed = desk.run("dead show", &["x-1", "--json"]).json();
    let all = desk.run("dead replay", &["--all", "--json"]).json();

    assert_eq!(named.out, "replayed 1 event\n", "{}", named.err);
    assert_eq!(
        [&replayed["status"], &replayed["attempts"], &replayed["last_error"]],
        [&json!("RETRY"), &json!(0), &json!("no such address")]
    );
    assert_eq!(all, json!({ "replayed": 2 }));
    assert_eq!((desk.count(2).as_str(), desk.count(1).as_str()), ("3", "1"));
}

pub(crate) async fn discard_deletes_dead_events(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("d-1", 1), ("x-1", 3), ("x-2", 3), ("x-3", 3)]);

    let named = desk.run("dead discard", &["x-1", "--json"]).json();
    let asked = desk.run("dead discard", &["--all"]);
    let kept = desk.count(3);
    let all = desk.run("dead discard", &["--all", "--yes"]);

    assert_eq!(named, json!({ "discarded": 1, "event_ids": ["x-1"] }));
    assert_eq!((asked.code, kept.as_str()), (Some(2), "2"), "{}", asked.err);
    assert_eq!(all.out, "discarded 2 events\n", "{}", all.err);
    assert_eq!(desk.sql("SELECT event_id FROM outbox_event ORDER BY seq"), "n-1\nd-1");
}

pub(crate) async fn an_unknown_event_is_not_found(desk: &Desk) {
    desk.with_events(&[("x-1", 3), ("d-1", 1)]);
    let missing = format!("no event `nobody` in {}", desk.own.name());

    for (command, arguments, reason) in [
        ("dead show", &["nobody"][..], missing.as_str()),
        ("dead replay", &["x-1", "nobody"], &missing),
        ("dead discard", &["x-1", "d-1"], "the event `d-1` is DONE, not DEAD"),
    ] {
        let answer = desk.run(command, arguments);

        assert_eq!(answer.code, Some(3), "{}", answer.err);
        assert!(answer.err.contains(reason), "{}", answer.err);
    }
    assert_eq!(desk.count(3), "1", "nothing was changed");
}

/// K4: by type, time and error text; a dry run changes nothing.
pub(crate) async fn dead_events_are_selected_by_what_they_have_in_common(desk: &Desk) {
    desk.with_events(&[("x-1", 3), ("x-2", 3), ("x-3", 3), ("x-4", 3), ("n-1", 0)]);
    let long_ago = desk.either("clock_timestamp() - interval '2 days'", "UTC_TIMESTAMP(6) - INTERVAL 2 DAY");
    desk.sql(&format!(
        "UPDATE outbox_event SET created_at = {long_ago} WHERE event_id IN ('x-1', 'x-2');
         UPDATE outbox_event SET event_type = 'InvoiceSent' WHERE event_id = 'x-2';
         UPDATE outbox_event SET last_error = 'TIMED out' WHERE event_id IN ('x-1', 'x-2', 'x-3');"
    ));

    for (filter, expected) in [
        (&["--type", "Order*"][..], &["x-1", "x-3", "x-4"][..]),
        (&["--error", "timed out"], &["x-1", "x-2", "x-3"]),
        (&["--since", "1d"], &["x-3", "x-4"]),
        (&["--until", "1d", "--type", "Invoice*"], &["x-2"]),
    ] {
        let listed = desk.run("dead list", &[filter, &["--json"]].concat()).json();
        let dry = desk.run("dead replay", &[filter, &["--dry-run", "--json"]].concat()).json();

        assert_eq!((ids(&listed), ids(&dry)), (expected.to_vec(), expected.to_vec()), "{filter:?}");
    }
    let replayed = desk.run("dead replay", &["--error", "timed", "--type", "Order*", "--rate", "100"]);
    let discarded = desk.run("dead discard", &["--type", "*", "--until", "1d", "--yes", "--json"]).json();
    let none = desk.run("dead replay", &["--type", "Parcel*"]);

    assert_eq!(replayed.out, "replayed 2 events\n", "{}", replayed.err);
    assert_eq!(discarded, json!({ "discarded": 1, "event_ids": ["x-2"] }));
    assert_eq!(none.code, Some(3), "{}", none.err);
    assert_eq!(
        desk.sql("SELECT event_id FROM outbox_event WHERE status IN (2, 3) ORDER BY seq"),
        "x-1\nx-3\nx-4"
    );
    assert_eq!((desk.count(2).as_str(), desk.count(3).as_str()), ("2", "1"));
}
