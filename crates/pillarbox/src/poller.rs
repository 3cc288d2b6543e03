//! The cold path: finds in the table what was not delivered from memory.

mod leased;
mod outage;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

pub use leased::{Leased, PollerHandler};

use self::outage::{Advice, Outage};
use crate::config::Config;
use crate::destination::Admission;
use crate::dispatcher::{Dispatcher, Stored, caught};
use crate::handler::unseen;
use crate::metrics::{Meter, add};
use crate::runtime::Runtime;
use crate::settler::SettlerHandle;
use crate::shutdown::Shutdown;
use crate::store::{Batch, EventStore, Lease, Outcome, Owner, StoreError, Take, Taken, Token, WakeUp};

/// How often leases are looked for that end implausibly late.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Pause after an error, and while the settler is in trouble.
const PAUSE: Duration = Duration::from_millis(200);

/// The shortest rest: what databases count time in.
const TICK: Duration = Duration::from_millis(1);

/// A hint that there may be something to take. Hints can be lost without harm.
#[derive(Default)]
pub(crate) struct Wake(Notify);

impl Wake {
    pub(crate) fn wake(&self) {
        self.0.notify_one();
    }

    async fn woken(&self) {
        self.0.notified().await;
    }
}

/// Who gets what the poller takes.
pub(crate) enum Hands {
    Dispatcher(Arc<Dispatcher>),
    Own(Arc<dyn PollerHandler>),
}

/// Takes due events and hands them on.
pub(crate) struct Poller {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) runtime: Runtime,
    pub(crate) config: Config,
    pub(crate) owner: Owner,
    pub(crate) hands: Hands,
    pub(crate) settler: SettlerHandle,
    pub(crate) meter: Arc<Meter>,
    pub(crate) shutdown: Arc<Shutdown>,
    pub(crate) wake: Arc<Wake>,
    /// Says that a handler of the user's own has settled an event, and may have room for another.
    pub(crate) settled: Arc<Notify>,
    /// Cycles never overlap.
    pub(crate) cycle: Mutex<Cycle>,
}

/// What one cycle leaves for the next.
#[derive(Default)]
pub(crate) struct Cycle {
    batch: usize,
    last_sweep: Option<Duration>,
    /// Suspects were found: they are taken one by one, so that none dies of another's fault.
    careful: bool,
    outage: Outage,
}

/// Why a cycle ended.
enum Rest {
    /// Nothing more is due; the next event may be, after this time.
    Idle(Option<Duration>),
    /// There is no room for now.
    Full,
    /// The handler refused an event.
    Refused,
    /// The database is in trouble.
    Trouble,
    /// The database is back, and others settle first.
    StandBack(Duration),
    /// Every destination is down: what is taken could only be given back.
    Barred(Duration),
}

impl Poller {
    /// Polls until the shutdown begins.
    pub(crate) async fn run(self: Arc<Self>) {
        if self.config.name.is_some() {
            self.resume().await;
        }
        while !self.shutdown.is_draining() {
            let rest = self.run_cycle().await.unwrap_or_else(|error| {
                tracing::error!(%error, "the poller could not take events");
                Rest::Trouble
            });
            self.rest(rest).await;
        }
    }

    /// Passes hints of other processes on, until the shutdown begins.
    pub(crate) async fn listen(self: Arc<Self>, others: Arc<dyn WakeUp>) {
        loop {
            tokio::select! {
                biased;
                () = self.shutdown.draining() => return,
                _ = others.changed() => self.wake.wake(),
            }
        }
    }

