//! Runs the simulation over many seeds, or one seed with its whole trace.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pillarbox::store::Mode;
use pillarbox_testkit::sim::limits::Limits;
use pillarbox_testkit::sim::{self, Panicking, Report, Script};

const USAGE: &str = "\
Runs the real engine in simulated time, with faults, from seeds.

Usage: simulate [--seeds N] [--from N] [--mode MODE] [--limits LIMITS] [--handlers | --routes] [--mutant NAME]
                [--panic WHO] [--keep-going] [--coverage]
       simulate --seed N [--mode MODE] [--limits LIMITS] [--handlers | --routes] [--mutant NAME] [--panic WHO]

  --seeds N        how many seeds to run; default 1000
  --from N         the first of them; default 0
  --seed N         runs this one and prints all that happens in it
  --mode MODE      ownership (default): several instances own partitions; claims: one after the other claims rows
  --limits LIMITS  the most that a run may have, as in `keys=1,freezes=0`; only where partitions are owned
  --handlers       events go to handlers in every seed; without it in one of six
  --routes         events go by routes to named sinks in every seed; without it in one of eight
  --mutant NAME    switches a deliberate bug on, in a build with `--cfg pillarbox_mutant`; `list` names them
  --panic WHO      somebody panics in every seed, which must make it fail: a `task` of a process, or the `simulation`
  --keep-going     runs all seeds, though one has failed
  --coverage       prints how often everything happened that a simulation is made for
  -h, --help       prints this

A seed that fails prints what it decided and the command that repeats it. The first of them is made smaller: the
command has the lowest limits under which it still fails. The exit code is 1 if one failed, or if in
two thousand seeds or more something never happened that must; 2 for wrong usage.

Examples:
  cargo run --release -p pillarbox-testkit --bin simulate -- --seeds 20000
  cargo run --release -p pillarbox-testkit --bin simulate -- --seed 17
";

/// From so many seeds on everything must have happened that a simulation is made for.
const ENOUGH: u64 = 2_000;
/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);

