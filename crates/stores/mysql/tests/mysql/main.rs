//! The MySQL and MariaDB store on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod cluster;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{acceptance_trials, cluster_trials, conformance_trials};

use crate::stage::MySqlStage;

fn main() -> ExitCode {
    if let Some(code) = pillarbox_testkit::cluster::member::<MySqlStage>() {
        return code;
    }
    let mut suite = Suite::from_args();
    cluster_trials!(suite, servers::MYSQL, MySqlStage);
    for server in [servers::MYSQL, servers::MYSQL8] {
        conformance_trials!(suite, server, MySqlStage);
        acceptance_trials!(suite, server, MySqlStage);
    }
    suite.run()
}
