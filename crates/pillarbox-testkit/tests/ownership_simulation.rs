//! Several instances that own partitions keep their promises whatever goes wrong: hundreds of runs, each from a seed.
//!
//! `cargo run --release -p pillarbox-testkit --bin simulate -- --seeds 20000` runs many more, faster.

use std::collections::BTreeMap;

use pillarbox::store::Mode;
use pillarbox_testkit::sim::{self, Report, Script};

/// The command that repeats one seed with its whole trace.
const REPLAY: &str = "cargo run --release -p pillarbox-testkit --bin simulate -- --seed";

const FLEET: Script =
    Script { mode: Mode::Ownership, keep_trace: false, is_calm: false, death_at: None, fault_at: None };

/// What every few hundred seeds must have met; the program asks for more, and runs more.
const MUST_HAPPEN: [&str; 14] = [
    "death by poison",
    "duplicates with a cause",
    "events aside behind their key",
    "freezes past the lease",
    "hand-overs with work in flight",
    "heartbeats lost applied",
    "keys parked",
    "late commits",
    "parked keys resumed",
    "partitions inherited",
    "partitions taken over",
    "reads by one of two who both believe they own",
    "unknown and committed",
    "unknown and rolled back",
];

fn run(seed: u64, script: Script) -> Report {
    let report = sim::run(seed, script);
    assert!(report.violations.is_empty(), "{report}repeat it with\n  {REPLAY} {seed}");
    report
}

/// O1, O2, O4, O5, O6, D8, D11, Q3: nothing lost, no ghost, no false DONE, no duplicate without a cause, nobody
/// overtaken, one owner at a time.
#[test]
fn promises_of_owners_hold() {
    let mut coverage = BTreeMap::<&str, u64>::new();
    for seed in 0..400 {
        for (what, times) in run(seed, FLEET).coverage {
            *coverage.entry(what).or_default() += times;
        }
    }
    let never: Vec<_> = MUST_HAPPEN.iter().filter(|what| !coverage.contains_key(*what)).collect();
    assert!(never.is_empty(), "never happened: {never:?}, but {coverage:#?}");
}

/// Q3, O5: with no fault nobody loses a partition, and there are no duplicates but those of listeners that are too slow
/// for their limits and those that an operator asked for.
#[test]
fn without_faults_owners_deliver_every_event_once() {
    for seed in 0..100 {
        let report = run(seed, Script { is_calm: true, ..FLEET });

        let causes = ["time-outs", "drain cut-offs", "replays"];
        let cut = causes.iter().filter_map(|what| report.coverage.get(what)).sum();
        assert!(report.balance.duplicates <= cut, "{cut} were cut off\n{report}");
        assert_eq!(report.coverage.get("partitions taken over"), None, "{report}");
    }
}

/// What cannot be repeated cannot be mended.
#[test]
fn same_seed_gives_the_same_trace_of_a_fleet() {
    for seed in 0..20 {
        let traced = Script { keep_trace: true, ..FLEET };
        let (first, second) = (sim::run(seed, traced), sim::run(seed, traced));

        let differs = first.trace.iter().zip(&second.trace).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

/// D8, O5: seeds that failed before a bug was mended: 106 delivered what had been queued before its partition was lost,
/// the others did not give back what they had acquired as they closed.
#[test]
fn seeds_that_found_bugs_stay_well() {
    for seed in [106, 617, 837] {
        run(seed, FLEET);
    }
}
