//! `handlers list`, `drop` and `rename` do what they say, and `status` names who is owed.

use serde_json::{Value, json};

use crate::shop::Shop;

const OWED: &str = r#"{"billing":"done","search":{"owed":{"failures":2,"after_us":0,"unknown":true}}}"#;
const DEAD: &str = r#"{"billing":"done","search":{"dead":{"failures":3}}}"#;
const BOTH: &str = r#"{"full-text":"done","search":{"owed":{"failures":0,"after_us":0}}}"#;

/// A shop in which `search` is gone: `r-1` and `r-2` wait for it, `x-1` is dead for it, and `r-3` has to do with `mail`.
fn waiting() -> Shop {
    let shop = Shop::with_events(&[("r-1", 2), ("r-2", 2), ("r-3", 2), ("x-1", 3), ("d-1", 1)]);
    store(&shop, "r-1", OWED);
    store(&shop, "r-2", OWED);
    store(&shop, "r-3", r#"{"billing":"done","mail":{"owed":{"failures":1,"after_us":0}}}"#);
    store(&shop, "x-1", DEAD);
    shop.execute(
        "UPDATE outbox_event
         SET available_at = available_at + 60000000, reason = 'hold: no handler `search` is registered here'
         WHERE event_id IN ('r-1', 'r-2')",
    );
    shop
}

fn store(shop: &Shop, event_id: &str, handlers: &str) {
    shop.execute(format!("UPDATE outbox_event SET handlers = '{handlers}' WHERE event_id = '{event_id}'"));
}

fn handler<'a>(told: &'a Value, id: &str) -> &'a Value {
    let all = told["handlers"].as_array().into_iter().flatten();
    all.into_iter().find(|handler| handler["id"] == id).unwrap_or_else(|| panic!("no {id}: {told}"))
}

/// The numbers of one handler: owed, unknown, dead, done.
fn numbers(told: &Value, id: &str) -> [Value; 4] {
    ["owed", "unknown", "dead", "done"].map(|name| handler(told, id)[name].clone())
}

/// L3: people and programs see who is owed, dead and done, and who is unknown.
#[test]
fn handlers_are_listed() {
    let shop = waiting();

    let text = shop.run("handlers list", &[]).out;
    let listed = shop.run("handlers list", &["--json"]).json();

    assert_eq!(numbers(&listed, "search"), [2, 2, 1, 0].map(|count| json!(count)));
    assert_eq!(numbers(&listed, "billing"), [0, 0, 0, 4].map(|count| json!(count)));
    assert_eq!(numbers(&listed, "mail"), [1, 0, 0, 0].map(|count| json!(count)));
    assert!(handler(&listed, "search")["oldest_seconds"].as_f64().is_some(), "{listed}");
    assert_eq!(handler(&listed, "billing")["oldest_seconds"], json!(null));
    assert_eq!(json!([listed["events"], listed["is_complete"]]), json!([4, true]));
    let line = text.lines().find(|line| line.starts_with("search ")).unwrap();
    assert!(line.ends_with("unknown where it was last looked for"), "{text}");
    assert!(text.ends_with("\n4 events that are not done\n"), "{text}");
}

#[test]
fn no_handlers_is_an_answer() {
    let shop = Shop::with_events(&[("n-1", 0), ("d-1", 1)]);

    assert_eq!(shop.run("handlers list", &[]).out, "no event names a handler\n");
    let listed = shop.run("handlers list", &["--json"]).json();
    assert_eq!(listed, json!({ "handlers": [], "events": 0, "unreadable": 0, "is_complete": true }));
}

/// L3, M5: `status` names handlers that are owed, and those that nobody knows.
#[test]
fn status_names_who_is_owed() {
    let shop = waiting();

    let text = shop.run("status", &[]).out;
    let json = shop.run("status", &["--json"]).json();

    let line = text.lines().find(|line| line.trim_start().starts_with("search ")).unwrap();
    assert!(line.ends_with("; 2 of them unknown, see `pillarbox handlers`"), "{text}");
    let mail = text.lines().find(|line| line.trim_start().starts_with("mail ")).unwrap();
    assert!(!mail.contains("unknown"), "{text}");
    assert!(!text.contains("billing"), "nobody waits for it: {text}");
    assert_eq!(numbers(&json, "search"), [2, 2, 1, 0].map(|count| json!(count)));
    assert_eq!(json["handlers_are_complete"], json!(true));
    assert_eq!(json["mode"], json!("claims"));
}

