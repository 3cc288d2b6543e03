//! The list of all cases.

/// Makes every case of the [conformance suite](mod@crate::conformance) a `#[tokio::test]` of its own name.
///
/// The argument is evaluated anew for each of them, inside the test, and may await.
#[macro_export]
macro_rules! conformance {
    ($harness:expr) => {
        $crate::conformance_list! { conformance_tests ($harness) }
    };
}

/// Makes every case about owned partitions a `#[tokio::test]` of its own name, for a store that has owners.
///
/// The argument is an [`OwnershipHarness`](crate::conformance::OwnershipHarness), evaluated anew as in [`conformance!`].
#[macro_export]
macro_rules! ownership_conformance {
    ($harness:expr) => {
        $crate::ownership_list! { conformance_tests ($harness) }
    };
}

/// Hands the list of all cases, by module, to the macro `$then`, behind `$arguments`.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            writes {
                commit_makes_events_visible
                rollback_leaves_no_row
                dropped_transaction_leaves_no_row
                uncommitted_events_are_seen_by_nobody_else
                savepoint_rollback_leaves_no_row
                foreign_transaction_writes_events
                foreign_rollback_leaves_no_row
                transaction_steps_run_in_tasks_of_their_own
                concurrent_writes_all_arrive
                insert_of_many_events_is_complete
                insert_of_large_events_is_complete
                insert_of_nothing_changes_nothing
                inserted_events_are_new_and_due
                events_are_created_at_their_statement
                id_in_the_table_is_refused
                id_twice_in_a_call_is_refused
                id_twice_in_a_transaction_is_refused
                repeated_id_far_behind_inserts_nothing
                ids_compare_by_bytes
            }
            births {
                born_event_is_not_taken_by_others
                born_event_has_one_start
                ended_birth_lease_can_be_taken
                birth_lease_runs_from_its_statement
                born_event_is_settled_by_its_token
                born_event_is_not_settled_by_its_neighbours_token
                delayed_event_is_not_claimed_at_birth
                birth_with_too_long_a_lease_is_refused
                delayed_event_is_not_taken_before_its_time
                delay_may_be_very_long
                endless_delay_is_very_long
                event_is_not_taken_before_its_point_in_time
                delay_that_has_passed_is_none
                taken_event_has_no_schedule
            }
            envelopes {
                every_field_comes_back
                defaults_come_back
                empty_text_is_not_none
                longest_fields_come_back
                json_comes_back_byte_for_byte
                every_byte_comes_back
                no_bytes_come_back_as_no_bytes
                largest_payload_comes_back
                headers_and_context_stay_apart
                occurred_at_comes_back_exactly
                key_comes_back
                keys_and_aggregates_compare_by_bytes
            }
            takes {
                earliest_available_is_taken_first
                ties_are_taken_by_number
                new_events_and_retries_stand_in_one_line
                no_more_is_taken_than_asked_for
                empty_store_has_nothing_due
                short_batch_tells_when_the_next_is_due
                short_batch_tells_when_a_lease_ends
                done_and_dead_events_are_not_taken
                concurrent_takes_are_disjoint
                leased_event_is_taken_by_nobody
                take_records_start_and_owner
                recent_events_are_skipped
                endless_skip_takes_nothing
                undecodable_row_disturbs_no_other
                undecodable_row_can_be_settled
                take_with_too_long_a_lease_is_refused
            }
            leases {
                ended_lease_can_be_taken_again
                ended_lease_keeps_the_due_time
                renewed_lease_is_held
                renewal_counts_from_now
                renewal_reports_lost_leases
                many_leases_are_renewed_at_once
                renewal_for_too_long_is_refused
                implausible_lease_is_swept
                sweep_takes_nothing_else
                resume_ends_leases_of_earlier_incarnations
                resume_leaves_its_own_leases
                resume_leaves_other_names
                resume_of_nothing_is_nothing
            }
            read_backs {
                committed_events_are_read_back
                many_events_are_read_back_at_once
                uncommitted_events_are_not_read_back
                rolled_back_events_are_not_read_back
                events_of_others_are_not_read_back
                event_taken_by_another_is_not_read_back
                settled_event_is_not_read_back
            }
            settlements {
                done_is_recorded
                done_rows_can_be_deleted
                retry_is_recorded
                retry_is_not_taken_before_its_time
                spent_attempts_add_up
                unspent_attempts_are_not_counted
                aside_spends_nothing
                aside_ends
                dead_is_recorded
                released_event_is_as_before
                released_retry_stays_a_retry
                outcomes_restore_starts
                long_errors_are_cut
                batch_of_mixed_outcomes_is_recorded
                batch_spans_several_takes
                large_batch_is_recorded
                refused_settlement_applies_nothing
            }
            handlers {
                progress_of_handlers_comes_back
                progress_of_handlers_stays_until_done
                fallback_counts_its_attempt
                fallback_is_done_whatever_was_counted
                progress_of_handlers_survives_a_replay
                empty_error_keeps_the_last
            }
            revisions {
                progress_of_open_events_is_found
                progress_is_found_by_handler
                revised_event_can_be_taken
                revised_event_keeps_its_due_time
                leased_event_is_not_revised
                overslept_lease_cannot_undo_a_revision
                implausible_lease_keeps_nobody_from_revising
                revision_demands_what_was_told
                revised_dead_event_stays_dead
                refused_revision_replays_nothing
                many_events_are_revised_at_once
            }
            fences {
                stale_lease_cannot_settle
                lost_lease_cannot_delete
                ended_lease_settles_while_nobody_took_it
                forged_lease_cannot_settle
                untaken_event_cannot_be_settled
                batch_reports_only_the_lost
                done_is_final
                late_mark_does_not_revive_the_dead
                repeated_settlement_counts_once
                attempts_are_absolute
                concurrent_settlements_apply_once
                repeated_settlement_does_not_disturb_the_next
                replayed_event_is_not_settled_by_its_old_lease
            }
            operations {
                replay_makes_dead_events_pending
                only_dead_events_are_replayed_or_discarded
                dead_events_are_replayed_by_numbers
                many_dead_events_are_replayed_at_once
                discard_deletes_dead_events
                unknown_event_is_not_found
                events_of_an_aggregate_are_found
                dead_events_are_listed
                events_are_counted_by_status
                oldest_due_event_is_measured
                numbers_are_never_given_again
            }
            pauses {
                paused_route_stays_paused
                paused_route_is_seen_elsewhere
                names_of_routes_are_kept
                one_of_several_operators_is_told
                recalled_event_can_be_taken
                nothing_else_is_recalled
                recall_goes_in_bounded_steps
            }
            outlines {
                events_are_outlined_by_number
                outlines_are_found_by_numbers
                many_outlines_are_found_at_once
                unreadable_row_is_outlined
            }
            purges {
                purge_deletes_old_done_events
                purge_keeps_events_that_were_done_recently
                endless_retention_deletes_nothing
                purge_leaves_pending_events
                purge_leaves_dead_events
                purge_deletes_dead_events_if_asked
                purge_keeps_dead_events_that_are_recent
                purge_goes_in_bounded_steps
                purge_ends_when_nothing_is_old_enough
            }
            wake_ups {
                write_elsewhere_wakes
                write_elsewhere_wakes_all_who_wait
                write_elsewhere_is_not_missed
                write_elsewhere_names_its_partitions
                announcement_of_all_names_all
                write_elsewhere_is_taken_here
            }
        }
    };
}

