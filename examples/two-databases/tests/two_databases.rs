//! The sample runs as a user runs it.

use std::process::Command;

/// Q1, W8: two outboxes in one process deliver their own events and share nothing.
#[test]
fn each_outbox_delivers_its_own_events() {
    let run = Command::new(env!("CARGO_BIN_EXE_example-two-databases")).output().unwrap();

    let output = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    for order in 1..=3 {
        for line in [
            format!("orders: order {order} placed\n"),
            format!("billing: invoice for order {order} written\n"),
            format!("archive: invoice for order {order} received\n"),
        ] {
            assert_eq!(output.matches(&line).count(), 1, "{output}");
        }
    }
    assert!(output.contains("orders: 3 events written, 3 delivered, nothing pending\n"), "{output}");
    assert!(output.ends_with("billing: 3 events written, 3 delivered, nothing pending\n"), "{output}");
}
