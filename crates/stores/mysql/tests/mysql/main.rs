//! The MySQL and MariaDB store on real servers.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod bad_input;
mod cancellations;
mod client;
mod cluster;
mod deadlocks;
mod examinations;
mod frozen;
mod histories;
mod migrations;
mod open_writers;
mod owned_plans;
mod owners;
mod partitions;
mod plans;
mod processes;
mod roles;
mod sessions;
mod silences;
mod stage;
mod statements;
mod way;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Server, Suite};
use pillarbox_testkit::{
    acceptance_trials, cancellation_trials, chaos_trials, cluster_trials, conformance_trials,
    ownership_trials, trials,
};

use crate::stage::MySqlStage;

fn main() -> ExitCode {
    let member = pillarbox_testkit::cluster::member::<MySqlStage>();
    if let Some(code) = member.or_else(pillarbox_testkit::chaos::member::<MySqlStage>) {
        return code;
    }
    let mut suite = Suite::from_args();
    for server in [servers::MYSQL, servers::MYSQL8] {
        conformance_trials!(suite, server, MySqlStage);
        ownership_trials!(suite, server, MySqlStage);
        acceptance_trials!(suite, server, MySqlStage);
        cancellation_trials!(suite, server, MySqlStage);
        cluster_trials!(suite, server, MySqlStage);
        chaos_trials!(suite, server, MySqlStage);
        add_trials(&mut suite, server);
    }
    suite.run()
}

#[expect(clippy::too_many_lines, reason = "a list, as long as there are promises")]
fn add_trials(suite: &mut Suite, server: Server) {
    trials!(suite, server, MySqlStage;
        bad_input {
            wrong_password_is_named
            debug_output_has_no_password
            missing_database_is_named
            url_without_database_is_refused
            refused_connection_is_named
            silent_server_is_given_up
            disagreement_about_tls_is_named
            misspelt_option_is_named
            name_that_injects_sql_is_refused
            table_without_transactions_is_refused
            senseless_limits_are_refused
            missing_privilege_is_named
            missing_privilege_on_the_table_is_named
            trigger_without_rights_is_named
            row_without_payload_is_refused
        }
        cancellations {
            a_dropped_statement_of_the_user_spoils_nothing
            a_dropped_connect_or_migration_can_be_repeated
        }
        deadlocks {
            swallowed_deadlock_leaves_no_ghost
            connection_is_usable_after_a_deadlock
            foreign_transaction_goes_on_without_its_beginning
            many_events_after_the_end_are_refused
            implicit_commit_is_noticed
            transaction_in_a_transaction_is_a_savepoint
            store_hides_its_own_deadlocks
        }
        examinations {
            good_database_has_no_finding
            missing_outbox_and_other_versions_are_problems
            missing_index_is_a_problem
            half_changed_mode_is_a_problem
            open_writer_is_named_by_its_session
            missing_privilege_is_unknown
        }
        frozen {
            take_that_stopped_frees_its_rows
            take_that_stopped_delays_the_next_only
            take_that_fails_gives_its_turn_back
            wait_for_a_turn_is_no_error
        }
        histories {
            random_histories_end_like_on_the_memory_store
        }
        open_writers {
            open_transaction_stands_in_nobodys_way
        }
        owned_plans {
            owners_statements_use_their_indexes
            fetch_reads_what_it_returns
            fetch_passes_by_what_was_done
            fetch_looks_once_at_what_is_being_written
        }
        owners {
            change_that_was_cut_off_is_completed
            changes_at_once_agree
            operator_changes_the_mode
            heartbeat_tells_of_a_lost_connection_once
            very_late_commit_is_found_below
            stale_outcome_never_comes_after_the_next_owner
            row_by_hand_is_read
            every_row_is_adopted
            owners_hide_their_deadlocks
            endless_wait_ends_with_its_mode
        }
        migrations {
            names_lead_to_outboxes_of_their_own
            reserved_word_is_a_database
            migrations_at_once_agree
            migrations_of_two_outboxes_wait_for_each_other_not
            migration_that_was_cut_off_is_completed
            first_version_keeps_its_rows
            newer_tables_are_refused
            printed_sql_does_the_same
            trigger_is_added_when_it_is_allowed
        }
        partitions {
            trigger_agrees_with_the_vectors
            trigger_leaves_other_rows_alone
            partition_that_is_none_is_not_stored
            store_writes_the_partition
        }
        plans {
            every_statement_uses_its_index
            small_table_is_not_scanned
        }
        processes {
            write_elsewhere_is_found_by_polling
            takes_of_several_stores_are_disjoint
            locked_row_is_passed_over
            plain_sql_is_delivered
            zero_date_disturbs_no_other
            people_can_read_what_is_stored
        }
        roles {
            writer_only_writes
            relay_only_delivers
            relay_owns_partitions
            relay_does_not_change_the_mode
            operator_only_operates
            operator_frees_keys
            migrator_migrates
            no_grant_is_idle
            no_grant_of_owners_is_idle
        }
        sessions {
            begun_transactions_are_read_committed
            begun_transactions_on_a_pool_are_read_committed
            own_steps_are_read_committed
            time_zone_of_a_session_has_no_effect
            clock_of_the_writer_has_no_effect
            times_beyond_the_calendar_are_refused
            pool_of_one_connection_is_enough
            sessions_go_back_as_they_came
            switched_autocommit_does_not_outlive_its_transaction
            transaction_may_begin_with_one_inside
            forgotten_transaction_inside_is_not_passed_on
            idle_connection_that_was_cut_is_not_handed_out
            cut_connections_are_replaced
            cut_transaction_is_unknown
            locked_rows_are_named
            locked_row_does_not_keep_a_name_from_resuming
            closed_store_says_so
        }
        silences {
            begin_that_nobody_answers_is_given_up
        }
        statements {
            events_of_a_call_are_one_statement
            a_transaction_begins_without_a_round_trip
            a_take_is_few_statements
            outcomes_of_a_kind_are_one_statement
            read_backs_and_renewals_are_one_statement
            a_fetch_is_one_statement
            outcomes_of_owners_are_few_statements
            a_heartbeat_is_few_statements
            locked_row_is_waited_for_once
        }
    );
}