/// The same for the cases about owned partitions.
#[doc(hidden)]
#[macro_export]
macro_rules! ownership_list {
    ($then:ident $arguments:tt) => {
        $crate::$then! { $arguments;
            ownership_members {
                members_see_each_other
                silent_instance_is_no_member
                implausible_member_is_none
                instance_that_leaves_is_no_member
                restarted_instance_takes_over_its_own
                restart_finds_what_was_released_free
                repeated_join_changes_nothing
                replaced_instance_gets_nothing
                replaced_instance_stays_replaced
                replaced_instance_that_left_is_forgotten
                replaced_instance_is_forgotten_in_time
                latest_incarnation_is_current
                unnamed_instance_takes_over_nothing
                other_names_are_left_alone
                too_long_a_life_is_refused
            }
            ownership_leases {
                all_partitions_are_free_at_first
                partition_has_one_owner
                concurrent_acquisitions_are_disjoint
                released_partition_is_free_at_once
                epochs_grow
                implausible_owner_is_none
                heartbeat_renews_what_nobody_took
                heartbeat_counts_from_now
                heartbeat_tells_what_was_lost
                repeated_acquisition_changes_nothing
                late_release_changes_nothing
                floors_are_stored
                floor_of_an_earlier_owner_is_not_stored
                floor_above_all_numbers_is_forgotten
                crashes_are_counted
                partition_is_absolved
            }
            ownership_reads {
                fresh_events_are_read_in_order
                reading_writes_nothing
                fetch_starts_above_the_floor
                fetch_leaves_out_what_is_in_flight
                fetch_leaves_out_thousands_that_are_in_flight
                fetch_is_limited_by_partition
                only_visited_partitions_are_read
                settled_events_are_not_fresh
                delayed_event_is_read_with_its_wait
                undelayed_event_never_waits
                undecodable_event_is_read_with_its_key
                late_commit_is_found
                closed_number_rises
                given_number_is_behind_what_is_inserted_later
                events_below_the_floor_are_found
                rows_without_a_partition_are_adopted
                events_without_a_key_are_spread
            }
            ownership_asides {
                due_events_are_read_earliest_first
                due_tells_when_the_next_is
                due_leaves_out_what_is_in_flight
                due_is_limited_together
                endless_wait_ends_with_its_key
                events_of_a_key_are_read_in_runs
                keys_are_blocked_by_bytes
                key_is_blocked_by_what_is_set_aside
                blocked_keys_survive_their_owner
                delayed_event_stands_apart
                replayed_event_stands_apart
                event_without_a_key_blocks_nothing
                endless_wait_needs_a_key
            }
            ownership_parking {
                parked_event_is_dead_and_its_key_waits
                dead_event_releases_its_key
                parked_key_survives_its_owner
                replay_resumes_a_parked_key
                skip_frees_a_parked_key
                misplaced_key_is_skipped
                key_is_parked_in_each_of_its_partitions
                discard_frees_a_parked_key
                purge_leaves_parked_events
                key_is_parked_for_one_event
                event_without_a_key_parks_nothing
                resumed_key_can_be_parked_again
            }
            ownership_outcomes {
                owners_outcomes_are_recorded
                owners_batch_is_recorded
                lost_lease_is_told_among_many
                earlier_owner_records_nothing
                ended_owner_records_while_nobody_took_over
                owner_of_another_partition_records_nothing
                outcome_of_another_event_records_nothing
                endless_wait_of_another_event_is_lost
                repeated_outcome_counts_once
                repeated_park_does_not_undo_a_skip
                owners_attempts_are_absolute
                released_event_is_as_it_was_read
                start_is_counted_once
                start_is_fenced
                start_of_another_event_is_not_counted
                settled_event_is_not_started
            }
            handlers {
                owners_progress_of_handlers_comes_back
                owners_fallback_counts_its_attempt
                owners_fallback_is_done_whatever_was_counted
                owners_dead_event_keeps_its_progress
            }
            ownership_revisions {
                owner_cannot_undo_a_revision
                outcome_without_progress_keeps_a_revision
                repeated_progress_is_not_lost
                revised_event_is_due
                revised_follower_waits_for_its_key
                replay_by_a_revision_frees_its_key
                revision_of_a_parked_event_frees_nothing
            }
            ownership_pauses {
                recalled_event_is_due
                follower_is_not_recalled
                events_of_all_partitions_are_recalled
            }
            ownership_census {
                census_of_claims_has_no_partitions
                census_lists_the_instances
                census_leaves_out_who_was_replaced
                census_tells_who_owns_what
                census_marks_silent_instances
                census_believes_no_implausible_time
                census_counts_what_waits
                census_counts_events_without_a_partition
                census_tells_the_oldest_of_each_partition
                census_counts_blocked_and_parked_keys
            }
            ownership_modes {
                claims_are_the_first_mode
                take_is_refused_where_partitions_are_owned
                other_mode_is_refused
                mode_changes_when_the_others_are_gone
                heartbeat_of_the_other_mode_is_refused
                restarted_instance_may_change_the_mode
                change_of_mode_ends_takes
                change_of_mode_ends_ownership
            }
        }
    };
}

