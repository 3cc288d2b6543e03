//! What was called with which event, and how it ended.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Delivery;

/// One call of a listener, a handler, a fallback or a sink, with one event.
///
/// It dereferences to its [`Delivery`], which has the event, the [attempt](Delivery::attempt), the
/// [source](Delivery::source) and, for handlers and fallbacks, the [handler's id](Delivery::handler_id).
///
/// ```
/// # use pillarbox::testing::{Answer, TestOutbox};
/// # use pillarbox::{Delivery, ListenerError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = TestOutbox::start(|outbox| {
///     outbox.on("OrderPlaced", |_: Delivery| async { Err(ListenerError::new("no stamps")) })
/// });
/// let mut tx = outbox.begin().await?;
/// outbox.write_json(&mut tx, "OrderPlaced", "{}").await?;
/// tx.commit().await?;
/// outbox.drain().await;
///
/// let attempts = outbox.attempts();
/// assert_eq!(attempts[0].answer(), &Answer::Failed("no stamps".into()));
/// assert_eq!((attempts[0].event_type(), attempts[0].attempt()), ("OrderPlaced", 1));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Attempt {
    delivery: Delivery,
    is_fallback: bool,
    answer: Answer,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It has not ended yet.
    Running,
    /// It returned `Ok`.
    Succeeded,
    /// It returned an error; this is its text.
    Failed(String),
    /// It panicked with this text.
    Panicked(String),
    /// It was dropped before it answered: its time was over, or the outbox was closed. Of a sink also: it ended without
    /// an answer for this event.
    CutOff,
}

impl Attempt {
    /// What it was called with.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Whether it was the [fallback](crate::Handlers::fallback) of the handler, and not the handler itself.
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// How it ended.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Whether it returned `Ok`.
    pub fn has_succeeded(&self) -> bool {
        self.answer == Answer::Succeeded
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        self.answer == Answer::Running
    }
}

impl Deref for Attempt {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.delivery
    }
}

/// All calls, in the order in which they began.
#[derive(Default)]
pub(super) struct Log {
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    attempts: Vec<Attempt>,
    ended: u64,
    succeeded: u64,
}

impl Log {
    pub(super) fn begin(self: &Arc<Self>, delivery: Delivery, is_fallback: bool) -> Call {
        let mut calls = self.lock();
        calls.attempts.push(Attempt { delivery, is_fallback, answer: Answer::Running });
        Call { log: self.clone(), place: calls.attempts.len() - 1 }
    }

    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts.clone()
    }

    /// How many calls have begun, and how many have ended.
    pub(super) fn begun_and_ended(&self) -> (u64, u64) {
        let calls = self.lock();
        (calls.attempts.len() as u64, calls.ended)
    }

    pub(super) fn succeeded(&self) -> u64 {
        self.lock().succeeded
    }

    fn answer(&self, place: usize, answer: Answer) {
        let mut calls = self.lock();
        if calls.attempts[place].is_running() {
            calls.ended += 1;
            calls.succeeded += u64::from(answer == Answer::Succeeded);
            calls.attempts[place].answer = answer;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way; dropped without an answer, it was cut off.
pub(super) struct Call {
    log: Arc<Log>,
    place: usize,
}

impl Call {
    pub(super) fn end(self, answer: Answer) {
        self.log.answer(self.place, answer);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.log.answer(self.place, Answer::CutOff);
    }
}
