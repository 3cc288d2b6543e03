//! A worker: takes an event, delivers it, hands in the outcome.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tracing::{Instrument, Span};

use super::panic::CatchPanicInPlace;
use super::queues::Work;
use super::{CatchPanic, Dispatcher, Item, caught, shown};
use crate::config::{HOLD_FOR, Unroutable};
use crate::listener::{SharedListener, Verdict};
use crate::mutant::mutant;
use crate::registry::{Receiver, Target};
use crate::retry::{Retry, RetryPolicy, delay_after};
use crate::store::{Lease, Outcome, StoreError, paused};
use crate::trace::{self, CUT_OFF};
use crate::{Delivery, ListenerError};

/// What ended an attempt other than the listener's own answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("the listener did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the listener panicked: {0}")]
    Panicked(String),
}

/// How an attempt ended.
enum Ending {
    Delivered,
    Failed(ListenerError),
    Unroutable,
    CutOff,
}

/// It was cut off by the shutdown, or by the end of its lease.
pub(super) struct CutOff;

impl Dispatcher {
    /// Works until the queues are closed.
    pub(super) async fn work(self: &Arc<Self>, number: usize) {
        while let Some(work) = self.queues.next().await {
            let (hot, cold) = self.queues.depths();
            self.meter.exporter().record_queue_depths(hot, cold);
            self.settler.note_queued(hot + cold > 0);
            let suspect = work.is_suspect();
            let floor = self.share_floor(suspect).await;
            if suspect {
                // If it kills the process, nothing that ran before it dies unrecorded.
                self.settler.flush().await;
            }
            self.note_busy(number, Some(self.runtime.clock.now()));
            self.carry_out(work, number).await;
            self.note_busy(number, None);
            if suspect {
                self.settler.flush().await;
            }
            drop(floor);
            if suspect {
                self.suspects.fetch_sub(1, Ordering::Relaxed);
                self.queues.look_again();
            }
        }
    }

    async fn carry_out(self: &Arc<Self>, work: Work, worker: usize) {
        match work {
            Work::One(item) => {
                let Some(mut item) = self.with_live_lease(item).await else { return };
                if let Some(Target(Receiver::Paused(route, wait))) = &item.target {
                    let (until, reason) = (Some(*wait), paused(route));
                    return self.settle(&item, Outcome::Aside { until, reason }).await;
                }
                match item.take_handlers() {
                    Some(handlers) => self.deliver_to_handlers(item, &handlers, worker).await,
                    None => self.deliver(&item).await,
                }
            }
            Work::Run(set, items) => {
                let items = self.with_live_leases(items).await;
                self.deliver_run(&set, items).await;
            }
        }
    }

    pub(super) fn note_busy(&self, worker: usize, since: Option<Duration>) {
        *self.busy_since[worker].lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// A share of the floor, or all of it for a suspect.
    async fn share_floor(&self, alone: bool) -> Floor<'_> {
        if alone { Floor::Alone(self.floor.write().await) } else { Floor::Shared(self.floor.read().await) }
    }

    /// The item, if its lease lasts for a delivery or could be renewed; otherwise it is given back, unspent.
    async fn with_live_lease(&self, item: Item) -> Option<Item> {
        if self.is_live(&item) { Some(item) } else { self.with_live_leases(vec![item]).await.pop() }
    }

    /// Whether the lease of an item lasts for a delivery, as it is.
    pub(super) fn is_live(&self, item: &Item) -> bool {
        match &self.tenure {
            Some(tenure) => tenure.left() >= self.config.margin && tenure.covers(item.lease.token),
            None => item.deadline >= self.runtime.clock.now() + self.config.needed_lease(),
        }
    }

    /// Those of `items` whose lease lasts for a delivery, renewed where it would not. The others are given back, unspent.
    async fn with_live_leases(&self, items: Vec<Item>) -> Vec<Item> {
        let (live, short) = self.live_and_short(items).await;
        for item in &short {
            self.settle(item, Outcome::Released).await;
        }
        live
    }

