//! The hot and the cold queue: bounded, and drained two to one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Delivery;
use crate::config::Config;
use crate::destination::SinkSet;
use crate::handler::HandlerSet;
use crate::registry::{Receiver, Target};
use crate::runtime::Clock;
use crate::store::{Lease, Taken};

/// An event on its way to a worker.
pub(crate) struct Item {
    pub(crate) delivery: Delivery,
    pub(crate) lease: Lease,
    /// When the lease ends at the earliest, by the local clock.
    pub(crate) deadline: Duration,
    pub(crate) target: Option<Target>,
    /// It may be to blame for crashes: nothing else runs beside it.
    pub(crate) runs_alone: bool,
    pub(crate) stored: Option<Box<Stored>>,
}

/// What the table knows of an event's handlers.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// How far they have come.
    pub(crate) handlers: String,
    /// How long the event had been due when it was taken, and when that was by the local clock.
    pub(crate) due_for: Duration,
    pub(crate) taken_at: Duration,
}

impl Stored {
    /// What is stored of an event that was taken now; nothing, as long as none of its handlers has failed.
    pub(crate) fn of(taken: &Taken, clock: &dyn Clock) -> Option<Box<Self>> {
        let handlers = taken.handlers.clone()?;
        Some(Box::new(Self { handlers, due_for: taken.due_for, taken_at: clock.now() }))
    }
}

impl Item {
    /// Takes out the handlers of the event, if it has any: one for which nobody is registered any more still owes them
    /// something.
    pub(super) fn take_handlers(&mut self) -> Option<Arc<HandlerSet>> {
        match &self.target {
            Some(Target(Receiver::Listener(_) | Receiver::Sinks(_) | Receiver::Paused(..))) => None,
            None if self.stored.is_none() => None,
            _ => match self.target.take() {
                Some(Target(Receiver::Handlers(handlers))) => Some(handlers),
                _ => Some(Arc::default()),
            },
        }
    }

    /// What there is to know of its lease.
    pub(super) fn leased(&self) -> Self {
        let Self { delivery, lease, deadline, runs_alone, .. } = self;
        let (delivery, runs_alone) = (delivery.clone(), *runs_alone);
        Self { delivery, lease: *lease, deadline: *deadline, target: None, runs_alone, stored: None }
    }

    fn bytes(&self) -> usize {
        self.delivery.payload().as_bytes().len()
    }
}

/// What a worker does next.
pub(crate) enum Work {
    One(Item),
    Run(Arc<SinkSet>, Vec<Item>),
}

impl Work {
    /// Whether this is a suspect; it comes alone.
    pub(crate) fn is_suspect(&self) -> bool {
        match self {
            Self::One(item) => item.runs_alone,
            Self::Run(_, items) => items.iter().any(|item| item.runs_alone),
        }
    }
}

/// The two queues.
pub(crate) struct Queues {
    state: Mutex<State>,
    work: Notify,
    room: Notify,
    limits: Limits,
}

struct Limits {
    hot: usize,
    cold: usize,
    run_events: usize,
    run_bytes: usize,
    /// The room in the cold queue from which on a take is worth its statement.
    worthwhile: usize,
}

#[derive(Default)]
struct State {
    hot: VecDeque<Item>,
    cold: VecDeque<Item>,
    /// Places in the hot queue that are promised to events whose row is still being read back.
    promised: usize,
    /// Position in the cycle hot, hot, cold.
    turn: u8,
    closed: bool,
}

