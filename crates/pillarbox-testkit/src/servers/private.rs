//! Servers that one trial has for itself, to be stopped and killed.

use std::process::Command;

use super::{Fresh, unique_name};

/// A server that nobody else uses, started by `scripts/services`. Dropped, it is deleted with its data.
///
/// It is a stage for what is listed with [`Server::private`](super::Server::private), or a part of one.
#[derive(Debug)]
pub struct PrivateServer {
    script: String,
    name: String,
    url: String,
}

impl PrivateServer {
    /// Where it is found; of Kafka `host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// SIGKILL to all of its processes, as a machine that loses its power.
    ///
    /// # Panics
    /// If the script cannot do it; likewise the others.
    pub async fn kill(&self) {
        self.call("kill").await;
    }

    /// Ends it in its own way.
    pub async fn stop(&self) {
        self.call("stop").await;
    }

    /// Starts it again on its data, and waits until it answers.
    pub async fn up(&self) {
        self.call("up").await;
    }

    /// Has the script do something to this server.
    async fn call(&self, verb: &'static str) -> String {
        let mut command = self.command(verb);
        let done = tokio::task::spawn_blocking(move || command.output()).await;
        let done = done.expect("nobody cuts it off").expect("the script can be run");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.args([verb, &self.name]);
        command
    }
}

impl Fresh for PrivateServer {
    async fn fresh(url: &str) -> Self {
        let (kind, script) = url.split_once('@').expect("a private server is found by `kind@script`");
        let name = format!("{kind}@{}", unique_name().replace('_', "-"));
        let mut server = Self { script: script.to_owned(), name, url: String::new() };
        server.up().await;
        // The last line is about the server, the one before about the script.
        let printed = server.call("env").await;
        let last = printed.lines().last().and_then(|line| line.split_once('='));
        let (_, url) = last.expect("the script prints `export VARIABLE=URL`");
        server.url = url.trim_matches(['\'', '"']).to_owned();
        server
    }

    async fn clean(self) {}
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let done = self.command("down").output();
        if !done.as_ref().is_ok_and(|done| done.status.success()) {
            eprintln!("`{}` is left behind: {done:?}", self.name);
        }
    }
}
