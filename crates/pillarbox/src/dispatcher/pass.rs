//! A pass: one event to all of its handlers that are due, one after the other.

use std::sync::Arc;
use std::time::Duration;

use super::worker::CutOff;
use super::{Dispatcher, Item, Stored, shown};
use crate::ListenerError;
use crate::handler::{Entry, Failure, HandlerSet, Progress, Trouble};
use crate::listener::Verdict;
use crate::registry::{Receiver, Target};
use crate::runtime::BoxFuture;
use crate::store::{Outcome, Settlement};

/// A pass under way.
struct Pass<'a> {
    set: &'a HandlerSet,
    progress: Progress,
    trouble: Trouble,
    /// How long the event had been due when it was taken, and when that was by the local clock.
    due_for: Duration,
    taken_at: Duration,
    worker: usize,
}

/// How a pass ended.
enum End {
    /// All that was due has run.
    Through,
    /// The shutdown, or the end of the lease, came first.
    CutOff,
    /// The lease belongs to another: whatever was done is for it to find out.
    Lost,
}

impl Dispatcher {
    /// The handlers of an event, if it has any: one for which nobody is registered any more still owes them something.
    pub(super) fn handlers_of(&self, item: &Item) -> Option<Arc<HandlerSet>> {
        match &item.target {
            Some(Target(Receiver::Handlers(handlers))) => Some(handlers.clone()),
            None if item.stored.handlers.is_some() => Some(Arc::default()),
            Some(Target(Receiver::Listener(_) | Receiver::Sink(_))) | None => None,
        }
    }

    /// One event to those of its handlers that are due.
    pub(super) async fn deliver_to_handlers(&self, item: Item, set: &HandlerSet, worker: usize) {
        let Stored { handlers, due_for, taken_at } = item.stored.clone();
        let mut progress = match Progress::begin(set.ids(), handlers.as_deref(), item.lease.attempts) {
            Ok(progress) => progress,
            Err(error) => {
                return self.settle(&item, Outcome::Dead { error: error.to_string(), spent: false }).await;
            }
        };
        if let Some(succeeded) = self.remembered.of(item.delivery.id()) {
            progress.recall(set.ids(), &succeeded);
        }
        let mut pass = Pass { set, progress, trouble: Trouble::default(), due_for, taken_at, worker };
        let (lease, delivery) = (item.lease, item.delivery.clone());

        let end = self.run_pass(&mut pass, item).await;
        let due_for = self.due_for(&pass);
        let (outcome, handlers) = match end {
            End::Lost => return,
            End::Through => {
                let failed = (!pass.trouble.error.is_empty()).then_some(pass.trouble.error.as_str());
                let until = self.runtime.clock.now() + self.config.margin / 2;
                self.after(&delivery, failed, until).await;
                pass.progress.conclude(set.ids(), due_for, pass.trouble)
            }
            End::CutOff => pass.progress.cut_off(set.ids()),
        };
        let event_id = delivery.id().to_owned();
        self.settler.settle(Settlement { event_id, lease, outcome, handlers }).await;
    }

    /// How long the event has been due.
    fn due_for(&self, pass: &Pass<'_>) -> Duration {
        let since = self.runtime.clock.now().saturating_sub(pass.taken_at);
        pass.due_for.saturating_add(since)
    }

    /// Runs interceptors and handlers.
    async fn run_pass(&self, pass: &mut Pass<'_>, mut item: Item) -> End {
        let due_for = self.due_for(pass);
        let due = |handler: usize| Some((handler, pass.progress.due(handler, due_for)?));
        let due: Vec<(usize, u32)> = (0..pass.set.handlers.len()).filter_map(due).collect();
        if due.is_empty() {
            return End::Through;
        }
        if !self.interceptors.is_empty() {
            let delivery = item.delivery.clone();
            let before: BoxFuture<'_, _> = Box::pin(async move { self.before(&delivery).await });
            match self.within_limits(item.lease, before).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error)) | Err(error)) => {
                    for (handler, failures) in due {
                        let verdict = self.judge(pass, handler, failures, &error);
                        pass.note(handler, verdict);
                    }
                    return End::Through;
                }
                Err(CutOff) => return End::CutOff,
            }
        }
        for (handler, failures) in due {
            item = match self.still_live(item, pass.worker).await {
                Ok(item) => item,
                Err(end) => return end,
            };
            if let Err(CutOff) = self.run_handler(pass, &item, handler, failures).await {
                return End::CutOff;
            }
        }
        End::Through
    }

    /// The item, if its lease lasts for one handler more.
    async fn still_live(&self, item: Item, worker: usize) -> Result<Item, End> {
        let (mut live, short) = self.live_and_short(vec![item]).await;
        // Each handler has the time of a delivery.
        self.note_busy(worker, Some(self.runtime.clock.now()));
        live.pop().ok_or(if short.is_empty() { End::Lost } else { End::CutOff })
    }

    /// Runs one handler and, if it has failed for good, its fallback.
    async fn run_handler(
        &self,
        pass: &mut Pass<'_>,
        item: &Item,
        handler: usize,
        failures: u32,
    ) -> Result<(), CutOff> {
        let Entry { id, listener, .. } = &pass.set.handlers[handler];
        let delivery = item.delivery.to_handler(id, failures.saturating_add(1));
        let to_listener = delivery.clone();
        // In an async block, so that a panic before its first await is caught as well.
        let call: BoxFuture<'_, _> = Box::pin(async move { listener.on_event_boxed(to_listener).await });
        let error = match self.within_limits(item.lease, call).await? {
            Ok(Ok(())) => {
                pass.progress.succeed(handler);
                return Ok(());
            }
            Ok(Err(error)) | Err(error) => error,
        };
        let verdict = self.judge(pass, handler, failures, &error);
        let is_readable = error.verdict() != Verdict::Undecodable;
        if let (Judgement::GiveUp { failures }, Some(fallback), true) =
            (verdict, &pass.set.fallback, is_readable)
        {
            let failure = Failure::new(delivery, failures, error);
            self.note_busy(pass.worker, Some(self.runtime.clock.now()));
            let call: BoxFuture<'_, _> = Box::pin(async move { fallback.handle_boxed(failure).await });
            match self.within_limits(item.lease, call).await? {
                Ok(Ok(())) => {
                    pass.progress.succeed(handler);
                    return Ok(());
                }
                Ok(Err(error)) | Err(error) => {
                    pass.trouble.error = format!("fallback of handler `{id}`: {}", shown(&error));
                }
            }
        }
        pass.note(handler, verdict);
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
            Outcome::Retry { after, .. } => {
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
