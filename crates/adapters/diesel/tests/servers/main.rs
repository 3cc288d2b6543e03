//! The adapter on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod errors;
mod mysql;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{adapter_trials, trials};

use stage::{MySqlStage, PostgresStage};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::POSTGRES18] {
        adapter_trials!(suite, server, PostgresStage);
        trials!(suite, server, PostgresStage;
            errors {
                missing_table_is_told
                write_without_a_transaction_is_refused
                write_in_a_nested_transaction_ends_with_it
            }
        );
    }
    for server in [servers::MYSQL, servers::MYSQL8] {
        adapter_trials!(suite, server, MySqlStage);
        trials!(suite, server, MySqlStage;
            errors {
                missing_table_is_told
                write_without_a_transaction_is_refused
                write_in_a_nested_transaction_ends_with_it
            }
            mysql {
                writer_who_may_only_insert_writes
                many_events_after_the_end_are_refused
                time_beyond_the_calendar_is_refused
            }
        );
    }
    suite.run()
}
