//! Steps that are never dropped half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pillarbox::BoxFuture;
use tokio::runtime::Handle;

/// Work that runs to its end once it has begun: if whoever waits for it is gone, it goes on in a task of its
/// own. A task from the beginning would do the same, and cost each step the way to it and back.
pub(crate) struct Step<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    /// Where it goes on; known when it has begun.
    runtime: Option<Handle>,
}

/// The work panicked.
pub(crate) struct Panicked;

impl<T: Send + 'static> Step<T> {
    pub(crate) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self { work: Some(Box::pin(work)), runtime: None }
    }
}

impl<T: Send + 'static> Future for Step<T> {
    type Output = Result<T, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.runtime.get_or_insert_with(Handle::current);
        let Some(work) = &mut self.work else { return Poll::Ready(Err(Panicked)) };
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            self.work = None;
        }
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

impl<T: Send + 'static> Drop for Step<T> {
    fn drop(&mut self) {
        if let (Some(work), Some(runtime)) = (self.work.take(), self.runtime.take()) {
            // Given to a runtime that is gone, the pool still needs one to take its connection back.
            let _context = runtime.enter();
            runtime.spawn(async move { drop(work.await) });
        }
    }
}
