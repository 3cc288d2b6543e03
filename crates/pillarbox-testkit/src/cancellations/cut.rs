//! Futures that are dropped in the middle.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// More often than any future here is polled.
const MOST_POLLS: usize = 20_000;

/// One completion may be luck: the database was faster than usual.
const ENOUGH_COMPLETIONS: usize = 3;

/// Polls `future` at most `polls` times and drops it then; returns its output if it has one by then.
pub async fn cut_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Calls `cut` with a number of polls that grows until the future that it [cuts](cut_after) completes for sure, which
/// it says: first every await is reached, and after the twentieth most of them.
pub async fn cut_everywhere(mut cut: impl AsyncFnMut(usize) -> bool) {
    let (mut polls, mut completions) = (0, 0);
    while polls < MOST_POLLS {
        let is_complete = cut(polls).await;
        assert!(polls > 0 || !is_complete, "nothing completes without being polled");
        completions = if is_complete { completions + 1 } else { 0 };
        if completions == ENOUGH_COMPLETIONS {
            return;
        }
        // Making a connection takes hundreds of polls, most of which are alike.
        polls += 1 + polls / 20;
    }
    panic!("it is not complete after {MOST_POLLS} polls");
}