struct Arguments {
    first: u64,
    seeds: u64,
    /// One seed with its trace.
    replay: Option<u64>,
    mode: Mode,
    limits: Limits,
    has_handlers: bool,
    has_routes: bool,
    mutant: Option<String>,
    panicking: Option<Panicking>,
    keeps_going: bool,
    shows_coverage: bool,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            say(USAGE);
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            warn(&format!("simulate: {wrong}\n\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    if let Err(wrong) = switch::on(arguments.mutant.as_deref()) {
        warn(&format!("simulate: {wrong}\n"));
        return ExitCode::from(2);
    }
    let is_well = match arguments.replay {
        Some(seed) => replay(&arguments, seed),
        None => run_all(&arguments),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What was asked for; nothing if that is the usage.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut arguments = Arguments {
        first: 0,
        seeds: 1_000,
        replay: None,
        mode: Mode::Ownership,
        limits: Limits::NONE,
        has_handlers: false,
        has_routes: false,
        mutant: None,
        panicking: None,
        keeps_going: false,
        shows_coverage: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "-h" | "--help" => return Ok(None),
            "--keep-going" => arguments.keeps_going = true,
            "--coverage" => arguments.shows_coverage = true,
            "--handlers" => arguments.has_handlers = true,
            "--routes" => arguments.has_routes = true,
            "--seeds" => arguments.seeds = number(&word, &value()?)?,
            "--from" => arguments.first = number(&word, &value()?)?,
            "--seed" => arguments.replay = Some(number(&word, &value()?)?),
            "--mutant" => arguments.mutant = Some(value()?),
            "--panic" => arguments.panicking = Some(value()?.parse()?),
            "--limits" => arguments.limits = value()?.parse()?,
            "--mode" => {
                arguments.mode = match value()?.as_str() {
                    "claims" => Mode::Claims,
                    "ownership" => Mode::Ownership,
                    other => return Err(format!("there is no mode `{other}`; use `claims` or `ownership`")),
                };
            }
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    if arguments.has_handlers && arguments.has_routes {
        return Err("`--handlers` and `--routes` exclude each other".to_owned());
    }
    if arguments.mode != Mode::Ownership && arguments.limits != Limits::NONE {
        return Err("`--limits` needs `--mode ownership`".to_owned());
    }
    Ok(Some(arguments))
}

impl Arguments {
    fn script(&self) -> Script {
        let Self { mode, limits, has_handlers, has_routes, panicking, .. } = *self;
        Script { mode, limits, has_handlers, has_routes, panicking, ..Script::default() }
    }

    /// The command that repeats a seed within these limits.
    fn command(&self, seed: u64, limits: Limits) -> String {
        let script = Script { limits, ..self.script() };
        let mutant = self.mutant.as_ref().map(|name| format!(" --mutant {name}")).unwrap_or_default();
        format!("{}{seed} {script}{mutant}", switch::COMMAND)
    }
}

fn number(option: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("`{option}` is `{value}`: it must be a number"))
}

/// One seed with its whole trace.
fn replay(arguments: &Arguments, seed: u64) -> bool {
    let report = sim::run(seed, Script { keep_trace: true, ..arguments.script() });
    say(&format!("{report}"));
    report.violations.is_empty()
}

/// All seeds, on all cores.
fn run_all(arguments: &Arguments) -> bool {
    let begun = Instant::now();
    let (next, done) = (AtomicU64::new(arguments.first), AtomicU64::new(0));
    let end = arguments.first.saturating_add(arguments.seeds);
    let coverage = Mutex::new(BTreeMap::<&'static str, u64>::new());
    let failed = Mutex::new(Vec::<Report>::new());
    let is_over = || !arguments.keeps_going && !failed.lock().expect("no worker panics").is_empty();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            // Known to be there, for the main thread has switched it on.
            let _ = switch::on(arguments.mutant.as_deref());
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end || is_over() {
                    return;
                }
                let mut report = sim::run(seed, arguments.script());
                for (what, times) in std::mem::take(&mut report.coverage) {
                    *coverage.lock().expect("no worker panics").entry(what).or_default() += times;
                }
                if !report.violations.is_empty() {
                    failed.lock().expect("no worker panics").push(report);
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let working: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let is_over = || is_over() || working.iter().all(|worker| worker.is_finished());
        show_progress(arguments, &done, &is_over, begun);
    });
    let failed = failed.into_inner().expect("no worker panics");
    sum_up(arguments, done.into_inner(), begun.elapsed(), &failed);
    let coverage = coverage.into_inner().expect("no worker panics");
    if arguments.shows_coverage {
        for (what, times) in &coverage {
            say(&format!("{times:>12}  {what}\n"));
        }
    }
    failed.is_empty() && has_met_all(arguments, &coverage)
}

/// Whether everything happened that must, if so many seeds were run that it should have.
fn has_met_all(arguments: &Arguments, coverage: &BTreeMap<&'static str, u64>) -> bool {
    if arguments.seeds < ENOUGH || arguments.mode != Mode::Ownership {
        return true;
    }
    let never: Vec<_> =
        sim::coverage::OWNERSHIP.iter().filter(|what| !coverage.contains_key(*what)).collect();
    if !never.is_empty() {
        say(&format!("never happened: {never:?}\n"));
    }
    never.is_empty()
}

fn show_progress(arguments: &Arguments, done: &AtomicU64, is_over: &dyn Fn() -> bool, begun: Instant) {
    const WIDTH: u64 = 40;
    let is_shown = std::io::stderr().is_terminal();
    loop {
        let count = done.load(Ordering::Relaxed);
        if is_shown {
            let filled = (WIDTH * count).checked_div(arguments.seeds).unwrap_or(WIDTH);
            let bar: String = (0..WIDTH).map(|place| if place < filled { '#' } else { '.' }).collect();
            let seconds = begun.elapsed().as_secs();
            warn(&format!("\r[{bar}] {count} of {} seeds, {seconds} s", arguments.seeds));
        }
        if count >= arguments.seeds || is_over() {
            break;
        }
        std::thread::sleep(SHOW_EVERY);
    }
    if is_shown {
        warn("\n");
    }
}

fn sum_up(arguments: &Arguments, done: u64, took: Duration, failed: &[Report]) {
    for report in failed {
        say(&format!("{report}repeat it with\n  {}\n", arguments.command(report.seed, arguments.limits)));
    }
    if let Some(Report { seed, .. }) = failed.first() {
        let limits = sim::shrink(*seed, arguments.script());
        let smallest = sim::run(*seed, Script { limits, ..arguments.script() });
        say(&format!("\nmade smaller\n{smallest}repeat it with\n  {}\n", arguments.command(*seed, limits)));
    }
    let each = took.as_secs_f64() * 1_000.0 / done.max(1) as f64;
    let seconds = took.as_secs_f64();
    say(&format!("{done} seeds in {seconds:.1} s ({each:.2} ms each), {} failed\n", failed.len()));
}

fn say(text: &str) {
    // Whoever does not want to hear it has closed the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn warn(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Deliberate bugs, where they can be had.
#[cfg(pillarbox_mutant)]
mod switch {
    use pillarbox::{Mutant, switch_on};

    pub(super) const COMMAND: &str = "RUSTFLAGS='--cfg pillarbox_mutant' cargo run --release --target-dir target/mutants -p pillarbox-testkit --bin simulate -- --seed ";

    pub(super) fn on(name: Option<&str>) -> Result<(), String> {
        let of_receivers = || Mutant::OF_HANDLERS.into_iter().chain(Mutant::OF_ROUTES);
        let all = || Mutant::OF_OWNERSHIP.into_iter().chain(Mutant::OF_CLAIMS).chain(of_receivers());
        let Some(name) = name else { return Ok(()) };
        let mutant = all().find(|mutant| format!("{mutant:?}") == name);
        switch_on(Some(mutant.ok_or_else(|| {
            let names: Vec<String> = all().map(|mutant| format!("{mutant:?}")).collect();
            format!("there is no deliberate bug `{name}`; there are: {}", names.join(", "))
        })?));
        Ok(())
    }
}

#[cfg(not(pillarbox_mutant))]
mod switch {
    pub(super) const COMMAND: &str = "cargo run --release -p pillarbox-testkit --bin simulate -- --seed ";

    pub(super) fn on(name: Option<&str>) -> Result<(), String> {
        match name {
            None => Ok(()),
            Some(_) => {
                Err("this build has no deliberate bugs; build with RUSTFLAGS='--cfg pillarbox_mutant'"
                    .to_owned())
            }
        }
    }
}
