//! Tests on real servers, each a named test of its own.
//!
//! A server is found by an environment variable. Where it is not set, its tests are reported as ignored, by
//! name; in CI (`CI=true`) they fail instead. A test binary that needs servers has `harness = false` in its
//! `Cargo.toml` and this for a `main`:
//!
//! ```text
//! fn main() -> ExitCode {
//!     let mut suite = Suite::from_args();
//!     conformance_trials!(suite, servers::POSTGRES, PostgresStage);
//!     trials!(suite, servers::POSTGRES, PostgresStage;
//!         bad_input { wrong_password_is_named missing_database_is_named });
//!     suite.run()
//! }
//! ```
//!
//! Each trial is an `async fn(&PostgresStage)` in the module that it is listed under. The list is taken from the
//! command line's filter like every other test binary's: `cargo test -p pillarbox-postgres wrong_password`. With
//! `PILLARBOX_TEST_TIMES=1` each says how long it took. One that has not ended after ten minutes, or after
//! `PILLARBOX_TEST_MINUTES`, has failed: what waits for ever shall not take all other tests with it.

mod private;

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Arguments, Failed, Trial};

pub use private::PrivateServer;

/// How many minutes a trial may take, unless it is [said](PATIENCE_VARIABLE); the longest take two.
const PATIENCE: u64 = 10;
/// The environment variable that says it.
const PATIENCE_VARIABLE: &str = "PILLARBOX_TEST_MINUTES";

/// A server that tests may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// What the names of its tests begin with.
    pub name: &'static str,
    /// The environment variable that has its URL; empty if there is nothing to be found.
    pub variable: &'static str,
    /// Whether CI may be without it.
    pub optional: bool,
    /// What `scripts/services` calls it, if each trial starts one of its own.
    pub private: Option<&'static str>,
}

/// PostgreSQL 15.
pub const POSTGRES: Server = required("postgres15", "PILLARBOX_TEST_POSTGRES_URL");
/// PostgreSQL 18.
pub const POSTGRES18: Server = required("postgres18", "PILLARBOX_TEST_POSTGRES18_URL");
/// PgBouncer in transaction mode, before PostgreSQL.
pub const PGBOUNCER: Server = required("pgbouncer", "PILLARBOX_TEST_PGBOUNCER_URL");
/// MariaDB.
pub const MYSQL: Server = required("mariadb", "PILLARBOX_TEST_MYSQL_URL");
/// MySQL 8, which Debian does not have.
pub const MYSQL8: Server = Server { optional: true, ..required("mysql8", "PILLARBOX_TEST_MYSQL8_URL") };

/// Apache Kafka; its variable has `host:port`.
pub const KAFKA: Server = required("kafka", "PILLARBOX_TEST_KAFKA_BROKERS");
/// NATS with JetStream.
pub const NATS: Server = required("nats", "PILLARBOX_TEST_NATS_URL");
/// RabbitMQ.
pub const RABBITMQ: Server = required("rabbitmq", "PILLARBOX_TEST_AMQP_URL");
/// Redis.
pub const REDIS: Server = required("redis", "PILLARBOX_TEST_REDIS_URL");

/// SQLite, which is no server and always there. Its URL is empty.
pub const SQLITE: Server = required("sqlite", "");

/// A server that CI must not be without.
pub const fn required(name: &'static str, variable: &'static str) -> Server {
    Server { name, variable, optional: false, private: None }
}

impl Server {
    /// Such a server for each trial, a [`PrivateServer`] of this kind, as `scripts/services` calls it.
    pub const fn private(self, kind: &'static str) -> Self {
        Self { variable: "PILLARBOX_TEST_SERVICES", private: Some(kind), ..self }
    }

    /// Its URL, if it is there; of a private one `kind@script`.
    pub fn url(&self) -> Option<String> {
        if self.variable.is_empty() {
            return Some(String::new());
        }
        let found = std::env::var(self.variable).ok().filter(|found| !found.is_empty())?;
        Some(self.private.map_or_else(|| found.clone(), |kind| format!("{kind}@{found}")))
    }

    /// Whether its tests are ignored rather than failed when it is not there.
    fn may_be_missing(&self) -> bool {
        self.optional || std::env::var("CI").as_deref() != Ok("true")
    }
}

/// What one trial plays on: an empty, migrated outbox of its own on a server.
pub trait Fresh: Sized + 'static {
    /// Makes it.
    fn fresh(url: &str) -> impl Future<Output = Self>;

    /// Removes it from the server; also called when the trial failed.
    fn clean(self) -> impl Future<Output = ()>;
}

/// A name that no other trial has, nor one that ran before: `pb_` and lower-case letters and digits.
pub fn unique_name() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("pb_{:x}_{:x}_{count:x}", now.as_micros(), std::process::id())
}

