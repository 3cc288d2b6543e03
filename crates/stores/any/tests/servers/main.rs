//! A store from a URL, on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod logs;
#[path = "../any/stage.rs"]
mod stage;
mod urls;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{acceptance_trials, conformance_trials, trials};

use crate::stage::AnyStage;

fn main() -> ExitCode {
    if let Some(code) = logs::logged() {
        return code;
    }
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::MYSQL, servers::MYSQL8] {
        conformance_trials!(suite, server, AnyStage);
        acceptance_trials!(suite, server, AnyStage);
        trials!(suite, server, AnyStage;
            logs {
                logs_have_no_password
            }
            urls {
                the_name_of_a_store_has_no_password
                schema_and_prefix_reach_the_tables
                other_spellings_of_the_scheme_connect
                the_longest_transaction_reaches_who_must_be_told
                transactions_of_other_databases_are_refused
            }
        );
    }
    suite.run()
}
