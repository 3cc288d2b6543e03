//! Records what became of events, in batches, apart from delivery.

mod handle;
mod held;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

pub(crate) use self::handle::SettlerHandle;
use self::handle::{Entry, SettlerState, Unrecorded};
use self::held::Held;

use crate::dispatcher::InFlight;
use crate::handler::Remembered;
use crate::metrics::{Meter, add};
use crate::namesake::Namesake;
use crate::partitions::{Mailbox, Message, Tenure};
use crate::poller::Wake;
use crate::runtime::Runtime;
use crate::shutdown::Shutdown;
use crate::store::{DoneRows, EventStore, Lease, Outcome, Settlement, StoreError};

/// How long outcomes are gathered under load: so many times as long as the last write took, between these two. A
/// database that many instances share makes each of them write more at once, and together as often as one alone.
const GATHER_TIMES: u32 = 4;
const GATHER_FOR: Duration = Duration::from_millis(20);
const GATHER_AT_MOST: Duration = Duration::from_millis(100);
/// How long a write may take before the poller waits for it.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// Pauses between tries while the database is away: doubled from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
pub(crate) const LAST_PAUSE: Duration = Duration::from_secs(1);

/// The task that writes outcomes.
pub(crate) struct Settler {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) runtime: Runtime,
    pub(crate) meter: Arc<Meter>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) remembered: Arc<Remembered>,
    pub(crate) shutdown: Arc<Shutdown>,
    /// The poller, which must know of events that become due before it would look.
    pub(crate) wake: Arc<Wake>,
    pub(crate) done: DoneRows,
    /// The most outcomes in one write.
    pub(crate) most: usize,
    /// Present if the instance's name was set.
    pub(crate) namesake: Option<Arc<Namesake>>,
    /// The reader of owned partitions, if there are any.
    pub(crate) reader: Option<Mailbox>,
    /// What this instance owns, if partitions are owned.
    pub(crate) tenure: Option<Arc<Tenure>>,
}

impl Settler {
    /// Starts the task, with room for `capacity` outcomes.
    pub(crate) fn start(self, capacity: usize) -> SettlerHandle {
        let (sender, receiver) = mpsc::channel(capacity);
        let state = Arc::<SettlerState>::default();
        let (runtime, reader) = (self.runtime.clone(), self.reader.clone());
        runtime.spawner.spawn("settler", Box::pin(self.run(receiver, state.clone())));
        SettlerHandle { entries: sender, state, reader }
    }

    async fn run(self, mut entries: mpsc::Receiver<Entry>, state: Arc<SettlerState>) {
        let mut batch = Vec::new();
        let mut flushes = Vec::new();
        let mut held = Held::default();
        let mut gather_for = GATHER_FOR;
        loop {
            tokio::select! {
                biased;
                entry = entries.recv() => match entry {
                    Some(entry) => sort_in(entry, &mut batch, &mut flushes),
                    None => return self.end(held, &state).await,
                },
                () = self.time_for(&held) => {}
            }
            self.gather(&mut entries, &mut batch, &mut flushes, &state, gather_for).await;
            let began = self.runtime.clock.now();
            if began >= held.again_at || self.shutdown.is_over() {
                batch.append(&mut held.outcomes);
            }
            let lost_before = self.meter.lost_leases.load(Ordering::Relaxed);
            self.write(std::mem::take(&mut batch), &mut held, &state).await;
            let took = self.runtime.clock.now().saturating_sub(began);
            gather_for = gather_after(took);
            if let Some(namesake) = &self.namesake {
                namesake.settled(self.meter.lost_leases.load(Ordering::Relaxed) > lost_before);
            }
            for flush in flushes.drain(..) {
                // Nobody may be waiting any more.
                let _ = flush.send(());
            }
        }
    }

    /// Tries once more what is held up, and leaves the rest unrecorded: nobody is left to wait for it.
    async fn end(&self, mut held: Held, state: &SettlerState) {
        let outcomes = std::mem::take(&mut held.outcomes);
        self.write(outcomes, &mut held, state).await;
        let numbers = held.outcomes.iter().map(|outcome| outcome.settlement.lease.seq).collect();
        self.give_up(held.outcomes.into_iter(), &StoreError::Locked { numbers });
    }

