//! The simulator: the real engine on a store with faults, in simulated time, from a seed.
//!
//! A run has three parts. First everything goes wrong that can: calls fail before and after their effect or
//! never answer, processes die at any of their awaits, the database's clock jumps, the database fails over and
//! takes commits back, listeners and sinks misbehave. Then the faults end, and everything that was committed
//! must end done or dead within a bounded time. At last an instance is closed in the middle of its work, and must
//! leave nothing behind.
//!
//! All the while each effect on the store is held against a model of the table, and each delivery against a
//! [`Ledger`](crate::ledger::Ledger). The same seed gives the same run.

mod application;
mod brokers;
mod cold_queue;
pub mod coverage;
mod failover;
mod fleet;
mod handlers;
mod hints;
mod instance;
mod judge;
pub mod limits;
mod line;
mod model;
mod operator;
mod options;
mod panic;
mod pauses;
mod process;
mod receivers;
mod rng;
mod shrink;
mod sinks;
mod standings;
mod supervisor;
mod tenancy;
mod turns;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use limits::Limits;
use options::Options;
use panic::{AS_ASKED, caught, caught_in};
use pillarbox::store::Mode;
use rng::Rng;
use world::World;

pub use panic::Panicking;
pub use shrink::shrink;

use crate::faulty::Then;
use crate::ledger::Balance;

/// In how many seeds of a thousand events go to handlers, unless they go to named sinks.
const HANDLED: u64 = 200;
/// How many violations of a run are shown: the others follow from them.
const SHOWN: usize = 5;

/// What a run came to.
#[derive(Debug)]
pub struct Report {
    /// The seed that it repeats from.
    pub seed: u64,
    /// What the seed decided, for people who read.
    pub options: String,
    /// What happened that must not; empty if all is well.
    pub violations: Vec<String>,
    /// What the ledger adds up to.
    pub balance: Balance,
    /// How often each thing happened that a simulation is made for.
    pub coverage: BTreeMap<&'static str, u64>,
    /// A hash of all that happened, in order.
    pub trace_hash: u64,
    /// All that happened, in order; empty unless asked for.
    pub trace: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {}: {}", self.seed, self.options)?;
        write!(f, "{}", self.balance)?;
        for violation in self.violations.iter().take(SHOWN) {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        if let Some(more) = self.violations.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(f, "and {more} more violations")?;
        }
        Ok(())
    }
}

/// What is to happen in a run besides what the seed decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Script {
    /// How work is taken: by one instance after the other that claim rows, or by several that own partitions.
    pub mode: Mode,
    /// Keep the whole trace for the report.
    pub keep_trace: bool,
    /// Nothing goes wrong but what stands here.
    pub is_calm: bool,
    /// The first process dies when its tasks are polled for this time; `death` in the coverage of a calm run
    /// says whether it lived to see it.
    pub death_at: Option<u64>,
    /// The call to the store with this number, counted from 1, goes like this; `scripted faults` in the
    /// coverage says whether there was one.
    pub fault_at: Option<(u64, Then)>,
    /// Events go to handlers, whatever the seed decides.
    pub has_handlers: bool,
    /// Events go by routes to named sinks, whatever the seed decides; not where they go to handlers.
    pub has_routes: bool,
    /// What there may be of everything at most, where partitions are owned.
    pub limits: Limits,
    /// Who panics, which must be a violation.
    pub panicking: Option<Panicking>,
}

/// The options with which `simulate` makes the same run; it has none for what is planned in calm runs.
impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--mode {}", self.mode)?;
        if self.limits != Limits::NONE {
            write!(f, " --limits {}", self.limits)?;
        }
        if self.has_handlers {
            f.write_str(" --handlers")?;
        } else if self.has_routes {
            f.write_str(" --routes")?;
        }
        self.panicking.map_or(Ok(()), |panicking| write!(f, " --panic {panicking}"))
    }
}

/// Runs the simulation that `seed` and `script` make. A panic is a violation, whoever it is by.
///
/// Not to be called inside a tokio runtime.
pub fn run(seed: u64, script: Script) -> Report {
    let rng = Rng::new(seed);
    let options = drawn(&rng, seed, script);
    caught(|| play(seed, script, rng, options)).unwrap_or_else(|panic| Report {
        seed,
        options: format!("{options:?}"),
        violations: vec![format!("the run panicked: {panic}")],
        balance: Balance::default(),
        coverage: BTreeMap::new(),
        trace_hash: 0,
        trace: Vec::new(),
    })
}

fn play(seed: u64, script: Script, rng: Rng, options: Options) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads or files can always be built");
    runtime.block_on(async {
        let (failovers, brokers) = (Rng::failing_over(seed), Rng::routing(seed).fork());
        let world = World::new(options, script, [rng, Rng::beside(seed), failovers, brokers]);
        if let Err(panic) = caught_in(supervise(&world)).await {
            world.violation(format!("the simulation panicked: {panic}"));
        }
        let balance = world.ledger.balance();
        let (violations, coverage, trace_hash, trace) = world.close_books();
        Report { seed, options: format!("{options:?}"), violations, balance, coverage, trace_hash, trace }
    })
}

async fn supervise(world: &Arc<World>) {
    assert!(world.script.panicking != Some(Panicking::Simulation), "{AS_ASKED}");
    match world.script.mode {
        Mode::Claims => supervisor::supervise(world).await,
        Mode::Ownership => fleet::supervise(world).await,
    }
}

/// What a seed decides, as far as the script allows it.
fn drawn(rng: &Rng, seed: u64, script: Script) -> Options {
    let drawn = match script.mode {
        Mode::Claims => Options::draw(rng),
        Mode::Ownership => Options::draw_owned(rng, &Rng::beside(seed).fork()),
    };
    let drawn = drawn.with_latest(&Rng::routing(seed));
    let has_routes = !script.has_handlers && (script.has_routes || drawn.has_routes);
    let is_handled = script.has_handlers || Rng::handling(seed).chance(HANDLED);
    let options = Options { has_routes, has_handlers: is_handled && !has_routes, ..drawn };
    let options = match script.mode {
        Mode::Claims => options,
        Mode::Ownership => script.limits.apply(options),
    };
    if script.is_calm { options.calm() } else { options }
}