impl Queues {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = Limits {
            hot: config.hot_queue,
            cold: config.cold_queue,
            run_events: config.run_events,
            run_bytes: config.run_bytes,
            worthwhile: config.worthwhile_room(),
        };
        Self { state: Mutex::default(), work: Notify::new(), room: Notify::new(), limits }
    }

    /// Promises a place in the hot queue; false when it is full or closed.
    pub(crate) fn promise_hot(&self) -> bool {
        let mut state = self.lock();
        let free = !state.closed && state.hot.len() + state.promised < self.limits.hot;
        state.promised += usize::from(free);
        free
    }

    /// Takes back the promise of `count` places.
    pub(crate) fn forgo_hot(&self, count: usize) {
        self.lock().promised -= count;
    }

    /// Puts an event into its promised place; gives it back when the queue is closed.
    pub(crate) fn push_hot(&self, item: Item) -> Result<(), Box<Item>> {
        let mut state = self.lock();
        state.promised -= 1;
        if state.closed {
            return Err(Box::new(item));
        }
        state.hot.push_back(item);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Queues an event from the table; gives it back when the queue is full or closed.
    pub(crate) fn push_cold(&self, item: Item) -> Result<(), Box<Item>> {
        let mut state = self.lock();
        if state.closed || state.cold.len() >= self.limits.cold {
            return Err(Box::new(item));
        }
        state.cold.push_back(item);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// How many events the cold queue can still take.
    pub(crate) fn cold_room(&self) -> usize {
        let state = self.lock();
        if state.closed { 0 } else { self.limits.cold.saturating_sub(state.cold.len()) }
    }

    /// How many events wait: hot, cold.
    pub(crate) fn depths(&self) -> (usize, usize) {
        let state = self.lock();
        (state.hot.len() + state.promised, state.cold.len())
    }

    /// Completes when the cold queue may have enough room for a take.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Says that it is worth looking for room again.
    pub(crate) fn look_again(&self) {
        self.room.notify_one();
    }

    /// The next thing to do; `None` once the queues are closed.
    pub(crate) async fn next(&self) -> Option<Work> {
        loop {
            {
                let mut state = self.lock();
                if state.closed {
                    // Let the next worker see it too.
                    self.work.notify_one();
                    return None;
                }
                if let Some(work) = state.pop(&self.limits) {
                    if state.hot.len() + state.cold.len() > 0 {
                        self.work.notify_one();
                    }
                    let room = self.limits.cold - state.cold.len();
                    drop(state);
                    if room >= self.limits.worthwhile {
                        self.room.notify_one();
                    }
                    return Some(work);
                }
            }
            self.work.notified().await;
        }
    }

    /// Closes both queues and returns what was waiting in them.
    pub(crate) fn close(&self) -> Vec<Item> {
        let mut state = self.lock();
        state.closed = true;
        let hot = std::mem::take(&mut state.hot);
        let cold = std::mem::take(&mut state.cold);
        drop(state);
        self.work.notify_one();
        self.room.notify_one();
        hot.into_iter().chain(cold).collect()
    }

    /// The leases of waiting events that end before `moment`.
    pub(crate) fn ending_before(&self, moment: Duration) -> Vec<Lease> {
        let state = self.lock();
        let waiting = state.hot.iter().chain(&state.cold);
        waiting.filter(|item| item.deadline < moment).map(|item| item.lease).collect()
    }

    /// Whether the event with this number waits.
    pub(crate) fn hold(&self, seq: i64) -> bool {
        let state = self.lock();
        state.hot.iter().chain(&state.cold).any(|item| item.lease.seq == seq)
    }

    /// Notes that leases were renewed until `deadline`, or lost; returns how many suspects lost theirs.
    pub(crate) fn renewed(&self, leases: &[Lease], lost: &[i64], deadline: Duration) -> usize {
        let mut state = self.lock();
        let State { hot, cold, .. } = &mut *state;
        let mut lost_suspects = 0;
        for queue in [hot, cold] {
            queue.retain(|item| {
                let keep = !lost.contains(&item.lease.seq);
                lost_suspects += usize::from(!keep && item.runs_alone);
                keep
            });
            let renewed =
                queue.iter_mut().filter(|item| leases.iter().any(|lease| lease.seq == item.lease.seq));
            renewed.for_each(|item| item.deadline = deadline);
        }
        lost_suspects
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn pop(&mut self, limits: &Limits) -> Option<Work> {
        let first = self.pop_one()?;
        let set = match &first.target {
            Some(Target(Receiver::Sinks(set))) => set.clone(),
            _ => return Some(Work::One(first)),
        };
        let mut run = vec![first];
        // A suspect runs alone, and takes nobody along; so does an event that the sink left unanswered.
        if !run[0].runs_alone && !set.is_doubtful(run[0].lease.seq) {
            self.extend_run(&set, &mut run, limits);
        }
        Some(Work::Run(set, run))
    }

    /// Two from the hot queue, then one from the cold; whoever has nothing passes the turn on.
    fn pop_one(&mut self) -> Option<Item> {
        let hot_first = self.turn < 2;
        self.turn = (self.turn + 1) % 3;
        let (first, second) =
            if hot_first { (&mut self.hot, &mut self.cold) } else { (&mut self.cold, &mut self.hot) };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// Adds waiting events that go the same way, in order, up to the limits.
    fn extend_run(&mut self, set: &Arc<SinkSet>, run: &mut Vec<Item>, limits: &Limits) {
        let mut bytes = run[0].bytes();
        for queue in [&mut self.hot, &mut self.cold] {
            let mut index = 0;
            while index < queue.len() && run.len() < limits.run_events {
                let item = &queue[index];
                let joins = item.target.as_ref().is_some_and(|target| target.goes_to(set));
                if !joins || item.runs_alone || set.is_doubtful(item.lease.seq) {
                    index += 1;
                    continue;
                }
                bytes += item.bytes();
                if bytes > limits.run_bytes {
                    return;
                }
                run.extend(queue.remove(index));
            }
        }
    }
}
