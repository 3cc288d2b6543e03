//! A clock that stands still until somebody moves it.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::Timestamp;
use crate::runtime::{BoxFuture, Clock};

/// Both kinds of time, moved by hand.
pub(super) struct TestClock {
    starts_at: Timestamp,
    hands: Arc<Mutex<Hands>>,
}

#[derive(Default)]
struct Hands {
    now: Duration,
    /// Who sleeps, by when it ends and by a number of its own.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    sleeps: u64,
}

impl TestClock {
    pub(super) fn new(starts_at: Timestamp) -> Self {
        Self { starts_at, hands: Arc::default() }
    }

    /// When the next sleep ends.
    pub(super) fn next_end(&self) -> Option<Duration> {
        lock(&self.hands).sleepers.first_key_value().map(|(&(end, _), _)| end)
    }

    /// Moves forward to `moment` and wakes all whose sleep has ended by then; never goes back.
    pub(super) fn move_to(&self, moment: Duration) {
        let mut hands = lock(&self.hands);
        hands.now = hands.now.max(moment);
        let first_later = (hands.now.saturating_add(Duration::from_nanos(1)), 0);
        let later = hands.sleepers.split_off(&first_later);
        let woken = std::mem::replace(&mut hands.sleepers, later);
        drop(hands);
        woken.into_values().for_each(Waker::wake);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        lock(&self.hands).now
    }

    fn wall(&self) -> Timestamp {
        self.starts_at.saturating_add(self.now())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let mut hands = lock(&self.hands);
        hands.sleeps += 1;
        let place = (hands.now.saturating_add(duration), hands.sleeps);
        Box::pin(Sleep { place, hands: self.hands.clone() })
    }
}

struct Sleep {
    place: (Duration, u64),
    hands: Arc<Mutex<Hands>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut hands = lock(&self.hands);
        if hands.now >= self.place.0 {
            return Poll::Ready(());
        }
        hands.sleepers.insert(self.place, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = lock(&self.hands).sleepers.remove(&self.place);
        // Outside of the lock: it may be the last that holds a task.
        drop(waker);
    }
}

fn lock(hands: &Mutex<Hands>) -> MutexGuard<'_, Hands> {
    hands.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn is_over(sleep: &mut BoxFuture<'static, ()>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn sleep_ends_when_its_time_has_come_and_not_before() {
        let clock = TestClock::new(Timestamp::from_micros(0));
        let mut sleep = clock.sleep(2 * SECOND);
        assert!(!is_over(&mut sleep));

        clock.move_to(2 * SECOND - Duration::from_nanos(1));
        assert!(!is_over(&mut sleep));
        clock.move_to(2 * SECOND);
        assert!(is_over(&mut sleep));
        assert_eq!(clock.wall(), Timestamp::from_micros(2_000_000));
    }

    #[test]
    fn sleep_that_is_given_up_is_forgotten() {
        let clock = TestClock::new(Timestamp::from_micros(0));
        let (mut short, mut long) = (clock.sleep(SECOND), clock.sleep(2 * SECOND));
        assert!(!is_over(&mut short) && !is_over(&mut long));

        drop(short);

        assert_eq!(clock.next_end(), Some(2 * SECOND));
    }
}
