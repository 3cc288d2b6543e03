//! Outboxes that keep the order of keys, one or several on a file.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::{Administration, TxStore};
use pillarbox::{Delivery, Event, ListenerError, Outbox, OutboxBuilder};
use pillarbox_sqlite::SqliteStore;
use tokio::sync::watch;

use crate::stage::SqliteStage;

const PATIENCE: Duration = Duration::from_secs(60);

/// What was delivered, by whom, in the order of arrival.
#[derive(Clone)]
struct Arrivals {
    seen: Arc<Mutex<Vec<(&'static str, String)>>>,
    count: watch::Sender<usize>,
}

impl Arrivals {
    fn new() -> Self {
        Self { seen: Arc::default(), count: watch::Sender::new(0) }
    }

    /// An ordered outbox on the file of `stage` that delivers here, with a store of its own.
    async fn outbox(&self, stage: &SqliteStage, name: &'static str) -> Outbox<SqliteStore> {
        let store = SqliteStore::connect(stage.store.path().to_str().unwrap()).await.unwrap();
        self.deliver(Outbox::builder(store).ordered(), name).start().unwrap()
    }

    fn deliver(&self, builder: OutboxBuilder<SqliteStore>, name: &'static str) -> OutboxBuilder<SqliteStore> {
        let arrivals = self.clone();
        let often = Duration::from_millis(20);
        let builder = builder.heartbeat_every(often).rebalance_every(often).batch_size(50);
        builder.on("OrderPlaced", move |delivery: Delivery| {
            arrivals.seen.lock().unwrap().push((name, delivery.id().to_owned()));
            arrivals.count.send_modify(|count| *count += 1);
            std::future::ready(Ok::<(), ListenerError>(()))
        })
    }

    async fn wait_for(&self, is_enough: impl Fn(&[(&'static str, String)]) -> bool) {
        let mut count = self.count.subscribe();
        let enough = count.wait_for(|_| is_enough(&self.seen.lock().unwrap()));
        tokio::time::timeout(PATIENCE, enough).await.expect("enough arrives").unwrap();
    }

    /// Asserts that every event of each key has arrived once, in order.
    fn assert_in_order(&self, written: usize) {
        let seen = self.seen.lock().unwrap();
        let mut of_keys: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (_, id) in seen.iter() {
            let (key, number) = id.split_once('/').unwrap();
            of_keys.entry(key).or_default().push(number.parse().unwrap());
        }
        for (key, numbers) in of_keys {
            assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "{key}");
        }
        assert_eq!(seen.len(), written);
    }
}

/// The next event of each of ten keys.
fn round(number: usize) -> Vec<Event> {
    let placed = |key: usize| {
        let id = format!("order-{key}/{number}");
        Event::builder("OrderPlaced").id(id).key(format!("order-{key}")).json_text("{}").build().unwrap()
    };
    (0..10).map(placed).collect()
}

async fn write(store: &SqliteStore, events: &[Event]) {
    let mut tx = store.begin().await.unwrap();
    store.insert(&mut tx, events, None).await.unwrap();
    SqliteStore::commit(tx).await.unwrap();
}

/// O1: a backlog, and what is written while it is delivered, arrives in the order of each key, and is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_order() {
    let stage = SqliteStage::fresh().await;
    for number in 0..50 {
        write(&stage.store, &round(number)).await;
    }
    let arrivals = Arrivals::new();

    let outbox = arrivals.outbox(&stage, "relay").await;
    for number in 50..100 {
        write(&stage.store, &round(number)).await;
    }
    arrivals.wait_for(|seen| seen.len() >= 1_000).await;
    outbox.close().await;

    arrivals.assert_in_order(1_000);
    let stats = stage.store.stats().await.unwrap();
    assert_eq!((stats.pending(), stats.dead, stats.done_estimate), (0, 0, 1_000));
}

/// O1, O4, O5: outboxes that come to a file and leave it share its keys, and none of them arrives twice or out of order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outboxes_on_one_file_share_its_keys() {
    let stage = SqliteStage::fresh().await;
    let arrivals = Arrivals::new();
    let first = arrivals.outbox(&stage, "first").await;
    let mut written = 0;
    let mut write_until_seen = async |name: &'static str| {
        let has_arrived = || arrivals.seen.lock().unwrap().iter().any(|(by, _)| *by == name);
        while !has_arrived() && written < 5_000 {
            write(&stage.store, &round(written)).await;
            written += 1;
        }
    };

    write_until_seen("first").await;
    let second = arrivals.outbox(&stage, "second").await;
    write_until_seen("second").await;
    first.close().await;
    let third = arrivals.outbox(&stage, "third").await;
    write_until_seen("third").await;
    second.close().await;
    arrivals.wait_for(|seen| seen.len() >= 10 * written).await;
    third.close().await;

    arrivals.assert_in_order(10 * written);
    assert_eq!(stage.store.stats().await.unwrap().pending(), 0);
}
