//! A PostgreSQL of the test's own: killed while an outbox works on it, turned into a standby, switched to read-only.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod service;
mod standby;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, PrivateServer, Suite};
use pillarbox_testkit::trials;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, servers::POSTGRES.private("postgres"), PrivateServer;
        service {
            outbox_survives_the_death_of_its_server
        }
        standby {
            standby_is_refused_until_it_is_promoted
            read_only_server_is_refused
            server_without_tls_is_named
        }
    );
    suite.run()
}
