//! Delivers what is due, and moves the clock.

use std::future::Future;
use std::panic::Location;
use std::sync::PoisonError;
use std::time::Duration;

use super::attempt::Attempt;
use super::{Stuck, TestOutbox};
use crate::runtime::{Clock, SystemClock};
use crate::store::{Status, StoredEvent};
use crate::{MemoryStore, Timestamp};

/// How often [`TestOutbox::drain_all`] moves the clock at most.
const MOST_MOVES: usize = 1_000;
/// When an event is available that waits for another of its key.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

impl TestOutbox {
    /// Delivers everything that is due now: when it returns, each such event is done, or is to be tried again later, or is
    /// dead, and nothing runs.
    ///
    /// The clock stands still meanwhile. What comes due later, delayed or to be tried again, is left and
    /// [pending](Self::pending); [`advance`](Self::advance) brings its time, [`drain_all`](Self::drain_all) everybody's.
    /// What listeners write is delivered too. An outbox that [only writes](crate::OutboxBuilder::writer_only) delivers
    /// nothing, and all stays pending.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = TestOutbox::start(|outbox| {
    ///     outbox.on("OrderPlaced", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    /// });
    /// let mut tx = outbox.begin().await?;
    /// let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// tx.commit().await?;
    ///
    /// outbox.drain().await;
    ///
    /// outbox.assert_delivered(&id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If no event comes to a result for as long as the [patience](super::TestOutboxBuilder::patience) lasts: with what
    /// [runs](Stuck), or is due. [`try_drain`](Self::try_drain) answers instead.
    #[track_caller]
    pub fn drain(&self) -> impl Future<Output = ()> + Send + '_ {
        or_panic("drain", self.try_drain())
    }

    /// As [`drain`](Self::drain), with an error in place of the panic.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = TestOutbox::builder().patience(Duration::from_secs(2)).start(|outbox| {
    ///     outbox.on("OrderPlaced", |_: Delivery| std::future::pending::<Result<(), ListenerError>>())
    /// });
    /// let mut tx = outbox.begin().await?;
    /// outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// tx.commit().await?;
    ///
    /// let stuck = outbox.try_drain().await.unwrap_err();
    /// assert_eq!(stuck.running()[0].event_type(), "OrderPlaced");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_drain(&self) -> Result<(), Stuck> {
        loop {
            self.patiently(self.idle()).await?;
            let before = self.doings();
            self.patiently(self.look()).await??;
            self.patiently(self.idle()).await?;
            if self.doings() == before {
                return Ok(());
            }
        }
    }

    /// Moves the clock forward by `by`, and delivers all that comes due meanwhile, each at its time.
    ///
    /// First, and at each step, it waits for what runs, as [`drain`](Self::drain) does, so nothing is timed out by it.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, Event, ListenerError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.on("PaymentDue", |_: Delivery| async { Ok::<(), ListenerError>(()) })
    /// # });
    /// let mut tx = outbox.begin().await?;
    /// let reminder = Event::builder("PaymentDue").json_text("{}").deliver_after(Duration::from_secs(3_600));
    /// let id = outbox.write(&mut tx, reminder).await?;
    /// tx.commit().await?;
    ///
    /// outbox.advance(Duration::from_secs(3_599)).await;
    /// assert_eq!(outbox.pending().len(), 1);
    /// outbox.advance(Duration::from_secs(1)).await;
    /// outbox.assert_delivered(&id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// As [`drain`](Self::drain) does.
    #[track_caller]
    pub fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send + '_ {
        or_panic("advance", self.try_advance(by))
    }

    /// Moves the clock from one event to the next until none is pending that comes due by itself: retries are made until
    /// they succeed or are exhausted, and what is delayed is delivered.
    ///
    /// What waits for something else than time is left: for the key that it belongs to to be unparked, or for a handler of
    /// the poller.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # use pillarbox::{Delivery, ListenerError};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let outbox = TestOutbox::start(|outbox| {
    /// #     outbox.on("OrderPlaced", |_: Delivery| async { Err(ListenerError::new("no stamps")) })
    /// # });
    /// # let mut tx = outbox.begin().await?;
    /// # let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    /// outbox.drain_all().await;
    ///
    /// let dead = outbox.assert_dead(&id);
    /// assert_eq!((dead.attempts, dead.last_error.as_deref()), (10, Some("no stamps")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// As [`drain`](Self::drain) does, and if events are still pending after the clock was moved a thousand times, as
    /// those are that are retried or held for ever.
    #[track_caller]
    pub fn drain_all(&self) -> impl Future<Output = ()> + Send + '_ {
        or_panic("drain_all", self.try_drain_all())
    }

    /// Moves the clock forward by `by` though listeners are running: the one way to have a delivery time out.
    ///
    /// What they wait for is not waited for. What is to run has begun before the clock is moved, and what follows from a
    /// time-out has happened when it returns.
    ///
    /// ```
    /// # use pillarbox::testing::{Answer, TestOutbox};
    /// # use pillarbox::{Delivery, ListenerError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = TestOutbox::start(|outbox| {
    ///     outbox.on("OrderPlaced", |_: Delivery| std::future::pending::<Result<(), ListenerError>>())
    /// });
    /// # let mut tx = outbox.begin().await?;
    /// # outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
    /// # tx.commit().await?;
    ///
    /// outbox.advance_regardless(Duration::from_secs(30)).await;
    ///
    /// assert_eq!(outbox.attempts()[0].answer(), &Answer::CutOff);
    /// assert_eq!(outbox.pending()[0].attempts, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the engine does not come to rest: a listener that blocks its thread, or is retried without a delay for ever.
    #[track_caller]
    pub fn advance_regardless(&self, by: Duration) -> impl Future<Output = ()> + Send + '_ {
        or_panic("advance_regardless", self.try_advance_regardless(by))
    }

    /// Closes the outbox as [`Outbox::close`](crate::Outbox::close) does, which would wait by the test's clock for a
    /// listener that hangs: this one gives it as long as the patience lasts, and then moves the clock until it is cut off.
    ///
    /// ```
    /// # use pillarbox::testing::TestOutbox;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let outbox = TestOutbox::start(|outbox| outbox);
    /// outbox.close().await;
    /// # }
    /// ```
    pub async fn close(&self) {
        // What hangs is cut off below.
        let _ = self.patiently(self.idle()).await;
        let mut closed = std::pin::pin!(self.outbox.close());
        loop {
            tokio::select! {
                biased;
                () = &mut closed => return,
                _ = self.activity.at_rest() => match self.clock.next_end() {
                    Some(end) => self.clock.move_to(end),
                    None => return closed.await,
                },
            }
        }
    }

    async fn try_advance(&self, by: Duration) -> Result<(), Stuck> {
        self.try_drain().await?;
        let target = self.clock.now().saturating_add(by);
        while let Some(end) = self.clock.next_end().filter(|&end| end <= target) {
            let before = self.doings();
            self.clock.move_to(end);
            self.patiently(self.idle()).await?;
            if self.doings() != before {
                // At its time: what is recorded later is tried again later.
                self.try_drain().await?;
            }
        }
        self.clock.move_to(target);
        self.try_drain().await
    }

    async fn try_advance_regardless(&self, by: Duration) -> Result<(), Stuck> {
        let rest = || self.patiently(self.activity.at_rest());
        rest().await?;
        let target = self.clock.now().saturating_add(by);
        loop {
            self.patiently(self.look()).await??;
            rest().await?;
            let Some(end) = self.clock.next_end().filter(|&end| end <= target) else { break };
            self.clock.move_to(end);
            rest().await?;
        }
        self.clock.move_to(target);
        rest().await?;
        self.patiently(self.look()).await??;
        rest().await.map(drop)
    }

    async fn try_drain_all(&self) -> Result<(), Stuck> {
        for _ in 0..MOST_MOVES {
            self.try_drain().await?;
            let Some(wait) = self.next_due_in() else { return Ok(()) };
            self.try_advance(wait).await?;
        }
        let why = format!("events are still pending after the clock was moved {MOST_MOVES} times");
        Err(self.stuck(why, |_| true))
    }

    /// Records what has ended, and looks for what is due.
    async fn look(&self) -> Result<(), Stuck> {
        self.record().await;
        let polled = self.outbox.poll().await;
        polled.map_err(|error| self.stuck(format!("events cannot be taken: {error}"), |_| true))
    }

    /// Records what has ended: under load the settler gathers outcomes for some milliseconds, which never pass here.
    async fn record(&self) {
        if let Some(settler) = &self.outbox.shared.engine.settler {
            settler.flush().await;
        }
    }

    /// Waits until no task has anything to do and no event is in somebody's hands.
    async fn idle(&self) {
        loop {
            self.activity.at_rest().await;
            if !self.is_busy() {
                return;
            }
            // Whoever runs may wait for something that follows from what has ended.
            let before = self.doings();
            self.record().await;
            let rests = self.activity.at_rest().await;
            if self.doings() == before {
                self.activity.rested_since(rests).await;
            }
        }
    }

    fn is_busy(&self) -> bool {
        let engine = &self.outbox.shared.engine;
        match &engine.dispatcher {
            Some(dispatcher) => dispatcher
                .busy_since
                .iter()
                .any(|since| since.lock().unwrap_or_else(PoisonError::into_inner).is_some()),
            // A handler of the user's own has what is leased, until it settles it.
            None => engine.settler.is_some() && self.store().rows().iter().any(is_leased),
        }
    }

    /// Grows with all that the engine does.
    fn doings(&self) -> u64 {
        let (counts, (begun, ended)) = (self.outbox.counts(), self.log.begun_and_ended());
        counts.hot_enqueued + counts.cold_enqueued + counts.settle_batches + begun + ended
    }

    /// How long it is until the next event comes due by itself.
    fn next_due_in(&self) -> Option<Duration> {
        let now = self.now();
        let due = pending(self.store()).filter(|row| !is_leased(row)).map(|row| available_at(&row));
        due.filter(|&at| at > now && at != NEVER).min().map(|at| at.saturating_since(now))
    }

    /// Waits for `work` as long as events come to a result: what is tried again and again does not count.
    async fn patiently<T>(&self, work: impl Future<Output = T>) -> Result<T, Stuck> {
        let results = || {
            let counts = self.outbox.counts();
            counts.done + counts.dead + self.log.succeeded()
        };
        let mut work = std::pin::pin!(work);
        loop {
            let before = results();
            tokio::select! {
                biased;
                value = &mut work => return Ok(value),
                () = SystemClock.sleep(self.patience) => {}
            }
            if results() == before {
                let now = self.now();
                let why = format!("no event has come to a result for {:?}", self.patience);
                let is_due = move |row: &StoredEvent| is_leased(row) || available_at(row) <= now;
                return Err(self.stuck(why, is_due));
            }
        }
    }

    fn stuck(&self, why: String, is_concerned: impl Fn(&StoredEvent) -> bool) -> Stuck {
        let running: Vec<Attempt> = self.attempts().into_iter().filter(Attempt::is_running).collect();
        let rows = pending(self.store()).filter(is_concerned).collect();
        Stuck { why, running, rows, now: self.now() }
    }
}

/// Answers with a panic that says who called.
#[track_caller]
fn or_panic<'a>(
    what: &'static str,
    work: impl Future<Output = Result<(), Stuck>> + Send + 'a,
) -> impl Future<Output = ()> + Send + 'a {
    let caller = Location::caller();
    async move {
        if let Err(stuck) = work.await {
            panic!("`{what}` at {caller}: {stuck}");
        }
    }
}

fn pending(store: &MemoryStore) -> impl Iterator<Item = StoredEvent> {
    store.rows().into_iter().filter(|row| row.status.is_ok_and(Status::is_pending))
}

fn is_leased(row: &StoredEvent) -> bool {
    row.status.is_ok_and(Status::is_pending) && row.locked_by.is_some()
}

/// When a row that nobody holds can be taken.
fn available_at(row: &StoredEvent) -> Timestamp {
    if row.status == Ok(Status::New) { row.due_at } else { row.available_at }
}