/// The tests for a list of cases; use [`conformance!`].
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    (($harness:expr); $($module:ident { $($case:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $case() {
                let harness = $harness;
                $crate::conformance::$module::$case(&harness).await;
            }
        )*)*
    };
}

#[cfg(test)]
mod tests {
    /// A case that is not in the list would be a promise that nobody checks.
    #[test]
    fn list_has_every_case() {
        let list = include_str!("suite.rs");
        let listed = |case: &str| list.lines().any(|line| line.trim() == case);
        for module in [
            include_str!("writes.rs"),
            include_str!("births.rs"),
            include_str!("envelopes.rs"),
            include_str!("takes.rs"),
            include_str!("leases.rs"),
            include_str!("read_backs.rs"),
            include_str!("settlements.rs"),
            include_str!("handlers.rs"),
            include_str!("revisions.rs"),
            include_str!("fences.rs"),
            include_str!("operations.rs"),
            include_str!("pauses.rs"),
            include_str!("outlines.rs"),
            include_str!("purges.rs"),
            include_str!("wake_ups.rs"),
            include_str!("ownership_members.rs"),
            include_str!("ownership_leases.rs"),
            include_str!("ownership_reads.rs"),
            include_str!("ownership_asides.rs"),
            include_str!("ownership_parking.rs"),
            include_str!("ownership_outcomes.rs"),
            include_str!("ownership_revisions.rs"),
            include_str!("ownership_pauses.rs"),
            include_str!("ownership_census.rs"),
            include_str!("ownership_modes.rs"),
        ] {
            let cases = module.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            let names = cases.map(|case| &case[..case.find(['(', '<']).unwrap()]);
            let missing: Vec<&str> = names.filter(|case| !listed(case)).collect();
            assert!(missing.is_empty(), "not in the list: {missing:?}");
        }
    }
}
