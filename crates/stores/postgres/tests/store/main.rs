//! The PostgreSQL store, on PostgreSQL 15 and 18 and behind a pooler.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]

mod bad_input;
mod cancellations;
mod cluster;
mod examinations;
mod floors;
mod held_snapshot;
mod histories;
mod hot_path;
mod isolation;
mod long_migrations;
mod migrations;
mod modes;
mod names;
mod nested;
mod owned_reads;
mod owned_wake_ups;
mod plans;
mod pooled;
mod pooler;
mod roles;
mod server_faults;
mod silences;
mod snapshots;
mod sqlstates;
mod stage;
mod statements;
mod statistics;
mod take_overs;
mod wake_ups;
mod way;

use std::process::ExitCode;

use pillarbox_testkit::servers::{self, Suite};
use pillarbox_testkit::{
    acceptance_trials, cancellation_trials, chaos_trials, cluster_trials, conformance_trials,
    ownership_trials, trials,
};

use pooled::PooledStage;
use stage::PostgresStage;

/// What this store promises beyond the suites, on a server.
macro_rules! store_trials {
    ($suite:expr, $server:expr) => {
        trials!($suite, $server, PostgresStage;
            bad_input {
                wrong_password_is_named
                missing_database_is_named
                names_that_inject_sql_are_refused
                senseless_options_are_refused
                encoding_other_than_utf8_is_refused
                password_is_shown_nowhere
                write_in_a_failed_transaction_is_refused
                awkward_values_come_back
                times_before_the_calendar_are_refused
                repeated_id_among_similar_ones_is_told
                forbidden_tls_is_named
                unknown_certificate_is_named
            }
            cancellations {
                a_dropped_watch_loses_no_news
                a_dropped_connect_or_migration_leaves_the_database_usable
                a_dropped_from_pool_leaves_the_pool_usable
            }
            examinations {
                good_database_has_no_finding
                missing_outbox_and_other_versions_are_problems
                clock_that_is_off_is_told
                missing_and_invalid_indexes_are_problems
                owners_need_their_index_and_their_numbers
                open_writer_is_named_by_its_pid
                asynchronous_commits_are_told
                bloat_is_told
                slot_without_a_reader_is_named
                missing_privilege_is_unknown
                examination_leaves_nothing_behind
            }
            floors {
                nothing_appears_below_a_closed_number
                open_writer_holds_the_closed_number
                prepared_writer_holds_the_closed_number
                lost_connection_discards_the_closed_number
            }
            histories {
                random_histories_end_like_on_the_memory_store
            }
            hot_path {
                swallowed_error_makes_no_ghost
                swallowed_error_of_a_write_makes_no_ghost
                rollback_behind_our_back_makes_no_ghost
                rollback_to_behind_our_back_makes_no_ghost
                deferred_constraint_refuses_the_commit
                commit_reaches_its_listener_by_one_read_and_no_poll
            }
            isolation {
                transactions_ignore_the_defaults_of_the_role
                steps_ignore_the_defaults_of_the_role
                takes_ignore_the_defaults_of_the_role
                role_that_may_only_read_is_refused
                pool_of_the_user_keeps_its_defaults
                user_who_holds_the_only_connection_stops_nothing
                clock_of_the_writer_has_no_say
                locked_row_is_skipped
                lock_that_was_given_up_changes_no_order
                shared_lock_that_was_given_up_changes_no_order
            }
            long_migrations {
                long_migration_is_waited_for
                migration_whose_session_ended_is_given_up
                migration_that_is_locked_out_ends_soon
            }
            migrations {
                schema_without_an_outbox_is_not_migrated
                migrating_again_keeps_the_events
                migrations_at_the_same_time_agree
                newer_schema_is_refused
                older_schema_is_named
                table_of_the_same_name_is_left_alone
                schemas_and_prefixes_keep_outboxes_apart
                schema_that_may_not_be_created_is_named
                printed_migrations_equal_migrate
                table_has_all_columns
                shortest_insert_has_defaults
                missing_partition_is_filled_in
            }
            modes {
                indexes_belong_to_the_mode
                dropped_indexes_are_made_anew
                modes_of_several_outboxes_are_apart
                mode_is_changed_by_the_owner_of_the_table
                operator_is_refused_while_instances_are_alive
                instances_that_join_at_once_agree
                one_of_two_modes_wins
                numbers_are_given_one_by_one
                change_that_is_locked_out_changes_nothing
                unknown_mode_is_left_alone
                first_version_is_migrated_with_its_rows
            }
            names {
                names_are_taken_as_they_are_written
                printed_migrations_have_names_as_they_are_written
                advice_has_names_as_they_are_written
            }
            nested {
                a_dropped_begin_inside_makes_no_ghost
                failed_begin_inside_makes_no_ghost
                failed_begin_inside_a_foreign_transaction_makes_no_ghost
                rollback_after_a_failed_begin_inside_is_one
                forgotten_transaction_inside_is_not_passed_on
                write_without_a_transaction_is_refused
            }
            held_snapshot {
                floors_pass_from_owner_to_owner_under_a_held_snapshot
            }
            owned_reads {
                fetch_touches_ten_pages_per_partition
                backlog_costs_what_is_fetched
                done_events_change_no_index
                large_batch_is_recorded_by_two_at_once
                locked_row_makes_no_other_outcome_lost
                floor_far_below_is_read_from_in_spans
                rows_written_past_the_triggers_are_adopted
                partition_that_is_none_is_corrected
                rows_that_are_aside_are_adopted
                endless_wait_without_a_key_is_explained
                calls_of_owners_are_one_statement
                blocked_key_costs_the_same_however_many_wait
            }
            owned_wake_ups {
                commit_reaches_the_owner_in_another_process_without_a_poll
            }
            plans {
                statements_use_their_indexes
            }
            roles {
                writer_can_write_and_nothing_else
                writer_learns_of_a_repeated_id
                relay_can_deliver_and_not_drop
                operator_can_operate_and_not_write
                role_without_grants_learns_which_it_needs
                relay_can_own_and_operator_can_skip
                relay_without_new_grants_learns_which_it_needs
            }
            server_faults {
                store_recovers_from_cut_connections
                heartbeat_tells_of_a_lost_connection_once
                heartbeat_tells_of_another_server_once
                closed_door_refuses_no_outcome
                idle_connection_that_was_cut_is_replaced
                commit_on_a_cut_connection_is_unknown
                outbox_survives_cut_connections
                locked_row_is_named_by_a_renewal
                locked_row_does_not_keep_a_name_from_resuming
                locked_rows_are_named
            }
            silences {
                commit_that_nobody_answers_is_unknown
                rollback_that_nobody_answers_is_given_up
                dropped_transaction_that_nobody_answers_is_given_up
                begin_that_nobody_answers_is_given_up
                connection_that_is_not_released_is_given_up
                refused_login_is_not_repeated
                outage_is_no_slow_look
            }
            snapshots {
                held_snapshot_does_not_make_takes_read_garbage
            }
            sqlstates {
                faults_of_the_server_may_pass
                collision_that_passes_is_not_told
                faults_of_the_statement_are_refused
                refused_commit_is_certain_and_a_lost_one_is_not
                full_server_is_named
            }
            statements {
                write_is_one_insert_for_500_events
                take_is_one_statement
                batch_of_outcomes_is_one_statement
                reading_back_is_one_statement
                drained_event_costs_a_twentieth_of_a_statement
                idle_outbox_reads_no_table
            }
            statistics {
                census_is_few_statements
                census_is_one_snapshot
            }
            take_overs {
                stale_outcome_does_not_come_after_a_take_over
                partition_is_not_taken_over_in_the_middle_of_an_outcome
                stopped_session_is_ended
                heartbeats_do_not_scatter_the_leases
                busy_owners_do_not_stand_in_each_others_way
            }
            wake_ups {
                announcements_of_others_wake_each_time
                own_announcements_wake_others_only
                clones_wake_each_other_and_not_themselves
                announcements_name_their_partitions
                notification_without_partitions_names_all
                other_outboxes_do_not_wake
                plain_notify_wakes
                outbox_that_is_migrated_later_wakes
                store_without_wake_up_is_silent_and_deaf
                lost_listen_is_set_up_again
                listening_ends_with_its_store
                listening_outlives_the_runtime_that_began_it
                commit_reaches_another_process_without_a_poll
                commit_reaches_another_outbox_on_the_same_store_without_a_poll
                nothing_is_notified_inside_a_transaction
            }
        )
    };
}

