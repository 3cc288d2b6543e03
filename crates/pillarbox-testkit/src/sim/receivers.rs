//! Listeners and a sink that behave as badly as real ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::Administration;
use pillarbox::{BoxFuture, Clock, Delivery, Listener, ListenerError, Run, Sink, SinkError};

use super::application::Kind;
use super::options::Order;
use super::process::Process;
use super::rng::Rng;
use crate::ledger::Cause;

/// The receivers of one process.
#[derive(Clone)]
pub(super) struct Receivers {
    pub(super) process: Arc<Process>,
    pub(super) rng: Arc<Rng>,
    pub(super) time_limit: Duration,
}

impl Receivers {
    /// Begins a delivery: it must be for a row that is there, and not one too many.
    async fn begin(&self, delivery: &Delivery) -> Work {
        let (world, id) = (&self.process.world, delivery.id());
        let call = world.begin(id);
        let (number, source) = (self.process.number, delivery.source());
        world.note(format_args!("{number} delivers {id} attempt {} {source:?}", delivery.attempt()));
        self.check_row(id).await;
        let number = world.delivery_begins(number, id, None);
        if delivery.attempt() > world.options.max_attempts {
            world.violation(format!("{id} was delivered in attempt {}", delivery.attempt()));
        }
        Work {
            receivers: self.clone(),
            id: id.to_owned(),
            number,
            attempt: delivery.attempt(),
            call,
            since: world.clock.now(),
            effect: false,
            ended: false,
        }
    }

    /// What is delivered must be in the table, or have been there.
    pub(super) async fn check_row(&self, id: &str) {
        let world = &self.process.world;
        let is_there = matches!(world.db.find(id).await, Ok(Some(_))) || world.ledger.is_done(id);
        if !is_there && !world.may_be_gone(id) {
            world.violation(format!("{id} was delivered, but its row is not in the table"));
        }
    }

    /// How often an event of this kind goes wrong before it goes well.
    fn bad_calls(&self, id: &str) -> u64 {
        let number: u64 = id.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(1);
        1 + number % 3
    }
}

/// A delivery that has begun.
struct Work {
    receivers: Receivers,
    id: String,
    /// Its number, where partitions are owned.
    number: Option<u64>,
    attempt: u32,
    /// How many deliveries of this event began before.
    call: u64,
    since: Duration,
    /// Whether it has been done what the event asks for.
    effect: bool,
    ended: bool,
}

impl Work {
    fn take_effect(&mut self) {
        let process = &self.receivers.process;
        self.effect = true;
        process.world.ledger.delivered(&self.id, true);
        match self.number {
            Some(number) => process.world.delivery_takes_effect(number, &self.id),
            None => process.world.model().delivered(&self.id, process.number),
        }
    }

    fn succeed(mut self) {
        self.ended = true;
        self.receivers.process.world.ledger.succeeded(&self.id);
    }

    fn fail(mut self) {
        self.ended = true;
        let world = &self.receivers.process.world;
        world.ledger.failed(&self.id);
        let is_last = Kind::of(&self.id) == Kind::Refused || self.attempt >= world.options.max_attempts;
        if is_last && world.order() == Order::Release {
            world.ledger.is_through(&self.id);
        }
    }

    /// It ends with nothing said about success or failure.
    fn end(mut self, cause: Option<Cause>) {
        self.ended = true;
        if let Some(cause) = cause {
            self.receivers.process.world.ledger.explain(&self.id, cause);
        }
    }

    fn is_bad_call(&self) -> bool {
        self.call < self.receivers.bad_calls(&self.id)
    }
}

impl Drop for Work {
    /// Dropped before its end: by death, by the time limit, or by the drain timeout.
    fn drop(&mut self) {
        let process = &self.receivers.process;
        let world = &process.world;
        if let Some(number) = self.number {
            world.tenancy().ended(number);
        }
        if self.ended || !process.is_alive() {
            return;
        }
        let is_late = world.clock.now().saturating_sub(self.since) >= self.receivers.time_limit;
        let is_closing = process.is_closing.load(Ordering::Relaxed);
        let cause = if is_late { Cause::TimedOut } else { Cause::CutOff };
        world.note(format_args!("{} drops {}: {cause:?}", process.number, self.id));
        world.cover(if is_late { "time-outs" } else { "drain cut-offs" }, 1);
        if is_late {
            world.ledger.failed(&self.id);
        } else if !is_closing && self.number.is_some() && world.options.has_faults {
            world.cover("cut off when the lease ended", 1);
        } else if !is_closing {
            world.violation(format!("{} was cut off without a reason", self.id));
        }
        if self.effect {
            world.ledger.explain(&self.id, cause);
        }
    }
}

