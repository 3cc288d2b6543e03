//! `migrate`, `status` and `purge` do what they say.

use serde_json::json;

use crate::shop::{Answer, Shop, pillarbox, run};

/// S7: the outbox is made once, beside tables that were there before.
#[test]
fn migrate_creates_the_outbox_once() {
    let shop = Shop::empty();
    shop.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY); INSERT INTO invoices VALUES (1)");

    let first = shop.run("migrate", &[]);
    let second = shop.run("migrate", &["--json"]).json();

    assert!(first.out.starts_with("created the outbox in "), "{}", first.out);
    assert_eq!((&second["from_version"], &second["schema_version"]), (&json!(2), &json!(2)));
    assert_eq!(shop.number("SELECT count(*) FROM invoices"), 1);
}

/// S6: two outboxes fit into one file, and commands work on the one that is named.
#[test]
fn a_prefix_names_an_outbox_of_its_own() {
    let shop = Shop::with_events(&[("id-1", 3)]);
    let before = shop.run("status", &["--prefix", "billing_"]);
    shop.run("migrate", &["--prefix", "billing_", "--json"]).json();

    let plain = shop.run("status", &["--json"]).json();
    let billing = shop.run("status", &["--prefix", "billing_", "--json"]).json();

    assert_eq!(before.code, Some(2), "{}", before.out);
    assert_eq!((&plain["dead"], &billing["dead"]), (&json!(1), &json!(0)));
}

/// S7: what --print prints, run by another tool, is an outbox.
#[test]
fn printed_migrations_make_an_outbox() {
    for prefix in [&[][..], &["--prefix", "billing_"]] {
        let shop = Shop::empty();
        let printed = shop.run("migrate", &[&["--print"], prefix].concat());
        let file = shop.file().exists();

        shop.execute(printed.out.clone());

        assert_eq!((printed.code, file), (Some(0), false), "it connects to nothing: {}", printed.err);
        let status = shop.run("status", &[&["--json"], prefix].concat()).json();
        assert_eq!((&status["schema_version"], &status["store"]), (&json!(2), &json!("sqlite")));
        let again = shop.run("migrate", prefix);
        assert!(again.out.contains("is up to date"), "{} {}", again.out, again.err);
    }
}

/// S7: the database is chosen by the scheme or by name; a name needs no database at all.
#[test]
fn migrations_are_printed_for_each_database() {
    for (dialect, url, sign) in [
        ("sqlite", "sqlite:shop.db", "AUTOINCREMENT"),
        ("postgres", "postgres://shop:secret@nowhere/shop", "GENERATED ALWAYS"),
        ("mysql", "mariadb://shop:secret@nowhere/shop", "ENGINE = InnoDB"),
    ] {
        let by_name = run(&["migrate", "--print", "--dialect", dialect]);
        let by_url = run(&["migrate", "--print", "--db", url]);

        assert_eq!(by_name.code, Some(0), "{}", by_name.err);
        assert!(by_name.out.starts_with("-- The outbox of Pillarbox in ") && by_name.out.contains(sign));
        assert_eq!(by_name.out, by_url.out);
    }
}

/// S4: a path, a URL and the environment name the same database.
#[test]
fn a_path_a_url_and_the_environment_name_the_same_database() {
    let shop = Shop::with_events(&[("id-1", 3)]);
    let url = format!("sqlite://{}", shop.db());

    let by_path = run(&["status", "--db", &shop.db()]);
    let by_url = run(&["status", "--db", &url]);
    let by_environment = Answer::of(pillarbox().arg("status").env("PILLARBOX_DB", &url).output().unwrap());

    assert_eq!(by_path.code, Some(0), "{}", by_path.err);
    assert_eq!(by_path.out, by_url.out);
    assert_eq!(by_path.out, by_environment.out);
}

