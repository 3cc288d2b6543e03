//! A Kafka of the test's own, which it kills.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod kills;
mod server;

#[path = "../reader/kcat.rs"]
mod kcat;

use std::process::ExitCode;

use pillarbox_testkit::servers::Suite;
use pillarbox_testkit::trials;

use server::{KilledServer, SERVICES};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, SERVICES, KilledServer;
        kills {
            nothing_acknowledged_is_lost_when_the_broker_is_killed
        }
    );
    suite.run()
}
