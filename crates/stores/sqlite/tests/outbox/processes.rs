//! Two processes on one file.

use std::process::Stdio;
use std::time::Duration;

use pillarbox::{Delivery, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::stage::{SqliteStage, placed};

/// Set in the other process: the file that it shall relay.
const RELAYS: &str = "PILLARBOX_TEST_RELAYS";
/// What the other process never waits for.
const HOUR: Duration = Duration::from_secs(3_600);

/// P5: a relay in another process is woken by the file, and delivers what this one wrote.
#[tokio::test]
async fn relay_in_another_process_is_woken_by_a_commit() {
    let stage = SqliteStage::fresh().await;
    let writer = stage.builder().writer_only().start().unwrap();
    let (mut relay, mut lines) = start_relay(&stage);
    assert_eq!(next(&mut lines).await, "ready");

    for order in ["order-1", "order-2"] {
        let mut tx = writer.begin().await.unwrap();
        writer.write(&mut tx, placed(order)).await.unwrap();
        tx.commit().await.unwrap();

        assert_eq!(next(&mut lines).await, format!("delivered {order}"));
    }

    relay.kill().await.unwrap();
}

/// This test binary once more, as a relay; it is killed when dropped.
fn start_relay(stage: &SqliteStage) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut relay = Command::new(std::env::current_exe().unwrap())
        .args(["processes::relays_if_told_to", "--exact", "--nocapture", "--test-threads=1"])
        .env(RELAYS, stage.store.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(relay.stdout.take().unwrap()).lines();
    (relay, lines)
}

/// The next line of the relay, without those of the test harness.
async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the relay is running");
            if let Some(said) = line.split_once("relay: ").map(|(_, said)| said.to_owned()) {
                return said;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), line).await.expect("the relay says something")
}

/// Runs as the relay in the other process, until it is killed; elsewhere it has nothing to do.
#[tokio::test]
async fn relays_if_told_to() {
    let Ok(path) = std::env::var(RELAYS) else { return };
    let store = SqliteStore::connect(path).await.unwrap();
    let listener = |delivery: Delivery| {
        println!("relay: delivered {}", delivery.id());
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    let outbox =
        Outbox::builder(store).on("OrderPlaced", listener).poller_only().poll_every(HOUR).start().unwrap();
    outbox.poll().await.unwrap();
    println!("relay: ready");

    outbox.run(std::future::pending()).await.expect("nobody stops it");
}
