//! Programs that tests read back with, and servers that they ask for.

use std::process::Command;

use pillarbox_testkit::servers::{Server, required};

use crate::program::Answer;

/// Clients in Python, kcat and promtool.
pub(crate) const TOOLS: Server = required("relay", "PILLARBOX_TEST_PYTHON");

/// The URL of a server that a trial needs beside its own.
pub(crate) fn url_of(server: Server) -> String {
    server.url().unwrap_or_else(|| {
        let variable = server.variable;
        panic!("`{variable}` is not set; run `scripts/services up` and `eval \"$(scripts/services env)\"`")
    })
}

/// Runs a program to its end, which must be a good one, and gives what it prints.
pub(crate) fn output(mut command: Command) -> String {
    let answer = Answer::of(command.output().unwrap());
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    answer.out
}

/// Has another client than the sink's `make`, `read` or `remove` what events go to.
pub(crate) fn client(verb: &str, kind: &str, url: &str, name: &str) -> String {
    let mut script = Command::new(url_of(TOOLS));
    script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/brokers/read_back.py"));
    script.args([verb, kind, url, name]);
    output(script)
}