    /// Those of `items` whose lease lasts for a delivery, renewed where it would not, and those whose lease does not;
    /// what was lost is in neither.
    ///
    /// One statement renews all that is short, in the queues too.
    pub(super) async fn live_and_short(&self, items: Vec<Item>) -> (Vec<Item>, Vec<Item>) {
        if let Some(tenure) = &self.tenure {
            let is_long_enough = tenure.left() >= self.config.margin;
            let is_live = |item: &Item| is_long_enough && tenure.covers(item.lease.token);
            return items.into_iter().partition(is_live);
        }
        let now = self.runtime.clock.now();
        let needed = now + self.config.needed_lease();
        if items.iter().all(|item| item.deadline >= needed) {
            return (items, Vec::new());
        }
        let short = items.iter().filter(|item| item.deadline < needed).map(|item| item.lease);
        let mut leases: Vec<Lease> = short.collect();
        leases.extend(self.queues.ending_before(needed));
        // One that expired may have been taken anew by this very instance.
        leases.iter_mut().for_each(|lease| *lease = self.in_flight.newest(*lease));
        let mut renewed = self.store.renew(&leases, self.config.lease_for).await;
        if let Err(StoreError::Locked { numbers }) = &renewed {
            // These stay short, and are given back.
            leases.retain(|lease| !numbers.contains(&lease.seq));
            renewed = if leases.is_empty() {
                Ok(Vec::new())
            } else {
                self.store.renew(&leases, self.config.lease_for).await
            };
        }
        let deadline = now + self.config.lease_for;
        let mut live = items;
        match renewed {
            Ok(lost) => {
                let lost = self.let_go(&live, &leases, lost);
                let lost_suspects = self.queues.renewed(&leases, &lost, deadline);
                self.suspects.fetch_sub(lost_suspects, Ordering::Relaxed);
                live.retain(|item| !lost.contains(&item.lease.seq));
                live.iter_mut()
                    .filter(|item| leases.iter().any(|lease| lease.seq == item.lease.seq))
                    .for_each(|item| item.deadline = deadline);
            }
            Err(error) => tracing::warn!(%error, "leases could not be renewed; their events are given back"),
        }
        let needed = self.runtime.clock.now() + self.config.needed_lease();
        live.into_iter().partition(|item| item.deadline >= needed)
    }

    /// Forgets events whose lease was lost, and returns their numbers: not those that this very instance has
    /// taken anew meanwhile, which go on under the newer lease, nor those that another worker has taken from the
    /// queue since, which are in its hands.
    fn let_go(&self, items: &[Item], leases: &[Lease], mut lost: Vec<i64>) -> Vec<i64> {
        lost.retain(|&seq| items.iter().any(|item| item.lease.seq == seq) || self.queues.hold(seq));
        lost.retain(|&seq| {
            let token = leases.iter().find(|lease| lease.seq == seq).map(|lease| lease.token);
            token.is_none_or(|token| self.in_flight.leave_under(seq, token).is_none())
        });
        lost
    }

    /// One event to its listener.
    async fn deliver(&self, item: &Item) {
        let limit = self.config.delivery_timeout;
        let begun = self.runtime.clock.now();
        if mutant!(MarkBeforeDelivery) {
            self.settle(item, Outcome::Done).await;
        }
        let span = item.target.as_ref().map_or_else(Span::none, |_| self.traces.deliver(&item.delivery));
        let attempt = self.attempt(&item.delivery, item.target.as_ref(), &span);
        let ending = match self.within_limits(item.lease, attempt).await {
            Ok(Ok(ending)) => ending,
            Ok(Err(fault)) => Ending::Failed(fault),
            Err(CutOff) => Ending::CutOff,
        };
        match &ending {
            Ending::Failed(error) => trace::failed(&span, error),
            Ending::CutOff => trace::failed(&span, &CUT_OFF),
            Ending::Delivered | Ending::Unroutable => {}
        }
        drop(span);
        let end = begun + limit;
        let outcome = self.outcome(item, &ending);
        match &ending {
            Ending::Delivered => self.after(&item.delivery, None, end).await,
            Ending::Failed(error) => self.after(&item.delivery, Some(&shown(error)), end).await,
            Ending::Unroutable => self.after(&item.delivery, Some(UNROUTABLE), end).await,
            Ending::CutOff => {}
        }
        self.settle(item, outcome).await;
    }

    /// What a call of the user's answers; the error that it counts as, if it panics or takes longer than a delivery may.
    pub(super) async fn within_limits<T>(
        &self,
        lease: Lease,
        call: impl Future<Output = T>,
    ) -> Result<Result<T, ListenerError>, CutOff> {
        let limit = self.config.delivery_timeout;
        let end = self.runtime.clock.now() + limit;
        let mut call = std::pin::pin!(Some(call));
        tokio::select! {
            biased;
            answer = CatchPanicInPlace(call.as_mut()) => {
                Ok(answer.map_err(|panic| Fault::Panicked(panic).into()))
            }
            () = self.shutdown.over() => Err(CutOff),
            () = self.tenure_ended(lease) => Err(CutOff),
            // In an async block, so that who answers at once has needed no timer.
            () = async { self.runtime.clock.sleep(self.left_until(end)).await } => {
                Ok(Err(Fault::TimedOut(limit).into()))
            }
        }
    }

