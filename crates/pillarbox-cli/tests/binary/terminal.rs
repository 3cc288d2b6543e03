//! What people see who run the binary in a terminal.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::shop::pillarbox;

/// Runs the binary in a terminal of 100 columns; returns its exit code and all that appeared.
fn watch(arguments: &[&str]) -> (Option<i32>, String) {
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
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..count]);
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