    /// One cycle: takes until nothing more is due or the handler is full.
    pub(crate) async fn poll(&self) -> Result<(), StoreError> {
        loop {
            match self.run_cycle().await? {
                rest @ Rest::StandBack(_) => self.rest(rest).await,
                Rest::Full => {
                    // What did not fit is taken as soon as it does.
                    self.wake.wake();
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Takes over the leases that an earlier incarnation of this name left behind.
    async fn resume(&self) {
        while !self.shutdown.is_draining() {
            match self.store.resume(&self.owner).await {
                Ok(0) => return,
                Ok(events) => return tracing::info!(events, owner = %self.owner, "took over own leases"),
                Err(error) => tracing::error!(%error, "own leases could not be taken over; trying again"),
            }
            self.cycle.lock().await.outage.lasts();
            self.rest(Rest::Trouble).await;
        }
    }

    async fn rest(&self, rest: Rest) {
        let pause = match rest {
            Rest::Idle(next) => {
                next.map_or(self.config.poll_every, |next| next.clamp(TICK, self.config.poll_every.max(TICK)))
            }
            Rest::Full | Rest::Refused => self.config.poll_every,
            Rest::Trouble => PAUSE.min(self.config.poll_every),
            Rest::StandBack(pause) | Rest::Barred(pause) => pause.max(TICK),
        };
        let room = async {
            match (&rest, &self.hands) {
                (Rest::Full, Hands::Dispatcher(dispatcher)) => dispatcher.queues.room().await,
                (Rest::Full, Hands::Own(_)) => self.settled.notified().await,
                _ => std::future::pending().await,
            }
        };
        let woken = async {
            match rest {
                Rest::Idle(_) => self.wake.woken().await,
                // A hint does not help against a full queue or a broken database.
                Rest::Full | Rest::Refused | Rest::Trouble | Rest::StandBack(_) | Rest::Barred(_) => {
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            biased;
            () = self.shutdown.draining() => {}
            () = woken => {}
            () = room => {}
            () = self.runtime.clock.sleep(pause) => {}
        }
    }

    async fn run_cycle(&self) -> Result<Rest, StoreError> {
        let mut cycle = self.cycle.lock().await;
        cycle.batch = cycle.batch.max(self.config.batch_size);
        loop {
            if self.shutdown.is_draining() {
                return Ok(Rest::Idle(None));
            }
            if let Some(rest) = self.settle_first(&mut cycle).await? {
                self.meter.exporter().record_oldest_lag(None);
                return Ok(rest);
            }
            let admitted = self.admitted();
            if admitted.events == 0 {
                self.meter.exporter().record_oldest_lag(None);
                return Ok(Rest::Barred(admitted.wait));
            }
            let Some(limit) = self.limit(&cycle) else { return Ok(Rest::Full) };
            let limit = limit.min(admitted.events);
            let (mut batch, deadline) = self.take(&mut cycle, limit).await?;
            let full = batch.events.len() >= limit;
            self.settler.note_take(full);
            if let Hands::Dispatcher(dispatcher) = &self.hands {
                // Whose lease ran out while it waits or runs here goes on under the new one.
                let now = self.runtime.clock.now();
                batch.events.retain(|taken| {
                    let stored = Stored::of(taken, &*self.runtime.clock);
                    !dispatcher.in_flight.take_over(taken.lease, stored.as_deref(), now)
                });
            }
            self.beware(&mut cycle, &mut batch.events).await;
            if !self.hand_on(batch.events, deadline).await {
                return Ok(Rest::Refused);
            }
            if !full {
                cycle.batch = self.config.batch_size;
                return Ok(Rest::Idle(batch.next_due_in));
            }
            cycle.batch = cycle.batch.saturating_mul(2).min(self.config.batch_limit());
        }
    }

    /// Who regains the database settles first, and takes what has expired later.
    async fn settle_first(&self, cycle: &mut Cycle) -> Result<Option<Rest>, StoreError> {
        if self.settler.is_troubled() {
            cycle.outage.lasts();
            return Ok(Some(Rest::Trouble));
        }
        match cycle.outage.advice(self.runtime.clock.now(), self.config.margin) {
            Advice::Take => return Ok(None),
            Advice::Ask => {}
            Advice::StandBack(pause) => return Ok(Some(Rest::StandBack(pause))),
        }
        // A lease that no row has: harmless, and like a take it needs a database that can be written.
        let token = Token::from_bits(self.runtime.random.next_u64());
        let nobodys = Lease { seq: 0, token, attempts: 0, starts: 0 };
        self.store.renew(&[nobodys], Duration::ZERO).await?;
        tracing::info!("the database is back; what was delivered is recorded first");
        Ok(Some(Rest::StandBack(cycle.outage.ends(self.runtime.clock.now()))))
    }

    /// How many events the destinations let through.
    fn admitted(&self) -> Admission {
        match &self.hands {
            Hands::Dispatcher(dispatcher) => dispatcher.admitted(),
            Hands::Own(_) => Admission::ALL,
        }
    }

    /// How many events to take; `None` while it is not worth a statement.
    fn limit(&self, cycle: &Cycle) -> Option<usize> {
        if cycle.careful {
            let free = match &self.hands {
                Hands::Dispatcher(dispatcher) => dispatcher.has_room_for_suspect(),
                Hands::Own(handler) => capacity(&**handler) > 0,
            };
            return free.then_some(1);
        }
        let (room, worthwhile) = match &self.hands {
            Hands::Dispatcher(dispatcher) => (dispatcher.queues.cold_room(), self.config.worthwhile_room()),
            Hands::Own(handler) => (capacity(&**handler), 1),
        };
        let limit = room.min(cycle.batch).min(self.config.batch_limit());
        (limit >= worthwhile).then_some(limit)
    }

    /// Gives suspects back that came in company; from then on events are taken one by one until none of
    /// them is a suspect.
    async fn beware(&self, cycle: &mut Cycle, events: &mut Vec<Taken>) {
        let is_suspect = |taken: &Taken| (2..self.config.max_starts).contains(&taken.lease.starts);
        cycle.careful = events.iter().any(is_suspect);
        if cycle.careful && events.len() > 1 {
            let (suspects, rest) = std::mem::take(events).into_iter().partition(is_suspect);
            *events = rest;
            for suspect in &suspects as &Vec<Taken> {
                self.settle(suspect, Outcome::Released).await;
            }
            // Before the next take, or it finds nothing, and the one after it all of them again.
            self.settler.flush().await;
        }
    }

    async fn take(&self, cycle: &mut Cycle, limit: usize) -> Result<(Batch, Duration), StoreError> {
        let now = self.runtime.clock.now();
        let sweep = cycle.last_sweep.is_none_or(|last| now.saturating_sub(last) >= SWEEP_EVERY);
        let take = Take {
            owner: self.owner.clone(),
            token: Token::from_bits(self.runtime.random.next_u64()),
            limit,
            lease_for: self.config.lease_for,
            skip_recent: self.config.skip_recent,
            sweep,
        };
        if sweep {
            // Also if it fails: one that takes too long must not be repeated at once.
            cycle.last_sweep = Some(now);
        }
        add(&self.meter.takes, 1);
        let taken = self.store.take(take).await;
        let lag = taken
            .as_ref()
            .ok()
            .map(|batch| batch.events.iter().map(|taken| taken.due_for).max().unwrap_or_default());
        self.meter.exporter().record_oldest_lag(lag);
        match &taken {
            Err(error) if error.is_transient() => cycle.outage.lasts(),
            _ => cycle.outage.answered(now),
        }
        Ok((taken?, now + self.config.lease_for))
    }

    /// Hands events on until the handler refuses one; gives the rest back. False if one was refused.
    async fn hand_on(&self, events: Vec<Taken>, deadline: Duration) -> bool {
        let mut accepting = true;
        for taken in events {
            if let Some(error) = unfit(&taken, self.config.max_starts) {
                tracing::error!(event_id = taken.event_id, error, "this event cannot be delivered");
                self.settle(&taken, Outcome::Dead { error, spent: false }).await;
            } else if !accepting || !self.hand_over(&taken, deadline) {
                accepting = false;
                self.settle(&taken, Outcome::Released).await;
            }
        }
        accepting
    }

    fn hand_over(&self, taken: &Taken, deadline: Duration) -> bool {
        let Ok(event) = &taken.event else { return true };
        match &self.hands {
            Hands::Dispatcher(dispatcher) => {
                let stored = Stored::of(taken, &*self.runtime.clock);
                dispatcher.enqueue_cold(event, taken.lease, taken.created_at, deadline, stored)
            }
            Hands::Own(handler) => {
                let ends = (self.settler.clone(), self.settled.clone());
                let leased = Leased::new(taken, event, deadline, &*self.runtime.clock, ends);
                caught(|| handler.handle(leased)).unwrap_or_else(|panic| {
                    tracing::error!(event_id = taken.event_id, panic, "the poller's handler panicked");
                    false
                })
            }
        }
    }

    async fn settle(&self, taken: &Taken, outcome: Outcome) {
        if let Hands::Dispatcher(dispatcher) = &self.hands {
            // In flight until it is recorded, so that a repeated outcome cannot hit a later take.
            let stored = Stored::of(taken, &*self.runtime.clock);
            dispatcher.in_flight.admit(taken.lease, stored.as_deref(), self.runtime.clock.now());
        }
        self.settler.settle(unseen(taken, outcome)).await;
    }
}

/// Why an event must not be tried at all, if so.
pub(crate) fn unfit(taken: &Taken, max_starts: u32) -> Option<String> {
    let starts = taken.lease.starts;
    match &taken.event {
        Err(reason) => Some(format!("the row cannot be decoded: {reason}")),
        Ok(_) if starts >= max_starts => {
            Some(format!("the process died {starts} times while it delivered this event"))
        }
        Ok(_) => None,
    }
}

/// How many events a handler takes now; none, if it panics over the question.
fn capacity(handler: &dyn PollerHandler) -> usize {
    caught(|| handler.capacity()).unwrap_or_else(|panic| {
        tracing::error!(panic, "the poller's handler panicked");
        0
    })
}
