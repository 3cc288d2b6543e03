//! The sink on real servers: the suite of all sinks, what is special about NATS, and servers that are killed.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod checks;
mod connections;
mod private;
mod restart;
mod settings;
mod stage;
mod streams;

use std::process::ExitCode;

use pillarbox_testkit::servers::{NATS, PrivateServer, Suite};
use pillarbox_testkit::{sink_trials, trials};

use private::ServerHome;
use stage::NatsStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    sink_trials!(suite, NATS, NatsStage);
    trials!(suite, NATS, NatsStage;
        streams {
            repeated_event_is_stored_once
            second_subject_of_a_stream_gets_the_event_too
            subject_that_no_stream_takes_is_unavailable
            odd_subject_is_rejected_alone
            full_stream_is_unavailable
            full_subject_is_rejected
            event_over_the_limit_of_the_stream_is_rejected_for_good
            deleted_stream_is_made_anew
            existing_stream_stays_as_it_is
            follower_of_a_failed_event_is_not_sent
        }
        connections {
            wrong_password_is_unavailable_and_not_shown
            silent_server_is_unknown
            lost_connection_ends_all_waiting_at_once
            what_was_not_sent_is_not_sent_later
            plain_responder_is_no_acknowledgement
        }
        checks {
            good_stream_has_one_warning_about_power
            missing_stream_is_a_warning
            stream_in_memory_is_a_warning
            stream_without_acknowledgements_is_refused
            absent_server_is_a_warning
        }
    );
    let own = NATS.private("nats");
    trials!(suite, own, PrivateServer;
        restart {
            killed_server_loses_nothing_and_doubles_nothing
        }
    );
    trials!(suite, own, ServerHome;
        settings {
            forbidden_subject_is_unavailable
            server_without_jetstream_is_refused
            nkey_is_accepted
            tls_is_spoken_and_checked
            largest_event_passes_where_the_server_lets_it
        }
    );
    suite.run()
}
