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
    use pillarbox::{Mutant, switch_on};

    use super::*;

    /// The first violation that the simulation finds with `mutant` switched on.
    fn caught(mutant: Mutant) -> String {
        switch_on(Some(mutant));
        let found = (0..SEEDS).find_map(|seed| {
            let report = sim::run(seed, Script::default());
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
}
