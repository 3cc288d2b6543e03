//! The adapter on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod errors;
mod mysql;
mod stage;

use std::process::ExitCode;

use pillarbox_mysql::MySqlStore;
use pillarbox_postgres::PostgresStore;
use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{adapter_trials, trials};

use stage::Stage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::POSTGRES18] {
        adapter_trials!(suite, server, Stage<PostgresStore>);
        trials!(suite, server, Stage<PostgresStore>; errors { missing_table_is_told deadlock_may_be_tried_again });
    }
    for server in [servers::MYSQL, servers::MYSQL8] {
        adapter_trials!(suite, server, Stage<MySqlStore>);
        trials!(suite, server, Stage<MySqlStore>;
            errors { missing_table_is_told deadlock_may_be_tried_again }
            mysql {
                writer_who_may_only_insert_writes
                many_events_after_the_end_are_refused
                time_beyond_the_calendar_is_refused
            }
        );
    }
    suite.run()
}
