//! Deliberate bugs are caught: each is switched on, and the simulation must find it within a thousand seeds.
//!
//! They exist under `--cfg pillarbox_mutant` only, in a build of its own (`scripts/test mutants`).

use pillarbox_testkit::sim::{self, Script};

/// Within so many seeds each deliberate bug is found.
const SEEDS: u64 = 1_000;

#[cfg(not(pillarbox_mutant))]
mod no_mutants {
    pub(crate) struct Mutant;
}

/// None can be switched on, for there is no switch, and none is on: it would be found in these seeds.
#[cfg(not(pillarbox_mutant))]
#[test]
fn deliberate_bugs_are_absent_from_this_build() {
    // Ambiguous, and so refused by the compiler, if the library exports one too.
    use no_mutants::*;
    #[expect(unused_imports, reason = "the library must have nothing to import")]
    use pillarbox::*;
    let _ = Mutant;

    for seed in 0..SEEDS {
        let report = sim::run(seed, Script::default());

        assert!(report.violations.is_empty(), "{report}");
    }
}

#[cfg(pillarbox_mutant)]
mod mutants {
    use pillarbox::store::Mode;
    use pillarbox::{Mutant, switch_on};

    use super::*;

    /// The first violation that the simulation of rows that are claimed finds with `mutant` switched on.
    fn caught(mutant: Mutant) -> String {
        caught_in(mutant, Script::default())
    }

    /// The first violation that the simulation of partitions that are owned finds with `mutant` switched on.
    fn caught_among_owners(mutant: Mutant) -> String {
        caught_in(mutant, Script { mode: Mode::Ownership, ..Script::default() })
    }

    /// The first violation that the simulation of handlers finds with `mutant` switched on.
    fn caught_among_handlers(mutant: Mutant, mode: Mode) -> String {
        caught_in(mutant, Script { mode, has_handlers: true, ..Script::default() })
    }

    /// The first violation that the simulation of routes finds with `mutant` switched on.
    fn caught_among_routes(mutant: Mutant, mode: Mode) -> String {
        caught_in(mutant, Script { mode, has_routes: true, ..Script::default() })
    }

    fn caught_in(mutant: Mutant, script: Script) -> String {
        switch_on(Some(mutant));
        let found = (0..SEEDS).find_map(|seed| {
            let report = sim::run(seed, script);
            let violation = report.violations.first().cloned();
            violation.map(|violation| format!("seed {seed}: {violation}"))
        });
        switch_on(None);
        found.unwrap_or_else(|| panic!("{mutant:?} survives {SEEDS} seeds"))
    }

    /// Without this the rest proves nothing.
    #[test]
    fn without_a_deliberate_bug_nothing_is_caught() {
        for seed in 0..300 {
            let report = sim::run(seed, Script::default());
            assert!(report.violations.is_empty(), "{report}");

            let report = sim::run(seed, Script { mode: Mode::Ownership, ..Script::default() });
            assert!(report.violations.is_empty(), "{report}");
        }
        for seed in 0..100 {
            for mode in [Mode::Claims, Mode::Ownership] {
                let report = sim::run(seed, Script { mode, has_handlers: true, ..Script::default() });
                assert!(report.violations.is_empty(), "{report}");

                let report = sim::run(seed, Script { mode, has_routes: true, ..Script::default() });
                assert!(report.violations.is_empty(), "{report}");
            }
        }
    }

    /// S10
    #[test]
    fn missing_fence_is_caught() {
        assert!(caught(Mutant::NoFence).contains("without the lease"));
    }

    /// D3
    #[test]
    fn mark_before_delivery_is_caught() {
        assert!(caught(Mutant::MarkBeforeDelivery).contains("false done"));
    }

    /// D8
    #[test]
    fn forgotten_release_is_caught() {
        assert!(caught(Mutant::ReleaseForgotten).contains("still leased after a clean close"));
    }

    /// T1, P3
    #[test]
    fn retry_before_its_time_is_caught() {
        assert!(caught(Mutant::RetryBeforeItsTime).contains("before its time"));
    }

    /// W1, W5
    #[test]
    fn hot_path_before_commit_is_caught() {
        assert!(caught(Mutant::HotBeforeCommit).contains("its row is not in the table"));
    }

