//! `bench` measures on tables of its own, and leaves nothing behind.

use serde_json::json;

use crate::desk::Desk;

/// Tables, and on PostgreSQL functions, whose names begin as those of a bench do.
fn left_over(desk: &Desk) -> String {
    desk.sql(desk.either(
        "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'pillarbox_bench_%') \
              + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'pillarbox_bench_%')",
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() \
         AND table_name LIKE 'pillarbox_bench_%'",
    ))
}

/// What is in the outbox is neither counted nor touched, whatever the options are.
pub(crate) async fn a_bench_leaves_nothing_behind(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("d-1", 1), ("x-1", 3)]);
    let schema = if desk.own.is_postgres() { "billing" } else { desk.own.database.as_str() };
    assert_eq!(desk.run("migrate", &["--schema", schema]).code, Some(0));

    let refused = desk.run("bench", &["--events", "100"]);
    for arguments in [
        &["--batch", "10"][..],
        &["--mode", "ownership", "--payload-bytes", "100000"],
        &["--ordered", "--keys", "5"],
        &["--schema", schema],
    ] {
        let all = [&["--events", "100", "--force", "--json"], arguments].concat();
        let json = desk.run("bench", &all).json();

        for rate in ["written_per_second", "delivered_per_second", "commit_to_listener_p50_micros"] {
            assert!(json[rate].as_f64() > Some(0.0), "{rate} {json}");
        }
        assert_eq!(left_over(desk), "0", "{arguments:?}");
    }

    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(refused.err.contains("is not empty: 1 wait, 1 dead; "), "{}", refused.err);
    assert_eq!(desk.sql("SELECT event_id FROM outbox_event WHERE starts = 0 ORDER BY seq"), "n-1\nd-1\nx-1");
    assert_eq!([0, 1, 3].map(|status| desk.count(status)), ["1", "1", "1"]);
}

/// What a bench left that was killed is dropped, functions too, and nothing else is.
pub(crate) async fn what_a_killed_bench_left_is_dropped(desk: &Desk) {
    desk.with_events(&[("x-1", 3)]);
    let prefix = ["--prefix", "pillarbox_bench_0123abcd_"];
    assert_eq!(desk.run("migrate", &prefix).code, Some(0));
    assert_eq!(desk.run("pause", &[&["bench-tick"], &prefix[..]].concat()).code, Some(0));
    let alive = desk.run("bench", &["--clean", "--json"]).json();
    assert_eq!(alive, json!({ "removed": [], "kept": ["pillarbox_bench_0123abcd_"] }));
    assert_eq!(desk.run("resume", &[&["bench-tick"], &prefix[..]].concat()).code, Some(0));

    let cleaned = desk.run("bench", &["--clean", "--json"]).json();
    let again = desk.run("bench", &["--clean"]);

    assert_eq!(cleaned, json!({ "removed": ["pillarbox_bench_0123abcd_"], "kept": [] }));
    assert_eq!(again.out, "no bench has left anything to drop\n", "{}", again.err);
    assert_eq!((left_over(desk).as_str(), desk.count(3).as_str()), ("0", "1"));
}
