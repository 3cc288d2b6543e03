//! The sink on real servers: the suite of all sinks, what is special about Redis, and servers that are killed.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod connections;
mod private;
mod restart;
mod settings;
mod stage;
mod streams;

use std::process::ExitCode;

use pillarbox_testkit::servers::{PrivateServer, REDIS, Suite};
use pillarbox_testkit::{sink_trials, trials};

use private::ServerHome;
use stage::RedisStage;

fn main() -> ExitCode {
    // As a binary does it, for the library installs none.
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let mut suite = Suite::from_args();
    sink_trials!(suite, REDIS, RedisStage);
    trials!(suite, REDIS, RedisStage;
        streams {
            key_of_another_kind_rejects_its_own_events_only
            follower_of_a_failed_event_is_not_sent
            stream_is_trimmed_to_about_its_length
            stream_is_trimmed_to_about_its_age
            repeated_event_is_added_twice
            durable_server_gives_no_cause_for_complaint
        }
        connections {
            wrong_password_is_unavailable_and_not_shown
            absent_server_is_a_warning
            silent_server_is_unknown_and_given_up
            lost_connection_ends_all_waiting_at_once
            answer_to_a_dropped_run_is_taken_for_no_other
        }
    );
    let own = REDIS.private("redis");
    trials!(suite, own, PrivateServer;
        restart {
            killed_server_loses_nothing_that_it_acknowledged
        }
    );
    trials!(suite, own, ServerHome;
        settings {
            full_server_is_unavailable
            replica_is_unavailable
            user_without_rights_is_unavailable
            event_is_acknowledged_when_the_replica_has_it
            event_that_no_replica_has_is_unknown
            weak_settings_are_named
            tls_is_spoken_and_checked
        }
    );
    suite.run()
}
