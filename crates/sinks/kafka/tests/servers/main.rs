//! The Kafka sink, on Apache Kafka.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod checks;
mod records;
mod refusals;
mod security;
mod stage;

#[path = "../reader/kcat.rs"]
mod kcat;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{sink_trials, trials};

use stage::KafkaStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    sink_trials!(suite, servers::KAFKA, KafkaStage);
    trials!(suite, servers::KAFKA, KafkaStage;
        refusals {
            order_is_kept_when_the_broker_refuses_an_event
            refused_batch_kills_no_small_event
            missing_topic_of_all_is_unavailable
            missing_topic_of_one_event_is_rejected
            event_without_a_key_is_refused_by_a_compacted_topic
            full_client_loses_and_reorders_nothing
        }
        records {
            empty_payload_is_no_tombstone
            keys_go_where_the_own_client_of_kafka_puts_them
            size_is_what_the_broker_counts
        }
        security {
            password_is_shown
            wrong_password_is_told
        }
        checks {
            good_topic_has_no_finding_but_its_one_copy
            small_limits_are_found
            unreachable_copies_are_refused
            missing_topic_is_found_and_not_created
            absent_cluster_is_found
        }
    );
    suite.run()
}
