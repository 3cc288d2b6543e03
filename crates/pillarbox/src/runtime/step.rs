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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::runtime::Runtime;

    fn step<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Pin<Box<Step<T>>> {
        Box::pin(Step::new("test", Box::pin(work), Runtime::tokio().spawner))
    }

    async fn poll_once<T: Send + 'static>(step: &mut Pin<Box<Step<T>>>) -> Poll<Option<T>> {
        std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await
    }

    /// W5: a caller that gives up after the first wait does not stop the work, nor what follows it.
    #[tokio::test]
    async fn dropped_step_runs_to_its_end() {
        let (go, gone) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let mut step = step(async move {
            gone.await.unwrap();
            end.send("ended").unwrap();
        });

        assert!(poll_once(&mut step).await.is_pending());
        drop(step);
        go.send(()).unwrap();

        assert_eq!(ended.await, Ok("ended"));
    }

    /// W5: work that nobody ever waited for does not begin.
    #[tokio::test]
    async fn unpolled_step_does_nothing() {
        let (end, ended) = oneshot::channel::<()>();

        drop(step(async move { end.send(()) }));

        assert!(ended.await.is_err());
    }

    /// D9: a panic of the work is an answer.
    #[tokio::test]
    async fn panic_is_an_answer() {
        let mut step = step(async { assert!(std::hint::black_box(false), "seventeen") });

        assert_eq!(poll_once(&mut step).await, Poll::Ready(None));
    }
}
