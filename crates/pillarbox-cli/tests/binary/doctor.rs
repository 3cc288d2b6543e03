//! `doctor` tells what is wrong with a file and with a relay's configuration.

use serde_json::Value;

use crate::shop::{Answer, Shop, pillarbox, run};

/// The check of this name of the first subject.
fn check<'v>(report: &'v Value, name: &str) -> &'v Value {
    let checks = report["subjects"][0]["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {report:#}"))
}

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {} {}", answer.out, answer.err))
}

/// M5: a file that is in order is examined line by line, and the exit code is 0.
#[test]
fn good_file_is_well() {
    let shop = Shop::with_events(&[("order-1", 1)]);

    let answer = shop.run("doctor", &[]);

    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{}", answer.out);
    let lines: Vec<&str> = answer.out.lines().collect();
    assert_eq!(lines[0], format!("database {}", shop.db()));
    assert!(lines[1].starts_with("  ok       database "), "{}", answer.out);
    assert!(
        answer.out.contains("  ok       schema        version 2, which this program needs\n"),
        "{}",
        answer.out
    );
    assert!(answer.out.ends_with(" ok\n"), "{}", answer.out);
    assert_eq!(shop.run("doctor", &["--strict"]).code, Some(0));
}

/// M5: warnings are told and fail only where that is asked for.
#[test]
fn warnings_fail_when_strict() {
    let shop = Shop::with_events(&[("order-1", 3)]);

    let answer = shop.run("doctor", &[]);
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(
        answer.out.contains("  warning  dead          1 events were given up; see `pillarbox dead list`")
    );
    assert!(answer.out.contains(", 1 warning\n"), "{}", answer.out);
    assert_eq!(shop.run("doctor", &["--strict"]).code, Some(1));

    let report = shop.run("doctor", &["--json"]).json();
    assert_eq!((&report["worst"], &report["warnings"]), (&"warning".into(), &1.into()));
    assert_eq!(report["subjects"][0]["kind"], "database");
    let dead = check(&report, "dead");
    assert_eq!((&dead["health"], &dead["found"]), (&"warning".into(), &"1 events were given up".into()));
    assert!(dead["remedy"].as_str().is_some_and(|remedy| remedy.contains("pillarbox dead list")), "{dead}");
    assert_eq!(check(&report, "clock")["remedy"], Value::Null);
}

/// S7: a problem fails, in text and in JSON, and creates nothing.
#[test]
fn problems_fail() {
    let shop = Shop::empty();
    let missing = shop.run("doctor", &["--json"]);
    assert_eq!(missing.code, Some(1), "{}", missing.err);
    let report = parsed(&missing);
    assert_eq!((&report["worst"], &report["problems"]), (&"problem".into(), &1.into()));
    assert_eq!(check(&report, "database")["health"], "problem");
    assert!(!shop.file().exists());

    let shop = Shop::with_events(&[]);
    shop.execute("DROP INDEX outbox_event_pending");
    let dropped = shop.run("doctor", &[]);
    assert_eq!(dropped.code, Some(1), "{}", dropped.err);
    assert!(
        dropped.out.contains("  problem  indexes       `outbox_event_pending` is missing"),
        "{}",
        dropped.out
    );
    assert!(dropped.out.contains("  unknown  backlog  "), "{}", dropped.out);
}

