//! A service that goes on writing while its database dies under it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::Administration;
use pillarbox::{Delivery, Event, ListenerError, Outbox};
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::servers::PrivateServer;
use sqlx::{Connection, PgConnection};

/// Orders before each death of the server, during it, and after the last.
const COMMITS: usize = 100;
const DEATHS: usize = 2;

/// What the service knows of its orders.
#[derive(Default)]
struct Orders {
    committed: BTreeSet<String>,
    /// Not committed, or nobody knows.
    doubtful: BTreeSet<String>,
}

/// S5, W13, Q3: the server is killed and started again under a service with a pool of one connection. Everything
/// recovers by itself, what was committed is delivered, and nothing else is.
pub(crate) async fn outbox_survives_the_death_of_its_server(server: &PrivateServer) {
    let store = PostgresStore::options(server.url()).max_connections(1).connect().await.unwrap();
    store.migrate().await.unwrap();
    let delivered = Arc::<Mutex<BTreeSet<String>>>::default();
    let outbox = outbox(store, &delivered);
    let mut orders = Orders::default();

    for _ in 0..DEATHS {
        place(&outbox, &mut orders, COMMITS).await;
        let death = async {
            server.kill().await;
            server.up().await;
        };
        tokio::join!(death, place(&outbox, &mut orders, COMMITS));
    }
    place(&outbox, &mut orders, COMMITS).await;
    settle_down(&outbox).await;

    let rows = rows(server).await;
    assert_eq!(*delivered.lock().unwrap(), rows, "what is in the table was delivered, and nothing else");
    assert!(orders.committed.is_subset(&rows), "what was committed is in the table");
    assert!(rows.is_subset(&(&orders.committed | &orders.doubtful)));
    assert!(orders.committed.len() >= DEATHS * COMMITS, "the service went on after every death");
    outbox.close().await;
}

fn outbox(store: PostgresStore, delivered: &Arc<Mutex<BTreeSet<String>>>) -> Outbox<PostgresStore> {
    let delivered = delivered.clone();
    let listener = move |delivery: Delivery| {
        delivered.lock().unwrap().insert(delivery.id().to_owned());
        std::future::ready(Ok::<(), ListenerError>(()))
    };
    Outbox::builder(store)
        .on("OrderPlaced", listener)
        .delivery_timeout(Duration::from_secs(2))
        .margin(Duration::from_millis(500))
        .lease_for(Duration::from_secs(4))
        .poll_every(Duration::from_millis(500))
        .start()
        .unwrap()
}

/// Places orders, each in a transaction of its own, until `count` of them were committed or failed.
async fn place(outbox: &Outbox<PostgresStore>, orders: &mut Orders, count: usize) {
    for _ in 0..count {
        let event = Event::of_json("OrderPlaced", "{}").unwrap();
        let id = event.id().to_owned();
        let Ok(mut tx) = outbox.begin().await else { continue };
        if outbox.write(&mut tx, event).await.is_err() {
            orders.doubtful.insert(id);
            continue;
        }
        match tx.commit().await {
            Ok(()) => orders.committed.insert(id),
            Err(_) => orders.doubtful.insert(id),
        };
    }
}

/// Waits until nothing is pending any more.
async fn settle_down(outbox: &Outbox<PostgresStore>) {
    let pending = async {
        while outbox.store().stats().await.map_or(1, |stats| stats.pending()) > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), pending).await.expect("all events are settled");
}

/// The ids of all events in the table.
async fn rows(server: &PrivateServer) -> BTreeSet<String> {
    let mut connection = PgConnection::connect(server.url()).await.unwrap();
    let ids = sqlx::query_scalar("SELECT event_id FROM outbox_event").fetch_all(&mut connection).await;
    ids.unwrap().into_iter().collect()
}
