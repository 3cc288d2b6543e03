//! The client program of a database.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;

/// A stage with the client program of its database, as operators and writers in other languages use it.
pub trait Shell: Cluster {
    /// SQL for the moment, in microseconds.
    const NOW: &'static str;
    /// SQL for when a row of `outbox_partition` ends, in microseconds.
    const UNTIL: &'static str;

    /// The client on the stage's database: it runs what it reads, and prints rows without a heading and with white
    /// space between the values.
    fn client(&self) -> Command;
}

/// Runs SQL by the client, and returns the values of each row.
pub(super) async fn ask<S: Shell>(stage: &S, sql: String) -> Vec<Vec<String>> {
    let mut client = stage.client();
    let ran = tokio::task::spawn_blocking(move || {
        let client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = client.spawn().expect("the client of the database is installed");
        writeln!(running.stdin.take().unwrap(), "{sql};").unwrap();
        running.wait_with_output().unwrap()
    });
    let ran = ran.await.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    printed.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}
