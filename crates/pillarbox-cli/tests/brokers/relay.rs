//! The relay, run as a user runs it, and what it says of itself.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pillarbox_testkit::port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Answer, pillarbox};

/// Long enough for anything, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A relay that runs; killed when it is dropped.
pub(crate) struct Relay {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl Relay {
    /// Starts it with these tables beside `[http]`, and waits until it can be asked.
    pub(crate) fn start(tables: &str) -> Self {
        Self::start_with(tables, &[])
    }

    /// Starts it with these variables.
    pub(crate) fn start_with(tables: &str, variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = port::free();
        let config = directory.path().join("pillarbox.toml");
        std::fs::write(&config, format!("{tables}\n[http]\nlisten = '127.0.0.1:{port}'\n")).unwrap();
        let file = |name: &str| Stdio::from(File::create(directory.path().join(name)).unwrap());
        let mut program = pillarbox();
        program.args(["relay", "--config"]).arg(&config).envs(variables.iter().copied());
        let child = program.stdout(file("out")).stderr(file("err")).spawn().unwrap();
        let mut relay = Self { child, port, directory };
        port::reach(port, |waited| {
            let ended = relay.child.try_wait().unwrap();
            assert!(ended.is_none() && waited < PATIENCE, "{ended:?}: {}", relay.said("err"));
        });
        relay
    }

    /// What it answers to GET.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// What it knows of its only outbox.
    pub(crate) fn state(&self) -> Value {
        let status: Value = serde_json::from_str(&self.get("/status")).unwrap();
        status["outboxes"][0].clone()
    }

    /// A count of its only outbox.
    pub(crate) fn count(&self, name: &str) -> usize {
        usize::try_from(self.state()[name].as_u64().unwrap()).unwrap()
    }

    /// Waits until this holds of its only outbox.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        let begun = Instant::now();
        while !holds(&self.state()) {
            assert!(begun.elapsed() < PATIENCE, "{what}: {}\n{}", self.state(), self.said("err"));
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until so many events are delivered.
    pub(crate) async fn delivers(&self, count: usize) {
        self.until("not all is delivered", |state| state["delivered"] == count).await;
    }

    /// Waits until more than this is delivered.
    pub(crate) async fn delivers_more_than(&self, count: usize) {
        let is_more = |state: &Value| state["delivered"].as_u64().is_some_and(|now| now > count as u64);
        self.until("nothing more is delivered", is_more).await;
    }

    /// Its resident memory in MB.
    pub(crate) fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1_024.0
    }

    /// What it has written to `out` or `err`.
    pub(crate) fn said(&self, name: &str) -> String {
        let bytes = std::fs::read(self.path(name)).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Ends it as a supervisor does, and gives what it said.
    pub(crate) fn stop(mut self) -> Answer {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let code = self.child.wait().unwrap().code();
        Answer { code, out: self.said("out"), err: self.said("err") }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