/// One trial, as it is listed.
pub type Case<S> = for<'a> fn(&'a S) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The trials of one test binary.
#[derive(Debug)]
pub struct Suite {
    arguments: Arguments,
    trials: Vec<Trial>,
}

impl Suite {
    /// An empty suite that obeys the arguments of `cargo test`. Unless `--test-threads` says how many trials play at once
    /// it is three for each core, for most of the time they wait.
    pub fn from_args() -> Self {
        let mut arguments = Arguments::from_args();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        arguments.test_threads.get_or_insert(3 * cores);
        Self { arguments, trials: Vec::new() }
    }

    /// Adds the trial `name`, which plays on a stage of its own on `server`.
    pub fn add<S: Fresh>(&mut self, server: Server, name: &str, case: Case<S>) {
        let is_missing = server.url().is_none();
        let name = format!("{}::{name}", server.name);
        let trial = Trial::test(name.clone(), move || {
            let begun = Instant::now();
            let played = play(server, case);
            if std::env::var_os("PILLARBOX_TEST_TIMES").is_some() {
                eprintln!("{name} took {:.1} s", begun.elapsed().as_secs_f64());
            }
            played
        });
        self.trials.push(trial.with_ignored_flag(is_missing && server.may_be_missing()));
    }

    /// Runs what was asked for.
    pub fn run(self) -> ExitCode {
        libtest_mimic::run(&self.arguments, self.trials).exit_code()
    }
}

fn play<S: Fresh>(server: Server, case: Case<S>) -> Result<(), Failed> {
    let Some(url) = server.url() else {
        return Err(format!(
            "`{}` is not set; run `scripts/services up` and `eval \"$(scripts/services env)\"`",
            server.variable
        )
        .into());
    };
    let minutes = patience()?;
    let (sender, played) = mpsc::channel();
    // A thread that is not waited for any more is left behind: what hangs may hold it.
    thread::spawn(move || sender.send(catch_unwind(AssertUnwindSafe(|| play_on(&url, case)))));
    match played.recv_timeout(Duration::from_secs(60 * minutes)) {
        Ok(Ok(played)) => Ok(played?),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => {
            Err(format!("it had not ended after {minutes} minutes; `{PATIENCE_VARIABLE}` gives it more")
                .into())
        }
    }
}

fn play_on<S: Fresh>(url: &str, case: Case<S>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let stage = runtime.block_on(S::fresh(url));
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(case(&stage))));
    runtime.block_on(stage.clean());
    played.unwrap_or_else(|panic| resume_unwind(panic));
    Ok(())
}

/// How many minutes a trial may take.
fn patience() -> Result<u64, Failed> {
    let Ok(given) = std::env::var(PATIENCE_VARIABLE) else { return Ok(PATIENCE) };
    let minutes = given.parse().ok().filter(|minutes| (1..=100_000).contains(minutes));
    minutes.ok_or_else(|| format!("`{PATIENCE_VARIABLE}` is `{given}`; it is a number of minutes").into())
}

/// Adds trials to a [`Suite`]: `trials!(suite, server, Stage; module { case case } …)`.
#[macro_export]
macro_rules! trials {
    ($suite:expr, $server:expr, $stage:ty; $($module:ident { $($case:ident)* })*) => {
        $($(
            $suite.add::<$stage>(
                $server,
                concat!(stringify!($module), "::", stringify!($case)),
                |stage| ::std::boxed::Box::pin($module::$case(stage)),
            );
        )*)*
    };
}

/// Adds every case of the [conformance suite](mod@crate::conformance) to a [`Suite`]:
/// `conformance_trials!(suite, server, Stage)`. The stage is a
/// [`StoreHarness`](crate::conformance::StoreHarness) too.
#[macro_export]
macro_rules! conformance_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::conformance::*;
        $crate::conformance_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// Adds every case about owned partitions to a [`Suite`]: `ownership_trials!(suite, server, Stage)`. The stage is an
/// [`OwnershipHarness`](crate::conformance::OwnershipHarness) too.
#[macro_export]
macro_rules! ownership_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::conformance::*;
        $crate::ownership_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// Adds the [acceptance tests](mod@crate::acceptance) to a [`Suite`]:
/// `acceptance_trials!(suite, server, Stage)`. The stage is an acceptance
/// [`Stage`](crate::acceptance::Stage) too.
#[macro_export]
macro_rules! acceptance_trials {
    ($suite:expr, $server:expr, $stage:ty) => {{
        use $crate::acceptance;
        $crate::acceptance_list! { trials_of ($suite, $server, $stage) }
    }};
}

/// [`trials!`] with its arguments in the order in which the lists of cases have them.
#[doc(hidden)]
#[macro_export]
macro_rules! trials_of {
    (($suite:expr, $server:expr, $stage:ty); $($cases:tt)*) => {
        $crate::trials!($suite, $server, $stage; $($cases)*)
    };
}
