//! The sample runs as a user runs it, on PostgreSQL and Apache Kafka.

#![expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]

mod failures;
#[path = "../../../../crates/sinks/kafka/tests/reader/kcat.rs"]
mod kcat;
mod orders;
#[path = "../../../web-service/tests/service/process.rs"]
mod process;
mod stage;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use stage::ShopStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    // Both are needed. The one that is missing is named.
    let server = servers::POSTGRES.url().map_or(servers::POSTGRES, |_| servers::KAFKA);
    trials!(suite, server, ShopStage;
        orders {
            order_arrives_on_the_topic
            rolled_back_order_sends_nothing
            bad_input_is_refused_by_field
            sent_events_are_purged_after_thirty_days
            sigterm_loses_nothing_and_repeats_nothing
            missing_variable_is_named
            lines_of_the_readme_work
        }
        failures {
            event_without_a_topic_fails_after_five_retries_and_is_replayed
            event_that_the_broker_never_takes_fails_at_once
        }
    );
    suite.run()
}
