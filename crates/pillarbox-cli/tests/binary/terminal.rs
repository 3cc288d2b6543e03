//! What people see who run the binary in a terminal.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::shop::{Shop, pillarbox};

/// Runs the binary in a terminal of 100 columns; returns its exit code and all that appeared.
fn watch(arguments: &[&str]) -> (Option<i32>, String) {
    watch_until(arguments, |_| false)
}

/// The same, with Ctrl-C when enough has appeared.
fn watch_until(arguments: &[&str], is_enough: impl Fn(&str) -> bool) -> (Option<i32>, String) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let size = Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&screen, size).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let terminal = || {
        let name = std::ffi::OsString::from_vec(name.as_bytes().to_vec());
        Stdio::from(File::options().read(true).write(true).open(name).unwrap())
    };
    let mut command = pillarbox();
    command.args(arguments).env("TERM", "xterm").stdin(terminal()).stdout(terminal()).stderr(terminal());
    let mut child = command.spawn().unwrap();
    // The command holds the terminal open too, and the screen ends when nobody does.
    drop(command);

    let (mut seen, mut screen) = (Vec::new(), File::from(screen));
    let (mut bytes, mut interrupted) = ([0; 4096], false);
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..count]);
        if !interrupted && is_enough(&String::from_utf8_lossy(&seen)) {
            interrupted = true;
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
    }
    (child.wait().unwrap().code(), String::from_utf8_lossy(&seen).into_owned())
}

/// The demo shows a bar that moves, and then the closing table in its place.
#[test]
fn the_demo_shows_live_progress_in_a_terminal() {
    let (code, seen) = watch(&["demo", "--events", "300", "--rate", "300/s"]);

    assert_eq!(code, Some(0), "{seen}");
    let (live, table) = seen.split_at(seen.find("  written ").expect("a closing table"));
    let mut shown: Vec<u64> = live
        .split(" of 300 orders, ")
        .filter_map(|before| before.rsplit(' ').next().and_then(|placed| placed.parse().ok()))
        .collect();
    assert!(shown.is_sorted() && live.contains('━') && live.contains(" deliveries, "), "{seen:?}");
    shown.dedup();
    assert!(shown.len() >= 5, "it moves: {shown:?}");
    assert!(live.contains("\u{1b}["), "the bar is drawn over, and taken away: {live:?}");
    for label in ["delivered", "retried", "dead", "lost", "latency p99"] {
        assert!(table.contains(&format!("\n  {label} ")), "{label}: {table}");
    }
    assert!(table.contains("The ledger balances: ") && !table.contains('━'), "{table:?}");
}

/// M6: a watch is drawn over itself, without a cursor, and Ctrl-C gives the terminal back with the last reading on it.
#[test]
fn a_watch_is_drawn_in_place_and_gives_the_terminal_back() {
    let shop = Shop::with_events(&[("n-1", 0), ("x-1", 3)]);
    let arguments = ["status", "--watch=100ms", "--db", &shop.db()];

    let (code, seen) = watch_until(&arguments, |seen| seen.matches("\u{1b}[H").count() >= 3);

    assert_eq!(code, Some(0), "{seen}");
    let (live, after) = seen.split_once("\u{1b}[?25h\u{1b}[?1049l").expect("the cursor is back");
    assert!(live.starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{live:?}");
    assert_eq!(
        live.matches("\u{1b}[2J").count(),
        1,
        "the page is cleared once, and then drawn over: {live:?}"
    );
    assert!(live.contains("every 100ms; Ctrl-C ends it\u{1b}[K"), "{live:?}");
    assert!(live.contains("an estimate: written, and neither waits nor is dead"), "{live:?}");
    assert!(
        after.contains("  dead                    1   given up") && !after.contains('\u{1b}'),
        "{after:?}"
    );
}

/// K4: a long replay shows a bar that goes away at its end.
#[test]
fn a_slow_replay_shows_a_bar_in_a_terminal() {
    let shop = Shop::with_events(&[("x-1", 3), ("x-2", 3), ("x-3", 3), ("x-4", 3), ("x-5", 3)]);
    let arguments = ["dead", "replay", "--all", "--rate", "10", "--db", &shop.db()];

    let (code, seen) = watch(&arguments);

    assert_eq!(code, Some(0), "{seen}");
    let counted = ["· 1 event", "· 2 events", "· 3 events", "· 4 events"];
    assert!(seen.contains("  replaying ") && counted.iter().any(|count| seen.contains(count)), "{seen:?}");
    assert!(seen.ends_with("replayed 5 events\r\n"), "{seen:?}");
}

/// S7: a migration, which may take long, says what it does in a terminal, and to nobody else.
#[test]
fn a_migration_says_what_it_does_in_a_terminal() {
    let shop = Shop::empty();
    shop.execute(include_str!("../../../stores/sqlite/migrations/0001_outbox.sql"));
    shop.execute("INSERT INTO outbox_meta (name, value) VALUES ('schema_version', '1')");
    let db = shop.db();

    let (code, older) = watch(&["migrate", "--db", &db]);
    let (_, mode) = watch(&["migrate", "--db", &db, "--mode", "ownership"]);
    let unseen = shop.run("migrate", &["--mode", "claims"]);

    assert_eq!(code, Some(0), "{older}");
    assert!(
        older.starts_with(&format!("bringing {db} from schema version 1 to 2 …\r\nmigrated ")),
        "{older:?}"
    );
    assert!(mode.starts_with(&format!("giving {db} the indexes of the mode `ownership`, ")), "{mode:?}");
    assert_eq!((unseen.code, unseen.err.as_str()), (Some(0), ""));
}
