//! `pause` and `resume` are kept in the database.

use serde_json::json;

use crate::desk::Desk;

/// M5: a route stays paused until it is resumed; who repeats either is told so.
pub(crate) async fn paused_route_is_kept_and_resumed(desk: &Desk) {
    desk.with_events(&[]);

    let first = desk.run("pause", &["orders", "--json"]).json();
    let again = desk.run("pause", &["orders", "--json"]).json();
    let status = desk.run("status", &["--json"]).json();
    let resumed = desk.run("resume", &["orders", "--json"]).json();
    let twice = desk.run("resume", &["orders"]);
    desk.run_loudly(&desk.own.url(), "pause", &["--list"]);

    assert_eq!(first["routes"], json!([{ "route": "orders", "is_new": true }]));
    assert_eq!(again["routes"], json!([{ "route": "orders", "is_new": false }]));
    assert_eq!(status["paused_routes"][0]["route"], json!("orders"));
    assert_eq!(resumed["routes"], json!([{ "route": "orders", "was_paused": true, "recalled": 0 }]));
    assert_eq!((twice.code, twice.out.as_str()), (Some(0), "route `orders` was not paused\n"));
    assert_eq!(desk.run("pause", &["--list"]).out, "no route is paused\n");
}

/// M5: what waited for a route is available when it is resumed, in both modes.
pub(crate) async fn waiting_events_are_recalled(desk: &Desk) {
    desk.with_events(&[("r-1", 2), ("r-2", 2), ("r-3", 2)]);
    for mode in ["claims", "ownership"] {
        assert_eq!(desk.run("migrate", &["--mode", mode]).code, Some(0));
        let soon =
            desk.either("clock_timestamp() + interval '10 minutes'", "UTC_TIMESTAMP(6) + INTERVAL 10 MINUTE");
        desk.sql(&format!(
            "UPDATE outbox_event SET available_at = {soon}, event_partition = 7, reason = 'paused: route `orders`'
             WHERE event_id <> 'r-3'"
        ));
        desk.run("pause", &["orders"]);

        let resumed = desk.run("resume", &["orders"]);

        assert_eq!(resumed.out, "resumed route `orders`; 2 events that waited for it can go on\n", "{mode}");
        let waiting = "SELECT count(*) FROM outbox_event
            WHERE event_id <> 'r-3' AND (reason IS NOT NULL OR available_at <> due_at)";
        assert_eq!(desk.sql(waiting), "0", "{mode}");
    }
}

/// The user is told which grant is missing.
pub(crate) async fn missing_privilege_is_named(desk: &Desk) {
    desk.with_events(&[]);
    let reader = desk.create_user().url();

    for command in ["pause", "resume"] {
        let answer = desk.run_at(&reader, command, &["orders"]);

        assert_eq!(answer.code, Some(1), "{}", answer.err);
        assert!(answer.err.contains("give `GRANT ") && answer.err.contains("outbox_meta"), "{}", answer.err);
    }
}