/// L3: nothing is dropped before one is sure.
#[test]
fn nothing_is_changed_without_yes() {
    let shop = waiting();

    for (command, ids, told) in [
        ("handlers drop", &["search"][..], "drop `search` from 3 events for good"),
        ("handlers rename", &["search", "full-text"], "rename `search` to `full-text` in 3 events"),
    ] {
        let asked = shop.run(command, ids);
        let dry = shop.run(command, &[ids, &["--dry-run", "--json"]].concat()).json();
        let dry_text = shop.run(command, &[ids, &["--dry-run"]].concat()).out;

        assert_eq!(asked.code, Some(2));
        assert!(asked.err.contains(&format!("this would {told}; add --yes")), "{}", asked.err);
        assert_eq!(json!([dry["dry_run"], dry["changed"], dry["busy"]]), json!([true, 3, 0]));
        assert!(dry_text.starts_with("would "), "{dry_text}");
    }
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE handlers LIKE '%search%'"), 3);
}

/// L3: a handler that was dropped is named by no event, what waited for it can be taken, and what was dead for it alone
/// is tried again.
#[test]
fn dropped_handler_is_owed_nowhere() {
    let shop = waiting();

    let dropped = shop.run("handlers drop", &["search", "--yes"]);

    assert_eq!(
        dropped.out, "dropped `search` from 3 events\n1 event: dead for nobody else, and tried again\n",
        "{}",
        dropped.err
    );
    assert_eq!(dropped.code, Some(0));
    let listed = shop.run("handlers list", &["--json"]).json();
    assert_eq!(numbers(&listed, "mail"), [1, 0, 0, 0].map(|count| json!(count)));
    assert!(!listed.to_string().contains("search"), "{listed}");
    let open =
        "SELECT count(*) FROM outbox_event WHERE status = 2 AND available_at = due_at AND reason IS NULL";
    assert_eq!(shop.number(open), 4);
    assert_eq!(shop.number("SELECT attempts FROM outbox_event WHERE event_id = 'x-1'"), 0);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 1"), 1);
}

/// L3, O5: the same where partitions are owned, while an instance owns them.
#[test]
fn handler_is_dropped_where_partitions_are_owned() {
    let shop = waiting();
    assert_eq!(shop.run("migrate", &["--mode", "ownership"]).code, Some(0));
    shop.own("relay-1", std::time::Duration::from_secs(600), 0..255);

    let dropped = shop.run("handlers drop", &["search", "--yes", "--json"]).json();

    let expected = json!({
        "handler": "search", "renamed_to": null, "dry_run": false,
        "changed": 3, "replayed": 1, "busy": 0, "has_both": 0,
    });
    assert_eq!(dropped, expected);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE handlers LIKE '%search%'"), 0);
}

/// L3: the new id has the progress of the old one, and what is dead stays dead.
#[test]
fn renamed_handler_keeps_its_progress() {
    let shop = waiting();

    let renamed = shop.run("handlers rename", &["search", "full-text", "--yes"]);

    assert_eq!(renamed.out, "renamed `search` to `full-text` in 3 events\n", "{}", renamed.err);
    let listed = shop.run("handlers list", &["--json"]).json();
    assert_eq!(numbers(&listed, "full-text"), [2, 0, 1, 0].map(|count| json!(count)));
    let failures = "SELECT handlers ->> '$.full-text.owed.failures' FROM outbox_event WHERE event_id = 'r-1'";
    assert_eq!(shop.number(failures), 2);
    assert_eq!(shop.number("SELECT status FROM outbox_event WHERE event_id = 'x-1'"), 3);
}

