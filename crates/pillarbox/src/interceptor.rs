//! Hooks around every delivery, for audit, logging and checks.

use std::future::Future;
use std::sync::Arc;

use crate::runtime::BoxFuture;
use crate::{Delivery, ListenerError};

/// Runs before and after every attempt at delivering an event.
///
/// Give one half alone with [`before`] or [`after`].
///
/// # Contract
/// - [`before`](Interceptor::before) runs in the order of registration; an error ends the attempt as if the
///   listener had failed with it.
/// - [`after`](Interceptor::after) runs in reverse order, with the error of the attempt if there was one; an
///   error of its own is logged and changes nothing.
/// - Both run once per attempt; in a run for a sink, once for each event.
pub trait Interceptor: Send + Sync + 'static {
    /// Runs before the event is routed.
    fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), ListenerError>>;

    /// Runs after the listener; `error` is why the attempt failed, if it did.
    fn after<'a>(
        &'a self,
        delivery: &'a Delivery,
        error: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), ListenerError>>;
}

pub(crate) type SharedInterceptor = Arc<dyn Interceptor>;

/// An interceptor that only runs before.
pub fn before<F, Answer>(hook: F) -> impl Interceptor
where
    F: Fn(Delivery) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), ListenerError>> + Send + 'static,
{
    Before(hook)
}

/// An interceptor that only runs after; it gets the delivery and why it failed, if it did.
pub fn after<F, Answer>(hook: F) -> impl Interceptor
where
    F: Fn(Delivery, Option<String>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), ListenerError>> + Send + 'static,
{
    After(hook)
}

struct Before<F>(F);

impl<F, Answer> Interceptor for Before<F>
where
    F: Fn(Delivery) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), ListenerError>> + Send + 'static,
{
    fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, Result<(), ListenerError>> {
        Box::pin((self.0)(delivery.clone()))
    }

    fn after<'a>(&'a self, _: &'a Delivery, _: Option<&'a str>) -> BoxFuture<'a, Result<(), ListenerError>> {
        Box::pin(async { Ok(()) })
    }
}

struct After<F>(F);

impl<F, Answer> Interceptor for After<F>
where
    F: Fn(Delivery, Option<String>) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<(), ListenerError>> + Send + 'static,
{
    fn before<'a>(&'a self, _: &'a Delivery) -> BoxFuture<'a, Result<(), ListenerError>> {
        Box::pin(async { Ok(()) })
    }

    fn after<'a>(
        &'a self,
        delivery: &'a Delivery,
        error: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), ListenerError>> {
        Box::pin((self.0)(delivery.clone(), error.map(str::to_owned)))
    }
}
