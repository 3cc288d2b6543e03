//! Which of the engine's tasks have something to do.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::coop::has_budget_remaining;

use crate::runtime::{BoxFuture, Spawn};

/// How many tasks run or are about to: those that were woken, until they wait again.
///
/// Whoever wakes a task counts it before it goes on itself, so there is no moment at which work is under way and the
/// number is zero. Then every task waits for the clock, for a call of the user's that it has made, or to be given
/// something.
#[derive(Default)]
pub(super) struct Activity {
    awake: AtomicUsize,
    /// How often all have come to rest.
    rests: AtomicU64,
    rested: Notify,
}

impl Activity {
    /// Waits until all tasks are at rest, and says how often they have come to it.
    pub(super) async fn at_rest(&self) -> u64 {
        self.until(|| self.awake.load(Ordering::SeqCst) == 0).await;
        self.rests.load(Ordering::SeqCst)
    }

    /// Waits until all tasks have come to rest more often than `before`.
    pub(super) async fn rested_since(&self, before: u64) {
        self.until(|| self.rests.load(Ordering::SeqCst) > before).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let mut rested = std::pin::pin!(self.rested.notified());
            rested.as_mut().enable();
            if is_so() {
                return;
            }
            rested.await;
        }
    }

    fn wakes(&self) {
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    fn rests(&self) {
        if self.awake.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.rests.fetch_add(1, Ordering::SeqCst);
            self.rested.notify_waiters();
        }
    }
}

/// Runs tasks on tokio, and counts those that are awake.
pub(super) struct WatchedSpawner {
    pub(super) tokio: Handle,
    pub(super) activity: Arc<Activity>,
}

impl Spawn for WatchedSpawner {
    #[expect(clippy::disallowed_methods, reason = "this is the spawner")]
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.activity.wakes();
        let state = Mutex::new(State { phase: Phase::Woken, waker: None });
        let turns = Arc::new(Turns { activity: self.activity.clone(), state });
        self.tokio.spawn(Watched { task, turns });
    }
}

/// Where a task stands; in all phases but two it counts as awake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Woken,
    Running,
    WokenWhileRunning,
    Waiting,
    Over,
}

struct State {
    phase: Phase,
    /// How tokio is told.
    waker: Option<Waker>,
}

/// The turns of one task, which is its waker too.
struct Turns {
    activity: Arc<Activity>,
    state: Mutex<State>,
}

impl Turns {
    fn begin(&self, waker: &Waker) {
        let mut state = self.lock();
        if state.phase == Phase::Waiting {
            self.activity.wakes();
        }
        state.phase = Phase::Running;
        state.waker = Some(waker.clone());
    }

    fn end(&self) {
        let mut state = self.lock();
        match state.phase {
            Phase::WokenWhileRunning => state.phase = Phase::Woken,
            Phase::Woken | Phase::Running => {
                state.phase = Phase::Waiting;
                drop(state);
                self.activity.rests();
            }
            Phase::Waiting | Phase::Over => {}
        }
    }

    fn end_for_good(&self) {
        let before = std::mem::replace(&mut self.lock().phase, Phase::Over);
        if !matches!(before, Phase::Waiting | Phase::Over) {
            self.activity.rests();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Turns {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.lock();
        match state.phase {
            Phase::Waiting => {
                state.phase = Phase::Woken;
                self.activity.wakes();
            }
            Phase::Running => state.phase = Phase::WokenWhileRunning,
            Phase::Woken | Phase::WokenWhileRunning | Phase::Over => return,
        }
        let waker = state.waker.clone();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Watched {
    task: BoxFuture<'static, ()>,
    turns: Arc<Turns>,
}

impl Future for Watched {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.turns.begin(context.waker());
        let waker = Waker::from(self.turns.clone());
        let polled = self.task.as_mut().poll(&mut Context::from_waker(&waker));
        match polled {
            Poll::Ready(()) => self.turns.end_for_good(),
            Poll::Pending => {
                // Who has used up its budget is woken by tokio, but only later: meanwhile it would pass for waiting.
                if !has_budget_remaining() {
                    waker.wake_by_ref();
                }
                self.turns.end();
            }
        }
        polled
    }
}

impl Drop for Watched {
    /// It may have panicked, or tokio is shut down.
    fn drop(&mut self) {
        self.turns.end_for_good();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    fn spawner() -> WatchedSpawner {
        WatchedSpawner { tokio: Handle::current(), activity: Arc::default() }
    }

    #[tokio::test]
    async fn task_that_waits_is_at_rest_until_it_is_woken() {
        let spawner = spawner();
        let (wake, woken) = oneshot::channel::<()>();
        let (tell, mut told) = oneshot::channel();
        let task = async move {
            woken.await.unwrap();
            tokio::task::yield_now().await;
            tell.send("woken").unwrap();
        };
        spawner.spawn("test", Box::pin(task));
        let rests = spawner.activity.at_rest().await;
        assert!(told.try_recv().is_err());

        wake.send(()).unwrap();
        spawner.activity.rested_since(rests).await;
        spawner.activity.at_rest().await;

        told.await.unwrap();
    }

    /// Tokio makes a task that does much at once wait, and wakes it later.
    #[tokio::test]
    async fn task_that_has_used_up_its_budget_is_not_at_rest() {
        let spawner = spawner();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        (0..1_000).for_each(|number| sender.send(number).unwrap());
        let received = Arc::new(AtomicUsize::new(0));
        let count = received.clone();
        let task = async move {
            while receiver.recv().await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        spawner.spawn("test", Box::pin(task));

        spawner.activity.at_rest().await;

        assert_eq!(received.load(Ordering::SeqCst), 1_000);
        drop(sender);
    }

    #[tokio::test]
    async fn task_that_panics_or_is_over_is_at_rest() {
        let spawner = spawner();
        spawner.spawn("test", Box::pin(async { assert!(std::hint::black_box(false), "seventeen") }));
        spawner.spawn("test", Box::pin(async {}));

        spawner.activity.at_rest().await;

        assert_eq!(spawner.activity.awake.load(Ordering::SeqCst), 0);
    }
}
