//! One event of a run, and how far its sinks have come with it.

use std::fmt::Display;
use std::time::Duration;

use crate::destination::SinkSet;
use crate::dispatcher::{Dispatcher, Item, Stored, shown};
use crate::handler::{Progress, Trouble};
use crate::mutant::mutant;
use crate::store::{Lease, Outcome, Settlement};

/// One event of a run.
pub(super) struct Parcel {
    pub(super) item: Item,
    /// What was stored before; until something is, times are counted from now.
    stored: Option<Box<Stored>>,
    pub(super) progress: Progress,
    /// The sinks that it is still owed to in this run, and how often each has refused it before.
    pub(super) due: Vec<(usize, u32)>,
    trouble: Trouble,
    /// Why a sink was not tried.
    waits: Option<String>,
    /// It was not tried at all, or not at all of its sinks, and is to come again at once.
    pub(super) is_given_back: bool,
}

impl Parcel {
    /// A sink is not tried now, but after this wait.
    pub(super) fn wait(&mut self, leg: usize, wait: Duration, due_for: Duration, reason: String) {
        if let Some(failures) = self.no_longer_due(leg) {
            self.progress.postpone(leg, failures, due_for.saturating_add(wait));
            self.waits = Some(reason);
        }
    }

    /// A sink is not tried now, and the event comes again as it was.
    pub(super) fn give_back(&mut self, leg: usize, due_for: Duration) {
        if let Some(failures) = self.no_longer_due(leg) {
            self.progress.postpone(leg, failures, due_for);
            self.is_given_back = true;
        }
    }

    pub(super) fn is_due(&self, leg: usize) -> bool {
        self.due.iter().any(|(of, _)| *of == leg)
    }

    /// A sink owes no answer any more; how often it has refused the event before.
    pub(super) fn no_longer_due(&mut self, leg: usize) -> Option<u32> {
        let place = self.due.iter().position(|(of, _)| *of == leg)?;
        Some(self.due.swap_remove(place).1)
    }

    /// Notes why a sink has not got it.
    pub(super) fn blame(&mut self, set: &SinkSet, leg: usize, error: &dyn Display, spent: bool) {
        let error = shown(error);
        self.trouble.error =
            if set.is_tracked { format!("sink `{}`: {error}", set.legs[leg].id) } else { error };
        self.trouble.spent |= spent || mutant!(OutageSpends);
    }

    /// What went wrong with it, if anything did.
    pub(super) fn error(&self) -> Option<&str> {
        Some(self.trouble.error.as_str()).filter(|error| !error.is_empty())
    }

    /// What becomes of it, and what is stored of its sinks.
    fn conclude(self, set: &SinkSet, due_for: Duration) -> (Outcome, Option<String>) {
        // What was given up, or counted, must not pass for untouched.
        if self.is_given_back && !self.trouble.spent {
            return self.progress.cut_off(set.ids());
        }
        if self.progress.is_done() || mutant!(DoneWhileOneIsDown) && self.waits.is_some() {
            return (Outcome::Done, None);
        }
        let (outcome, text) = self.progress.conclude(set.ids(), due_for, self.trouble);
        match (outcome, self.waits) {
            (Outcome::Retry { after, error, spent: false }, Some(reason)) if error.is_empty() => {
                (Outcome::Aside { until: Some(after), reason }, text)
            }
            (outcome, _) => (outcome, text),
        }
    }
}

impl Dispatcher {
    /// The events of a run, with how far their sinks have come. One of which that cannot be read is settled.
    pub(super) async fn parcels(&self, set: &SinkSet, items: Vec<Item>) -> Vec<Option<Parcel>> {
        let mut parcels = Vec::with_capacity(items.len());
        for item in items {
            parcels.push(self.parcel(set, item).await);
        }
        parcels
    }

    async fn parcel(&self, set: &SinkSet, mut item: Item) -> Option<Parcel> {
        if let Some((newest, stored)) = self.in_flight.taken_anew(item.lease) {
            // It waited for longer than its lease, and others may have gone on with it. That take was no new start.
            item.lease = Lease { starts: item.lease.starts, ..newest };
            item.stored = stored;
        }
        let stored = item.stored.take().filter(|_| set.is_tracked);
        let text = stored.as_ref().map(|stored| stored.handlers.as_str());
        let mut progress = match Progress::begin(set.ids(), text, item.lease.attempts) {
            Ok(progress) => progress,
            Err(error) => {
                self.settle(&item, Outcome::Dead { error: error.to_string(), spent: false }).await;
                return None;
            }
        };
        if let Some(succeeded) = self.remembered.of(item.lease.seq, item.delivery.id()) {
            progress.recall(set.ids(), &succeeded);
        }
        let due = Vec::new();
        let (trouble, waits) = (Trouble::default(), None);
        let mut parcel = Parcel { item, stored, progress, due, trouble, waits, is_given_back: false };
        let due_for = self.parcel_due_for(&parcel);
        parcel.due = (0..set.legs.len())
            .filter_map(|leg| {
                let failures = parcel.progress.due(leg, due_for)?;
                Some((leg, if set.is_tracked { failures } else { parcel.item.lease.attempts }))
            })
            .collect();
        Some(parcel)
    }

    /// How long the event has been due, as far as that matters: before anything is stored all are due.
    pub(super) fn parcel_due_for(&self, parcel: &Parcel) -> Duration {
        parcel.stored.as_ref().map_or(Duration::ZERO, |stored| {
            let since = self.runtime.clock.now().saturating_sub(stored.taken_at);
            stored.due_for.saturating_add(since)
        })
    }

    pub(super) async fn settle_parcel(&self, set: &SinkSet, mut parcel: Parcel) {
        for id in parcel.progress.missing() {
            self.meter.meet_unknown(id, self.runtime.clock.now());
        }
        let due_for = self.parcel_due_for(&parcel);
        let handlers_before = parcel.stored.as_mut().map(|stored| std::mem::take(&mut stored.handlers));
        let (event_id, lease) = (parcel.item.delivery.id().to_owned(), parcel.item.lease);
        let (outcome, text) = parcel.conclude(set, due_for);
        let is_told = set.is_tracked && !(mutant!(SinksForgotten) && outcome.comes_again());
        let handlers = text.filter(|_| is_told);
        self.settler.settle(Settlement { event_id, lease, outcome, handlers, handlers_before }).await;
    }
}
