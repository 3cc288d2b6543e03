//! The demo balances, whatever is done to it, and says so when it does not.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::shop::{Answer, Shop, pillarbox};

fn number(ledger: &Value, name: &str) -> u64 {
    ledger[name].as_u64().unwrap_or_else(|| panic!("no `{name}` in {ledger}"))
}

#[track_caller]
fn assert_balanced(ledger: &Value, events: u64) {
    assert_eq!(ledger["balanced"], json!(true), "{ledger}");
    assert_eq!(number(ledger, "written") + number(ledger, "rolled_back"), events, "{ledger}");
    assert_eq!(number(ledger, "delivered") + number(ledger, "dead"), number(ledger, "written"), "{ledger}");
    for name in ["lost", "ghosts", "unexplained", "unaccounted"] {
        assert_eq!(number(ledger, name), 0, "{ledger}");
    }
}

/// Q3: with no fault nothing is lost, nothing comes twice, and nothing comes that was rolled back.
#[test]
fn the_demo_balances() {
    let shop = Shop::empty();

    let ledger = shop.run("demo", &["--events", "500", "--json"]).json();

    assert_balanced(&ledger, 500);
    assert_eq!(number(&ledger, "duplicates"), 0);
    for name in ["rolled_back", "retried", "dead"] {
        assert!(number(&ledger, name) > 0, "{name}: {ledger}");
    }
    let latency = &ledger["latency"];
    assert!(number(latency, "p50_micros") <= number(latency, "p99_micros"), "{ledger}");
}

/// Q3: whatever a process was doing when it was killed, the next one under its name finishes.
#[test]
fn the_demo_balances_when_it_is_killed() {
    let shop = Shop::empty();

    let answer = shop.run("demo", &["--events", "600", "--crash", "--crashes", "2", "--json"]);

    let ledger = answer.json();
    assert_balanced(&ledger, 600);
    assert_eq!(number(&ledger, "crashes"), 2);
    let killed: Vec<&str> = answer.err.lines().filter(|line| line.contains(" killed after ")).collect();
    assert_eq!(killed.len(), 2, "{}", answer.err);
    assert_ne!(killed[0].split(' ').nth(3), killed[1].split(' ').nth(3), "two processes: {killed:?}");
}

#[test]
fn the_same_seed_plays_the_same_orders() {
    let play = |seed: &str| {
        let ledger = Shop::empty().run("demo", &["--events", "300", "--seed", seed, "--json"]).json();
        ["written", "rolled_back", "delivered", "retried", "dead"].map(|name| number(&ledger, name))
    };

    assert_eq!(play("7"), play("7"));
    assert_ne!(play("7"), play("8"));
}

#[test]
fn without_a_file_the_demo_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();

    let output = pillarbox().args(["demo", "--events", "50"]).env("TMPDIR", scratch.path()).output();

    let answer = Answer::of(output.unwrap());
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    let place = format!("50 orders on {}", scratch.path().display());
    assert!(answer.err.starts_with(&place) && answer.err.contains("removed at the end"), "{}", answer.err);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_was_given_can_be_looked_into_and_played_on_again() {
    let shop = Shop::empty();

    let first = shop.run("demo", &["--events", "300", "--json"]).json();
    let second = shop.run("demo", &["--events", "200", "--seed", "2", "--json"]).json();

    assert_balanced(&first, 300);
    assert_balanced(&second, 200);
    let status = shop.run("status", &["--json"]).json();
    assert_eq!(number(&status, "dead"), number(&first, "dead") + number(&second, "dead"));
    assert_eq!(number(&status, "pending"), 0);
}

#[test]
fn the_closing_table_names_everything() {
    let shop = Shop::empty();

    let answer = shop.run("demo", &["--events", "100", "--rate", "2000/s", "--workers", "1"]);

    for label in [
        "written",
        "rolled back",
        "delivered",
        "retried",
        "dead",
        "duplicates",
        "lost",
        "latency p50",
        "latency p99",
    ] {
        assert!(answer.out.contains(&format!("\n  {label} ")), "{label}: {}", answer.out);
    }
    assert!(answer.out.contains("The ledger balances: "), "{}", answer.out);
    assert!(!answer.err.contains('\u{1b}'), "plain lines where there is no terminal: {}", answer.err);
}

/// The ledger is no decoration: rows that someone deletes behind the outbox's back are missed.
#[test]
fn the_demo_fails_when_the_ledger_does_not_balance() {
    let shop = Shop::empty();
    assert_eq!(shop.run("demo", &["--events", "20"]).code, Some(0));
    shop.execute(
        "CREATE TRIGGER thief AFTER UPDATE OF status ON outbox_event WHEN new.status = 1 AND new.seq % 10 = 0
         BEGIN DELETE FROM outbox_event WHERE seq = new.seq; END",
    );

    let answer = shop.run("demo", &["--events", "100"]);

    assert_eq!(answer.code, Some(1), "{}", answer.out);
    assert!(answer.out.contains("The ledger does NOT balance: "), "{}", answer.out);
}

#[test]
fn the_demo_refuses_a_database_that_is_not_its_own() {
    let shop = Shop::with_events(&[("n-1", 0)]);

    let answer = shop.run("demo", &[]);

    assert_eq!(answer.code, Some(2), "{}", answer.out);
    assert!(answer.err.contains("not the demo's"), "{}", answer.err);
    assert_eq!(shop.number("SELECT count(*) FROM outbox_event WHERE status = 0"), 1);
    assert_eq!(shop.number("SELECT count(*) FROM sqlite_schema WHERE name IN ('orders', 'demo_run')"), 0);
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for crash in [&[][..], &["--crash"]] {
        let scratch = tempfile::tempdir().unwrap();
        let mut command = pillarbox();
        command.args(["demo", "--rate", "5"]).args(crash).env("TMPDIR", scratch.path());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // The third line comes a second later, when everything runs.
        let started = lines.by_ref().take(3).count();

        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();

        assert!(started == 3 && sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(1));
        assert!(lines.any(|line| line.unwrap().contains("interrupted")));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
