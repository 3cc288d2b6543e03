//! Puts an outbox under test together.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use super::TestOutbox;
use super::activity::{Activity, WatchedSpawner};
use super::attempt::Log;
use super::clock::TestClock;
use super::observer::Observed;
use crate::runtime::{Runtime, SeededRandom};
use crate::store::LONGEST_LEASE;
use crate::{MemoryStore, Outbox, OutboxBuilder, Timestamp};

/// The time of day at which the clock of a test starts: 2026-03-01T12:00:00Z.
const NOON: Timestamp = Timestamp::from_micros(1_772_366_400_000_000);

/// Builds a [`TestOutbox`]; made by [`TestOutbox::builder`].
///
/// | option | default | |
/// |---|---|---|
/// | [`seed`](Self::seed) | 0 | where the jitter of retries comes from |
/// | [`starting_at`](Self::starting_at) | 2026-03-01T12:00:00Z | the time of day |
/// | [`patience`](Self::patience) | 10 s | after how long without a result a drain fails |
#[derive(Clone, Debug)]
#[must_use = "nothing happens before `start`"]
pub struct TestOutboxBuilder {
    seed: u64,
    starts_at: Timestamp,
    patience: Duration,
}

impl Default for TestOutboxBuilder {
    fn default() -> Self {
        Self { seed: 0, starts_at: NOON, patience: Duration::from_secs(10) }
    }
}

impl TestOutboxBuilder {
    /// What all randomness is made of, the jitter of retries above all; default 0.
    ///
    /// The same seed gives the same delays where the engine does the same in the same order: on a runtime with one thread,
    /// which is what `#[tokio::test]` has.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::Timestamp;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// async fn first_retry_at(seed: u64) -> Result<Timestamp, Box<dyn std::error::Error>> {
    ///     let outbox = TestOutbox::builder().seed(seed).start(|outbox| {
    ///         outbox.on("OrderPlaced", |_: Delivery| async { Err(ListenerError::new("no stamps")) })
    ///     });
    ///     let mut tx = outbox.begin().await?;
    ///     outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    ///     tx.commit().await?;
    ///     outbox.drain().await;
    ///     Ok(outbox.pending()[0].due_at)
    /// }
    ///
    /// assert_eq!(first_retry_at(17).await?, first_retry_at(17).await?);
    /// assert_ne!(first_retry_at(17).await?, first_retry_at(18).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The time of day at which the clock starts; default 2026-03-01T12:00:00Z, so that a test is the same every day.
    ///
    /// Give the real one to a test of code that computes with it, as in `available_at(SystemTime::now() + hour)`.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let today = std::time::SystemTime::now().into();
    /// let outbox = TestOutbox::builder().starting_at(today).start(|outbox| outbox);
    /// assert_eq!(outbox.now(), today);
    /// # }
    /// ```
    pub fn starting_at(mut self, time: Timestamp) -> Self {
        self.starts_at = time;
        self
    }

    /// After how much real time without an event that is done or dead a [drain](TestOutbox::drain) gives up; default 10 s.
    ///
    /// It is the only thing here that goes by a real clock, that of tokio, and no test that passes waits for it.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// // The listener pulls an image first.
    /// let outbox = TestOutbox::builder().patience(Duration::from_secs(120)).start(|outbox| outbox);
    /// # drop(outbox);
    /// # }
    /// ```
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts an outbox with all that `configure` says to its real builder; see [`TestOutbox::start`].
    ///
    /// # Panics
    /// As [`TestOutbox::start`] does.
    #[track_caller]
    pub fn start(
        self,
        configure: impl FnOnce(OutboxBuilder<MemoryStore>) -> OutboxBuilder<MemoryStore>,
    ) -> TestOutbox {
        let clock = Arc::new(TestClock::new(self.starts_at));
        let (activity, log) = (Arc::<Activity>::default(), Arc::<Log>::default());
        let runtime = Runtime {
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(self.seed)),
            spawner: Arc::new(WatchedSpawner { tokio: Handle::current(), activity: activity.clone() }),
        };
        let mut builder = configure(Outbox::builder(journaling(clock.clone())).runtime(runtime.clone()));
        let is_ours = |set: &Runtime| Arc::ptr_eq(&set.clock, &runtime.clock);
        assert!(
            builder.runtime.as_ref().is_some_and(is_ours),
            "the outbox under test would go by another clock; configure the builder that is given, and leave `runtime` out"
        );
        calm_down(&mut builder);
        let observed = log.clone();
        builder.observer = Some(Box::new(move |routes| Arc::new(Observed::new(routes, observed))));
        let outbox = builder
            .start()
            .unwrap_or_else(|error| panic!("the outbox under test cannot be started: {error}"));
        TestOutbox { outbox, runtime, clock, activity, log, patience: self.patience }
    }
}

/// Lets what happens at intervals whatever there is to do happen rarely, unless the user has set it: a test that moves the
/// clock by a month makes a step for each.
fn calm_down(builder: &mut OutboxBuilder<MemoryStore>) {
    let OutboxBuilder { config, by_program, .. } = builder;
    if !by_program.contains("poll_every") {
        config.poll_every = Duration::from_secs(3_600);
    }
    // Together, for each has to fit the others.
    if ["heartbeat_every", "silent_after", "rebalance_every"]
        .iter()
        .all(|option| !by_program.contains(option))
    {
        config.heartbeat_every = LONGEST_LEASE / 3;
        config.silent_after = LONGEST_LEASE;
        config.rebalance_every = LONGEST_LEASE / 3;
    }
}

/// A store that remembers what was committed even when it is deleted.
fn journaling(clock: Arc<TestClock>) -> MemoryStore {
    let mut store = MemoryStore::with_clock(clock);
    if let Some(database) = Arc::get_mut(&mut store.database) {
        database.journal = Some(Mutex::default());
    }
    store
}