impl Listener for Receivers {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        let mut work = self.begin(&delivery).await;
        let kind = Kind::of(delivery.id());
        let effect_first = self.rng.chance(500);
        if kind == Kind::Poison {
            self.process.kill("death by poison");
            return std::future::pending().await;
        }
        if effect_first && matches!(kind, Kind::Fine | Kind::Slow | Kind::Hanging) {
            work.take_effect();
        }
        self.spend_time(kind).await;
        let bad = work.is_bad_call();
        match kind {
            Kind::Hanging if bad => {
                self.process.world.cover("hangs", 1);
                std::future::pending().await
            }
            Kind::Panicking if bad => {
                work.fail();
                self.process.world.cover("panics", 1);
                // Unlike `panic!` this prints nothing.
                std::panic::resume_unwind(Box::new("the listener is out of its mind"))
            }
            Kind::Flaky if bad => {
                work.fail();
                Err(ListenerError::new("the listener is not in the mood"))
            }
            Kind::NotNow if bad => {
                work.end(None);
                Err(ListenerError::not_now(self.rng.millis(0, 2_000), "come again"))
            }
            Kind::Broken => {
                work.fail();
                Err(ListenerError::new("the listener is broken"))
            }
            Kind::Refused => {
                work.fail();
                Err(ListenerError::permanent("the listener will never take this"))
            }
            _ => {
                if !work.effect {
                    work.take_effect();
                }
                work.succeed();
                Ok(())
            }
        }
    }
}

impl Receivers {
    async fn spend_time(&self, kind: Kind) {
        let time = match kind {
            Kind::Slow => self.time_limit.mul_f64(self.rng.between(1, 9) as f64 / 10.0),
            _ if self.rng.chance(500) => return,
            _ => self.rng.millis(0, 20),
        };
        tokio::time::sleep(time).await;
    }
}

impl Sink for Receivers {
    fn publish<'a>(&'a self, run: &'a Run) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut open = Vec::new();
            for delivery in run.deliveries() {
                open.push(self.begin(delivery).await);
            }
            let world = &self.process.world;
            world.cover("events in runs", open.len() as u64);
            let mut open = open.into_iter().enumerate();
            while let Some((index, mut work)) = open.next() {
                if self.rng.chance(300) {
                    tokio::time::sleep(self.rng.millis(1, 10)).await;
                }
                let trouble = if world.is_faulty() { self.rng.below(20) } else { 20 };
                if work.is_bad_call() && (10..15).contains(&trouble) {
                    work.fail();
                    run.answer(index, Err(SinkError::rejected("the broker does not want it")));
                    continue;
                }
                match trouble {
                    0 => {
                        work.end(None);
                        run.answer(index, Err(SinkError::unavailable("the broker is down")));
                    }
                    1 | 2 => self.lose_answer(run, index, work, trouble == 1),
                    // Answered by nobody: unknown.
                    3 => {
                        work.take_effect();
                        work.end(Some(Cause::LostAnswer));
                    }
                    4 if self.rng.chance(300) => {
                        // Over an event alone it counts as a failure of that event.
                        if run.deliveries().len() == 1 {
                            work.fail()
                        } else {
                            work.end(None)
                        }
                        open.for_each(|(_, work)| work.end(None));
                        world.cover("panics of the sink", 1);
                        std::panic::resume_unwind(Box::new("the sink is out of its mind"))
                    }
                    5 if self.rng.chance(300) => {
                        work.end(None);
                        world.cover("hangs of the sink", 1);
                        std::future::pending().await
                    }
                    _ => {
                        work.take_effect();
                        work.succeed();
                        run.answer(index, Ok(()));
                    }
                }
            }
        })
    }
}

impl Receivers {
    fn lose_answer(&self, run: &Run, index: usize, mut work: Work, with_effect: bool) {
        if with_effect {
            work.take_effect();
        }
        work.end(with_effect.then_some(Cause::LostAnswer));
        self.process.world.cover("answers of the broker lost", 1);
        run.answer(index, Err(SinkError::unknown("the broker did not answer")));
    }
}