    /// Takes along what else is there; under load, and unless someone waits, what comes in a moment too.
    async fn gather(
        &self,
        entries: &mut mpsc::Receiver<Entry>,
        batch: &mut Vec<Unrecorded>,
        flushes: &mut Vec<oneshot::Sender<()>>,
        state: &SettlerState,
        gather_for: Duration,
    ) {
        let mut patience = None;
        while batch.len() < self.most && flushes.is_empty() {
            if let Ok(entry) = entries.try_recv() {
                sort_in(entry, batch, flushes);
                continue;
            }
            if !state.is_loaded() {
                return;
            }
            let patience = patience.get_or_insert_with(|| self.runtime.clock.sleep(gather_for));
            tokio::select! {
                biased;
                entry = entries.recv() => match entry {
                    Some(entry) => sort_in(entry, batch, flushes),
                    None => return,
                },
                () = state.calm.notified() => {}
                () = patience => return,
            }
        }
    }

    /// Writes a batch, again and again until it is recorded, bisected where the database refuses. What somebody
    /// else has locked is put aside, so that it holds up nothing else.
    async fn write(&self, mut batch: Vec<Unrecorded>, held: &mut Held, state: &SettlerState) {
        let mut parts = Vec::new();
        while !batch.is_empty() {
            parts.push(batch.split_off(batch.len().saturating_sub(self.most)));
        }
        let mut pause = FIRST_PAUSE;
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            part.iter_mut().for_each(|outcome| self.give_way(&mut outcome.settlement));
            let settlements: Vec<_> = part.iter().map(|outcome| self.newest(&outcome.settlement)).collect();
            match self.settle(&settlements, state).await {
                Ok(lost) => {
                    let left_over = self.left_over(&part, &settlements, &lost);
                    self.recorded(&part, &lost, &left_over);
                    parts.push(left_over);
                    state.troubled.store(false, Ordering::Relaxed);
                }
                Err(StoreError::Locked { numbers }) if part.iter().any(|outcome| outcome.is_in(&numbers)) => {
                    state.troubled.store(false, Ordering::Relaxed);
                    parts.push(self.set_aside(part, numbers, held));
                }
                Err(error) if error.is_transient() && self.shutdown.is_over() => {
                    return self.give_up(parts.into_iter().flatten().chain(part), &error);
                }
                Err(error) if error.is_transient() => {
                    tracing::error!(%error, outcomes = part.len(), "outcomes could not be recorded; trying again");
                    state.troubled.store(true, Ordering::Relaxed);
                    part.iter_mut().for_each(|outcome| outcome.is_repeat = true);
                    parts.push(part);
                    self.pause(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                Err(error) if part.len() == 1 => {
                    state.troubled.store(false, Ordering::Relaxed);
                    self.give_up(part.into_iter(), &error);
                }
                Err(_) => {
                    let second = part.split_off(part.len() / 2);
                    parts.extend([second, part]);
                }
            }
        }
    }

    /// One write. While the database is silent the poller takes nothing: it would take anew what waits here, and
    /// each time count as if the process had died.
    async fn settle(&self, settlements: &[Settlement], state: &SettlerState) -> Result<Vec<i64>, StoreError> {
        let mut written = self.store.settle(settlements, self.done);
        tokio::select! {
            biased;
            answer = &mut written => return answer,
            () = self.runtime.clock.sleep(SILENT_AFTER) => {}
        }
        tracing::warn!(
            outcomes = settlements.len(),
            "the database is slow to record outcomes; waiting for it"
        );
        state.troubled.store(true, Ordering::Relaxed);
        written.await
    }

    /// Gives an event back whose handlers went on under another instance in between, or were changed by an operator: what
    /// this one says of them is out of date, and under a newer lease of its own it would be recorded.
    fn give_way(&self, settlement: &mut Settlement) {
        let Some((last, stored)) = self.in_flight.taken_anew(settlement.lease) else { return };
        let stored = stored.as_ref().map(|stored| stored.handlers.as_str());
        let is_passed =
            last.attempts != settlement.lease.attempts || stored != settlement.handlers_before.as_deref();
        if settlement.handlers.is_some() && is_passed {
            self.remembered.note(settlement);
            *settlement = Settlement::new(&settlement.event_id, last, Outcome::Released);
        }
    }

    /// The settlement under the newest lease: the event may have been taken anew by this very instance.
    fn newest(&self, settlement: &Settlement) -> Settlement {
        Settlement { lease: self.in_flight.newest(settlement.lease), ..settlement.clone() }
    }

    /// Lets go of what is recorded, and returns what is still to be recorded because this very instance took an
    /// event anew while it was settled: nobody delivers under that lease, so it is given back, or used where the
    /// older one was lost. Until then it stays in flight, or the poller would take and deliver it meanwhile.
    fn left_over(&self, part: &[Unrecorded], settled: &[Settlement], lost: &[i64]) -> Vec<Unrecorded> {
        let mut left_over = Vec::new();
        for (Unrecorded { settlement, .. }, settled) in part.iter().zip(settled) {
            let Settlement { event_id, lease, .. } = settlement;
            let is_lost = lost.contains(&lease.seq);
            let token = settled.lease.token;
            let last = self.in_flight.last_taken(lease.seq).filter(|last| last.token == token);
            let settlement = match last.filter(|_| is_lost && token != lease.token) {
                // Ours by the newest lease, but another instance has spent an attempt in between.
                Some(last) => Settlement::new(event_id, last, Outcome::Released),
                None => match self.in_flight.leave_under(lease.seq, token) {
                    Some(newer) if is_lost => {
                        Settlement { lease: Lease { token: newer.token, ..*lease }, ..settlement.clone() }
                    }
                    Some(newer) => Settlement::new(event_id, newer, Outcome::Released),
                    None => continue,
                },
            };
            left_over.push(Unrecorded { settlement, is_repeat: false });
        }
        left_over
    }

    async fn pause(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.shutdown.over() => {}
            () = self.runtime.clock.sleep(pause) => {}
        }
    }

