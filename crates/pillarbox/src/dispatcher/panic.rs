//! Code of others that may panic.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::runtime::BoxFuture;

/// A future whose panic is a result: the text of the panic.
pub(crate) struct CatchPanic<'a, T>(pub(crate) BoxFuture<'a, T>);

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
