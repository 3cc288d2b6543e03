//! The PostgreSQL store, on PostgreSQL 15 and 18 and behind a pooler.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod cluster;
mod pooled;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{acceptance_trials, cluster_trials, conformance_trials};

use pooled::PooledStage;
use stage::PostgresStage;

fn main() -> ExitCode {
    if let Some(code) = pillarbox_testkit::cluster::member::<PostgresStage>() {
        return code;
    }
    let mut suite = Suite::from_args();
    cluster_trials!(suite, servers::POSTGRES, PostgresStage);
    conformance_trials!(suite, servers::POSTGRES, PostgresStage);
    conformance_trials!(suite, servers::POSTGRES18, PostgresStage);
    conformance_trials!(suite, servers::PGBOUNCER, PooledStage);
    acceptance_trials!(suite, servers::POSTGRES, PostgresStage);
    acceptance_trials!(suite, servers::POSTGRES18, PostgresStage);
    acceptance_trials!(suite, servers::PGBOUNCER, PooledStage);
    suite.run()
}