/// M6: what is done is an estimate, and says so.
#[test]
fn status_counts_events_by_status() {
    let shop = Shop::with_events(&[("n-1", 0), ("n-2", 0), ("d-1", 1), ("r-1", 2), ("x-1", 3), ("x-2", 3)]);

    let json = shop.run("status", &["--json"]).json();
    let text = shop.run("status", &[]).out;

    let counts =
        ["new", "retry", "pending", "dead", "done_estimate", "schema_version"].map(|name| json[name].clone());
    assert_eq!(counts, [2, 1, 3, 2, 1, 2].map(|count| json!(count)));
    assert!(json["oldest_due_seconds"].as_f64().is_some(), "{json}");
    assert!(text.contains("~1   delivered; an estimate"), "{text}");
    assert!(text.contains("shop.db, SQLite, schema version 2\n"), "{text}");
}

#[test]
fn status_of_an_empty_outbox_has_no_lag() {
    let shop = Shop::with_events(&[]);

    let json = shop.run("status", &["--json"]).json();

    assert_eq!(json["oldest_due_seconds"], json!(null));
}

/// S9: old done events go, in several steps; what waits stays, and so does what is dead.
#[test]
fn purge_deletes_old_done_events_and_nothing_else() {
    let shop = Shop::with_events(&[("n-1", 0), ("r-1", 2), ("x-1", 3), ("young", 1)]);
    shop.execute(
        "WITH RECURSIVE old (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM old WHERE n < 2500)
         INSERT INTO outbox_event (event_id, event_type, payload, status, created_at, done_at)
         SELECT 'old-' || n, 'OrderPlaced', '{}', 1, 0, 0 FROM old",
    );

    let found = shop.run("purge", &["--older-than", "30d", "--dry-run", "--json"]).json();
    let purged = shop.run("purge", &["--older-than", "30d", "--json"]).json();
    let again = shop.run("purge", &["--older-than", "30d"]);

    assert_eq!(found, json!({"dry_run": true, "matching": 2_500, "dead_too": false}));
    assert_eq!(purged["purged"], json!(2_500));
    assert_eq!(again.out, "purged 0 events: done, older than 30d\n");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 4);
}

/// S9: dead events are purged only when asked.
#[test]
fn purge_deletes_dead_events_when_asked() {
    let shop = Shop::with_events(&[("n-1", 0), ("x-1", 3), ("x-2", 3)]);
    shop.execute("UPDATE outbox_event SET created_at = 0 WHERE event_id IN ('n-1', 'x-1')");

    let asked = shop.run("purge", &["--older-than", "12h", "--dead-too"]);
    assert_eq!(asked.code, Some(2));
    let expected =
        "this would delete dead events older than 12h too (2 are dead) for good; add --yes if you mean it";
    assert!(asked.err.contains(expected), "{}", asked.err);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event"), 3);
    let purged = shop.run("purge", &["--older-than", "12h", "--dead-too", "--yes"]);

    assert_eq!(purged.out, "purged 1 event: done and dead, older than 12h\n");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE event_id IN ('n-1', 'x-2')"), 2);
}

/// S9: a dry run counts what a purge would delete, and deletes nothing: neither what waits nor what a key is parked for.
#[test]
fn dry_run_counts_what_a_purge_deletes() {
    let shop = Shop::with_events(&[("order-1", 0), ("order-2", 0), ("order-3", 3), ("order-4", 1)]);
    shop.deliver("order-1", &["order-1"]);
    shop.execute("UPDATE outbox_event SET created_at = 0");

    let found = shop.run("purge", &["--older-than", "12h", "--dead-too", "--dry-run"]);
    let purged = shop.run("purge", &["--older-than", "12h", "--dead-too", "--yes"]);

    assert_eq!(found.out, "would purge 1 event: done and dead, older than 12h\n");
    assert_eq!(purged.out, "purged 1 event: done and dead, older than 12h\n");
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE event_id = 'order-3'"), 0);
    assert_eq!(shop.run("purge", &["--older-than", "12h", "--yes"]).code, Some(2), "--yes to what?");
}
