//! A relay that runs beside a test.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::time::Duration;

use pillarbox_testkit::port;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Answer, pillarbox};

/// Long enough for anything, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn free_port() -> u16 {
    port::free()
}

/// A relay that runs; killed when it is dropped.
pub(crate) struct Relay {
    child: Child,
    pub(crate) out: BufReader<Box<dyn Read>>,
}

impl Relay {
    pub(crate) fn start(config: &str) -> Self {
        let mut program = pillarbox();
        program.args(["relay", "--config", config]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let out = BufReader::new(Box::new(child.stdout.take().unwrap()) as Box<dyn Read>);
        Self { child, out }
    }

    /// The next event that it prints.
    pub(crate) fn event(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it as a supervisor does, and gives what it said.
    pub(crate) fn stop(self) -> Answer {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until it ends, and gives what it said.
    pub(crate) fn ended(mut self) -> Answer {
        let status = self.child.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Answer { code: status.code(), out, err }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the relay answers to GET: the status line and the body. Waits until it listens.
pub(crate) fn get(port: u16, path: &str) -> (String, String) {
    let mut stream = port::reach(port, |waited| assert!(waited < PATIENCE, "nobody listens on port {port}"));
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}
