//! A pass: one event to all of its handlers that are due, one after the other.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use super::worker::CutOff;
use super::{Dispatcher, Item, Stored, shown};
use crate::handler::{Entry, Failure, HandlerSet, Progress, Succeeded, Trouble};
use crate::listener::Verdict;
use crate::mutant::mutant;
use crate::registry::{Receiver, Target};
use crate::runtime::BoxFuture;
use crate::store::{Lease, Outcome, Settlement};
use crate::trace::{self, CUT_OFF};
use crate::{Delivery, ListenerError};

/// A pass under way.
struct Pass<'a> {
    set: &'a HandlerSet,
    progress: Progress,
    trouble: Trouble,
    /// What was stored before; until something is, times are counted from the pass.
    stored: Option<Box<Stored>>,
    worker: usize,
}

/// How a pass ended.
enum End {
    /// All that was due has run.
    Through,
    /// Nothing was due.
    Idle,
    /// The shutdown, or the end of the lease, came first.
    CutOff,
    /// The lease belongs to another: whatever was done is for it to find out.
    Lost,
}

impl From<CutOff> for End {
    fn from(_: CutOff) -> Self {
        Self::CutOff
    }
}

impl Dispatcher {
    /// The handlers of an event, if it has any: one for which nobody is registered any more still owes them something.
    pub(super) fn handlers_of(&self, item: &Item) -> Option<Arc<HandlerSet>> {
        match &item.target {
            Some(Target(Receiver::Handlers(handlers))) => Some(handlers.clone()),
            None if item.stored.is_some() => Some(Arc::default()),
            Some(Target(Receiver::Listener(_) | Receiver::Sink(_))) | None => None,
        }
    }

    /// One event to those of its handlers that are due.
    pub(super) async fn deliver_to_handlers(&self, mut item: Item, set: &HandlerSet, worker: usize) {
        if let Some((newest, stored)) = self.in_flight.taken_anew(item.lease) {
            // It waited for longer than its lease, and others may have gone on with it. That take was no new start.
            item.lease = Lease { starts: item.lease.starts, ..newest };
            item.stored = stored;
        }
        let stored = item.stored.take();
        let text = stored.as_ref().map(|stored| stored.handlers.as_str());
        let mut progress = match Progress::begin(set.ids(), text, item.lease.attempts) {
            Ok(progress) => progress,
            Err(error) => {
                return self.settle(&item, Outcome::Dead { error: error.to_string(), spent: false }).await;
            }
        };
        let is_asked = set.fallback.is_none() || !mutant!(FallbackUnasked);
        let remembered = self.remembered.of(item.lease.seq, item.delivery.id());
        if let Some(succeeded) = remembered.filter(|_| is_asked) {
            progress.recall(set.ids(), &succeeded);
        }
        let mut pass = Pass { set, progress, trouble: Trouble::default(), stored, worker };
        let (lease, delivery) = (item.lease, item.delivery.clone());

        let end = self.run_pass(&mut pass, item).await;
        if matches!(end, End::Through) {
            self.after_pass(&pass, &delivery).await;
        }
        let handlers_before = pass.stored.as_mut().map(|stored| std::mem::take(&mut stored.handlers));
        let settled = |(outcome, handlers)| {
            let event_id = delivery.id().to_owned();
            Settlement { event_id, lease, outcome, handlers, handlers_before }
        };
        match end {
            End::Lost => self.remembered.note(&settled(pass.progress.cut_off(set.ids()))),
            // What was given up must not pass for replayed.
            End::CutOff if !pass.trouble.spent => {
                self.settler.settle(settled(pass.progress.cut_off(set.ids()))).await;
            }
            End::Through | End::Idle | End::CutOff => {
                self.settler.settle(settled(self.conclude(pass))).await;
            }
        }
    }

    fn conclude(&self, pass: Pass<'_>) -> (Outcome, Option<String>) {
        if pass.progress.is_done() {
            return (Outcome::Done, None);
        }
        for id in pass.progress.missing() {
            self.meter.meet_unknown(id, self.runtime.clock.now());
        }
        let due_for = self.due_for(&pass);
        let (outcome, text) = pass.progress.conclude(pass.set.ids(), due_for, pass.trouble);
        let is_told = !mutant!(ProgressForgotten) || !outcome.comes_again();
        (outcome, text.filter(|_| is_told))
    }

