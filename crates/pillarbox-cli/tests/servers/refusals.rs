//! What cannot be done is refused with the reason and an exit code, and no password is shown.

use crate::desk::{Address, Desk, ON_AN_OUTBOX, PASSWORD};
use crate::program::{Answer, run};

#[track_caller]
fn assert_refused(answer: &Answer, code: i32, reason: &str) {
    let causes: Vec<&str> = answer.err.trim_end().split(": ").collect();
    assert!(causes.windows(2).all(|pair| pair[0] != pair[1]), "a cause is told once: {}", answer.err);
    assert_eq!(answer.code, Some(code), "{}", answer.err);
    assert!(answer.err.contains(reason), "{reason}: {}", answer.err);
    assert!(answer.err.starts_with("error: "), "{}", answer.err);
    assert_eq!(answer.out, "");
}

/// Wrong password, unknown user, no such database, no such host, nobody at the port, a misspelt option.
pub(crate) async fn whoever_cannot_get_in_is_told_why(desk: &Desk) {
    let own = || desk.own.clone();
    let wrong_password = Address { password: PASSWORD.into(), ..own() };
    let unknown_user = Address { user: "nobody".into(), password: PASSWORD.into(), ..own() };
    let no_database = Address { database: "no_such_shop".into(), ..own() };
    // Too long for a name of a host, so that nobody has to be asked.
    let no_host = Address { host: format!("{}.example", "x".repeat(64)), ..own() };
    let no_port = Address { port: "1".into(), ..own() };
    let bad_port = Address { port: "many".into(), ..own() };
    let misspelt = format!("{}?sslmod=disable&pasword={PASSWORD}", desk.own.url());
    let let_in = desk.either("the password of `", "does not let `");
    for (url, code, reason) in [
        (wrong_password.url(), 1, let_in),
        (unknown_user.url(), 1, desk.either("`nobody`", "does not let `nobody` in")),
        (no_database.url(), 2, "there is no database `no_such_shop`"),
        (no_host.url(), 1, "cannot be reached"),
        (no_port.url(), 1, "cannot be reached; see whether it runs, and correct the URL"),
        (bad_port.url(), 2, "the URL of the database cannot be read"),
        (misspelt, 2, "unknown option `sslmod`; did you mean `sslmode`?"),
    ] {
        for (command, arguments) in [("status", &[][..]), ("migrate", &[]), ("dead replay", &["--all"])] {
            assert_refused(&desk.run_at(&url, command, arguments), code, reason);
        }
        desk.run_loudly(&url, "status", &[]);
    }
}

pub(crate) async fn a_database_without_an_outbox_is_refused(desk: &Desk) {
    for (command, arguments) in ON_AN_OUTBOX {
        let answer = desk.run(command, arguments);

        assert_refused(&answer, 2, "there is no outbox in this database; run `pillarbox migrate`");
        assert!(answer.err.contains(&desk.own.name()), "{}", answer.err);
    }
    let schema = if desk.own.is_postgres() { "public" } else { desk.own.database.as_str() };
    let elsewhere = desk.run("status", &["--schema", schema, "--prefix", "billing_"]);
    let place = format!("{}, schema `{schema}`, prefix `billing_`: there is no outbox", desk.own.name());
    assert_refused(&elsewhere, 2, &place);
    desk.run_loudly(&desk.own.url(), "status", &[]);
}

/// S7: a program that is older than the tables keeps its hands off them.
pub(crate) async fn a_newer_schema_is_refused_by_every_command(desk: &Desk) {
    desk.with_events(&[]);
    desk.sql("UPDATE outbox_meta SET value = '99' WHERE name = 'schema_version'");

    for (command, arguments) in ON_AN_OUTBOX {
        assert_refused(&desk.run(command, arguments), 2, "at version 99");
    }
    assert_refused(&desk.run("migrate", &[]), 2, "use a newer build");
    desk.run_loudly(&desk.own.url(), "migrate", &[]);
}

/// The user is told which grant is missing.
pub(crate) async fn a_missing_privilege_is_named(desk: &Desk) {
    desk.with_events(&[("x-1", 3)]);
    let reader = desk.create_user().url();

    for (command, arguments) in ON_AN_OUTBOX {
        let answer = desk.run_at(&reader, command, arguments);

        let table = if command.starts_with("keys ") { "outbox_instance" } else { "outbox_event" };
        assert_refused(&answer, 1, "give `GRANT ");
        assert!(answer.err.contains(table), "{}", answer.err);
    }
    desk.run_loudly(&reader, "status", &[]);
}

pub(crate) async fn wrong_usage_is_refused(desk: &Desk) {
    desk.with_events(&[]);
    let inject = "x; DROP TABLE outbox_event";

    for (command, arguments, reason) in [
        ("status", &["--schema", inject][..], "is not a name"),
        ("migrate", &["--prefix", inject], "is not a name"),
        ("migrate", &["--print", "--schema", inject], "is not a name"),
        ("migrate", &["--dialect", "mysql"], "--print"),
        ("status", &["--limit", "3"], "unexpected argument"),
        ("dead list", &["--limit", "0"], "0 is not in 1..="),
        ("demo", &[], "and a SQLite file is needed"),
    ] {
        assert_refused(&desk.run(command, arguments), 2, reason);
    }
    let misplaced = run(&["status", &desk.own.url()]);
    assert_refused(&misplaced, 2, "unexpected argument");
    assert!(!misplaced.err.contains(&desk.own.password));
    assert_eq!(desk.count(0), "0", "the table is still there");
}
