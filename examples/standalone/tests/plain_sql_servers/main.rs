//! The statements of the guide for writers in other languages are taken from its page and executed on real servers,
//! by a driver and by the command line programs that come with them.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod cases;
#[path = "../plain_sql/page.rs"]
mod page;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use stage::{MySqlStage, PostgresStage};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::POSTGRES18] {
        trials!(suite, server, PostgresStage;
            cases {
                every_statement_of_the_page_runs
                fields_that_an_insert_may_set_are_read
                bytes_are_read_as_bytes
                delayed_row_is_not_yet_due
                trigger_writes_an_event_for_each_row
                row_of_a_shell_is_delivered
                notify_of_the_page_delivers_at_once
            }
        );
    }
    for server in [servers::MYSQL, servers::MYSQL8] {
        trials!(suite, server, MySqlStage;
            cases {
                every_statement_of_the_page_runs
                fields_that_an_insert_may_set_are_read
                bytes_are_read_as_bytes
                delayed_row_is_not_yet_due
                trigger_writes_an_event_for_each_row
                row_of_a_shell_is_delivered
            }
        );
    }
    suite.run()
}
