//! `bench` measures on tables of its own, leaves nothing behind, and keeps away from outboxes that are in use.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use crate::program::{Answer, pillarbox};
use crate::shop::Shop;

/// Tables of benches.
const TABLES: &str = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'pillarbox_bench_%'";

/// An event that is dead, one that waits, and one that is done, as they stand in the table.
fn untouched(shop: &Shop) -> i64 {
    shop.number(
        "SELECT count(*) FROM outbox_event \
         WHERE (event_id, status) IN (VALUES ('n-1', 0), ('d-1', 1), ('x-1', 3)) AND starts = 0",
    )
}

#[test]
fn a_bench_prints_rates_and_leaves_nothing_behind() {
    let shop = Shop::with_events(&[("d-1", 1)]);

    for arguments in [
        &[][..],
        &["--mode", "ownership"],
        &["--ordered", "--keys", "5", "--batch", "7", "--payload-bytes", "2000"],
    ] {
        let text = shop.run("bench", &[&["--events", "300"], arguments].concat());
        let json = shop.run("bench", &[&["--events", "300", "--json"], arguments].concat()).json();

        assert_eq!((text.code, text.err.as_str()), (Some(0), ""), "{}", text.out);
        for label in
            ["\n  written ", "\n  delivered ", "\n  commit to listener, p50 ", "\n  commit to listener, p99 "]
        {
            assert!(text.out.contains(label), "{label}{}", text.out);
        }
        for rate in ["written_per_second", "delivered_per_second", "commit_to_listener_p99_micros"] {
            assert!(json[rate].as_f64() > Some(0.0), "{rate} {json}");
        }
        assert!(json["ratio"]["written"].as_f64() > Some(0.0), "{json}");
        assert!(json["bare_insert"]["rows_per_second"].as_f64() > Some(0.0), "{json}");
    }
    assert_eq!(shop.number(TABLES), 0);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 1);
}

/// A database without an outbox can be measured before there is one.
#[test]
fn a_bench_needs_no_outbox() {
    let shop = Shop::empty();
    shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");

    let json = shop.run("bench", &["--events", "50", "--json"]).json();

    assert_eq!((&json["events"], &json["mode"]), (&json!(50), &json!("claims")));
    assert_eq!(
        shop.number("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE '%outbox%'"),
        0
    );
}

#[test]
fn an_outbox_in_use_is_refused_and_never_touched() {
    for (events, owner, reason) in [
        (&[("n-1", 0)][..], false, "is not empty: 1 wait, 0 dead; "),
        (&[("x-1", 3)], false, "is not empty: 0 wait, 1 dead; "),
        (&[("d-1", 1)], true, "is in use by `relay-1`; "),
    ] {
        let shop = Shop::with_events(events);
        if owner {
            shop.claim("relay-1", Duration::from_secs(3_000));
        }

        let refused = shop.run("bench", &["--events", "50"]);
        let tables = shop.number(TABLES);
        let forced = shop.run("bench", &["--events", "50", "--force"]);

        assert_eq!((refused.code, tables), (Some(2), 0), "{}", refused.err);
        assert!(refused.err.contains(reason) && refused.err.contains("--force"), "{}", refused.err);
        assert_eq!(forced.code, Some(0), "{}", forced.err);
        assert_eq!((untouched(&shop), shop.number(TABLES)), (1, 0), "{events:?}");
    }
}

#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    let shop = Shop::with_events(&[("d-1", 1)]);
    let mut program = pillarbox();
    program.args(["bench", "--events", "1000000", "--db"]).arg(shop.file());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while shop.number(TABLES) == 0 {
        std::thread::yield_now();
    }

    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let answer = Answer::of(child.wait_with_output().unwrap());

    assert_eq!((answer.code, answer.out.as_str()), (Some(1), ""), "{}", answer.err);
    assert!(answer.err.contains("interrupted; the tables of the bench were dropped"), "{}", answer.err);
    assert_eq!(shop.number(TABLES), 0);
}

