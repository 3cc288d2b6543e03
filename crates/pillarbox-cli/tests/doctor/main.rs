//! `pillarbox doctor` on the sinks of a relay, with servers whose limits are small and whose promises are weak.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod brokers;
#[path = "../binary/program.rs"]
mod program;
mod relay;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use crate::relay::Relay;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    trials!(suite, servers::SQLITE, Relay;
        brokers {
            absent_servers_are_problems_and_the_rest_is_examined
            receiver_with_a_small_limit_is_told
        }
    );
    trials!(suite, servers::REDIS, Relay; brokers { weak_redis_is_told hidden_settings_of_redis_are_unknown });
    trials!(suite, servers::NATS, Relay; brokers { small_payloads_of_nats_are_told });
    trials!(suite, servers::KAFKA, Relay; brokers { limits_of_kafka_are_told });
    trials!(suite, servers::RABBITMQ, Relay; brokers { missing_queue_of_rabbitmq_is_a_problem });
    suite.run()
}
