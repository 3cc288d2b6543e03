//! `doctor` on servers: what it tells, and what it says of those who cannot get in.

use serde_json::Value;

use crate::desk::{Address, Desk, PASSWORD};
use crate::program::Answer;

fn parsed(answer: &Answer) -> Value {
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {} {}", answer.out, answer.err))
}

/// The check of this name of the only subject.
#[track_caller]
fn check<'v>(report: &'v Value, name: &str) -> &'v Value {
    let checks = report["subjects"][0]["checks"].as_array();
    let found = checks.and_then(|checks| checks.iter().find(|check| check["name"] == name));
    found.unwrap_or_else(|| panic!("{name}: {report:#}"))
}

/// M5: a database of a server is examined, in text and in JSON.
pub(crate) async fn a_database_is_examined(desk: &Desk) {
    desk.with_events(&[("x-1", 3), ("x-2", 1)]);

    let answer = desk.run("doctor", &["--json"]);

    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    let report = parsed(&answer);
    for name in ["database", "schema", "clock", "indexes", "plan", "bloat", "numbers", "backlog"] {
        assert_eq!(check(&report, name)["health"], "ok", "{report:#}");
    }
    assert_eq!(check(&report, "dead")["health"], "warning");
    let place = format!("{}:{}/{}", desk.own.host, desk.own.port, desk.own.database);
    assert_eq!(report["subjects"][0]["name"], place.as_str());
    let text = desk.run("doctor", &["--strict"]);
    assert_eq!(text.code, Some(1), "{}", text.out);
    assert!(text.out.starts_with(&format!("database {place}\n  ok       database")), "{}", text.out);
    desk.run_loudly(&desk.own.url(), "doctor", &[]);
}

/// S7: whoever cannot get in is told why, with host and reason and without the password.
pub(crate) async fn who_cannot_get_in_is_a_problem(desk: &Desk) {
    let own = || desk.own.clone();
    let let_in = desk.either("the password of `", "does not let `");
    for (address, reason) in [
        (Address { port: "1".into(), ..own() }, format!("`{}:1` cannot be reached", desk.own.host)),
        (Address { password: PASSWORD.into(), ..own() }, let_in.to_owned()),
        (
            Address { database: "no_such_shop".into(), ..own() },
            "there is no database `no_such_shop`".to_owned(),
        ),
    ] {
        let answer = desk.run_at(&address.url(), "doctor", &[]);

        assert_eq!(answer.code, Some(1), "{}{}", answer.out, answer.err);
        assert!(answer.out.contains("  problem  database"), "{}", answer.out);
        assert!(answer.out.contains(&reason), "{reason}: {}", answer.out);
        assert!(answer.out.ends_with("\n1 problem\n"), "{}", answer.out);
    }
    assert!(
        desk.run("doctor", &[]).out.contains("there is no outbox in this database; run `pillarbox migrate`")
    );
}

/// M6: what a user may not see is unknown, with the grant; that fails only where it is asked for.
pub(crate) async fn missing_privileges_are_unknown(desk: &Desk) {
    desk.with_events(&[]);
    let reader = desk.create_user().url();

    let answer = desk.run_at(&reader, "doctor", &["--json"]);

    assert_eq!(answer.code, Some(0), "{}{}", answer.out, answer.err);
    let report = parsed(&answer);
    assert_eq!(report["worst"], "unknown", "{report:#}");
    let backlog = check(&report, "backlog");
    assert_eq!(backlog["health"], "unknown");
    assert!(backlog["found"].as_str().is_some_and(|found| found.contains("GRANT ")), "{backlog}");
    assert_eq!(desk.run_at(&reader, "doctor", &["--strict"]).code, Some(1));
}