/// What a bench left that was killed is dropped when that is asked for, and nothing else is.
#[test]
fn what_a_killed_bench_left_is_dropped() {
    let shop = Shop::with_events(&[("x-1", 3)]);
    assert_eq!(shop.run("migrate", &["--prefix", "pillarbox_bench_0123abcd_"]).code, Some(0));
    shop.execute("CREATE TABLE pillarbox_bench_of_ours (id INTEGER PRIMARY KEY)");
    shop.execute("CREATE TABLE pillarbox_bench_my_outbox_things (id INTEGER PRIMARY KEY)");

    let told = shop.run("bench", &["--events", "50", "--force"]).err;
    let cleaned = shop.run("bench", &["--clean", "--json"]).json();
    let again = shop.run("bench", &["--clean"]);

    assert!(told.contains("tables `pillarbox_bench_0123abcd_…` of another bench"), "{told}");
    assert_eq!(cleaned, json!({ "removed": ["pillarbox_bench_0123abcd_"], "kept": [] }));
    assert_eq!(again.out, "no bench has left anything to drop\n", "{}", again.err);
    assert_eq!(
        shop.number(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'pillarbox_bench_%'"
        ),
        2
    );
    assert_eq!(untouched(&shop), 1);
}

/// A bench that writes is not told from its tables, and keeps them.
#[test]
fn a_bench_that_writes_keeps_its_tables() {
    let shop = Shop::with_events(&[]);
    let mut program = pillarbox();
    program.args(["bench", "--events", "1000000", "--db"]).arg(shop.file());
    let child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The last of its tables.
    while shop.number("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'pillarbox_bench_%_outbox_plain'")
        == 0
    {
        std::thread::yield_now();
    }
    let tables = shop.number(TABLES);

    let cleaned = shop.run("bench", &["--clean"]);
    let kept = shop.number(TABLES);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    let answer = Answer::of(child.wait_with_output().unwrap());

    assert!(cleaned.out.contains("kept `pillarbox_bench_"), "{}{}", cleaned.out, cleaned.err);
    assert_eq!(kept, tables);
    assert!(answer.err.contains("interrupted; the tables of the bench were dropped"), "{}", answer.err);
    assert_eq!(shop.number(TABLES), 0);
}

/// A bench that was killed in the middle has said that it is alive, and a minute later is not.
#[test]
fn a_bench_that_fell_silent_is_dropped() {
    let shop = Shop::with_events(&[]);
    let prefix = ["--prefix", "pillarbox_bench_0123abcd_"];
    assert_eq!(shop.run("migrate", &prefix).code, Some(0));
    assert_eq!(shop.run("pause", &[&["bench-tick"], &prefix[..]].concat()).code, Some(0));

    let early = shop.run("bench", &["--clean", "--json"]).json();
    shop.execute(
        "UPDATE pillarbox_bench_0123abcd_outbox_meta SET value = value - 61000000 WHERE name = 'paused:bench-tick'",
    );
    let late = shop.run("bench", &["--clean", "--json"]).json();

    assert_eq!(early, json!({ "removed": [], "kept": ["pillarbox_bench_0123abcd_"] }));
    assert_eq!(late, json!({ "removed": ["pillarbox_bench_0123abcd_"], "kept": [] }));
}

#[test]
fn benches_that_make_no_sense_are_refused() {
    let shop = Shop::with_events(&[]);

    for (arguments, reason) in [
        (&["--events", "0"][..], "0 is not in 10..="),
        (&["--payload-bytes", "1"], "1 is not in 2..="),
        (&["--batch", "0"], "0 is not in 1..="),
        (&["--keys", "0"], "0 is not in 1..="),
        (&["--mode", "claim"], "claims, ownership"),
        (&["--mode", "claims", "--ordered"], "leave out --ordered, or give --mode ownership"),
    ] {
        let answer = shop.run("bench", arguments);

        assert_eq!((answer.code, answer.out.as_str()), (Some(2), ""), "{}", answer.err);
        assert!(answer.err.contains(reason), "{}", answer.err);
    }
    let missing = Shop::empty();
    let answer = missing.run("bench", &[]);
    assert!(answer.err.contains("no such file") && !missing.file().exists(), "{}", answer.err);
}
