//! A RabbitMQ of the test's own: killed while sinks publish to it.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod server;
mod service;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use server::{PYTHON, RabbitMq};

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    let server = if PYTHON.url().is_some() { servers::RABBITMQ.private("rabbitmq") } else { PYTHON };
    trials!(suite, server, RabbitMq;
        service {
            nothing_acknowledged_is_lost_when_the_server_is_killed
        }
    );
    suite.run()
}
