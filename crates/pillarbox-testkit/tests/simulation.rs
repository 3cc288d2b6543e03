//! The engine keeps its promises whatever goes wrong: thousands of runs, each from a seed.
//!
//! A run that fails prints its seed and the command that repeats it.

use std::collections::BTreeMap;
use std::ops::Range;

use pillarbox_testkit::faulty::Then;
use pillarbox_testkit::sim::{self, Script};

/// The command that repeats one seed with its whole trace.
const REPLAY: &str = "cargo test -p pillarbox-testkit --test simulation -- replay --nocapture";

const TRACED: Script = Script { keep_trace: true, is_calm: false, death_at: None, fault_at: None };

/// What every thousand seeds must have met, or the simulation proves less than it says.
const MUST_HAPPEN: [&str; 32] = [
    "answers of the broker lost",
    "calls that never answer",
    "cancelled commits",
    "cancelled writes",
    "clock jumps",
    "closes",
    "commits lost applied",
    "commits lost unapplied",
    "commits rolled back",
    "dead by starts",
    "death",
    "death by poison",
    "drain cut-offs",
    "duplicates with a cause",
    "events in runs",
    "ghosts prevented by the read-back",
    "hot overflow",
    "inserts failed",
    "leases expired",
    "lost leases",
    "outcomes lost applied",
    "outcomes lost unapplied",
    "panics",
    "read-backs failed",
    "releases",
    "renewals",
    "renewals failed",
    "replays",
    "resumed leases",
    "stale outcomes refused",
    "suspects taken",
    "takes lost",
];

/// Runs seeds; panics with the first that fails, and with what never happened.
fn run_all(seeds: Range<u64>) {
    let mut coverage: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in seeds {
        let report = sim::run(seed, Script::default());
        assert!(report.violations.is_empty(), "{report}repeat it with\n  PILLARBOX_SEED={seed} {REPLAY}");
        for (what, times) in report.coverage {
            *coverage.entry(what).or_default() += times;
        }
    }
    let never: Vec<_> = MUST_HAPPEN.iter().filter(|what| !coverage.contains_key(*what)).collect();
    assert!(never.is_empty(), "never happened: {never:?}, but {coverage:#?}");
}

/// W1, W5, W7, W13, S10, D3, D8, D10, D11, D12, P2, P4, Q3: nothing lost, no ghost, no false DONE, no
/// duplicate without a cause.
#[test]
fn promises_hold_in_the_first_thousand_seeds() {
    run_all(0..1_000);
}

/// As above.
#[test]
fn promises_hold_in_the_second_thousand_seeds() {
    run_all(1_000..2_000);
}

/// As above.
#[test]
fn promises_hold_in_the_third_thousand_seeds() {
    run_all(2_000..3_000);
}

/// As above.
#[test]
fn promises_hold_in_the_fourth_thousand_seeds() {
    run_all(3_000..4_000);
}

/// D11, Q3: a process may die at every await of its tasks, one after the other.
#[test]
fn death_at_every_await_loses_nothing() {
    for seed in 0..4 {
        for poll in 1..=400 {
            let script = Script { is_calm: true, death_at: Some(poll), ..Script::default() };

            let report = sim::run(seed, script);

            assert!(report.violations.is_empty(), "{script:?}\n{report}");
        }
    }
}

/// W13, S10, D11, Q3: every call to the store fails once, before and after it took effect, or never answers.
#[test]
fn fault_in_every_store_call_loses_nothing() {
    for seed in 0..3 {
        for call in 1..=120 {
            for then in [Then::FailBefore, Then::FailAfter, Then::RollBack, Then::Hang] {
                let script = Script { is_calm: true, fault_at: Some((call, then)), ..Script::default() };

                let report = sim::run(seed, script);

                assert!(report.violations.is_empty(), "{script:?}\n{report}");
            }
        }
    }
}

/// Q3: with no fault there are no duplicates but those of listeners that are too slow for their limits.
#[test]
fn without_faults_every_event_arrives_once() {
    for seed in 0..300 {
        let calm = Script { is_calm: true, ..Script::default() };

        let report = sim::run(seed, calm);

        let cut = ["time-outs", "drain cut-offs"].iter().filter_map(|what| report.coverage.get(what)).sum();
        assert!(report.violations.is_empty(), "{report}");
        assert!(report.balance.duplicates <= cut, "{cut} were cut off\n{report}");
    }
}

/// What cannot be repeated cannot be mended.
#[test]
fn same_seed_gives_the_same_trace() {
    for seed in 0..100 {
        let (first, second) = (sim::run(seed, TRACED), sim::run(seed, TRACED));

        let differs = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.trace.len(), second.trace.len(), "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

#[test]
fn other_seeds_give_other_traces() {
    assert_ne!(sim::run(1, Script::default()).trace_hash, sim::run(2, Script::default()).trace_hash);
}

/// Repeats the seed in `PILLARBOX_SEED`, 0 by default, and prints its trace.
#[test]
fn replay() {
    let seed = std::env::var("PILLARBOX_SEED").map_or(0, |seed| seed.parse().expect("a seed is a number"));

    let report = sim::run(seed, TRACED);

    println!("{report}");
    assert!(report.violations.is_empty(), "seed {seed} fails");
}

/// Runs as many seeds as `PILLARBOX_SEEDS` says, from `PILLARBOX_SEED` on: for long nights.
#[test]
fn promises_hold_in_as_many_seeds_as_asked_for() {
    let number = |name| std::env::var(name).map_or(0, |value| value.parse().expect("a number"));
    let (first, count): (u64, u64) = (number("PILLARBOX_SEED"), number("PILLARBOX_SEEDS"));

    for seed in first..first + count {
        let report = sim::run(seed, Script::default());
        assert!(report.violations.is_empty(), "{report}repeat it with\n  PILLARBOX_SEED={seed} {REPLAY}");
    }
}
