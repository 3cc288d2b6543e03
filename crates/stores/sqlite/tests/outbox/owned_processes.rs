//! Two processes on one file, of which one owns the partitions.

use std::process::Stdio;
use std::time::Duration;

use pillarbox::{Delivery, ListenerError, Outbox};
use pillarbox_sqlite::SqliteStore;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::stage::{SqliteStage, placed};

/// Set in the other process: the file whose partitions it shall own.
const OWNS: &str = "PILLARBOX_TEST_OWNS";
/// What the other process never waits for.
const HOUR: Duration = Duration::from_secs(3_600);

/// P5, O4: an owner in another process is woken by the file, without a poll or a heartbeat, and delivers what this one
/// wrote, event by event.
#[tokio::test]
async fn owner_in_another_process_is_woken_by_a_commit() {
    let stage = SqliteStage::fresh().await;
    let writer = stage.builder().writer_only().start().unwrap();
    let (mut owner, mut lines) = start_owner(&stage);
    assert_eq!(next(&mut lines).await, "owns 256");

    for order in ["order-1", "order-2", "order-3", "order-4"] {
        let mut tx = writer.begin().await.unwrap();
        writer.write(&mut tx, placed(order)).await.unwrap();
        tx.commit().await.unwrap();

        assert_eq!(next(&mut lines).await, format!("delivered {order}"));
    }

    owner.kill().await.unwrap();
}

/// This test binary once more, as the owner; it is killed when dropped.
fn start_owner(stage: &SqliteStage) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["owned_processes::owns_if_told_to", "--exact", "--nocapture", "--test-threads=1"])
        .env(OWNS, stage.store.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    (owner, lines)
}

/// The next line of the owner, without those of the test harness.
async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = async {
        loop {
            let line = lines.next_line().await.unwrap().expect("the owner is running");
            if let Some(said) = line.split_once("owner: ").map(|(_, said)| said.to_owned()) {
                return said;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), line).await.expect("the owner says something")
}

/// Runs as the owner in the other process, until it is killed; elsewhere it has nothing to do.
#[tokio::test]
async fn owns_if_told_to() {
    let Ok(path) = std::env::var(OWNS) else { return };
    let store = SqliteStore::connect(path).await.unwrap();
    let listener = |delivery: Delivery| {
        println!("owner: delivered {}", delivery.id());
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    let outbox = Outbox::builder(store)
        .ordered()
        .on("OrderPlaced", listener)
        .poller_only()
        .poll_every(HOUR)
        .heartbeat_every(HOUR / 4)
        .silent_after(HOUR)
        .start()
        .unwrap();
    outbox.poll().await.unwrap();
    println!("owner: owns {}", outbox.partitions().len());

    outbox.run(std::future::pending()).await.expect("nobody stops it");
}
