//! Hints between instances: lost, late, or heard at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::rng::Rng;
use super::world::World;

/// Where each process hears that another has committed something, or given something back.
#[derive(Default)]
pub(super) struct Hints {
    ears: Mutex<BTreeMap<u32, Arc<Notify>>>,
}

impl Hints {
    /// The ear of a process.
    pub(super) fn ear(&self, process: u32) -> Arc<Notify> {
        self.ears().entry(process).or_default().clone()
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<Notify>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World {
    /// A process tells all others that there is something new.
    pub(super) fn announce(&self, from: u32, rng: &Rng) {
        if !self.options.owned.is_some_and(|owned| owned.has_hints) {
            return;
        }
        let others: Vec<_> = self.hints.ears().iter().filter(|(to, _)| **to != from).map(to_owned).collect();
        for (to, ear) in others {
            match rng.below(10) {
                0 | 1 => self.cover("hints lost", 1),
                2..5 => {
                    let time = rng.dawdle() + rng.millis(1, 50);
                    self.note(format_args!("{from} tells {to} in {time:?}"));
                    self.cover("hints late", 1);
                    tokio::spawn(async move {
                        tokio::time::sleep(time).await;
                        ear.notify_one();
                    });
                }
                _ => {
                    self.note(format_args!("{from} tells {to}"));
                    ear.notify_one();
                }
            }
        }
    }
}

fn to_owned((to, ear): (&u32, &Arc<Notify>)) -> (u32, Arc<Notify>) {
    (*to, ear.clone())
}
