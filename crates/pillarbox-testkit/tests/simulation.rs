//! The engine keeps its promises whatever goes wrong: thousands of runs, each from a seed.
//!
//! A run that fails prints its seed and the command that repeats it.

use std::collections::BTreeMap;
use std::ops::Range;

use pillarbox::store::Mode;
use pillarbox_testkit::faulty::Then;
use pillarbox_testkit::sim::limits::Limits;
use pillarbox_testkit::sim::{self, Report, Script};

/// The command that repeats one seed with its whole trace.
const REPLAY: &str = "cargo test --release -p pillarbox-testkit --test simulation -- replay --nocapture";

const TRACED: Script = Script {
    mode: Mode::Claims,
    keep_trace: true,
    is_calm: false,
    death_at: None,
    fault_at: None,
    has_handlers: false,
    has_routes: false,
    limits: Limits::NONE,
    panicking: None,
};

/// What every thousand seeds must have met, or the simulation proves less than it says.
const MUST_HAPPEN: [&str; 42] = [
    "answers of the broker lost",
    "calls that never answer",
    "cancelled commits",
    "cancelled writes",
    "clock jumps",
    "closes",
    "closes in the middle of work",
    "cold queue full",
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
    "hangs",
    "hangs of the sink",
    "hot overflow",
    "inserts failed",
    "leases expired",
    "lost leases",
    "outcomes lost applied",
    "outcomes lost unapplied",
    "outcomes of locked rows",
    "panics",
    "panics of the sink",
    "read-backs failed",
    "releases",
    "renewals",
    "renewals failed",
    "renewals of locked rows",
    "replays",
    "resumed leases",
    "stale outcomes refused",
    "suspects taken",
    "takes lost",
    "time-outs",
    "unknown and committed",
    "unknown and rolled back",
];

/// What a fault in every call to the store must have met.
const FAULTS: [&str; 9] = [
    "calls that never answer",
    "commits lost applied",
    "commits lost unapplied",
    "commits rolled back",
    "inserts failed",
    "outcomes lost applied",
    "outcomes lost unapplied",
    "read-backs failed",
    "takes lost",
];

type Coverage = BTreeMap<&'static str, u64>;

fn add_up(coverage: &mut Coverage, more: Coverage) {
    for (what, times) in more {
        *coverage.entry(what).or_default() += times;
    }
}

fn assert_happened(coverage: &Coverage, expected: &[&str]) {
    let never: Vec<_> = expected.iter().filter(|what| !coverage.contains_key(*what)).collect();
    assert!(never.is_empty(), "never happened: {never:?}, but {coverage:#?}");
}

/// Runs seeds; panics with the first that fails, and with what never happened.
fn run_all(seeds: Range<u64>) {
    let mut coverage = Coverage::new();
    for seed in seeds {
        let report = sim::run(seed, Script::default());
        assert!(report.violations.is_empty(), "{report}repeat it with\n  PILLARBOX_SEED={seed} {REPLAY}");
        add_up(&mut coverage, report.coverage);
    }
    assert_happened(&coverage, &MUST_HAPPEN);
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

/// Runs what the program `simulate` can repeat.
fn run_by_program(seed: u64, script: Script) -> Report {
    let report = sim::run(seed, script);
    let command = "cargo run --release -p pillarbox-testkit --bin simulate -- --seed";
    assert!(report.violations.is_empty(), "{report}repeat it with\n  {command} {seed} {script}");
    report
}

/// What handlers must have met in so many seeds.
const HANDLERS_MUST_MEET: [&str; 12] = [
    "fallbacks that failed",
    "fallbacks that succeeded",
    "handlers cut off by the drain timeout",
    "handlers run while another was done",
    "handlers that succeeded twice",
    "leases lost between two handlers",
    "progress recorded",
    "progress recorded by a release",
    "progress recorded under a newer lease",
    "releases written again under a newer lease",
    "replays of some handlers only",
    "texts that others had overtaken",
];

/// L3, L4: nobody runs whose success the taker was told of, nor who has succeeded in the same living process, and neither
/// does his fallback; an event is done when all have succeeded, and dead when none is owed.
#[test]
fn promises_of_handlers_hold() {
    let mut coverage = Coverage::new();
    for seed in 0..4_000 {
        let report = run_by_program(seed, Script { has_handlers: true, ..Script::default() });
        add_up(&mut coverage, report.coverage);
    }
    assert_happened(&coverage, &HANDLERS_MUST_MEET);
}

/// What named sinks must have met in so many seeds.
const SINKS_MUST_MEET: [&str; 10] = [
    "all brokers down",
    "breakers half open",
    "breakers open",
    "events held back by a breaker",
    "events recalled",
    "events waiting for a paused route",
    "progress of sinks passed on to another process",
    "progress of sinks recorded",
    "sinks down while another had the event",
    "sinks that acknowledged twice",
];

/// L3, T5: no sink that has an event gets it again because another is down or rejects it; an event is done when each of its
/// sinks has it, and an outage spends nothing.
#[test]
fn promises_of_routes_hold() {
    let mut coverage = Coverage::new();
    for seed in 0..1_000 {
        let report = run_by_program(seed, Script { has_routes: true, ..Script::default() });
        add_up(&mut coverage, report.coverage);
    }
    assert_happened(&coverage, &SINKS_MUST_MEET);
}

/// Runs `script` for 1, 2, 3 and so on until what it plans does not come about any more, so that it has come
/// about everywhere. Returns how often it did.
fn sweep(seed: u64, planned: &str, coverage: &mut Coverage, script: impl Fn(u64) -> Script) -> u64 {
    let mut times = 0;
    loop {
        let script = script(times + 1);
        let report = sim::run(seed, script);
        assert!(report.violations.is_empty(), "{script:?}\n{report}");
        if !report.coverage.contains_key(planned) {
            return times;
        }
        assert_eq!(report.coverage[planned], 1, "{script:?}\n{report}");
        add_up(coverage, report.coverage);
        times += 1;
    }
}

/// D11, Q3: a process may die at every await of its tasks, one after the other, to the last of the run.
#[test]
fn death_at_every_await_loses_nothing() {
    let mut coverage = Coverage::new();
    for seed in 0..16 {
        let calm = Script { is_calm: true, ..Script::default() };

        let deaths = sweep(seed, "death", &mut coverage, |poll| Script { death_at: Some(poll), ..calm });

        assert!(deaths >= 30, "seed {seed} has {deaths} awaits only");
    }
    assert!(coverage["death"] >= 2_000, "{coverage:#?}");
    assert_happened(
        &coverage,
        &["duplicates with a cause", "leases expired", "resumed leases", "suspects taken"],
    );
}

/// W13, S10, D11, Q3: every call to the store fails once, before and after it took effect, or never answers.
#[test]
fn fault_in_every_store_call_loses_nothing() {
    let mut coverage = Coverage::new();
    for seed in 0..10 {
        let calm = Script { is_calm: true, ..Script::default() };

        let calls = [Then::FailBefore, Then::FailAfter, Then::RollBack, Then::Hang].map(|then| {
            let script = |call| Script { fault_at: Some((call, then)), ..calm };
            sweep(seed, "scripted faults", &mut coverage, script)
        });

        assert!(calls[0] > 0, "seed {seed} calls the store never");
        assert_eq!(calls, [calls[0]; 4], "seed {seed} is not the same up to the fault");
    }
    assert!(coverage["scripted faults"] >= 2_000, "{coverage:#?}");
    assert_happened(&coverage, &FAULTS);
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
