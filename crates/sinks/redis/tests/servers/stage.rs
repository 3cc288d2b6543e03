//! A stream of its own on a server, read back by redis-py.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillarbox::{Event, Sink};
use pillarbox_message::Messages;
use pillarbox_redis::{RedisOptions, RedisSink};
use pillarbox_testkit::servers::{Fresh, unique_name};
use pillarbox_testkit::sinks::{Arrived, SOURCE, SinkStage};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};
use tokio::process::Command;

pub(crate) struct RedisStage {
    pub(crate) url: String,
    /// What the keys of its streams begin with.
    pub(crate) name: String,
}

impl RedisStage {
    /// The key of a stream behind our name.
    pub(crate) fn key(&self, stream: &str) -> String {
        format!("{}:{stream}", self.name)
    }

    /// Options for a sink to `stream` behind our name.
    pub(crate) fn options(&self, stream: &str) -> RedisOptions {
        options(&self.url, &self.key(stream))
    }

    /// The same, by way of a proxy.
    pub(crate) fn through(&self, server: SocketAddr, stream: &str) -> RedisOptions {
        options(&at(&self.url, server), &self.key(stream))
    }

    pub(crate) async fn event_ids(&self, stream: &str) -> Vec<String> {
        event_ids(&self.url, &self.key(stream)).await
    }

    async fn arrived_at(&self, stream: &str) -> Vec<Arrived> {
        read_back(&self.url, &self.key(stream)).await.into_iter().map(arrived).collect()
    }
}

/// The URL with another server in it.
fn at(url: &str, server: SocketAddr) -> String {
    let (user, place) = url.rsplit_once('@').unwrap();
    format!("{user}@{server}/{}", place.split_once('/').unwrap().1)
}

pub(crate) fn options(url: &str, stream: &str) -> RedisOptions {
    RedisOptions::new(url, stream.parse().unwrap(), Messages::from_source(SOURCE).unwrap()).unwrap()
}

pub(crate) fn sink(options: RedisOptions) -> Arc<dyn Sink> {
    Arc::new(RedisSink::new(options))
}

pub(crate) fn order_placed(id: &str) -> Event {
    Event::builder("OrderPlaced").id(id).aggregate("Order", id).json_text("{}").build().unwrap()
}

/// Carries out a command, written as one would type it.
pub(crate) async fn command<T: FromRedisValue>(url: &str, command: &str) -> T {
    let mut words = command.split_whitespace();
    let mut command = cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(&mut connection(url).await).await.unwrap()
}

async fn connection(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

/// What is in a stream, by a client that shares no code with the sink's: fields and their values.
async fn read_back(url: &str, stream: &str) -> Vec<BTreeMap<String, Vec<u8>>> {
    let python = std::env::var("PILLARBOX_TEST_PYTHON").unwrap_or_else(|_| {
        panic!("`PILLARBOX_TEST_PYTHON` is not set; run `scripts/services up tools` and `eval \"$(scripts/services env)\"`")
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read_back.py");
    let read = Command::new(python).args([script, url, stream]).output().await.unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let entry = |line: &str| {
        let fields: BTreeMap<String, String> = serde_json::from_str(line).unwrap();
        fields.into_iter().map(|(name, value)| (name, STANDARD.decode(value).unwrap())).collect()
    };
    String::from_utf8(read.stdout).unwrap().lines().map(entry).collect()
}

pub(crate) async fn event_ids(url: &str, stream: &str) -> Vec<String> {
    let entries = read_back(url, stream).await;
    entries.into_iter().map(|mut fields| text(fields.remove("event-id").unwrap())).collect()
}

fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).unwrap()
}

fn arrived(fields: BTreeMap<String, Vec<u8>>) -> Arrived {
    let mut arrived = Arrived::default();
    for (name, value) in fields {
        match (name.as_str(), name.strip_prefix("ce_"), name.strip_prefix("header.")) {
            ("event-id", ..) => arrived.event_id = text(value),
            ("content-type", ..) => arrived.content_type = text(value),
            ("body", ..) => arrived.body = value,
            (_, Some(attribute), _) => drop(arrived.attributes.insert(attribute.to_owned(), text(value))),
            (_, _, Some(header)) => drop(arrived.headers.insert(header.to_owned(), text(value))),
            _ => panic!("what is `{name}`?"),
        }
    }
    arrived
}

impl SinkStage for RedisStage {
    async fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> Arc<dyn Sink> {
        let url = server.map_or_else(|| self.url.clone(), |server| at(&self.url, server));
        sink(RedisOptions::new(&url, self.key("orders").parse().unwrap(), messages).unwrap())
    }

    fn server(&self) -> SocketAddr {
        let (_, place) = self.url.rsplit_once('@').unwrap();
        place.split_once('/').unwrap().0.parse().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.arrived_at("orders").await
    }

    fn elsewhere(&self) -> String {
        self.key("elsewhere")
    }

    async fn arrived_elsewhere(&self) -> Vec<Arrived> {
        self.arrived_at("elsewhere").await
    }
}

impl Fresh for RedisStage {
    async fn fresh(url: &str) -> Self {
        Self { url: url.to_owned(), name: unique_name() }
    }

    async fn clean(self) {
        let keys: Vec<String> = command(&self.url, &format!("KEYS {}:*", self.name)).await;
        for key in keys {
            command::<()>(&self.url, &format!("DEL {key}")).await;
        }
    }
}
