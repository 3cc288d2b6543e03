//! Steps that are never dropped half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{BoxFuture, Spawn};

/// Work that runs to its end once it has begun: if whoever waits for it is gone, it goes on in a task of its own. A
/// task from the beginning would do the same, and cost every transaction the way to it and back, twice.
///
/// `None` means that it panicked.
pub(super) struct Step<T: Send + 'static> {
    name: &'static str,
    work: Option<BoxFuture<'static, T>>,
    has_begun: bool,
    spawner: Arc<dyn Spawn>,
}

impl<T: Send + 'static> Step<T> {
    pub(super) fn new(name: &'static str, work: BoxFuture<'static, T>, spawner: Arc<dyn Spawn>) -> Self {
        Self { name, work: Some(work), has_begun: false, spawner }
    }
}

impl<T: Send + 'static> Future for Step<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        self.has_begun = true;
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        if !matches!(polled, Ok(Poll::Pending)) {
            self.work = None;
        }
        match polled {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}

impl<T: Send + 'static> Drop for Step<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| self.has_begun) {
            // What it comes to is dropped there, outside of any database call.
            self.spawner.spawn(self.name, Box::pin(async move { drop(work.await) }));
        }
    }
}
