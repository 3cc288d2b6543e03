//! Owners in two processes on one file.

use std::process::Stdio;
use std::time::Duration;

use pillarbox::partition_of;
use pillarbox::store::{DoneRows, EventStore, Instance, Mode, Outcome, Owner, Ownership, Settlement};
use pillarbox_sqlite::SqliteStore;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::orders::{Orders, order_placed, write};
use crate::relays::{instance, visit};

/// Set in the other process: the file of which it shall own a part.
const OWNS: &str = "PILLARBOX_TEST_OWNS";

fn relay(incarnation: u64) -> Instance {
    let owner = Owner::new("relay", incarnation);
    Instance { owner, is_named: true, ..instance("relay", Mode::Ownership) }
}

/// D3, O5: what a process that was killed has left is its next incarnation's at once, with the start of the event that
/// it died over, and nobody else's.
#[tokio::test]
async fn killed_owner_is_followed_by_its_next_incarnation() {
    let orders = Orders::new();
    let store = orders.store().await;
    write(&store, &[order_placed("order-17")]).await;
    let mut other = start_owner(&orders).await;
    let stranger = instance("stranger", Mode::Ownership);
    store.join(&stranger).await.unwrap();
    assert_eq!(store.acquire(&stranger, &[partition_of("order-17")]).await.unwrap(), []);

    other.kill().await.unwrap();
    let inherited = store.join(&relay(2)).await.unwrap();

    assert_eq!(inherited.len(), 1);
    assert_eq!((inherited[0].partition, inherited[0].crashes), (partition_of("order-17"), 1));
    let fetched = store.fetch(&[visit(&inherited[0])], 10).await.unwrap().remove(0);
    assert_eq!(fetched.taken.lease.starts, 1);
    let done = [Settlement::of(&fetched.taken, Outcome::Done)];
    assert_eq!(store.settle(&done, DoneRows::Keep).await.unwrap(), [0; 0]);
}

/// This test binary once more, as an owner that has started an event; it is killed when dropped.
async fn start_owner(orders: &Orders) -> Child {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["processes::owns_if_told_to", "--exact", "--nocapture", "--test-threads=1"])
        .env(OWNS, orders.path())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let started = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("owner: started") {
                return;
            }
        }
        panic!("the owner has ended");
    };
    tokio::time::timeout(Duration::from_secs(30), started).await.expect("the owner starts the event");
    owner
}

/// Runs as the owner in the other process, until it is killed; elsewhere it has nothing to do.
#[tokio::test]
async fn owns_if_told_to() {
    let Ok(path) = std::env::var(OWNS) else { return };
    let store = SqliteStore::connect(path).await.unwrap();
    store.join(&relay(1)).await.unwrap();
    let held = store.acquire(&relay(1), &[partition_of("order-17")]).await.unwrap();
    let fetched = store.fetch(&[visit(&held[0])], 10).await.unwrap().remove(0);
    assert!(store.start(&fetched.taken).await.unwrap());
    println!("owner: started");

    std::future::pending().await
}
