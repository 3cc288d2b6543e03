//! A `tail` that runs beside a test.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::Value;

use crate::program::{Answer, pillarbox};

/// A `tail --json` that runs; killed when it is dropped.
pub(crate) struct Follower {
    child: Child,
    out: Option<BufReader<ChildStdout>>,
}

impl Follower {
    /// Begins to follow the outbox of a database.
    pub(crate) fn of(db: &str, arguments: &[&str]) -> Self {
        let mut program = pillarbox();
        program.args(["tail", "--json", "--every", "50ms", "--db", db]).args(arguments);
        program.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let out = child.stdout.take().map(BufReader::new);
        Self { child, out }
    }

    /// The next thing that it tells.
    pub(crate) fn news(&mut self) -> Value {
        let mut line = String::new();
        self.out.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// What happened next, and to which event.
    pub(crate) fn happened(&mut self) -> (String, String) {
        let news = self.news();
        let text = |name: &str| news[name].as_str().unwrap().to_owned();
        (text("happened"), text("event_id"))
    }

    /// Nobody reads what it tells any more.
    pub(crate) fn close_pipe(&mut self) {
        self.out = None;
    }

    /// Presses ctrl-c.
    pub(crate) fn interrupt(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    }

    /// How it ended, and what else it said.
    pub(crate) fn ended(mut self) -> Answer {
        let status = self.child.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        if let Some(rest) = &mut self.out {
            rest.read_to_string(&mut out).unwrap();
        }
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Answer { code: status.code(), out, err }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Something that happened to an event.
pub(crate) fn news(happened: &str, event_id: &str) -> (String, String) {
    (happened.to_owned(), event_id.to_owned())
}