    async fn attempt(&self, delivery: &Delivery, target: Option<&Target>, span: &Span) -> Ending {
        if let Err(error) = self.before(delivery).await {
            return Ending::Failed(error);
        }
        match target {
            Some(Target(Receiver::Listener(listener))) => {
                match call(listener, delivery).instrument(span.clone()).await {
                    Ok(()) => Ending::Delivered,
                    Err(error) => Ending::Failed(error),
                }
            }
            // Events for sinks are delivered in runs, those for handlers in passes.
            Some(Target(Receiver::Sinks(_) | Receiver::Handlers(_) | Receiver::Paused(..))) | None => {
                Ending::Unroutable
            }
        }
    }

    fn outcome(&self, item: &Item, ending: &Ending) -> Outcome {
        match ending {
            Ending::Delivered => Outcome::Done,
            Ending::Failed(error) => self.after_failure(&*self.retry, item.lease.attempts, error),
            Ending::Unroutable => self.unroutable(),
            Ending::CutOff => Outcome::Released,
        }
    }

    pub(super) fn unroutable(&self) -> Outcome {
        match self.config.unroutable {
            Unroutable::Dead => Outcome::Dead { error: UNROUTABLE.to_owned(), spent: false },
            Unroutable::Hold => {
                Outcome::Aside { until: Some(HOLD_FOR), reason: format!("hold: {UNROUTABLE}") }
            }
        }
    }

    /// What becomes of an event, or of one of its handlers, after a failed attempt and so many failures before it.
    pub(super) fn after_failure(
        &self,
        policy: &dyn RetryPolicy,
        failed_before: u32,
        error: &ListenerError,
    ) -> Outcome {
        let text = shown(error);
        let failures = failed_before.saturating_add(1);
        let random = self.runtime.fraction();
        let by_policy = caught(|| delay_after(policy, failures, random, error.source()));
        let by_policy = by_policy.unwrap_or_else(|panic| {
            tracing::error!(panic, "the retry policy panicked; the default decides");
            delay_after(&Retry::default(), failures, random, error.source())
        });
        match (error.verdict(), by_policy) {
            (Verdict::After { delay, spent: false }, _) => {
                Outcome::Retry { after: delay, error: text, spent: false }
            }
            (Verdict::Permanent | Verdict::Undecodable, _) | (_, None) => {
                Outcome::Dead { error: text, spent: true }
            }
            (Verdict::After { delay, .. }, _) => Outcome::Retry { after: delay, error: text, spent: true },
            (Verdict::AsPolicySays, Some(after)) => Outcome::Retry { after, error: text, spent: true },
        }
    }

    /// How much time is left until `end`, by the local clock.
    pub(super) fn left_until(&self, end: Duration) -> Duration {
        end.saturating_sub(self.runtime.clock.now())
    }

    /// Runs the interceptors before an attempt, in order, until one fails.
    pub(super) async fn before(&self, delivery: &Delivery) -> Result<(), ListenerError> {
        for interceptor in &self.interceptors {
            interceptor.before(delivery).await?;
        }
        Ok(())
    }

    /// Runs the interceptors after an attempt, in reverse; nothing that happens in them changes its outcome.
    /// All of them together have until `end`, by the local clock, for the lease lasts no longer.
    pub(super) async fn after(&self, delivery: &Delivery, error: Option<&str>, end: Duration) {
        for interceptor in self.interceptors.iter().rev() {
            let limit = self.left_until(end);
            // In an async block, so that a panic before its first await is caught as well.
            let hook = CatchPanic(Box::pin(async move { interceptor.after(delivery, error).await }));
            let hooked = tokio::select! {
                biased;
                hooked = self.runtime.timeout(limit, hook) => hooked,
                // What was delivered is recorded, whatever the hooks would still do.
                () = self.shutdown.over() => return,
            };
            match hooked {
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    let error = shown(&error);
                    tracing::warn!(event_id = delivery.id(), error, "an interceptor failed after the event");
                }
                Some(Err(panic)) => {
                    tracing::warn!(
                        event_id = delivery.id(),
                        panic,
                        "an interceptor panicked after the event"
                    );
                }
                None => {
                    tracing::warn!(event_id = delivery.id(), "an interceptor took too long after the event")
                }
            }
        }
    }
}

const UNROUTABLE: &str = "unroutable: no listener is registered for this aggregate type and event type";

/// Holds a share of the floor, or all of it, while it lives.
enum Floor<'a> {
    Shared(#[expect(dead_code, reason = "held, not read")] tokio::sync::RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held, not read")] tokio::sync::RwLockWriteGuard<'a, ()>),
}

/// Calls a listener such that even a panic before its first await happens inside the future.
async fn call(listener: &SharedListener, delivery: &Delivery) -> Result<(), ListenerError> {
    listener.on_event_boxed(delivery.clone()).await
}
