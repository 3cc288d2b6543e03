//! Code of others that may panic.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::runtime::BoxFuture;

/// A future whose panic is a result: the text of the panic.
pub(crate) struct CatchPanic<'a, T: 'a>(pub(crate) BoxFuture<'a, T>);

impl<T> Future for CatchPanic<'_, T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // After a panic the future is never polled again: whoever gets the error drops it.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(text_of(&*panic))),
        }
    }
}

impl<'a, T: 'a> Drop for CatchPanic<'a, T> {
    /// What was not finished may panic once more when it is dropped.
    fn drop(&mut self) {
        let nothing: BoxFuture<'a, T> = Box::pin(Never(PhantomData));
        let unfinished = std::mem::replace(&mut self.0, nothing);
        quietly("a future that was given up", || drop(unfinished));
    }
}

/// The same for a future that stays where it is: it costs no memory of its own.
pub(super) struct CatchPanicInPlace<'a, F: Future>(pub(super) Pin<&'a mut Option<F>>);

impl<F: Future> Future for CatchPanicInPlace<'_, F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = caught(|| match self.0.as_mut().as_pin_mut() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        });
        polled.map_or_else(|panic| Poll::Ready(Err(panic)), |poll| poll.map(Ok))
    }
}

impl<F: Future> Drop for CatchPanicInPlace<'_, F> {
    fn drop(&mut self) {
        quietly("a future that was given up", || self.0.set(None));
    }
}

/// A future that never completes, and is `Send` whatever it would complete with.
struct Never<T>(PhantomData<fn() -> T>);

impl<T> Future for Never<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        Poll::Pending
    }
}

/// The text of an error; of one that panics or fails over it, as much as can be said.
pub(crate) fn shown(error: &dyn std::fmt::Display) -> String {
    caught(|| error.to_string()).unwrap_or_else(|panic| format!("an error that cannot be shown: {panic}"))
}

/// Calls code of the user's; the text of its panic, if it panics.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| text_of(&*panic))
}

/// Runs a callback of the user's; a panic in it is logged and goes no further.
pub(crate) fn quietly(what: &'static str, callback: impl FnOnce()) {
    if let Err(panic) = caught(callback) {
        tracing::error!(panic, "{what} panicked");
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text").to_owned()
}