fn main() -> ExitCode {
    let member = pillarbox_testkit::cluster::member::<PostgresStage>();
    if let Some(code) = member.or_else(pillarbox_testkit::chaos::member::<PostgresStage>) {
        return code;
    }
    let mut suite = Suite::from_args();
    cluster_trials!(suite, servers::POSTGRES, PostgresStage);
    chaos_trials!(suite, servers::POSTGRES, PostgresStage);
    for server in [servers::POSTGRES, servers::POSTGRES18] {
        conformance_trials!(suite, server, PostgresStage);
        ownership_trials!(suite, server, PostgresStage);
        acceptance_trials!(suite, server, PostgresStage);
        cancellation_trials!(suite, server, PostgresStage);
        store_trials!(suite, server);
    }
    conformance_trials!(suite, servers::PGBOUNCER, PooledStage);
    ownership_trials!(suite, servers::PGBOUNCER, PooledStage);
    acceptance_trials!(suite, servers::PGBOUNCER, PooledStage);
    trials!(suite, servers::PGBOUNCER, PooledStage;
        pooler {
            pooler_that_was_not_told_of_is_named
            url_tells_of_the_pooler
            events_of_others_are_found_by_polling
            announcements_pass_the_pooler
            clones_wake_each_other_behind_the_pooler
            sessions_of_others_stay_as_they_were
            missing_tls_is_named
            defaults_of_the_database_are_ignored
        }
    );
    suite.run()
}
