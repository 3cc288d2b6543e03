//! Commands that only look leave a file as it is.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use crate::shop::Shop;

const LOOKS: [(&str, &[&str]); 11] = [
    ("status", &[]),
    ("dead list", &[]),
    ("dead show", &["id-1"]),
    ("dead replay", &["--all", "--dry-run"]),
    ("dead discard", &["--all", "--dry-run"]),
    ("purge", &["--older-than", "30d", "--dead-too", "--dry-run"]),
    ("handlers list", &[]),
    ("keys list", &[]),
    ("pause", &["--list"]),
    ("tail", &["--once"]),
    ("doctor", &[]),
];

/// Runs every command that only looks, and returns what they answered, but for the doctor, who may complain.
fn look(shop: &Shop) -> Vec<Option<i32>> {
    let before = std::fs::read(shop.file()).unwrap();
    let mut codes = Vec::new();
    for (command, arguments) in LOOKS {
        let answer = shop.run(command, arguments);
        let is_same = std::fs::read(shop.file()).unwrap() == before;
        assert!(is_same, "`{command}` changed the file: {}", answer.err);
        assert_eq!(shop.directory().read_dir().unwrap().count(), 1, "`{command}` left something behind");
        if command != "doctor" {
            codes.push(answer.code);
        }
    }
    codes
}

/// A file in another journal mode stays in it.
#[test]
fn looking_at_an_outbox_switches_nothing() {
    let shop = Shop::with_events(&[("id-1", 3)]);
    assert_eq!(shop.run("migrate", &["--mode", "ownership"]).code, Some(0));
    shop.execute_plainly("PRAGMA journal_mode = DELETE");

    let codes = look(&shop);

    assert!(codes.iter().all(|code| *code == Some(0)), "{codes:?}");
}

/// A file that has no outbox stays as it is, too: it may be the wrong one.
#[test]
fn looking_at_a_file_of_others_switches_nothing() {
    let shop = Shop::empty();
    shop.execute_plainly("CREATE TABLE invoices (id INTEGER PRIMARY KEY)");

    let codes = look(&shop);

    assert!(codes.iter().all(|code| *code == Some(2)), "{codes:?}");
}
