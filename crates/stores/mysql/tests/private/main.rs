//! The store on a server of the test's own, whose settings it may change.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod examinations;
mod replica;
mod server;
mod settings;
mod tls;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use crate::replica::MySql8;
use crate::server::MariaDb;
use crate::tls::ServerWithoutTls;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    let own = servers::MYSQL.private("mysql");
    trials!(suite, own, MariaDb;
        examinations {
            settings_that_weaken_the_promise_are_told
        }
        settings {
            read_only_server_is_refused
            log_of_statements_is_named
            numbers_in_steps_are_refused_to_owners
            statement_that_is_too_large_is_named
            completion_of_the_server_is_not_ours
        }
        tls {
            server_that_wants_tls_is_named
            certificate_of_nobody_is_named
        }
    );
    trials!(suite, own, ServerWithoutTls; tls { server_without_tls_is_named });
    trials!(suite, servers::MYSQL8, MySql8; replica { super_read_only_server_is_refused });
    suite.run()
}
