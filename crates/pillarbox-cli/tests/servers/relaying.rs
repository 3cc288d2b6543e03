//! `relay` does what its file says about the store.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::path::Path;
use std::time::Instant;

use crate::daemon::{PATIENCE, Relay, free_port};
use crate::desk::Desk;

/// Starts a relay that keeps order, whose file says this about how long transactions stay open.
fn relay(desk: &Desk, directory: &Path, longest_transaction: &str) -> Relay {
    let text = format!(
        r#"
[outbox]
ordered = true
heartbeat_every = "100ms"
[outbox.store]
url = '{}'
longest_transaction = "{longest_transaction}"
[messages]
source = "/shop/orders"
[sinks.console]
type = "stdout"
[[routes]]
name = "all"
to = "console"
[http]
listen = "127.0.0.1:{}"
"#,
        desk.own.url(),
        free_port()
    );
    let file = directory.join("pillarbox.toml");
    std::fs::write(&file, text).unwrap();
    Relay::start(file.to_str().unwrap())
}

/// O1: how long transactions stay open reaches the database that does not show it, whose floors rise by it; one that
/// does refuses to be told.
pub(crate) async fn longest_transaction_of_the_file_reaches_the_store(desk: &Desk) {
    assert_eq!(desk.run("migrate", &["--mode", "ownership"]).code, Some(0));
    let write = |id: &str| {
        desk.sql(&format!(
            "INSERT INTO outbox_event (event_id, event_type, event_key, payload)
             VALUES ('{id}', 'OrderPlaced', 'order-17', '{{}}')"
        ));
    };
    let floor = || desk.sql("SELECT floor FROM outbox_partition WHERE event_partition = 192");
    let directory = tempfile::tempdir().unwrap();
    write("x-1");

    let mut patient = relay(desk, directory.path(), "1h");
    if desk.own.is_postgres() {
        let refused = patient.ended();
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains("`longest_transaction` is for MySQL and MariaDB"), "{}", refused.err);
        return;
    }
    patient.event();
    assert_eq!(patient.stop().code, Some(0));
    assert_eq!(floor(), "0", "an hour has not passed");

    write("x-2");
    let mut hasty = relay(desk, directory.path(), "0s");
    hasty.event();
    let begun = Instant::now();
    while floor() == "0" {
        assert!(begun.elapsed() < PATIENCE, "the floor rises");
    }
    assert_eq!(hasty.stop().code, Some(0));
}
