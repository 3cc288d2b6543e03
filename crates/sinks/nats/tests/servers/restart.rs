//! A server of the test's own, which is killed while events are published.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::{Event, Sink};
use pillarbox_nats::{NatsOptions, NewStream};
use pillarbox_testkit::servers::{Fresh, Server, unique_name};
use pillarbox_testkit::sinks::publish;
use tokio::process::Command;

use crate::stage::{messages, order_placed, read_back, sink};

/// The script that starts and kills servers.
pub(crate) const SERVICES: Server =
    Server { name: "nats", variable: "PILLARBOX_TEST_SERVICES", optional: false };

/// What the script calls the variable with the URL.
const URL: &str = "PILLARBOX_TEST_NATS_URL";

/// A server that nobody else uses. It is deleted with its data.
pub(crate) struct KilledServer {
    script: String,
    name: String,
    url: String,
}

impl KilledServer {
    async fn run(&self, verb: &str) -> String {
        let done =
            Command::new(&self.script).args([verb, &self.name]).env_remove(URL).output().await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Fresh for KilledServer {
    async fn fresh(script: &str) -> Self {
        let name = format!("nats@{}", unique_name().replace('_', "-"));
        let mut server = Self { script: script.to_owned(), name, url: String::new() };
        server.run("up").await;
        let printed = server.run("env").await;
        let url = printed.lines().find_map(|line| line.strip_prefix(&format!("export {URL}=")));
        server.url = url.unwrap().trim_matches(['\'', '"']).to_owned();
        server
    }

    async fn clean(self) {
        self.run("down").await;
    }
}

/// Guarantees 2 and 3: SIGKILL takes nothing of what was acknowledged; and what comes again because its answer was lost
/// is recognised, for the server remembers event ids across its death.
pub(crate) async fn killed_server_loses_nothing_and_doubles_nothing(server: &KilledServer) {
    let options = NatsOptions::new(&server.url, "shop.orders".parse().unwrap(), messages()).unwrap();
    let stream = NewStream::new("SHOP", ["shop.>"]).duplicate_window(Duration::from_secs(600));
    let sink = sink(options.new_stream(stream).connect_timeout(Duration::from_secs(2)));
    let is_over = AtomicBool::new(false);

    let kills = async {
        for _ in 0..3 {
            server.run("kill").await;
            server.run("up").await;
        }
        is_over.store(true, Ordering::Relaxed);
    };
    let (acknowledged, ()) = tokio::join!(publish_until(&sink, &is_over), kills);

    let stored: Vec<String> = read_back(&server.url, "SHOP")
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
