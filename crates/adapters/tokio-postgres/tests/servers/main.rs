//! The adapter on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod errors;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{adapter_trials, trials};

use stage::PostgresStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::POSTGRES18] {
        adapter_trials!(suite, server, PostgresStage);
        trials!(suite, server, PostgresStage;
            errors {
                missing_table_is_told
                missing_privilege_is_told
                writer_that_may_not_read_learns_of_a_repeated_id
                lost_connection_is_told
                aborted_transaction_keeps_the_drivers_words
            }
        );
    }
    suite.run()
}
