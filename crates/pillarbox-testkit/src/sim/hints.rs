//! Hints between instances: lost, late, vague, or heard at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pillarbox::PartitionSet;
use tokio::sync::Notify;

use super::rng::Rng;
use super::world::World;

/// Where each process hears that another has committed something, or given something back.
#[derive(Default)]
pub(super) struct Hints {
    ears: Mutex<BTreeMap<u32, Arc<Ear>>>,
}

/// What a process has been told.
#[derive(Default)]
pub(super) struct Ear {
    heard: Mutex<PartitionSet>,
    news: Notify,
}

impl Ear {
    fn tell(&self, partitions: PartitionSet) {
        *self.lock() |= partitions;
        self.news.notify_one();
    }

    /// Completes when something was told, with the partitions of all that was.
    pub(super) async fn heard(&self) -> PartitionSet {
        self.news.notified().await;
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, PartitionSet> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hints {
    /// The ear of a process.
    pub(super) fn ear(&self, process: u32) -> Arc<Ear> {
        self.ears().entry(process).or_default().clone()
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Ear>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// A process tells all others that there is something new in these partitions.
    pub(super) fn announce(self: &Arc<Self>, from: u32, partitions: PartitionSet, rng: &Rng) {
        if !self.options.owned.is_some_and(|owned| owned.has_hints) {
            return;
        }
        let others: Vec<_> = self.hints.ears().iter().filter(|(to, _)| **to != from).map(to_owned).collect();
        for (to, ear) in others {
            match rng.below(10) {
                0 | 1 => self.cover("hints lost", 1),
                2..5 => {
                    let time = rng.dawdle() + rng.millis(1, 50);
                    self.note(format_args!("{from} tells {to} of {partitions:?} in {time:?}"));
                    self.cover("hints late", 1);
                    let hint = async move {
                        tokio::time::sleep(time).await;
                        ear.tell(partitions);
                    };
                    drop(self.spawn("hint", hint));
                }
                5 => {
                    self.note(format_args!("{from} tells {to} of something"));
                    self.cover("hints without a partition", 1);
                    ear.tell(PartitionSet::ALL);
                }
                _ => {
                    self.note(format_args!("{from} tells {to} of {partitions:?}"));
                    ear.tell(partitions);
                }
            }
        }
    }
}

fn to_owned((to, ear): (&u32, &Arc<Ear>)) -> (u32, Arc<Ear>) {
    (*to, ear.clone())
}