/// L3: an event that names both is left alone, and the answer says what can be done.
#[test]
fn two_handlers_are_not_made_one() {
    let shop = waiting();
    store(&shop, "r-2", BOTH);

    let renamed = shop.run("handlers rename", &["search", "full-text", "--yes"]);

    assert_eq!(renamed.code, Some(1), "{}", renamed.err);
    assert!(renamed.out.starts_with("renamed `search` to `full-text` in 2 events\n"), "{}", renamed.out);
    assert!(
        renamed.out.contains("1 event: left as they are, because they name `full-text` too"),
        "{}",
        renamed.out
    );
    let left = format!("SELECT handlers = '{BOTH}' FROM outbox_event WHERE event_id = 'r-2'");
    assert_eq!(shop.number(left.leak()), 1);
}

/// L3: an event that an instance works on is left alone and told, and the next run changes it.
#[test]
fn busy_event_is_told() {
    let shop = waiting();
    let lease = |ahead: &str| {
        format!(
            "UPDATE outbox_event
             SET token = 17, locked_by = 'relay/1', available_at = unixepoch() * 1000000 {ahead} 600000000
             WHERE event_id = 'r-1'"
        )
    };
    shop.execute(lease("+"));

    let dropped = shop.run("handlers drop", &["search", "--yes"]);
    assert_eq!(dropped.code, Some(1), "{}", dropped.err);
    assert!(dropped.out.starts_with("dropped `search` from 2 events\n"), "{}", dropped.out);
    assert!(dropped.out.contains("1 event: busy, "), "{}", dropped.out);

    shop.execute(lease("-"));
    let again = shop.run("handlers drop", &["search", "--yes"]);
    assert_eq!(
        (again.code, again.out.as_str()),
        (Some(0), "dropped `search` from 1 event\n"),
        "{}",
        again.err
    );
    assert_eq!(shop.number("SELECT token IS NULL FROM outbox_event WHERE event_id = 'r-1'"), 1);
}

/// L3: a misspelt id is answered with those that there are.
#[test]
fn unknown_handler_is_answered_with_the_known_ones() {
    let shop = waiting();

    for (command, arguments) in
        [("handlers drop", &["serch", "--yes"][..]), ("handlers rename", &["serch", "full-text", "--yes"])]
    {
        let answer = shop.run(command, arguments);

        assert_eq!(answer.code, Some(3), "{}", answer.err);
        assert!(
            answer.err.contains("names the handler `serch`; they name `billing`, `mail`, `search`"),
            "{}",
            answer.err
        );
        assert!(answer.err.trim_end().ends_with("did you mean `search`?"), "{}", answer.err);
    }
}

/// L3: what cannot be an id is refused with the rule.
#[test]
fn id_that_is_none_is_refused() {
    let shop = waiting();

    for (command, ids) in [
        ("handlers drop", &["full text"][..]),
        ("handlers rename", &["search", "full text"]),
        ("handlers rename", &["search", ""]),
    ] {
        let answer = shop.run(command, &[ids, &["--yes"]].concat());

        assert_eq!(answer.code, Some(2), "{}", answer.err);
        assert!(answer.err.contains("is no id of a handler; use 1 to 64 letters, digits"), "{}", answer.err);
    }
    let same = shop.run("handlers rename", &["search", "search", "--yes"]);
    assert_eq!(same.code, Some(2));
    assert!(same.err.contains("`search` is the id that it has already"), "{}", same.err);
}

/// L3: more events than fit into one step are all changed.
#[test]
fn many_events_are_changed_in_steps() {
    let shop = waiting();
    shop.execute(format!(
        "WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 1200)
         INSERT INTO outbox_event (event_id, event_type, payload, status, handlers)
         SELECT 'many-' || n, 'OrderPlaced', '{{}}', 2, '{OWED}' FROM many"
    ));

    let dropped = shop.run("handlers drop", &["search", "--yes", "--json"]).json();

    assert_eq!(json!([dropped["changed"], dropped["busy"]]), json!([1_203, 0]));
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE handlers LIKE '%search%'"), 0);
}