    /// W13
    #[test]
    fn hot_path_without_reading_back_is_caught() {
        assert!(caught(Mutant::HotWithoutReadBack).contains("its row is not in the table"));
    }

    /// S10
    #[test]
    fn lease_from_the_start_of_the_transaction_is_caught() {
        assert!(caught(Mutant::LeaseFromTransactionStart).contains("before its lease ended"));
    }

    /// D3, D12
    #[test]
    fn attempts_written_for_a_whole_batch_are_caught() {
        assert!(caught(Mutant::AttemptsForWholeBatch).contains("attempts"));
    }

    /// O5
    #[test]
    fn missing_epoch_check_is_caught() {
        assert!(caught_among_owners(Mutant::NoEpochCheck).contains("without the lease"));
    }

    /// O5, S10
    #[test]
    fn missing_comparison_of_ids_is_caught() {
        assert!(caught_among_owners(Mutant::NoIdCheck).contains("is not in the table, but"));
    }

    /// O5, D8
    #[test]
    fn hand_over_without_drain_is_caught() {
        assert!(caught_among_owners(Mutant::HandOverWithoutDrain).contains("was given back while"));
    }

    /// O5
    #[test]
    fn heartbeat_on_the_delivery_task_is_caught() {
        assert!(caught_among_owners(Mutant::HeartbeatOnTheDeliveryTask).contains("cut off without a reason"));
    }

    /// O1, O3
    #[test]
    fn order_by_id_across_instances_is_caught() {
        let violation = caught_among_owners(Mutant::OrderByIdAcrossInstances);

        assert!(violation.contains("overtakes") || violation.contains("in a wrong partition"), "{violation}");
    }

    /// O2
    #[test]
    fn retry_that_lets_a_later_event_pass_is_caught() {
        assert!(caught_among_owners(Mutant::RetryLetsALaterEventPass).contains("overtakes"));
    }

    /// No loss
    #[test]
    fn skipped_late_commit_is_caught() {
        assert!(caught_among_owners(Mutant::LateCommitSkipped).contains("below the floor"));
    }

    /// No loss
    #[test]
    fn floor_by_the_oldest_identity_is_caught() {
        assert!(caught_among_owners(Mutant::FloorByXmin).contains("below the floor"));
    }

    /// No loss; before it is found by the floor, order may be lost by it.
    #[test]
    fn floor_by_the_youngest_identity_is_caught() {
        let violation = caught_among_owners(Mutant::FloorByXmax);

        assert!(violation.contains("below the floor") || violation.contains("overtakes"), "{violation}");
    }

    /// No loss
    #[test]
    fn replay_below_the_floor_is_caught() {
        assert!(caught_among_owners(Mutant::ReplayBelowTheFloor).contains("below the floor"));
    }

    /// O2, O6: what waits in memory holds the floor, or leaves no room for others.
    #[test]
    fn blocked_key_that_holds_the_floor_is_caught() {
        let violation = caught_among_owners(Mutant::BlockedKeyHoldsTheFloor);

        assert!(violation.contains("the floor of") || violation.contains("still pend"), "{violation}");
    }

    /// O3, O5
    #[test]
    fn hot_path_past_the_owner_is_caught() {
        assert!(caught_among_owners(Mutant::HotPathPastTheOwner).contains("does not own"));
    }

    /// O5
    #[test]
    fn stale_death_after_a_take_over_is_caught() {
        let violation = caught_among_owners(Mutant::StaleDeadAfterTakeOver);

        // Where a failover took the event back meanwhile, the outcome is for a number that another event may have.
        let is_stale =
            violation.contains("without the lease") || violation.contains("is not in the table, but");
        assert!(is_stale, "{violation}");
    }

    /// D11
    #[test]
    fn poison_that_takes_its_neighbours_along_is_caught() {
        assert!(caught_among_owners(Mutant::PoisonTakesNeighboursAlong).contains("starts"));
    }

    /// O1
    #[test]
    fn delay_by_the_clock_is_caught() {
        assert!(caught_among_owners(Mutant::DelayByTheClock).contains("overtakes"));
    }

