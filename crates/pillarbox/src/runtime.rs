//! What the engine needs from the world around it: time, randomness and a place to run its tasks.

mod step;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use step::Step;

use crate::Timestamp;

/// A boxed future, as the contracts that are used behind `dyn` return it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time as the engine sees it.
///
/// # Contract
/// - [`now`](Clock::now) never goes back, and runs on while the machine is suspended: local lease deadlines
///   are measured by it.
/// - [`wall`](Clock::wall) may jump; nothing but default timestamps and the memory store reads it.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed point in the past.
    fn now(&self) -> Duration;
    /// The time of day.
    fn wall(&self) -> Timestamp;
    /// Waits for at least `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// Randomness as the engine uses it: tokens, incarnations and jitter. It need not be secret.
pub trait Random: Send + Sync + 'static {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// A place to run tasks that outlive the call that starts them.
///
/// # Contract
/// A spawned task runs to its end, or until the whole process (or the simulated one) dies.
pub trait Spawn: Send + Sync + 'static {
    /// Runs `task` in the background. `name` is for people who debug.
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>);
}

/// Clock, randomness and spawner in one cheap-to-clone value.
#[derive(Clone)]
pub struct Runtime {
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub random: Arc<dyn Random>,
    /// Where tasks run.
    pub spawner: Arc<dyn Spawn>,
}

impl Runtime {
    /// The real thing: the system's clocks, the hasher's random seed, and the current tokio runtime.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn tokio() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            spawner: Arc::new(TokioSpawner(tokio::runtime::Handle::current())),
        }
    }

    /// Runs `step` to its end, and waits for it.
    ///
    /// A caller that stops waiting does not stop the step: no database future is dropped half-way.
    /// `None` means that the step panicked.
    pub(crate) async fn to_its_end<T: Send + 'static>(
        &self,
        name: &'static str,
        step: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        Step::new(name, Box::pin(step), Arc::clone(&self.spawner)).await
    }

    /// Waits for `future` at most `limit`; `None` if it took longer.
    pub(crate) async fn timeout<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.clock.sleep(limit) => None,
        }
    }

    /// A random number in `0.0 ..= 1.0`.
    pub(crate) fn fraction(&self) -> f64 {
        const STEPS: u64 = 1 << 53;
        (self.random.next_u64() % (STEPS + 1)) as f64 / STEPS as f64
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runtime")
    }
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        // `Instant` stands still on Linux while the machine is suspended, and a lease does not.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let clock = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let clock = rustix::time::ClockId::Monotonic;
        let time = rustix::time::clock_gettime(clock);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    fn wall(&self) -> Timestamp {
        SystemTime::now().into()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that sleeps")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// Random bits from the seeds of the standard library's hash maps.
struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that draws random bits")]
    fn next_u64(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher};
        std::collections::hash_map::RandomState::new().build_hasher().finish()
    }
}

/// Randomness that repeats from a seed, for tests: SplitMix64, whose next state is a fixed step away, so that many tasks
/// can draw from it at once.
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Begins with this seed.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct TokioSpawner(tokio::runtime::Handle);

impl Spawn for TokioSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}