/// What to examine must be said, once, and make sense; a URL is not repeated.
#[test]
fn wrong_usage_is_refused() {
    let shop = Shop::with_events(&[]);
    let db = shop.db();
    let text = shop.directory().join("orders.txt");
    std::fs::write(&text, "no database").expect("a file");
    let text = text.to_str().expect("a path").to_owned();
    for (arguments, reason) in [
        (vec!["doctor"], "say what to examine: `--db URL`"),
        (vec!["doctor", "--db", &db, "--config", "pillarbox.toml"], "cannot be used with"),
        (vec!["doctor", "--config", "pillarbox.toml", "--prefix", "eu_"], "cannot be used with"),
        (vec!["doctor", "--db", &db, "--schema", "shop"], "SQLite has no schemas"),
        (vec!["doctor", "--db", &db, "--prefix", "x; DROP"], "is not a name"),
        (vec!["doctor", "--db", &text], "is not a SQLite database"),
        (vec!["doctor", "--db", "redis://:seventeen@localhost"], "unknown scheme `redis`"),
        (vec!["doctor", "--config", "no-such-file.toml"], "no-such-file.toml"),
    ] {
        let answer = run(&arguments);

        assert_eq!(answer.code, Some(2), "{arguments:?}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(reason), "{reason}: {}", answer.err);
        assert!(!answer.err.contains("seventeen") && answer.out.is_empty(), "{}", answer.err);
    }
}

/// The environment says which database, or which file, where the command line does not.
#[test]
fn environment_says_what_to_examine() {
    let shop = Shop::with_events(&[]);
    let by_db =
        Answer::of(pillarbox().arg("doctor").env("PILLARBOX_DB", shop.db()).output().expect("it runs"));
    assert!(by_db.out.starts_with(&format!("database {}", shop.db())), "{}{}", by_db.out, by_db.err);

    let config = configure(&shop, &shop.db(), "stdout");
    let by_file =
        Answer::of(pillarbox().arg("doctor").env("PILLARBOX_CONFIG", &config).output().expect("it runs"));
    assert!(by_file.out.starts_with(&format!("file {config}\n  ok  ")), "{}{}", by_file.out, by_file.err);
}

fn configure(shop: &Shop, url: &str, sink: &str) -> String {
    let file = shop.directory().join("pillarbox.toml");
    let text = format!(
        "[outboxes.orders]\nkeep_done_for = \"30d\"\n[outboxes.orders.store]\nurl = '{url}'\n\
         [outboxes.invoices.store]\nurl = '{}'\n[messages]\nsource = \"/shop\"\n[sinks.console]\ntype = \"{sink}\"\n\
         [[routes]]\nname = \"all\"\nto = \"console\"\n",
        shop.db()
    );
    std::fs::write(&file, text).expect("a file");
    file.to_str().expect("a path").to_owned()
}

/// K3: every outbox and every sink of a relay's file is examined, whatever is wrong with one of them.
#[test]
fn whole_file_of_a_relay_is_examined() {
    let shop = Shop::with_events(&[]);
    let config = configure(&shop, "elsewhere/shop.db", "stdout");

    let answer = run(&["doctor", "--config", &config, "--json"]);

    assert_eq!(answer.code, Some(1), "{}", answer.err);
    let report = parsed(&answer);
    let subjects = report["subjects"].as_array().expect("subjects");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let kinds: Vec<String> = subjects.iter().map(|subject| text(&subject["kind"])).collect();
    assert_eq!(kinds, ["file", "outbox", "outbox", "sink"], "{report:#}");
    assert_eq!(check(&report, "file")["found"], "2 outboxes, 1 sinks, 1 routes");
    for (subject, name, health, part) in [
        ("invoices (", "retention", "warning", "done events are kept for ever"),
        ("invoices (", "schema", "ok", "version 2"),
        ("orders (", "database", "problem", "there is no file `elsewhere/shop.db`"),
        ("orders (", "retention", "ok", "kept for 30d"),
        ("console (stdout)", "server", "ok", "bytes)"),
    ] {
        let found = subjects.iter().find(|found| text(&found["name"]).starts_with(subject));
        let checks =
            found.unwrap_or_else(|| panic!("{subject}: {report:#}"))["checks"].as_array().expect("checks");
        let found = checks.iter().find(|check| check["name"] == name);
        let found = found.unwrap_or_else(|| panic!("{name} of {subject}: {report:#}"));
        assert_eq!(found["health"], health, "{found}");
        assert!(text(&found["found"]).contains(part), "{part}: {found}");
    }
}

/// M5: a database whose URL stands in a file of its own is examined as others are.
#[test]
fn url_in_a_file_of_its_own_is_examined() {
    let shop = Shop::with_events(&[]);
    let (config, url) = (configure(&shop, "elsewhere/shop.db", "stdout"), shop.directory().join("url"));
    std::fs::write(&url, format!("{}\n", shop.db())).expect("a file");
    let text = std::fs::read_to_string(&config).expect("a text");
    let moved = text.replace("url = 'elsewhere/shop.db'", &format!("url_file = '{}'", url.display()));
    assert_ne!(moved, text);
    std::fs::write(&config, moved).expect("a file");

    let answer = run(&["doctor", "--config", &config]);

    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    assert!(answer.out.contains(&format!("outbox orders ({})", shop.db())), "{}", answer.out);
}

/// M4: a sink that cannot be made is a problem of the file, with its place; the databases are examined all the same.
#[test]
fn sink_that_cannot_be_made_is_a_problem() {
    let shop = Shop::with_events(&[]);
    let config = configure(&shop, &shop.db(), "stdin");

    let answer = run(&["doctor", "--config", &config]);

    assert_eq!(answer.code, Some(1), "{}", answer.err);
    assert!(answer.out.contains("  problem  file          "), "{}", answer.out);
    assert!(answer.out.contains("`stdin` is no type of a sink"), "{}", answer.out);
    assert!(answer.out.contains("  ok       schema        version 2"), "{}", answer.out);
}
