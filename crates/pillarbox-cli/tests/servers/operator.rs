//! `migrate`, `status` and `purge` do what they say.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::desk::Desk;
use crate::program::pillarbox;

/// S7: the outbox is made once, beside tables that were there before.
pub(crate) async fn migrate_creates_the_outbox_once(desk: &Desk) {
    desk.sql("CREATE TABLE invoices (id INTEGER PRIMARY KEY); INSERT INTO invoices VALUES (1)");

    let first = desk.run("migrate", &[]);
    let second = desk.run("migrate", &["--json"]).json();
    let logged = desk.run_loudly(&desk.own.url(), "migrate", &[]).err;

    let name = desk.own.name();
    assert_eq!(first.out, format!("created the outbox in {name} (schema version 2)\n"), "{}", first.err);
    let store = desk.either("postgres", "mysql");
    let expected = json!({ "database": name, "store": store, "from_version": 2, "schema_version": 2 });
    assert_eq!(second, expected);
    assert_eq!(desk.sql("SELECT count(*) FROM invoices"), "1");
    assert!(logged.contains("outbox_meta"), "statements are logged, and no password: {logged}");
}

/// S6: schema and prefix, alone and together, name an outbox of their own.
pub(crate) async fn schema_and_prefix_name_an_outbox_of_their_own(desk: &Desk) {
    // In MySQL a schema is a database, and this trial has one of its own.
    let schema = if desk.own.is_postgres() { "billing" } else { desk.own.database.as_str() };
    desk.with_events(&[("x-1", 3)]);
    let both = ["--schema", schema, "--prefix", "eu_"];
    let before = desk.run("status", &both);

    for names in [&both[..], &["--prefix", "eu_"], &["--schema", schema]] {
        assert_eq!(desk.run("migrate", names).code, Some(0));
        assert_eq!(desk.run("status", names).code, Some(0));
    }

    assert_eq!(before.code, Some(2), "{}", before.out);
    assert!(before.err.contains("there is no outbox in this database"), "{}", before.err);
    let dead = |names: &[&str]| desk.run("status", &[names, &["--json"]].concat()).json()["dead"].clone();
    assert_eq!((dead(&[]), dead(&both)), (json!(1), json!(0)));
}

/// S7: what --print prints, run by the server's own program, is an outbox.
pub(crate) async fn printed_migrations_make_an_outbox(desk: &Desk) {
    let schema = if desk.own.is_postgres() { "billing" } else { desk.own.database.as_str() };

    for names in [&[][..], &["--prefix", "eu_"], &["--schema", schema, "--prefix", "us_"]] {
        let printed = desk.run("migrate", &[&["--print"], names].concat());
        desk.sql(&printed.out);

        assert_eq!(printed.code, Some(0), "{}", printed.err);
        let status = desk.run("status", &[&["--json"], names].concat()).json();
        assert_eq!(status["schema_version"], json!(2));
        let again = desk.run("migrate", names);
        assert!(again.out.contains("is up to date"), "{} {}", again.out, again.err);
    }
}

/// S4, M6: status says which store it is, and counts.
pub(crate) async fn status_counts_events_by_status(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("n-2", 0), ("d-1", 1), ("r-1", 2), ("x-1", 3), ("x-2", 3)]);

    let json = desk.run("status", &["--json"]).json();
    let text = desk.run("status", &[]).out;
    desk.run_loudly(&desk.own.url(), "status", &[]);

    let counts = ["new", "retry", "pending", "dead", "schema_version"].map(|name| json[name].clone());
    assert_eq!(counts, [2, 1, 3, 2, 2].map(|count| json!(count)));
    assert_eq!(json["store"], json!(desk.either("postgres", "mysql")));
    let kind = desk.either("PostgreSQL", "MySQL/MariaDB");
    assert!(text.starts_with(&format!("{}, {kind}, schema version 2\n", desk.own.name())), "{text}");
}

/// M5, O7: status names the mode, and counts what waits by partition.
pub(crate) async fn status_tells_who_owns_what(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("n-2", 0), ("d-1", 1), ("x-1", 3)]);
    let before = desk.run("status", &["--json"]).json();
    assert_eq!(desk.run("migrate", &["--mode", "ownership"]).code, Some(0));

    let json = desk.run("status", &["--json"]).json();
    let text = desk.run("status", &[]).out;
    desk.run_loudly(&desk.own.url(), "status", &[]);

    assert_eq!((&before["mode"], &before["partitions"]), (&json!("claims"), &json!([])));
    assert_eq!(json["mode"], json!("ownership"));
    let partitions: Vec<_> = json["partitions"].as_array().into_iter().flatten().collect();
    let fresh: u64 = partitions.iter().filter_map(|partition| partition["fresh"].as_u64()).sum();
    // Without a key the trigger of MySQL gives no partition.
    let unplaced = if desk.own.is_postgres() { 0 } else { 2 };
    assert_eq!((partitions.len(), fresh, &json["unplaced"]), (256, 2 - unplaced, &json!(unplaced)));
    assert!(text.contains("no instances: nobody delivers"), "{text}");
}

/// M6: readings follow each other, the second with what was written since.
pub(crate) async fn status_is_watched(desk: &Desk) {
    desk.with_events(&[("n-1", 0)]);
    let mut program = pillarbox();
    program.args(["status", "--watch=100ms", "--json"]).env("PILLARBOX_DB", desk.own.url());
    let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut readings = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reading = || serde_json::from_str::<Value>(&readings.next().unwrap().unwrap()).unwrap();

    let first = reading();
    desk.with_events(&[("n-2", 0), ("n-3", 0)]);
    // Numbers are given before their events are there to be counted.
    let mut has_rate = false;
    let last = loop {
        let next = reading();
        has_rate |= next["rates"]["written_per_second"].as_f64() > Some(0.0);
        if has_rate && next["new"] == 3 {
            break next;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();

    assert_eq!((&first["new"], &first["rates"], &first["error"]), (&json!(1), &json!(null), &json!(null)));
    assert_eq!((&last["pending"], &last["error"]), (&json!(3), &json!(null)));
}

/// S9: old done events go, in several steps; what waits stays, and so does what is dead unless it is meant.
pub(crate) async fn purge_deletes_old_done_events_and_nothing_else(desk: &Desk) {
    desk.with_events(&[("n-1", 0), ("r-1", 2), ("x-1", 3), ("young", 1)]);
    let long_ago = "TIMESTAMP '2001-01-01 00:00:00'";
    desk.sql(&format!(
        "INSERT INTO outbox_event (event_id, event_type, payload, status, created_at, done_at)
         WITH RECURSIVE many (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 50)
         SELECT concat('old-', a.n, '-', b.n), 'OrderPlaced', '{{}}', 1, {long_ago}, {long_ago}
         FROM many AS a
         CROSS JOIN many AS b"
    ));
    desk.sql(&format!("UPDATE outbox_event SET created_at = {long_ago} WHERE event_id IN ('n-1', 'x-1')"));

    let purged = desk.run("purge", &["--older-than", "30d", "--json"]).json();
    let found = desk.run("purge", &["--older-than", "30d", "--dead-too", "--dry-run"]);
    let again = desk.run("purge", &["--older-than", "30d", "--dead-too", "--yes"]);

    assert_eq!(purged["purged"], json!(2_500));
    assert_eq!(found.out, "would purge 1 event: done and dead, older than 30d\n");
    assert_eq!(again.out, "purged 1 event: done and dead, older than 30d\n");
    let left = desk.sql("SELECT event_id FROM outbox_event ORDER BY seq");
    assert_eq!(left, "n-1\nr-1\nyoung");
}
