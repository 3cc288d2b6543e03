//! A Kafka of the test's own, which it kills.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod kills;

#[path = "../reader/kcat.rs"]
mod kcat;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, PrivateServer, Suite};
use pillarbox_testkit::trials;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, servers::KAFKA.private("kafka"), PrivateServer;
        kills {
            nothing_acknowledged_is_lost_when_the_broker_is_killed
        }
    );
    suite.run()
}