    /// Runs the interceptors after a pass.
    async fn after_pass(&self, pass: &Pass<'_>, delivery: &Delivery) {
        if self.interceptors.is_empty() {
            return;
        }
        let is_failed = !pass.progress.is_done() && !pass.trouble.error.is_empty();
        let until = self.runtime.clock.now() + self.config.margin / 2;
        self.after(delivery, is_failed.then_some(pass.trouble.error.as_str()), until).await;
    }

    /// How long the event has been due, as far as that matters: before anything is stored all are due.
    fn due_for(&self, pass: &Pass<'_>) -> Duration {
        pass.stored.as_ref().map_or(Duration::ZERO, |stored| {
            let since = self.runtime.clock.now().saturating_sub(stored.taken_at);
            stored.due_for.saturating_add(since)
        })
    }

    /// Runs interceptors and handlers.
    async fn run_pass(&self, pass: &mut Pass<'_>, item: Item) -> End {
        let due_for = self.due_for(pass);
        let due = |handler: usize| Some((handler, pass.progress.due(handler, due_for)?));
        let due: Vec<(usize, u32)> = (0..pass.set.handlers.len()).filter_map(due).collect();
        if due.is_empty() {
            return End::Idle;
        }
        let ran = match self.before_pass(&item).await {
            Ok(Ok(())) => self.run_handlers(pass, item, due).await,
            Ok(Err(error)) => self.fail_all(pass, item, due, error).await,
            Err(CutOff) => Err(End::CutOff),
        };
        ran.err().unwrap_or(End::Through)
    }

    /// Runs the interceptors before a pass.
    async fn before_pass(&self, item: &Item) -> Result<Result<(), ListenerError>, CutOff> {
        if self.interceptors.is_empty() {
            return Ok(Ok(()));
        }
        let delivery = &item.delivery;
        let before: BoxFuture<'_, _> = Box::pin(async move { self.before(delivery).await });
        Ok(self.within_limits(item.lease, before).await?.flatten())
    }

    /// Runs handlers, each with its number and how often it has failed before.
    async fn run_handlers(
        &self,
        pass: &mut Pass<'_>,
        mut item: Item,
        due: Vec<(usize, u32)>,
    ) -> Result<(), End> {
        for (nth, (handler, failures)) in due.into_iter().enumerate() {
            // What comes first has just been looked at.
            if nth > 0 || !self.interceptors.is_empty() {
                item = self.still_live(item, pass.worker).await?;
                self.catch_up(pass, item.lease);
            }
            if pass.progress.is_done_by(handler) {
                continue;
            }
            item = self.run_handler(pass, item, handler, failures).await?;
        }
        Ok(())
    }

    /// An error of an interceptor counts for every handler that was due.
    async fn fail_all(
        &self,
        pass: &mut Pass<'_>,
        mut item: Item,
        due: Vec<(usize, u32)>,
        error: ListenerError,
    ) -> Result<(), End> {
        let error = Arc::new(error);
        for (handler, failures) in due {
            item = self.fail(pass, item, handler, failures, &error).await?;
        }
        Ok(())
    }

    /// The item, if its lease lasts for one handler more.
    async fn still_live(&self, item: Item, worker: usize) -> Result<Item, End> {
        if mutant!(HandlersUnderOneLease) {
            return Ok(item);
        }
        let (mut live, short) = self.live_and_short(vec![item]).await;
        // Each handler has the time of a delivery.
        self.note_busy(worker, Some(self.runtime.clock.now()));
        live.pop().ok_or(if short.is_empty() { End::Lost } else { End::CutOff })
    }

    /// Takes for done what was recorded under another instance before this one took the event anew, in the middle of the
    /// pass.
    fn catch_up(&self, pass: &mut Pass<'_>, lease: Lease) {
        let taken_anew = self.in_flight.taken_anew(lease).and_then(|(_, stored)| stored);
        if let Some(succeeded) = taken_anew.and_then(|stored| Succeeded::in_text(&stored.handlers)) {
            pass.progress.recall(pass.set.ids(), &succeeded);
        }
    }

