//! A server of the test's own, which is killed while events are published.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_testkit::servers::PrivateServer;
use pillarbox_testkit::sinks::publish;

use crate::stage::{event_ids, options, order_placed, sink};

/// Guarantees 2 and 3: SIGKILL takes nothing of what was acknowledged. What comes again because its answer was lost is
/// there twice, next to nothing that nobody published.
pub(crate) async fn killed_server_loses_nothing_that_it_acknowledged(server: &PrivateServer) {
    let sink = sink(options(server.url(), "orders").connect_timeout(Duration::from_secs(2)));
    let is_over = AtomicBool::new(false);

    let kills = async {
        for _ in 0..3 {
            server.kill().await;
            server.up().await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let ((acknowledged, doubtful), ()) = tokio::join!(publish_until(&sink, &is_over), kills);

    let stored = event_ids(server.url(), "orders").await;
    let once: BTreeSet<String> = stored.iter().cloned().collect();
    assert_eq!(once, acknowledged);
    assert!(stored.len() - once.len() <= doubtful, "more duplicates than lost answers");
}

/// Publishes run after run, each until all of it is acknowledged; gives the ids of all, and how many answers were lost.
async fn publish_until(sink: &Arc<dyn Sink>, is_over: &AtomicBool) -> (BTreeSet<String>, usize) {
    let (mut acknowledged, mut doubtful) = (BTreeSet::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let begin = acknowledged.len();
        let mut left: Vec<Event> =
            (begin..begin + 50).map(|number| order_placed(&format!("order-{number:06}"))).collect();
        while !left.is_empty() {
            let answers = publish(sink, &left).await;
            for (event, answer) in left.iter().zip(&answers) {
                match answer {
                    Ok(()) => assert!(acknowledged.insert(event.id().to_owned())),
                    Err(error) if error.is_unknown() => doubtful += 1,
                    Err(error) => assert!(error.is_unavailable(), "{error:?}"),
                }
            }
            left.retain(|event| !acknowledged.contains(event.id()));
            tokio::task::yield_now().await;
        }
    }
    (acknowledged, doubtful)
}
