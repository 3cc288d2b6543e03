//! A PostgreSQL of the test's own, which it may kill.

use std::process::Command;

use pillarbox_testkit::servers::{Fresh, Server, unique_name};

/// The script that starts and kills servers.
pub(crate) const SERVICES: Server =
    Server { name: "postgres15", variable: "PILLARBOX_TEST_SERVICES", optional: false };

/// What the script calls the variable with the URL.
const URL: &str = "PILLARBOX_TEST_POSTGRES_URL";

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
        let (script, name) = (self.script.clone(), self.name.clone());
        let run = move || {
            let done = Command::new(script).arg(verb).arg(name).env_remove(URL).output().unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    }
}

impl Fresh for KilledServer {
    async fn fresh(script: &str) -> Self {
        let name = format!("postgres@{}", unique_name().replace('_', "-"));
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
