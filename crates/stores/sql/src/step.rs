//! Steps that are never dropped half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pillarbox::BoxFuture;
use pillarbox::store::StoreError;
use tokio::runtime::Handle;

/// Work that runs to its end once it has begun: if whoever waits for it is gone, it goes on in a task of its
/// own. A task from the beginning would do the same, and cost each step the way to it and back.
pub struct Step<T: Send + 'static> {
    work: Option<BoxFuture<'static, T>>,
    /// Where it goes on; known when it has begun.
    runtime: Option<Handle>,
}

/// The work panicked.
#[derive(Clone, Copy, Debug)]
pub struct Panicked;

/// Runs `step` to its end: a caller that stops waiting cancels nothing.
pub async fn to_its_end<T: Send + 'static>(
    step: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = Step::new(step).await;
    ended.unwrap_or_else(|Panicked| Err(StoreError::unavailable("a step of the store panicked")))
}

impl<T: Send + 'static> Step<T> {
    /// Work that begins when it is first waited for, and must be waited for inside a tokio runtime.
    pub fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
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

impl<T: Send + 'static> std::fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step").field("ended", &self.work.is_none()).finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    /// A caller that gives up after the first wait does not stop the work.
    #[tokio::test]
    async fn a_step_that_was_dropped_runs_to_its_end() {
        let (go, gone) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let mut step = Box::pin(Step::new(async move {
            gone.await.unwrap();
            end.send("ended").unwrap();
        }));

        let first = std::future::poll_fn(|context| Poll::Ready(step.as_mut().poll(context))).await;
        assert!(first.is_pending());
        drop(step);
        go.send(()).unwrap();

        assert_eq!(ended.await, Ok("ended"));
    }

    /// Work that nobody ever waited for does not begin.
    #[tokio::test]
    async fn a_step_that_was_never_polled_does_nothing() {
        let (end, ended) = oneshot::channel::<()>();

        drop(Step::new(async move { end.send(()) }));

        assert!(ended.await.is_err());
    }

    /// A panic of the work is an answer.
    #[tokio::test]
    async fn a_panic_is_reported() {
        let step = to_its_end(async { if Duration::ZERO.is_zero() { panic!("seventeen") } else { Ok(()) } });

        assert!(step.await.unwrap_err().to_string().contains("panicked"));
    }
}
