//! A server of the test's own, which is killed while events are published.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_nats::{NatsOptions, NewStream};
use pillarbox_testkit::servers::PrivateServer;
use pillarbox_testkit::sinks::publish;

use crate::stage::{messages, order_placed, read_back, sink};

/// Guarantees 2 and 3: SIGKILL takes nothing of what was acknowledged; and what comes again because its answer was lost
/// is recognised, for the server remembers event ids across its death.
pub(crate) async fn killed_server_loses_nothing_and_doubles_nothing(server: &PrivateServer) {
    let options = NatsOptions::new(server.url(), "shop.orders".parse().unwrap(), messages()).unwrap();
    let stream = NewStream::new("SHOP", ["shop.>"]).duplicate_window(Duration::from_secs(600));
    let sink = sink(options.new_stream(stream).connect_timeout(Duration::from_secs(2)));
    let is_over = AtomicBool::new(false);

    let kills = async {
        for _ in 0..3 {
            server.kill().await;
            server.up().await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let (acknowledged, ()) = tokio::join!(publish_until(&sink, &is_over), kills);

    let stored: Vec<String> = read_back(server.url(), "SHOP")
        .await
        .iter()
        .map(|message| message["headers"]["event-id"].as_str().unwrap().to_owned())
        .collect();
    let once: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(once.len(), stored.len(), "no event is stored twice");
    assert_eq!(once, acknowledged, "what is stored is what was acknowledged in the end");
}

/// Publishes run after run, each until all of it is acknowledged; gives the ids of all.
async fn publish_until(sink: &Arc<dyn Sink>, is_over: &AtomicBool) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    while !is_over.load(Ordering::Relaxed) {
        let begin = acknowledged.len();
        let mut left: Vec<Event> =
            (begin..begin + 50).map(|number| order_placed(&format!("order-{number:06}"))).collect();
        while !left.is_empty() {
            let answers = publish(sink, &left).await;
            for (event, answer) in left.iter().zip(&answers) {
                match answer {
                    Ok(()) => assert!(acknowledged.insert(event.id().to_owned())),
                    Err(error) => assert!(error.is_unknown() || error.is_unavailable(), "{error:?}"),
                }
            }
            left.retain(|event| !acknowledged.contains(event.id()));
            tokio::task::yield_now().await;
        }
    }
    acknowledged
}
