//! A Kafka that nobody else uses.

use pillarbox_testkit::servers::{Fresh, Server, unique_name};
use tokio::process::Command;

/// The script that starts and kills servers.
pub(crate) const SERVICES: Server =
    Server { name: "kafka", variable: "PILLARBOX_TEST_SERVICES", optional: false };

/// What the script calls the variable with the address.
const BROKERS: &str = "PILLARBOX_TEST_KAFKA_BROKERS";

/// A server that is deleted with its data.
pub(crate) struct KilledServer {
    script: String,
    name: String,
    pub(crate) brokers: String,
}

impl KilledServer {
    /// SIGKILL to all of its processes.
    pub(crate) async fn kill(&self) {
        self.run("kill").await;
    }

    /// Starts it again on its data, and waits until it answers.
    pub(crate) async fn start(&self) {
        self.run("up").await;
    }

    async fn run(&self, verb: &str) -> String {
        let done =
            Command::new(&self.script).args([verb, &self.name]).env_remove(BROKERS).output().await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }
}

impl Fresh for KilledServer {
    async fn fresh(script: &str) -> Self {
        let name = format!("kafka@{}", unique_name().replace('_', "-"));
        let mut server = Self { script: script.to_owned(), name, brokers: String::new() };
        server.start().await;
        let printed = server.run("env").await;
        let brokers = printed.lines().find_map(|line| line.strip_prefix(&format!("export {BROKERS}=")));
        server.brokers = brokers.unwrap().trim_matches(['\'', '"']).to_owned();
        server
    }

    async fn clean(self) {
        self.run("down").await;
    }
}
