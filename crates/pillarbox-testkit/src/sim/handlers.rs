//! Handlers and a fallback that behave as badly as listeners do, each in its own way with each event.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::{
    Clock, Codec, CodecError, Delivery, DomainEvent, Failure, Fallback, Handler, Handlers, Listener,
    ListenerError, Payload, Retry,
};

use super::application::Kind;
use super::options::Options;
use super::receivers::Receivers;
use super::rng::Rng;

const BILLING: &str = "billing";
const MAIL: &str = "mail";
const LEDGER: &str = "ledger";
/// Gets events of any type.
const AUDIT: &str = "audit";

/// Who gets events of a kind, in this order.
pub(super) fn handlers_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Placed => &[BILLING, MAIL, AUDIT],
        Kind::Paid => &[LEDGER, AUDIT],
        _ => &[AUDIT],
    }
}

/// Whether events of a kind have a fallback.
pub(super) fn has_fallback(kind: Kind) -> bool {
    kind == Kind::Placed
}

/// How often a handler is tried at most.
fn most_attempts(handler: &str, options: &Options) -> u32 {
    match handler {
        BILLING => 2,
        LEDGER => 3,
        _ => options.max_attempts,
    }
}

/// An event with three handlers and a fallback.
struct Placed;

/// An event with two handlers and no fallback.
struct Paid;

impl DomainEvent for Placed {
    const EVENT_TYPE: &'static str = "placed";
    type Codec = Empty;
}

impl DomainEvent for Paid {
    const EVENT_TYPE: &'static str = "paid";
    type Codec = Empty;
}

/// A payload that says nothing.
struct Empty;

impl Codec<Placed> for Empty {
    fn encode(_: &Placed) -> Result<Payload, CodecError> {
        Ok(Payload::Json("{}".to_owned()))
    }

    fn decode(_: &Payload) -> Result<Placed, CodecError> {
        Ok(Placed)
    }
}

impl Codec<Paid> for Empty {
    fn encode(_: &Paid) -> Result<Payload, CodecError> {
        Ok(Payload::Json("{}".to_owned()))
    }

    fn decode(_: &Payload) -> Result<Paid, CodecError> {
        Ok(Paid)
    }
}

/// How a handler takes an event, or its fallback does.
#[derive(Clone, Copy)]
enum Manner {
    Fine,
    Slow,
    /// Fails a few times.
    Flaky,
    /// Fails for ever.
    Broken,
    /// Fails for good at once; half of them mend their ways when they are replayed.
    Refusing,
    Panicking,
    Hanging,
    NotNow,
}

impl Manner {
    fn of_handler(draw: u64) -> Self {
        match draw % 100 {
            0..46 => Self::Fine,
            46..60 => Self::Slow,
            60..72 => Self::Flaky,
            72..77 => Self::Broken,
            77..84 => Self::Refusing,
            84..88 => Self::Panicking,
            88..92 => Self::Hanging,
            92..97 => Self::NotNow,
            _ => Self::Fine,
        }
    }

    fn of_fallback(draw: u64) -> Self {
        match draw % 100 {
            0..50 => Self::Fine,
            50..60 => Self::Slow,
            60..90 => Self::Broken,
            90..95 => Self::Panicking,
            _ => Self::Hanging,
        }
    }
}

/// A number that an event and a handler, or a sink, always have.
pub(super) fn drawn(id: &str, handler: &str) -> u64 {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Rng::new(id.bytes().chain(handler.bytes()).fold(0xcbf2_9ce4_8422_2325, hash)).next()
}

/// The handlers of one process, and their fallback.
#[derive(Clone)]
pub(super) struct Crew(pub(super) Receivers);

impl Crew {
    /// All of them, as an outbox gets them; the first retry of some comes after `first_retry`.
    pub(super) fn handlers(&self, first_retry: Duration) -> Handlers {
        let most = |handler| most_attempts(handler, &self.0.process.world.options);
        Handlers::new()
            .handler::<Placed>(BILLING, self.clone())
            .handler::<Placed>(MAIL, self.clone())
            .handler::<Paid>(LEDGER, self.clone())
            .on_any(AUDIT, self.clone())
            .fallback::<Placed>(self.clone())
            .retry_for(BILLING, Retry::fixed(Duration::from_secs(3)).max_attempts(most(BILLING)))
            .retry_for(LEDGER, Retry::exponential().initial(first_retry).max_attempts(most(LEDGER)))
    }

    async fn handle(&self, delivery: &Delivery) -> Result<(), ListenerError> {
        let mut turn = self.begin(delivery, false).await;
        if Kind::of(delivery.id()) == Kind::Poison {
            self.0.process.kill("death by poison");
            return std::future::pending().await;
        }
        let draw = drawn(&turn.id, turn.handler);
        let is_bad = turn.runs <= (draw >> 32) % 3;
        let manner = Manner::of_handler(draw);
        self.spend_time(manner).await;
        match manner {
            Manner::Hanging if is_bad => std::future::pending().await,
            Manner::Panicking if is_bad => {
                turn.fail();
                std::panic::resume_unwind(Box::new("the handler is out of its mind"))
            }
            Manner::Flaky if is_bad => {
                turn.fail();
                Err(ListenerError::new("the handler is not in the mood"))
            }
            Manner::NotNow if is_bad => {
                turn.is_over = true;
                Err(ListenerError::not_now(self.0.rng.millis(0, 2_000), "come again"))
            }
            Manner::Broken => {
                turn.fail();
                Err(ListenerError::new("the handler is broken"))
            }
            Manner::Refusing if turn.runs == 0 || draw >> 63 == 0 => {
                turn.is_last = true;
                turn.fail();
                Err(ListenerError::permanent("the handler will never take this"))
            }
            _ => {
                turn.succeed();
                Ok(())
            }
        }
    }

