//! The binary `pillarbox` on PostgreSQL and MariaDB, run as a user runs it.

mod bench;
#[path = "../binary/daemon.rs"]
mod daemon;
mod dead;
mod desk;
mod doctor;
#[path = "../binary/follower.rs"]
mod follower;
mod keys;
mod operator;
mod pausing;
#[path = "../binary/program.rs"]
mod program;
mod refusals;
mod relaying;
mod tail;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::trials;

use crate::desk::Desk;

fn main() -> ExitCode {
    let mut suite = Suite::from_args();
    for server in [servers::POSTGRES, servers::MYSQL, servers::MYSQL8] {
        trials!(suite, server, Desk;
        operator {
            migrate_creates_the_outbox_once
            schema_and_prefix_name_an_outbox_of_their_own
            printed_migrations_make_an_outbox
            status_counts_events_by_status
            status_tells_who_owns_what
            status_is_watched
            purge_deletes_old_done_events_and_nothing_else
        }
        keys {
            parked_keys_are_listed
            resumed_key_tries_its_dead_event_again
            skipped_key_goes_on_without_its_dead_event
            key_that_is_not_parked_is_not_found
            claims_have_no_keys
            status_tells_who_shares_and_what_waits
            metrics_tell_of_partitions_and_keys
        }
        pausing {
            paused_route_is_kept_and_resumed
            waiting_events_are_recalled
            missing_privilege_is_named
        }
        tail {
            events_are_shown_once
            news_is_shown_as_it_happens
            reader_that_goes_away_ends_it
        }
        dead {
            dead_events_are_listed_page_by_page
            an_event_is_shown_with_its_payload
            replay_makes_dead_events_pending
            discard_deletes_dead_events
            an_unknown_event_is_not_found
            dead_events_are_selected_by_what_they_have_in_common
        }
        relaying {
            longest_transaction_of_the_file_reaches_the_store
        }
        bench {
            a_bench_leaves_nothing_behind
            what_a_killed_bench_left_is_dropped
        }
        doctor {
            a_database_is_examined
            who_cannot_get_in_is_a_problem
            missing_privileges_are_unknown
        }
        refusals {
            whoever_cannot_get_in_is_told_why
            a_database_without_an_outbox_is_refused
            a_newer_schema_is_refused_by_every_command
            a_missing_privilege_is_named
            wrong_usage_is_refused
        });
    }
    suite.run()
}