    /// O1
    #[test]
    fn read_on_past_the_horizon_is_caught() {
        assert!(caught_among_owners(Mutant::ReadOnPastTheHorizon).contains("overtakes"));
    }

    /// O6
    #[test]
    fn park_forgotten_on_restart_is_caught() {
        assert!(caught_among_owners(Mutant::ParkForgottenOnRestart).contains("is parked"));
    }

    /// L3
    #[test]
    fn progress_that_is_not_recorded_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            assert!(
                caught_among_handlers(Mutant::ProgressForgotten, mode).contains("was recorded, but None")
            );
        }
    }

    /// L3, D8
    #[test]
    fn release_that_forgets_progress_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_handlers(Mutant::ReleaseForgetsProgress, mode);

            assert!(
                violation.contains("succeeded twice, and nothing went wrong")
                    || violation.contains("where it has succeeded"),
                "{violation}"
            );
        }
    }

    /// L4
    #[test]
    fn success_that_is_not_remembered_is_caught() {
        let violation = caught_among_handlers(Mutant::SuccessForgotten, Mode::Ownership);

        assert!(violation.contains("where it has succeeded"), "{violation}");
    }

    /// L4
    #[test]
    fn fallback_that_asks_nobody_is_caught() {
        let violation = caught_among_handlers(Mutant::FallbackUnasked, Mode::Ownership);

        assert!(violation.contains("where it has succeeded"), "{violation}");
    }

    /// L4
    #[test]
    fn fallback_at_every_failure_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_handlers(Mutant::FallbackAtEveryFailure, mode);

            let is_named =
                violation.contains("not failed for good") || violation.contains("was not given up");
            assert!(is_named, "{violation}");
        }
    }

    /// L4
    #[test]
    fn fallback_that_does_not_count_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            assert!(caught_among_handlers(Mutant::FallbackUncounted, mode).contains("was not given up"));
        }
    }

    /// L3, L4
    #[test]
    fn fallback_without_an_attempt_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_handlers(Mutant::FallbackUnspent, mode);

            assert!(violation.contains("counts no attempt"), "{violation}");
        }
    }

    /// L3
    #[test]
    fn death_while_one_is_owed_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            assert!(caught_among_handlers(Mutant::DeadWhileOwed, mode).contains("was recorded, but Some"));
        }
    }

    /// L3, A1
    #[test]
    fn replay_of_all_handlers_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_handlers(Mutant::ReplayOfAll, mode);

            let is_named =
                violation.contains("took it as done") || violation.contains("where it has succeeded");
            assert!(is_named, "{violation}");
        }
    }

    /// L3, S5: what is found is what follows from it, an event in two hands or a delivery past the watchdog.
    #[test]
    fn handlers_without_a_lease_are_caught() {
        let violation = caught_among_handlers(Mutant::HandlersUnderOneLease, Mode::Claims);
        let is_named = violation.contains("without a lease") || violation.contains("succeeded twice");
        assert!(is_named, "{violation}");

        let violation = caught_among_handlers(Mutant::HandlersUnderOneLease, Mode::Ownership);
        let is_named = violation.contains("does not own") || violation.contains("cut off without a reason");
        assert!(is_named, "{violation}");
    }
    /// L3, T5
    #[test]
    fn sinks_that_are_forgotten_are_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_routes(Mutant::SinksForgotten, mode);

            let is_named = violation.contains("was recorded, but None")
                || violation.contains("where it has succeeded")
                || violation.contains("succeeded twice");
            assert!(is_named, "{violation}");
        }
    }

    /// L3, T5
    #[test]
    fn done_while_a_sink_is_down_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_routes(Mutant::DoneWhileOneIsDown, mode);

            assert!(violation.contains("recorded as done, and never succeeded"), "{violation}");
        }
    }

    /// T5
    #[test]
    fn outage_that_spends_is_caught() {
        for mode in [Mode::Claims, Mode::Ownership] {
            let violation = caught_among_routes(Mutant::OutageSpends, mode);

            assert!(violation.contains("spent attempt"), "{violation}");
        }
    }

    /// M5
    #[test]
    fn pause_that_is_ignored_is_caught() {
        let violation = caught_among_routes(Mutant::PauseIgnored, Mode::Ownership);

        assert!(violation.contains("is paused"), "{violation}");
    }
}
