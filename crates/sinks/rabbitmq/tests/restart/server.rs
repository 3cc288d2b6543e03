//! A RabbitMQ of the test's own, which it may kill.

use std::process::Command;

use pillarbox_testkit::servers::{Fresh, PrivateServer, Server, required};
use serde_json::{Value, json};

/// The Python that has `pika`.
pub(crate) const PYTHON: Server = required("rabbitmq", "PILLARBOX_TEST_PYTHON");

/// A server, and another client than the sink's.
pub(crate) struct RabbitMq {
    pub(crate) server: PrivateServer,
}

impl RabbitMq {
    /// Has the other client do something, and gives what it prints.
    pub(crate) async fn does(&self, commands: Value) -> Vec<Value> {
        let mut command = Command::new(PYTHON.url().expect("`PILLARBOX_TEST_PYTHON` is not set"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read.py"));
        command.arg(self.server.url()).arg(commands.to_string());
        let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let printed = String::from_utf8(done.stdout).unwrap();
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The ids of everything in a queue, taken out of it.
    pub(crate) async fn drained(&self, queue: &str) -> Vec<String> {
        let messages = self.does(json!([{"do": "drain", "name": queue}])).await;
        messages.iter().map(|message| message["message_id"].as_str().unwrap().to_owned()).collect()
    }
}

impl Fresh for RabbitMq {
    async fn fresh(url: &str) -> Self {
        Self { server: PrivateServer::fresh(url).await }
    }

    async fn clean(self) {}
}
