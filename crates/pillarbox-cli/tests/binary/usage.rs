//! Wrong usage and bad input are answered clearly, with exit codes that scripts can use.

use crate::shop::{Answer, Shop, pillarbox, run};

/// Commands that need an outbox that exists.
const ON_AN_OUTBOX: [(&str, &[&str]); 12] = [
    ("status", &[]),
    ("pause", &["orders"]),
    ("pause", &["--list"]),
    ("resume", &["orders"]),
    ("tail", &["--once"]),
    ("dead list", &[]),
    ("dead show", &["id-1"]),
    ("dead replay", &["--all"]),
    ("dead discard", &["--all", "--yes"]),
    ("handlers list", &[]),
    ("handlers drop", &["search", "--yes"]),
    ("purge", &["--older-than", "30d"]),
];

const ALL: [&str; 23] = [
    "demo",
    "migrate",
    "pause",
    "resume",
    "status",
    "tail",
    "dead",
    "dead list",
    "dead show",
    "dead replay",
    "dead discard",
    "keys",
    "keys list",
    "keys partition",
    "keys resume",
    "keys skip",
    "handlers",
    "handlers list",
    "handlers drop",
    "handlers rename",
    "purge",
    "bench",
    "doctor",
];

#[track_caller]
fn assert_refused(answer: &Answer, code: i32, reason: &str) {
    assert_eq!(answer.code, Some(code), "{}", answer.err);
    assert!(answer.err.contains(reason), "{}", answer.err);
    assert!(answer.err.starts_with("error: "), "{}", answer.err);
    assert_eq!(answer.out, "");
}

#[test]
fn the_help_of_every_command_has_examples_and_exit_codes() {
    for command in ALL {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();

        let help = run(&arguments);

        assert_eq!(help.code, Some(0), "{command}");
        assert!(help.out.contains("Examples:\n  pillarbox "), "{command}");
        assert!(help.out.contains("Exit codes:\n  0  "), "{command}");
        assert!(!help.out.contains("demo-child"), "{command}");
    }
}

#[test]
fn a_missing_file_is_refused_and_not_created() {
    let shop = Shop::empty();

    for (command, arguments) in ON_AN_OUTBOX {
        let answer = shop.run(command, arguments);

        assert_refused(&answer, 2, "no such file");
        assert!(answer.err.contains("`pillarbox migrate` creates it"), "{}", answer.err);
    }
    assert!(!shop.file().exists());
}

#[test]
fn a_file_that_is_not_sqlite_is_refused_and_left_alone() {
    let shop = Shop::empty();
    let letter = "Dear Sir or Madam, this is not a database.";
    std::fs::write(shop.file(), letter).unwrap();

    for (command, arguments) in ON_AN_OUTBOX {
        assert_refused(&shop.run(command, arguments), 2, "is not a SQLite database");
    }
    assert_refused(&shop.run("migrate", &[]), 2, "is not a SQLite database");
    assert_refused(&shop.run("demo", &[]), 2, "is not a SQLite database");
    assert_eq!(std::fs::read_to_string(shop.file()).unwrap(), letter);
}

#[test]
fn a_database_without_an_outbox_is_refused() {
    let shop = Shop::empty();
    shop.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY)");

    for (command, arguments) in ON_AN_OUTBOX {
        let answer = shop.run(command, arguments);

        assert_refused(&answer, 2, "there is no outbox in this database; run `pillarbox migrate`");
        assert!(answer.err.contains("shop.db"), "{}", answer.err);
        let prefixed = shop.run(command, &[arguments, &["--prefix", "billing_"]].concat());
        let expected = format!("{}, prefix `billing_`: there is no outbox in this database; run", shop.db());
        assert_refused(&prefixed, 2, &expected);
    }
}

/// S7: a program that is older than the tables keeps its hands off them.
#[test]
fn a_newer_schema_is_refused_by_every_command() {
    let shop = Shop::with_events(&[]);
    shop.execute("UPDATE outbox_meta SET value = '99' WHERE name = 'schema_version'");

    for (command, arguments) in ON_AN_OUTBOX {
        assert_refused(&shop.run(command, arguments), 2, "at version 99");
    }
    assert_refused(&shop.run("migrate", &[]), 2, "use a newer build");
    assert_refused(&shop.run("demo", &[]), 2, "use a newer build");
}

#[test]
fn a_directory_is_no_database() {
    let shop = Shop::empty();
    let directory = shop.directory().to_str().unwrap();

    assert_refused(&run(&["status", "--db", directory]), 2, "is a directory");
    assert_refused(&run(&["migrate", "--db", directory]), 2, "is a directory");
    assert_refused(&run(&["migrate", "--db", "/no/such/place/shop.db"]), 2, "no directory `/no/such/place`");
}

/// S4: the password in a URL that is refused, or in the environment, is shown to nobody.
#[test]
fn an_unknown_scheme_is_answered_with_the_known_ones_and_without_the_password() {
    let url = "postgre://shop:secret@localhost/shop";
    let known = "unknown scheme `postgre`; known are `sqlite:PATH`, `postgres://…`, `postgresql://…`, `mysql://…`, \
                 `mariadb://…` and a plain path; did you mean `postgres`?";

    for command in ["status", "migrate", "demo"] {
        let given = run(&[command, "--db", url]);
        let environment = Answer::of(pillarbox().arg(command).env("PILLARBOX_DB", url).output().unwrap());
        let help =
            Answer::of(pillarbox().args([command, "--help"]).env("PILLARBOX_DB", url).output().unwrap());

        for answer in [&given, &environment] {
            assert_refused(answer, 2, known);
            assert!(!answer.err.contains("secret"), "{}", answer.err);
        }
        assert!(!help.out.contains("secret"), "{}", help.out);
    }
}

