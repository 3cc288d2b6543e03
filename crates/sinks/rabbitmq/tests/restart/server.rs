//! A RabbitMQ of the test's own, which it may kill.

use std::process::Command;

use pillarbox_testkit::servers::{Fresh, Server, unique_name};
use serde_json::{Value, json};

/// The script that starts and kills servers.
pub(crate) const SERVICES: Server =
    Server { name: "rabbitmq", variable: "PILLARBOX_TEST_SERVICES", optional: false };
/// The Python that has `pika`.
pub(crate) const PYTHON: Server =
    Server { name: "rabbitmq", variable: "PILLARBOX_TEST_PYTHON", optional: false };

/// What the script calls the variable with the URL.
const URL: &str = "PILLARBOX_TEST_AMQP_URL";

/// A server that nobody else uses. It is deleted with its data.
pub(crate) struct KilledServer {
    script: String,
    name: String,
    pub(crate) url: String,
}

impl KilledServer {
    /// SIGKILL to all of its processes, as a machine that loses its power.
    pub(crate) async fn kill(&self) {
        self.run("kill").await;
    }

    /// Starts it again on its data, and waits until it answers.
    pub(crate) async fn start(&self) {
        self.run("up").await;
    }

    async fn run(&self, verb: &'static str) -> String {
        let mut command = Command::new(&self.script);
        command.arg(verb).arg(&self.name).env_remove(URL);
        output(command).await
    }

    /// Has another client than the sink's do something, and gives what it prints.
    pub(crate) async fn does(&self, commands: Value) -> Vec<Value> {
        let mut command = Command::new(PYTHON.url().expect("`PILLARBOX_TEST_PYTHON` is not set"));
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/read.py"));
        command.arg(&self.url).arg(commands.to_string());
        output(command).await.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The ids of everything in a queue, taken out of it.
    pub(crate) async fn drained(&self, queue: &str) -> Vec<String> {
        let messages = self.does(json!([{"do": "drain", "name": queue}])).await;
        messages.iter().map(|message| message["message_id"].as_str().unwrap().to_owned()).collect()
    }
}

async fn output(mut command: Command) -> String {
    let run = move || {
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

impl Fresh for KilledServer {
    async fn fresh(script: &str) -> Self {
        let name = format!("rabbitmq@{}", unique_name().replace('_', "-"));
        let mut server = Self { script: script.to_owned(), name, url: String::new() };
        server.start().await;
        let printed = server.run("env").await;
        let url = printed.lines().find_map(|line| line.strip_prefix(&format!("export {URL}=")));
        server.url = url.unwrap().trim_matches(['\'', '"']).to_owned();
        server
    }

    async fn clean(self) {
        self.run("down").await;
    }
}
