//! A pass: one event to all of its handlers that are due, one after the other.

use std::sync::Arc;
use std::time::Duration;

use tracing::{Instrument, Span};

use super::worker::CutOff;
use super::{Dispatcher, Item, Stored, shown};
use crate::ListenerError;
use crate::handler::{Entry, Failure, HandlerSet, Progress, Succeeded, Trouble};
use crate::listener::Verdict;
use crate::mutant::mutant;
use crate::store::{Lease, Outcome, Settlement};
use crate::trace::{self, CUT_OFF};

/// A pass under way.
struct Pass<'a> {
    item: Item,
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
        let mut pass = Pass { item, set, progress, trouble: Trouble::default(), stored, worker };

        let end = self.run_pass(&mut pass).await;
        if matches!(end, End::Through) {
            self.after_pass(&pass).await;
        }
        let handlers_before = pass.stored.as_mut().map(|stored| std::mem::take(&mut stored.handlers));
        let (event_id, lease) = (pass.item.delivery.id().to_owned(), pass.item.lease);
        let settled =
            |(outcome, handlers)| Settlement { event_id, lease, outcome, handlers, handlers_before };
        match end {
            End::Lost => self.remembered.note(&settled(pass.progress.cut_off(set.ids()))),
            // What was given up must not pass for replayed.
            End::CutOff if !pass.trouble.spent => {
                self.settler.settle(settled(pass.progress.cut_off(set.ids()))).await;
            }
            End::Through | End::Idle | End::CutOff => {
                let is_done = pass.progress.is_done() && (!pass.trouble.spent || mutant!(FallbackUnspent));
                let concluded = if is_done { (Outcome::Done, None) } else { self.conclude(pass) };
                self.settler.settle(settled(concluded)).await;
            }
        }
    }

    /// What becomes of an event that is not simply done.
    fn conclude(&self, pass: Pass<'_>) -> (Outcome, Option<String>) {
        for id in pass.progress.missing() {
            self.meter.meet_unknown(id, self.runtime.clock.now());
        }
        let due_for = self.due_for(&pass);
        let (outcome, text) = pass.progress.conclude(pass.set.ids(), due_for, pass.trouble);
        let is_told = !mutant!(ProgressForgotten) || !outcome.comes_again();
        (outcome, text.filter(|_| is_told))
    }

    /// Runs the interceptors after a pass.
    async fn after_pass(&self, pass: &Pass<'_>) {
        if self.interceptors.is_empty() {
            return;
        }
        let is_failed = !pass.progress.is_done() && !pass.trouble.error.is_empty();
        let until = self.runtime.clock.now() + self.config.margin / 2;
        self.after(&pass.item.delivery, is_failed.then_some(pass.trouble.error.as_str()), until).await;
    }

    /// How long the event has been due, as far as that matters: before anything is stored all are due.
    fn due_for(&self, pass: &Pass<'_>) -> Duration {
        pass.stored.as_ref().map_or(Duration::ZERO, |stored| {
            let since = self.runtime.clock.now().saturating_sub(stored.taken_at);
            stored.due_for.saturating_add(since)
        })
    }

    /// Runs interceptors and handlers.
    async fn run_pass(&self, pass: &mut Pass<'_>) -> End {
        let due_for = self.due_for(pass);
        if (0..pass.set.handlers.len()).all(|handler| pass.progress.due(handler, due_for).is_none()) {
            return End::Idle;
        }
        let ran = match self.before_pass(&pass.item).await {
            Ok(Ok(())) => self.run_handlers(pass, due_for).await,
            Ok(Err(error)) => self.fail_all(pass, due_for, error).await,
            Err(CutOff) => Err(End::CutOff),
        };
        ran.err().unwrap_or(End::Through)
    }

    /// Runs the interceptors before a pass.
    async fn before_pass(&self, item: &Item) -> Result<Result<(), ListenerError>, CutOff> {
        if self.interceptors.is_empty() {
            return Ok(Ok(()));
        }
        Ok(self.within_limits(item.lease, self.before(&item.delivery)).await?.flatten())
    }

    /// Runs the handlers that were due when the event had been for so long.
    async fn run_handlers(&self, pass: &mut Pass<'_>, due_for: Duration) -> Result<(), End> {
        // What comes first has just been looked at.
        let mut is_looked_at = self.interceptors.is_empty();
        for handler in 0..pass.set.handlers.len() {
            if pass.progress.due(handler, due_for).is_none() {
                continue;
            }
            if !std::mem::take(&mut is_looked_at) {
                self.still_live(pass).await?;
                self.catch_up(pass);
            }
            if let Some(failures) = pass.progress.due(handler, due_for) {
                self.run_handler(pass, handler, failures).await?;
            }
        }
        Ok(())
    }

    /// An error of an interceptor counts for every handler that was due.
    async fn fail_all(
        &self,
        pass: &mut Pass<'_>,
        due_for: Duration,
        error: ListenerError,
    ) -> Result<(), End> {
        let error = Arc::new(error);
        for handler in 0..pass.set.handlers.len() {
            if let Some(failures) = pass.progress.due(handler, due_for) {
                self.fail(pass, handler, failures, &error).await?;
            }
        }
        Ok(())
    }

    /// Ends the pass, unless the lease lasts for one handler more or can be renewed.
    async fn still_live(&self, pass: &mut Pass<'_>) -> Result<(), End> {
        if mutant!(HandlersUnderOneLease) {
            return Ok(());
        }
        if !self.is_live(&pass.item) {
            let (live, short) = self.live_and_short(vec![pass.item.leased()]).await;
            let Some(renewed) = live.first() else {
                return Err(if short.is_empty() { End::Lost } else { End::CutOff });
            };
            pass.item.deadline = renewed.deadline;
        }
        // Each handler has the time of a delivery.
        self.note_busy(pass.worker, Some(self.runtime.clock.now()));
        Ok(())
    }

    /// Takes for done what was recorded under another instance before this one took the event anew, in the middle of the
    /// pass.
    fn catch_up(&self, pass: &mut Pass<'_>) {
        let taken_anew = self.in_flight.taken_anew(pass.item.lease).and_then(|(_, stored)| stored);
        if let Some(succeeded) = taken_anew.and_then(|stored| Succeeded::in_text(&stored.handlers)) {
            pass.progress.recall(pass.set.ids(), &succeeded);
        }
    }

    /// Runs one handler and, if it has failed for good, its fallback.
    async fn run_handler(&self, pass: &mut Pass<'_>, handler: usize, failures: u32) -> Result<(), End> {
        let Entry { id, listener, .. } = &pass.set.handlers[handler];
        let delivery = pass.item.delivery.to_handler(id, failures.saturating_add(1));
        let span = self.traces.deliver(&delivery);
        // In an async block, so that a panic before its first await is caught as well.
        let call = async move { listener.on_event_boxed(delivery).await }.instrument(span.clone());
        match self.called(pass.item.lease, span, call).await? {
            Ok(()) => {
                pass.progress.succeed(handler);
                Ok(())
            }
            Err(error) => self.fail(pass, handler, failures, &Arc::new(error)).await,
        }
    }

    /// What a handler or a fallback answers, within the limits of a delivery; how it ended is noted in its span.
    async fn called(
        &self,
        lease: Lease,
        span: Span,
        call: impl Future<Output = Result<(), ListenerError>>,
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
        handler: usize,
        failures: u32,
        error: &Arc<ListenerError>,
    ) -> Result<(), End> {
        let judgement = self.judge(pass, handler, failures, error);
        let fallback = pass.set.fallback.as_ref().filter(|_| error.verdict() != Verdict::Undecodable);
        let (Judgement::GiveUp { failures: in_all }, Some(fallback)) = (judgement, fallback) else {
            pass.note(handler, judgement);
            return Ok(());
        };
        // It has the time of a delivery, like a handler.
        self.still_live(pass).await?;
        self.catch_up(pass);
        if pass.progress.is_done_by(handler) {
            return Ok(());
        }
        let id = &pass.set.handlers[handler].id;
        let delivery = pass.item.delivery.to_handler(id, failures.saturating_add(1));
        let span = self.traces.fall_back(&delivery);
        let failure = Failure::shared(delivery, in_all, error.clone());
        let call = async move { fallback.handle_boxed(failure).await }.instrument(span.clone());
        match self.called(pass.item.lease, span, call).await? {
            Ok(()) if mutant!(FallbackUncounted) => pass.note(handler, judgement),
            Ok(()) => pass.progress.succeed(handler),
            Err(error) => {
                pass.trouble.error = format!("fallback of handler `{id}`: {}", shown(&error));
                pass.note(handler, judgement);
            }
        }
        Ok(())
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
