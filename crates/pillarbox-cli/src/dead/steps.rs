//! What was meant, in steps that are each one statement or a few.

use std::collections::VecDeque;

use indicatif::ProgressBar;
use pillarbox::store::{Administration, Page, Selection};
use pillarbox_any::AnyStore;

use super::walk::Walk;
use crate::interrupt::Interrupt;
use crate::pace::{Pace, Rate};
use crate::{figure, terminal};

/// Numbers in one step through all dead events.
const STEP: i64 = 10_000;

/// The selections that together are what was meant.
pub(super) enum Steps {
    Ids(VecDeque<String>),
    /// Upwards to the highest number of the beginning: events that die meanwhile, or again, are not meant.
    Numbers {
        after: i64,
        highest: i64,
    },
    Walk(Box<Walk>),
}

impl Steps {
    /// The next step, of at most `most` events if they are looked at one by one; `None` when there are no more.
    async fn next(&mut self, store: &AnyStore, most: usize) -> anyhow::Result<Option<Selection>> {
        let (after, highest) = match self {
            Self::Ids(ids) => {
                let step: Vec<String> = ids.drain(..most.min(ids.len())).collect();
                return Ok(if step.is_empty() { None } else { Some(Selection::Ids(step)) });
            }
            Self::Walk(walk) => return Ok(walk.ids(store, most).await?.map(Selection::Ids)),
            Self::Numbers { after, highest } => (after, *highest),
        };
        // Jumps to the next one that is dead: between two of them there may be millions that are not.
        let next = store.dead(Page { after: *after, limit: 1 }).await?;
        let Some(from) = next.first().map(|stored| stored.seq).filter(|&seq| seq <= highest) else {
            return Ok(None);
        };
        let to = from.saturating_add(STEP - 1).min(highest);
        *after = to;
        Ok(Some(Selection::Numbers { from, to }))
    }

    /// How far it has come, of `total`, when so many events are over.
    fn position(&self, over: u64) -> u64 {
        match self {
            Self::Walk(walk) => walk.passed(),
            Self::Ids(_) | Self::Numbers { .. } => over,
        }
    }
}

/// Something that is done to events, step by step, at a pace, until it is through or interrupted.
pub(super) struct Work {
    steps: Steps,
    pace: Pace,
    interrupt: Interrupt,
    bar: ProgressBar,
    /// To how many it was done.
    pub(super) over: u64,
}

impl Work {
    /// Begins; `total` is for the bar.
    pub(super) fn begin(steps: Steps, rate: Option<Rate>, doing: &str, total: u64) -> anyhow::Result<Self> {
        let bar = terminal::bar(total, &format!("  {doing} {{wide_bar}} {{percent}} % · {{msg}}"));
        Ok(Self { steps, pace: Pace::begin(rate), interrupt: Interrupt::listen()?, bar, over: 0 })
    }

    /// What comes next, when its time has come; `None` at the end, and after an interruption.
    pub(super) async fn next(&mut self, store: &AnyStore) -> anyhow::Result<Option<Selection>> {
        loop {
            if !self.interrupt.pause(self.pace.pause(self.over)).await {
                return Ok(None);
            }
            match self.steps.next(store, self.pace.step()).await? {
                Some(Selection::Ids(ids)) if ids.is_empty() => self.show(),
                step => return Ok(step),
            }
        }
    }

    /// It was done to so many more.
    pub(super) fn done(&mut self, events: u64) {
        self.over += events;
        self.show();
    }

    fn show(&self) {
        self.bar.set_position(self.steps.position(self.over));
        self.bar.set_message(figure::events(self.over));
    }

    /// Takes the bar away, and says whether it was interrupted.
    pub(super) fn end(self) -> bool {
        self.bar.finish_and_clear();
        self.interrupt.is_heard()
    }
}
