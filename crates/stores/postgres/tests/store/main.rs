//! The PostgreSQL store, on PostgreSQL 15 and 18 and behind a pooler.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod pooled;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{acceptance_trials, conformance_trials};

use pooled::PooledStage;
use stage::PostgresStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    conformance_trials!(suite, servers::POSTGRES, PostgresStage);
    conformance_trials!(suite, servers::POSTGRES18, PostgresStage);
    conformance_trials!(suite, servers::PGBOUNCER, PooledStage);
    acceptance_trials!(suite, servers::POSTGRES, PostgresStage);
    acceptance_trials!(suite, servers::POSTGRES18, PostgresStage);
    acceptance_trials!(suite, servers::PGBOUNCER, PooledStage);
    suite.run()
}