/// S4: a URL in the wrong place is not repeated, for there may be a password in it.
#[test]
fn a_url_in_the_wrong_place_is_refused_without_its_password() {
    let url = "postgres://shop:secret@localhost/shop";

    for arguments in [
        &["status", url][..],
        &[url],
        &["status", "--dbb", url],
        &[&format!("--db={url}"), "status"],
        &["status", &format!("--schema={url}"), "--db", "shop.db", "--josn"],
        &["dead", "list", "--db", "shop.db", "--limit", url],
        &["migrate", "--print", "--dialect", url],
        &["status", "--db", "shop:secret@localhost/shop"],
        &["migrate", "--db", "//shop:secret@localhost/shop"],
        &["demo", "--db", url],
    ] {
        let answer = run(arguments);

        assert_refused(&answer, 2, "error: ");
        assert!(!answer.err.contains("secret"), "{}", answer.err);
    }
}

/// The demo says what it plays on.
#[test]
fn the_demo_needs_a_sqlite_file() {
    for (url, kind) in
        [("postgres://localhost/shop", "PostgreSQL"), ("mysql://localhost/shop", "MySQL/MariaDB")]
    {
        let reason =
            format!("this is a URL of {kind}, and a SQLite file is needed; give a path, or `sqlite:PATH`");

        assert_refused(&run(&["demo", "--db", url]), 2, &reason);
    }
}

#[test]
fn a_schema_is_refused_for_a_file() {
    let shop = Shop::with_events(&[]);

    for (command, arguments) in ON_AN_OUTBOX {
        let answer = shop.run(command, &[arguments, &["--schema", "shop"]].concat());
        assert_refused(&answer, 2, "SQLite has no schemas; leave `schema` out");
    }
    assert_refused(&shop.run("migrate", &["--schema", "shop"]), 2, "SQLite has no schemas");
    assert_refused(&shop.run("migrate", &["--schema", "shop", "--print"]), 2, "SQLite has no schemas");
}

#[test]
fn a_prefix_that_is_no_name_is_refused() {
    let shop = Shop::empty();

    assert_refused(&shop.run("migrate", &["--prefix", "a-b"]), 2, "the prefix `a-b` is not a name");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    for (arguments, reason) in [
        (&["purge", "--db", "x", "--older-than", "30"][..], "it has no unit"),
        (&["purge", "--db", "x", "--older-than", "30x"], "`x` is no unit"),
        (&["purge", "--db", "x"], "--older-than"),
        (&["demo", "--events", "0"], "0 is not in 1..="),
        (&["demo", "--workers", "0"], "0 is not in 1..="),
        (&["demo", "--rate", "fast"], "orders per second"),
        (&["demo", "--rate", "0"], "orders per second"),
        (&["demo", "--seed", "-1"], "-1"),
        (&["demo", "--crashes", "2"], "--crash"),
        (&["dead", "list", "--db", "x", "--limit", "0"], "0 is not in 1..="),
        (&["dead", "replay", "--db", "x"], "EVENT_ID"),
        (&["dead", "replay", "--db", "x", "--all", "id-1"], "cannot be used with"),
        (&["pause", "--db", "x"], "ROUTE"),
        (&["pause", "--db", "x", "--list", "orders"], "cannot be used with"),
        (&["pause", "--db", "x", "my orders"], "`my orders` is no name of a sink or route"),
        (&["resume", "--db", "x"], "ROUTE"),
        (&["resume", "--db", "x", "--all", "orders"], "cannot be used with"),
        (&["tail", "--db", "x", "-n", "3", "--since", "1m"], "cannot be used with"),
        (&["tail", "--db", "x", "--from", "yesterday"], "give the number of an event, `now` or `first`"),
        (&["tail", "--db", "x", "--since", "10"], "it has no unit"),
        (&["tail", "--db", "x", "--every", "often"], "it begins with no number"),
        (&["status"], "--db"),
        (&["statsu"], "'status'"),
        (&["status", "--db", ""], "sqlite:"),
        (&["migrate"], "--db"),
        (&["migrate", "--print"], "--db"),
        (&["migrate", "--dialect", "mysql"], "--print"),
        (&["migrate", "--print", "--dialect", "oracle"], "sqlite, postgres, mysql"),
        (&["migrate", "--print", "--dialect", "mysql", "--json"], "cannot be used with"),
        (&["migrate", "--print", "--dialect", "mysql", "--prefix", "a-b"], "the prefix `a-b` is not a name"),
    ] {
        assert_refused(&run(arguments), 2, reason);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let shop = Shop::with_events(&[("id-1", 3), ("id-2", 3)]);

    for arguments in
        [&["dead", "list"][..], &["dead", "list", "--json"], &["status"], &["dead", "show", "id-1"]]
    {
        let mut command = pillarbox();
        command.args(arguments).arg("--db").arg(shop.file());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());

        let answer = Answer::of(child.wait_with_output().unwrap());

        assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
