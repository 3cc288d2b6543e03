//! The program, run as a user runs it, and what it answers.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

use std::process::{Command, Output};

use serde_json::Value;

/// The program, with no settings from the environment.
pub(crate) fn pillarbox() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pillarbox"));
    command.env_remove("PILLARBOX_DB").env_remove("RUST_LOG");
    command
}

/// What the program said and how it ended.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The data of an answer that went well.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }
}

/// Runs the program with these arguments.
pub(crate) fn run(arguments: &[&str]) -> Answer {
    Answer::of(pillarbox().args(arguments).output().unwrap())
}
