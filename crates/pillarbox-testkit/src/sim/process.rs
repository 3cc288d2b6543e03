//! A process that can die at every await.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use pillarbox::{BoxFuture, Clock, Spawn};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::panic::{AS_ASKED, Panicking, caught};
use super::rng::Rng;
use super::world::World;
use crate::faulty::Cutter;
use crate::ledger::Cause;

/// More polls than any run of this size needs, though it may drain for twelve hours and look for work five times a second.
const MAX_POLLS: u64 = 2_000_000;

/// One incarnation of the application with its outbox.
pub(super) struct Process {
    pub(super) number: u32,
    pub(super) world: Arc<World>,
    cutter: OnceLock<Cutter>,
    is_alive: watch::Sender<bool>,
    pub(super) is_closing: AtomicBool,
    /// Polls of all its tasks so far, and the one that it dies at.
    polls: AtomicU64,
    dies_at: u64,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Who wants to run on when it thaws; absent while it is not frozen.
    frozen: Mutex<Option<Vec<Waker>>>,
    /// Whether a call of it will never be answered.
    pub(super) is_silenced: AtomicBool,
    /// Decides which polls are put off.
    rng: Rng,
}

impl Process {
    /// A process that dies when its tasks have been polled `dies_at` times.
    pub(super) fn new(world: &Arc<World>, number: u32, dies_at: u64) -> Arc<Self> {
        Arc::new(Self {
            number,
            world: world.clone(),
            cutter: OnceLock::new(),
            is_alive: watch::Sender::new(true),
            is_closing: AtomicBool::new(false),
            polls: AtomicU64::new(0),
            dies_at,
            tasks: Mutex::default(),
            frozen: Mutex::default(),
            is_silenced: AtomicBool::new(false),
            rng: world.beside.fork(),
        })
    }

    pub(super) fn holds(&self, cutter: Cutter) {
        // A process has one store only.
        let _ = self.cutter.set(cutter);
    }

    pub(super) fn is_alive(&self) -> bool {
        *self.is_alive.borrow()
    }

    /// Completes when it is dead.
    pub(super) async fn died(&self) {
        // Cannot fail: the sender lives as long as `self`.
        let _ = self.is_alive.subscribe().wait_for(|alive| !alive).await;
    }

    /// Stops all its tasks where they are; time goes on.
    pub(super) fn freeze(&self) {
        self.frozen().get_or_insert_default();
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen().is_some()
    }

    /// Lets its tasks go on.
    pub(super) fn thaw(&self) {
        let Some(wakers) = self.frozen().take() else { return };
        self.world.failovers.thawed(self.number, self.world.clock.now());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether a poll is put off, so that another task comes first.
    fn puts_off(&self) -> bool {
        let put_off = self.world.options.owned.map_or(0, |owned| owned.put_off);
        let is_put_off = put_off > 0 && self.rng.chance(put_off);
        self.world.cover("polls put off", u64::from(is_put_off));
        is_put_off
    }

    /// Whether a task that is frozen waits for nothing but the database, which goes on.
    fn waits_for_effect(&self, is_calling: bool) -> bool {
        is_calling && self.world.options.owned.is_some_and(|owned| owned.has_late_effects)
    }

    fn panic_if_asked(&self, polls: u64) {
        let is_asked = self.world.script.panicking == Some(Panicking::Task);
        assert!(!is_asked || polls != Panicking::POLL, "{AS_ASKED}");
    }

    /// A task has panicked, and is over by that. The outbox would not notice, so nothing else might go wrong.
    fn panicked(&self, task: &str, panic: &str) -> Poll<()> {
        self.world.violation(format!("the task `{task}` of process {} panicked: {panic}", self.number));
        Poll::Ready(())
    }

    fn frozen(&self) -> MutexGuard<'_, Option<Vec<Waker>>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Dies: the store is cut first, then the tasks are dropped, so that no destructor reaches the store.
    pub(super) fn kill(&self, why: &'static str) {
        if !self.is_alive.send_replace(false) {
            return;
        }
        if let Some(cutter) = self.cutter.get() {
            cutter.cut();
        }
        let polls = self.polls.load(Ordering::Relaxed);
        self.world.note(format_args!("process {} dies at poll {polls}: {why}", self.number));
        self.world.cover(why, 1);
        let unrecorded = self.world.tenancy().died(self.number);
        for event_id in self.world.model().unrecorded_by(self.number).into_iter().chain(unrecorded) {
            self.world.ledger.explain(&event_id, Cause::Crash);
        }
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Runs a task of the application, and tells its result; nothing if the process dies.
    pub(super) fn run<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl Future<Output = T> + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (answer, answered) = oneshot::channel();
        let task = async move {
            let _ = answer.send(task.await);
        };
        Mortals(self.clone()).spawn("application", Box::pin(task));
        answered
    }
}

/// Spawns tasks that live and die with a process.
pub(super) struct Mortals(pub(super) Arc<Process>);

impl Spawn for Mortals {
    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        if !self.0.is_alive() {
            return;
        }
        self.0.world.cover("looks behind a hot key", u64::from(name == "behind"));
        let handle = tokio::spawn(Mortal { process: self.0.clone(), name, task, is_calling: false });
        let mut tasks = self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| !task.is_finished());
        }
        tasks.push(handle.abort_handle());
    }
}

thread_local! {
    /// Whether the task that is polled has sent a call that has not taken effect.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// The task that is polled has sent a call, or its call has taken effect.
pub(super) fn note_calling(is_calling: bool) {
    IS_CALLING.set(is_calling);
}

/// A task of a process; each of its polls may be the process's last moment.
struct Mortal {
    process: Arc<Process>,
    name: &'static str,
    task: BoxFuture<'static, ()>,
    is_calling: bool,
}

impl Future for Mortal {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if !self.process.is_alive() {
            return Poll::Pending;
        }
        let waits_for_effect = self.process.waits_for_effect(self.is_calling);
        if let Some(frozen) = self.process.frozen().as_mut().filter(|_| !waits_for_effect) {
            frozen.push(context.waker().clone());
            return Poll::Pending;
        }
        if self.process.puts_off() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polls = self.process.polls.fetch_add(1, Ordering::Relaxed) + 1;
        if polls == self.process.dies_at && !self.process.world.is_quiet.load(Ordering::Relaxed) {
            self.process.kill("death");
            return Poll::Pending;
        }
        if polls == MAX_POLLS {
            self.process.world.violation("the process is busy without end".to_owned());
            self.process.kill("death by exhaustion");
            return Poll::Pending;
        }
        IS_CALLING.set(self.is_calling);
        let poll = caught(|| {
            self.process.panic_if_asked(polls);
            self.task.as_mut().poll(context)
        });
        let poll = poll.unwrap_or_else(|panic| self.process.panicked(self.name, &panic));
        let is_calling = IS_CALLING.replace(false);
        let has_taken_effect = self.is_calling && !is_calling && self.process.is_frozen();
        self.process.world.cover("effects while the caller was frozen", u64::from(has_taken_effect));
        self.is_calling = is_calling;
        // Whoever died in this poll answers nothing.
        if self.process.is_alive() { poll } else { Poll::Pending }
    }
}
