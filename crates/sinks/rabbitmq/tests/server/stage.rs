//! Queues of a trial's own, and a look at them by another client than the sink's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pillarbox::{Sink, Template};
use pillarbox_message::Messages;
use pillarbox_rabbitmq::{RabbitMqOptions, RabbitMqSink};
use pillarbox_testkit::servers::{Fresh, Server, required, unique_name};
use pillarbox_testkit::sinks::{Arrived, SinkStage};
use serde_json::{Value, json};

/// The Python that has `pika`.
pub(crate) const PYTHON: Server = required("rabbitmq", "PILLARBOX_TEST_PYTHON");

/// An exchange, with two queues for two routing keys.
pub(crate) struct RabbitMqStage {
    pub(crate) url: String,
    pub(crate) name: String,
}

impl RabbitMqStage {
    /// The routing key of the sink, and its queue.
    pub(crate) fn here(&self) -> String {
        format!("{}.here", self.name)
    }

    pub(crate) fn options(&self, messages: Messages) -> RabbitMqOptions {
        let options = RabbitMqOptions::new(&self.url, self.here().parse().unwrap(), messages).unwrap();
        options.exchange(self.name.parse().unwrap())
    }

    pub(crate) fn binary(&self) -> RabbitMqOptions {
        self.options(Messages::from_source("/shop").unwrap())
    }

    /// Has another client do something, and gives what it prints.
    pub(crate) async fn does(&self, commands: Value) -> Vec<Value> {
        does(&self.url, commands).await
    }

    /// Everything in a queue, taken out of it.
    pub(crate) async fn drained(&self, queue: &str) -> Vec<Value> {
        self.does(json!([{"do": "drain", "name": queue}])).await
    }
}

/// Has another client do something on a server, and gives what it prints.
pub(crate) async fn does(url: &str, commands: Value) -> Vec<Value> {
    let url = url.to_owned();
    let run = move || {
        let python =
            PYTHON.url().expect("`PILLARBOX_TEST_PYTHON` is not set; run `scripts/services up tools`");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read.py");
        let done = Command::new(python).arg(script).arg(url).arg(commands.to_string()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let lines = String::from_utf8(done.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

impl Fresh for RabbitMqStage {
    async fn fresh(url: &str) -> Self {
        let stage = Self { url: url.to_owned(), name: unique_name() };
        let (name, here, there) = (&stage.name, stage.here(), stage.elsewhere());
        stage
            .does(json!([
                {"do": "exchange", "name": name, "type": "direct"},
                {"do": "queue", "name": here},
                {"do": "queue", "name": there},
                {"do": "bind", "queue": here, "exchange": name, "routing_key": here},
                {"do": "bind", "queue": there, "exchange": name, "routing_key": there},
            ]))
            .await;
        stage
    }

    async fn clean(self) {
        let (here, there) = (self.here(), self.elsewhere());
        self.does(json!([
            {"do": "delete", "name": here},
            {"do": "delete", "name": there},
            {"do": "delete-exchange", "name": self.name},
        ]))
        .await;
    }
}

impl SinkStage for RabbitMqStage {
    async fn sink(&self, messages: Messages, server: Option<SocketAddr>) -> Arc<dyn Sink> {
        let at = |address: SocketAddr| self.url.replace(&self.server().to_string(), &address.to_string());
        let url = server.map_or_else(|| self.url.clone(), at);
        let routing_key: Template = self.here().parse().unwrap();
        let options = RabbitMqOptions::new(&url, routing_key, messages).unwrap();
        Arc::new(RabbitMqSink::new(options.exchange(self.name.parse().unwrap())))
    }

    fn server(&self) -> SocketAddr {
        let authority = self.url.split('/').nth(2).unwrap();
        authority.rsplit('@').next().unwrap().parse().unwrap()
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.drained(&self.here()).await.iter().map(arrived).collect()
    }

    fn elsewhere(&self) -> String {
        format!("{}.there", self.name)
    }

    async fn arrived_elsewhere(&self) -> Vec<Arrived> {
        self.drained(&self.elsewhere()).await.iter().map(arrived).collect()
    }
}

fn arrived(message: &Value) -> Arrived {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (mut attributes, mut headers) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in message["headers"].as_object().unwrap() {
        match name.strip_prefix("cloudEvents_") {
            Some(name) => attributes.insert(name.to_owned(), text(value)),
            None => headers.insert(name.clone(), text(value)),
        };
    }
    Arrived {
        event_id: headers.remove("event-id").unwrap(),
        key: None,
        content_type: text(&message["content_type"]),
        attributes,
        headers,
        body: STANDARD.decode(message["body"].as_str().unwrap()).unwrap(),
    }
}
