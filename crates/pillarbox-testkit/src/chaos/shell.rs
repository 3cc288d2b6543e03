//! Plain SQL, as operators and writers in other languages use it.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;

/// A stage whose database can be asked past the outbox.
pub trait Shell: Cluster {
    /// SQL for the moment, in microseconds.
    const NOW: &'static str;
    /// SQL for when the lease of a row of `outbox_partition` ends, or the life of one of `outbox_instance`, in microseconds.
    const UNTIL: &'static str;
    /// The column of `outbox_partition` with the incarnation of whoever owns it, NULL if nobody does.
    const OWNER: &'static str;
    /// Whether two transactions that write can be open at once.
    const WRITES_AT_ONCE: bool;
    /// How long processes are disturbed, in seconds, unless somebody says otherwise.
    const SECONDS: u64;

    /// Runs one statement and returns the values of each row as text; by the [client](by_client) of the database, if
    /// there is one.
    fn ask(&self, sql: String) -> impl Future<Output = Vec<Vec<String>>> + Send;
}

/// Runs SQL by a client program: it runs what it reads, and prints rows without a heading and with white space between
/// the values.
pub async fn by_client(mut client: Command, sql: String) -> Vec<Vec<String>> {
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