    /// Runs one handler and, if it has failed for good, its fallback.
    async fn run_handler(
        &self,
        pass: &mut Pass<'_>,
        item: Item,
        handler: usize,
        failures: u32,
    ) -> Result<Item, End> {
        let Entry { id, listener, .. } = &pass.set.handlers[handler];
        let delivery = item.delivery.to_handler(id, failures.saturating_add(1));
        let span = self.traces.deliver(&delivery);
        // In an async block, so that a panic before its first await is caught as well.
        let call = async move { listener.on_event_boxed(delivery).await }.instrument(span.clone());
        match self.called(item.lease, span, Box::pin(call)).await? {
            Ok(()) => {
                pass.progress.succeed(handler);
                Ok(item)
            }
            Err(error) => self.fail(pass, item, handler, failures, &Arc::new(error)).await,
        }
    }

    /// What a handler or a fallback answers, within the limits of a delivery; how it ended is noted in its span.
    async fn called(
        &self,
        lease: Lease,
        span: Span,
        call: BoxFuture<'_, Result<(), ListenerError>>,
    ) -> Result<Result<(), ListenerError>, CutOff> {
        let answer = self.within_limits(lease, call).await.map(Result::flatten);
        match &answer {
            Ok(Ok(())) => {}
            Ok(Err(error)) => trace::failed(&span, error),
            Err(CutOff) => trace::failed(&span, &CUT_OFF),
        }
        answer
    }

    /// A handler has failed: it is tried again, or its fallback has the last word.
    async fn fail(
        &self,
        pass: &mut Pass<'_>,
        mut item: Item,
        handler: usize,
        failures: u32,
        error: &Arc<ListenerError>,
    ) -> Result<Item, End> {
        let judgement = self.judge(pass, handler, failures, error);
        let fallback = pass.set.fallback.as_ref().filter(|_| error.verdict() != Verdict::Undecodable);
        let (Judgement::GiveUp { failures: in_all }, Some(fallback)) = (judgement, fallback) else {
            pass.note(handler, judgement);
            return Ok(item);
        };
        // It has the time of a delivery, like a handler.
        item = self.still_live(item, pass.worker).await?;
        self.catch_up(pass, item.lease);
        if pass.progress.is_done_by(handler) {
            return Ok(item);
        }
        let id = &pass.set.handlers[handler].id;
        let delivery = item.delivery.to_handler(id, failures.saturating_add(1));
        let span = self.traces.fall_back(&delivery);
        let failure = Failure::shared(delivery, in_all, error.clone());
        let call = async move { fallback.handle_boxed(failure).await }.instrument(span.clone());
        match self.called(item.lease, span, Box::pin(call)).await? {
            Ok(()) if mutant!(FallbackUncounted) => pass.note(handler, judgement),
            Ok(()) => pass.progress.succeed(handler),
            Err(error) => {
                pass.trouble.error = format!("fallback of handler `{id}`: {}", shown(&error));
                pass.note(handler, judgement);
            }
        }
        Ok(item)
    }

    /// What a failure means for its handler, by its policy or that of the outbox.
    fn judge(&self, pass: &mut Pass<'_>, handler: usize, failures: u32, error: &ListenerError) -> Judgement {
        let Entry { id, retry, .. } = &pass.set.handlers[handler];
        let outcome = self.after_failure(retry.as_deref().unwrap_or(&*self.retry), failures, error);
        let failures = failures.saturating_add(u32::from(outcome.spends()));
        pass.trouble.error = format!("handler `{id}`: {}", shown(error));
        pass.trouble.spent |= outcome.spends();
        match outcome {
            Outcome::Retry { after, .. } if !mutant!(FallbackAtEveryFailure) => {
                Judgement::Again { failures, after: self.due_for(pass).saturating_add(after) }
            }
            _ => Judgement::GiveUp { failures },
        }
    }
}

/// What becomes of a handler that failed, after so many failures in all.
#[derive(Clone, Copy)]
enum Judgement {
    /// It runs again so long after the event became due.
    Again {
        failures: u32,
        after: Duration,
    },
    GiveUp {
        failures: u32,
    },
}

impl Pass<'_> {
    fn note(&mut self, handler: usize, judgement: Judgement) {
        match judgement {
            Judgement::Again { failures, after } => self.progress.postpone(handler, failures, after),
            Judgement::GiveUp { failures } => self.progress.give_up(handler, failures),
        }
    }
}
