//! What receives events: one at a time, in this process.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::runtime::BoxFuture;
use crate::{DecodeError, Event, Timestamp};

/// Which way an event came: from memory after its commit, or from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From memory, right after the commit.
    Hot,
    /// From the table.
    Cold,
}

/// One delivery of an event: the event and what is known about this attempt.
///
/// It dereferences to its [`Event`](struct@Event), and cloning it is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    event: Event,
    attempt: u32,
    created_at: Timestamp,
    source: Source,
    handler: Option<Arc<str>>,
}

impl Delivery {
    /// Attempt number `attempt` (from 1 on) at delivering `event`; for tests of listeners and sinks.
    pub fn new(event: Event, attempt: u32, created_at: Timestamp, source: Source) -> Self {
        Self { event, attempt, created_at, source, handler: None }
    }

    /// The same event for one of its handlers.
    pub(crate) fn to_handler(&self, id: &Arc<str>, attempt: u32) -> Self {
        Self { attempt, handler: Some(id.clone()), ..self.clone() }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Which attempt this is: 1 at first, one more for each that failed. Attempts of a handler are its own.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// When the event was written, by the database's clock.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Which way it came.
    pub fn source(&self) -> Source {
        self.source
    }

    /// The id of the [handler](crate::Handlers) that it is for; `None` for a listener, a sink or an interceptor.
    pub fn handler_id(&self) -> Option<&str> {
        self.handler.as_deref()
    }
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

/// Receives events, one at a time.
///
/// An async closure is a listener, and so is any type that implements this:
///
/// ```
/// use pillarbox::{Delivery, Listener, ListenerError};
///
/// struct Billing;
///
/// impl Listener for Billing {
///     async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
///         println!("invoice for {}", delivery.aggregate_id().unwrap_or("nobody"));
///         Ok(())
///     }
/// }
/// ```
///
/// # Contract
/// - `Ok` means delivered: the event will be DONE. Whatever else happens (an error, a panic, the time limit)
///   counts as a failed attempt, unless the error says otherwise.
/// - The same event may come again, with the same id, after a crash, a time-out or a lost answer: be
///   idempotent.
/// - The future may be dropped at any await, when the time limit or the drain timeout passes.
pub trait Listener: Send + Sync + 'static {
    /// Handles one event.
    fn on_event(&self, delivery: Delivery) -> impl Future<Output = Result<(), ListenerError>> + Send;
}

impl<F, Answer, E> Listener for F
where
    F: Fn(Delivery) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), E>> + Send,
    E: Into<ListenerError>,
{
    async fn on_event(&self, delivery: Delivery) -> Result<(), ListenerError> {
        self(delivery).await.map_err(Into::into)
    }
}

/// A listener of any type, behind one pointer.
pub(crate) trait AnyListener: Send + Sync + 'static {
    fn on_event_boxed(&self, delivery: Delivery) -> BoxFuture<'_, Result<(), ListenerError>>;
}

impl<L: Listener> AnyListener for L {
    fn on_event_boxed(&self, delivery: Delivery) -> BoxFuture<'_, Result<(), ListenerError>> {
        Box::pin(self.on_event(delivery))
    }
}

pub(crate) type SharedListener = Arc<dyn AnyListener>;

/// Why a listener did not handle an event, and what is to be done about it.
///
/// Every `std::error::Error` turns into one by `?` and means "try again as the retry policy says".
#[derive(Debug)]
pub struct ListenerError {
    verdict: Verdict,
    source: Box<dyn Error + Send + Sync>,
}

/// What an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    AsPolicySays,
    After {
        delay: Duration,
        spent: bool,
    },
    Permanent,
    /// The payload is not what its type says: nobody can do anything with it.
    Undecodable,
}

impl ListenerError {
    /// A failure: tried again as the retry policy says, and dead after the last attempt.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { verdict: Verdict::AsPolicySays, source: error.into() }
    }

    /// A failure that asks for its own delay; it spends an attempt.
    pub fn retry_after(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { verdict: Verdict::After { delay, spent: true }, source: error.into() }
    }

    /// Not a failure of the event: tried again after `delay`, and no attempt is spent.
    pub fn not_now(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { verdict: Verdict::After { delay, spent: false }, source: error.into() }
    }

    /// A failure that no retry can cure: the event is dead at once.
    pub fn permanent(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { verdict: Verdict::Permanent, source: error.into() }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What went wrong.
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for ListenerError {
    /// Retried as the policy says; but a [`DecodeError`] is not retried at all.
    fn from(error: E) -> Self {
        let is_undecodable = (&error as &dyn Any).is::<DecodeError>();
        let verdict = if is_undecodable { Verdict::Undecodable } else { Verdict::AsPolicySays };
        Self { verdict, source: error.into() }
    }
}

impl fmt::Display for ListenerError {
    /// The error and its causes, from the outside in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let mut cause = self.source.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