    fn recorded(&self, part: &[Unrecorded], lost: &[i64], left_over: &[Unrecorded]) {
        add(&self.meter.settle_batches, 1);
        if part.iter().any(|outcome| outcome.settlement.outcome.comes_again()) {
            self.wake.wake();
        }
        for Unrecorded { settlement, is_repeat } in part {
            let Settlement { event_id, lease, outcome, .. } = settlement;
            let is_lost = lost.contains(&lease.seq);
            let is_same = |left: &Settlement| left.lease.seq == lease.seq && left.outcome == *outcome;
            if is_lost && left_over.iter().any(|left| is_same(&left.settlement)) {
                // Recorded later, under the newer lease.
            } else if is_lost && !*is_repeat && self.is_overtaken(settlement) {
                self.remembered.note(settlement);
                tracing::warn!(%event_id, ?outcome, "what is stored of its handlers has changed; the event is read anew");
            } else if is_lost && !*is_repeat {
                self.meter.lose_lease();
                self.remembered.note(settlement);
                tracing::warn!(%event_id, ?outcome, "the lease had passed to another; its outcome counts");
            } else {
                if is_lost {
                    self.remembered.note(settlement);
                    tracing::warn!(%event_id, ?outcome, "an outcome was recorded before, or the lease had passed to another");
                } else {
                    self.remembered.recorded(settlement);
                }
                self.count(event_id, outcome, !is_lost);
            }
            // A repeat that finds the lease gone found its own earlier write, unless another has taken over; or, if it
            // tells of handlers, an operator has changed what it was made from.
            let is_recorded = *is_repeat && settlement.handlers.is_none();
            self.tell_reader(*lease, !is_lost || is_recorded);
        }
    }

    /// Whether an outcome that was refused says something of handlers, and its partition is still held here: then it was
    /// not for the lease, but because an operator, or a failover, has changed what it was made from.
    fn is_overtaken(&self, Settlement { lease, handlers, .. }: &Settlement) -> bool {
        let tenure = self.tenure.as_ref().filter(|_| lease.token.partition().is_some() && handlers.is_some());
        tenure.is_some_and(|tenure| !tenure.left().is_zero() && tenure.covers(lease.token))
    }

