//! RabbitMQ as events find it: the suite of all sinks, and what is special about this broker.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod alarm;
mod channels;
mod checks;
mod routing;
mod stage;
mod tls;

use std::process::ExitCode;

use pillarbox_testkit::servers::{RABBITMQ, Suite};
use pillarbox_testkit::{sink_trials, trials};

use stage::RabbitMqStage;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    // Without the other client nothing can be read back; the tests say so, each by its name.
    let server = if stage::PYTHON.url().is_some() { RABBITMQ } else { stage::PYTHON };
    sink_trials!(suite, server, RabbitMqStage);
    trials!(suite, server, RabbitMqStage;
        routing {
            unroutable_event_is_not_acknowledged
            returned_events_in_the_middle_of_a_run_are_told_from_the_others
            event_is_published_once_a_queue_is_bound
            default_exchange_leads_to_the_queue_of_that_name
            event_has_the_properties_of_amqp
            full_queue_is_told_from_a_refused_event
        }
        channels {
            missing_exchange_disturbs_no_other_event
            missing_exchange_of_all_events_spends_no_attempt
            exchange_that_vanishes_loses_nothing
            event_behind_a_refused_one_of_its_key_is_not_sent
            event_that_closes_the_channel_is_rejected_when_it_comes_alone
            headers_beyond_the_frame_are_rejected_for_good
            silent_server_costs_one_time_limit_for_all
            many_lost_channels_leave_the_sink_usable
        }
        alarm {
            blocked_connection_is_unavailable
            run_that_is_blocked_on_its_way_is_unknown
        }
        tls {
            tls_is_spoken_and_checked
        }
        checks {
            everything_in_order_has_no_findings
            missing_exchange_is_refused
            missing_queue_is_refused
            wrong_password_is_refused_and_not_shown
            missing_virtual_host_is_refused
            absent_server_is_a_warning
            small_frames_are_a_warning
        }
    );
    suite.run()
}
