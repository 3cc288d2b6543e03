//! What is done when a handler has failed for good.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use crate::runtime::BoxFuture;
use crate::{Delivery, DomainEvent, ListenerError};

/// How a handler has failed for good.
///
/// It dereferences to the [`Delivery`] of the last attempt, which has the [handler's id](Delivery::handler_id), the
/// event's key and context, and when it was created.
#[derive(Debug)]
pub struct Failure {
    delivery: Delivery,
    failures: u32,
    error: Arc<ListenerError>,
}

impl Failure {
    /// The last of so many failures; for tests of fallbacks.
    pub fn new(delivery: Delivery, failures: u32, error: ListenerError) -> Self {
        Self::shared(delivery, failures, Arc::new(error))
    }

    pub(crate) fn shared(delivery: Delivery, failures: u32, error: Arc<ListenerError>) -> Self {
        Self { delivery, failures, error }
    }

    /// How often the handler has failed with this event.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Why it failed the last time.
    pub fn error(&self) -> &ListenerError {
        &self.error
    }
}

impl Deref for Failure {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.delivery
    }
}

/// Is called when a handler of an event has failed for good: a last word, such as a dead-letter queue or an alert.
///
/// An async closure with two arguments is a fallback, and so is any type that implements this.
///
/// # Contract
/// - It runs once per failure for good, right after the last attempt, with a time limit of its own. `Ok` makes the handler
///   count as done, an error, a panic or the time limit as dead; it is not tried again.
/// - While the process lives it never runs for a handler that has succeeded. If the process dies before the outcome is
///   recorded, handler and fallback may run again.
pub trait Fallback<T>: Send + Sync + 'static {
    /// Does what is left to be done.
    fn handle(&self, event: T, failure: Failure) -> impl Future<Output = Result<(), ListenerError>> + Send;
}

impl<T, F, Answer, E> Fallback<T> for F
where
    T: Send + 'static,
    F: Fn(T, Failure) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), E>> + Send,
    E: Into<ListenerError>,
{
    async fn handle(&self, event: T, failure: Failure) -> Result<(), ListenerError> {
        self(event, failure).await.map_err(Into::into)
    }
}

/// A fallback for any type, behind one pointer.
pub(crate) trait AnyFallback: Send + Sync + 'static {
    fn handle_boxed(&self, failure: Failure) -> BoxFuture<'_, Result<(), ListenerError>>;
}

pub(crate) type SharedFallback = Arc<dyn AnyFallback>;

pub(crate) struct TypedFallback<F, T> {
    fallback: F,
    of: PhantomData<fn() -> T>,
}

impl<T: DomainEvent, F: Fallback<T>> TypedFallback<F, T> {
    pub(crate) fn shared(fallback: F) -> SharedFallback {
        Arc::new(Self { fallback, of: PhantomData })
    }
}

impl<T: DomainEvent, F: Fallback<T>> AnyFallback for TypedFallback<F, T> {
    fn handle_boxed(&self, failure: Failure) -> BoxFuture<'_, Result<(), ListenerError>> {
        Box::pin(async move {
            let event = failure.decode::<T>()?;
            self.fallback.handle(event, failure).await
        })
    }
}
