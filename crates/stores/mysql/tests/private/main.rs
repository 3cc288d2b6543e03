//! The store on a server of the test's own, whose settings it may change.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod server;
mod settings;

use std::process::ExitCode;

use pillarbox_testkit::servers::Suite;
use pillarbox_testkit::trials;

use crate::server::{PrivateServer, SERVICES};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, SERVICES, PrivateServer;
        settings {
            read_only_server_is_refused
            log_of_statements_is_named
            statement_that_is_too_large_is_named
        }
    );
    suite.run()
}
