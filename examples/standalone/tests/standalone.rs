//! The sample runs as a user runs it.

use std::process::Command;

/// Q1: orders commit, their events arrive, a failure is retried, a rollback leaves nothing.
#[test]
fn orders_arrive_and_failures_are_retried() {
    let run = Command::new(env!("CARGO_BIN_EXE_example-standalone")).output().unwrap();

    let output = String::from_utf8(run.stdout).unwrap();
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    for order in ["order-1", "order-3"] {
        assert_eq!(output.matches(&format!("mail for {order}: sent (attempt 1)")).count(), 1, "{output}");
    }
    assert_eq!(output.matches("the server is down").count(), 2, "{output}");
    assert_eq!(output.matches("mail for order-2: sent (attempt 3)").count(), 1, "{output}");
    assert!(!output.contains("order-4"), "{output}");
    assert!(output.ends_with("nothing pending, nothing dead\n"), "{output}");
}
