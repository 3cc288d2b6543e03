//! An outbox whose PostgreSQL is killed while it works, and started again.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod server;
mod service;

use std::process::ExitCode;

use pillarbox_testkit::servers::Suite;
use pillarbox_testkit::trials;

use server::{KilledServer, SERVICES};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, SERVICES, KilledServer;
        service {
            outbox_survives_the_death_of_its_server
        }
    );
    suite.run()
}