    async fn fall_back(&self, failure: &Failure) -> Result<(), ListenerError> {
        let turn = self.begin(failure, true).await;
        let draw = drawn(&turn.id, turn.handler).rotate_left(17);
        let manner = Manner::of_fallback(draw);
        self.spend_time(manner).await;
        match manner {
            Manner::Hanging => std::future::pending().await,
            Manner::Panicking => {
                turn.fail();
                std::panic::resume_unwind(Box::new("the fallback is out of its mind"))
            }
            Manner::Broken => {
                turn.fail();
                Err(ListenerError::new("the fallback is broken"))
            }
            _ => {
                turn.succeed();
                Ok(())
            }
        }
    }

    async fn spend_time(&self, manner: Manner) {
        let Receivers { rng, time_limit, .. } = &self.0;
        let time = match manner {
            Manner::Slow => time_limit.mul_f64(rng.between(1, 9) as f64 / 10.0),
            _ if rng.chance(500) => return,
            _ => rng.millis(0, 20),
        };
        tokio::time::sleep(time).await;
    }

    /// Begins a turn of a handler, or of its fallback: nobody may have a reason to leave it out.
    async fn begin(&self, delivery: &Delivery, is_fallback: bool) -> Turn {
        let (world, id) = (&self.0.process.world, delivery.id());
        let process = self.0.process.number;
        let known = handlers_of(Kind::of(id)).iter();
        let handler = known.copied().find(|known| delivery.handler_id() == Some(known)).unwrap_or("nobody");
        let attempt = delivery.attempt();
        let what = if is_fallback { "falls back for" } else { "runs" };
        world.note(format_args!("{process} {what} {handler} of {id} attempt {attempt}"));
        self.0.check_row(id).await;
        let number = world.delivery_begins(process, id, None);
        let runs = world.turn_begins(process, id, handler, is_fallback);
        let most = most_attempts(handler, &world.options);
        if attempt > most {
            world.violation(format!("{id}: {handler} is in its attempt {attempt}"));
        }
        Turn {
            crew: self.clone(),
            id: id.to_owned(),
            handler,
            number,
            runs,
            is_fallback,
            is_last: is_fallback || attempt >= most,
            since: world.clock.now(),
            is_over: false,
        }
    }
}

/// A turn of a handler, or of its fallback, with one event.
struct Turn {
    crew: Crew,
    id: String,
    handler: &'static str,
    /// Its number as a delivery, where partitions are owned.
    number: Option<u64>,
    /// How many turns this handler had with this event before.
    runs: u64,
    is_fallback: bool,
    /// Whether it is the last if it fails.
    is_last: bool,
    since: Duration,
    is_over: bool,
}

impl Turn {
    fn succeed(mut self) {
        self.is_over = true;
        let process = &self.crew.0.process;
        process.world.turn_succeeds(process.number, &self.id, self.handler, self.is_fallback);
    }

    fn fail(mut self) {
        self.note_failure();
    }

    fn note_failure(&mut self) {
        self.is_over = true;
        let process = &self.crew.0.process;
        let (is_fallback, is_last) = (self.is_fallback, self.is_last);
        process.world.turn_fails(process.number, &self.id, self.handler, is_fallback, is_last);
    }
}

impl Drop for Turn {
    /// Dropped before its end: by death, by the time limit, by the drain timeout, or with the lease.
    fn drop(&mut self) {
        let Receivers { process, time_limit, .. } = self.crew.0.clone();
        let world = &process.world;
        if let Some(number) = self.number {
            world.tenancy().ended(number);
        }
        if self.is_over || !process.is_alive() {
            return;
        }
        let is_late = world.clock.now().saturating_sub(self.since) >= time_limit;
        let is_closing = process.is_closing.load(Ordering::Relaxed);
        world.note(format_args!("{} drops {} of {}", process.number, self.handler, self.id));
        if is_late {
            world.cover("time-outs of handlers", 1);
            self.note_failure();
        } else if is_closing {
            world.cover("handlers cut off by the drain timeout", 1);
        } else if self.number.is_some() && world.options.has_faults {
            world.cover("handlers cut off when the lease ended", 1);
        } else {
            world.violation(format!("{} of {} was cut off without a reason", self.handler, self.id));
        }
    }
}

impl Handler<Placed> for Crew {
    async fn handle(&self, _: Placed, delivery: Delivery) -> Result<(), ListenerError> {
        Crew::handle(self, &delivery).await
    }
}

impl Handler<Paid> for Crew {
    async fn handle(&self, _: Paid, delivery: Delivery) -> Result<(), ListenerError> {
        Crew::handle(self, &delivery).await
    }
}

impl Listener for Crew {
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        self.handle(&delivery).await
    }
}

impl Fallback<Placed> for Crew {
    async fn handle(&self, _: Placed, failure: Failure) -> Result<(), ListenerError> {
        self.fall_back(&failure).await
    }
}