    fn count(&self, event_id: &str, outcome: &Outcome, is_certain: bool) {
        match outcome {
            Outcome::Done | Outcome::FellBack { .. } => {
                add(&self.meter.done, 1);
                self.meter.exporter().increment_dispatch_success();
            }
            Outcome::Dead { error, .. } | Outcome::Parked { error, .. } => {
                add(&self.meter.dead, 1);
                self.meter.exporter().increment_dispatch_dead();
                let doubt = if is_certain { "" } else { ": recorded, or taken over by another" };
                tracing::error!(%event_id, %error, "event is dead{doubt}");
            }
            Outcome::Released => add(&self.meter.released, 1),
            Outcome::Retry { .. } | Outcome::Aside { .. } => {}
        }
        if outcome.spends() {
            add(&self.meter.failed, 1);
            self.meter.exporter().increment_dispatch_failure();
        }
    }

    fn tell_reader(&self, lease: Lease, is_applied: bool) {
        if let Some(reader) = self.reader.as_ref().filter(|_| lease.token.partition().is_some()) {
            reader.tell(Message::Recorded { lease, is_applied });
        }
    }

    /// Leaves outcomes unrecorded: their leases will end, and the events come again.
    fn give_up(&self, part: impl Iterator<Item = Unrecorded>, error: &StoreError) {
        for Unrecorded { settlement, .. } in part {
            self.remembered.note(&settlement);
            let Settlement { event_id, lease, outcome, .. } = settlement;
            self.in_flight.leave(lease.seq);
            self.tell_reader(lease, false);
            tracing::error!(%event_id, ?outcome, %error, "an outcome was not recorded; the event will come again");
        }
    }
}

/// How long to gather under load after a write that took so long.
fn gather_after(took: Duration) -> Duration {
    took.saturating_mul(GATHER_TIMES).clamp(GATHER_FOR, GATHER_AT_MOST)
}

fn sort_in(entry: Entry, batch: &mut Vec<Unrecorded>, flushes: &mut Vec<oneshot::Sender<()>>) {
    match entry {
        Entry::Settle(outcome) => batch.push(outcome),
        Entry::Flush(flush) => flushes.push(flush),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::metrics::NoMetrics;
    use crate::store::Token;

    fn start(meter: &Arc<Meter>) -> SettlerHandle {
        let settler = Settler {
            store: Arc::new(MemoryStore::new()),
            runtime: Runtime::tokio(),
            meter: meter.clone(),
            in_flight: Arc::new(InFlight::new(None)),
            remembered: Arc::default(),
            shutdown: Arc::new(Shutdown::new()),
            wake: Arc::default(),
            done: DoneRows::Keep,
            most: 500,
            namesake: None,
            reader: None,
            tenure: None,
        };
        settler.start(10)
    }

    async fn pass(time: Duration) {
        Runtime::tokio().clock.sleep(time).await;
    }

    /// D12: outcomes are gathered while more is in the table, though the queues are empty, and no longer.
    #[tokio::test(start_paused = true)]
    async fn gathering_ends_with_the_load() {
        let meter = Arc::new(Meter::new(Arc::new(NoMetrics)));
        let settler = start(&meter);
        let lease = Lease { seq: 17, token: Token(1), attempts: 0, starts: 0 };
        settler.note_take(true);
        settler.note_queued(false);

        settler.settle(Settlement::new("order-17", lease, Outcome::Done)).await;
        pass(GATHER_FOR / 4).await;
        assert_eq!(meter.counts().settle_batches, 0);
        settler.note_take(false);
        pass(GATHER_FOR / 4).await;

        assert_eq!(meter.counts().settle_batches, 1);
    }

    /// D12: a database that is slow to write gets fewer and larger writes, within bounds.
    #[test]
    fn slow_writes_are_followed_by_larger_ones() {
        assert_eq!(gather_after(Duration::from_millis(1)), GATHER_FOR);
        assert_eq!(gather_after(Duration::from_millis(15)), Duration::from_millis(60));
        assert_eq!(gather_after(Duration::MAX), GATHER_AT_MOST);
    }
}
