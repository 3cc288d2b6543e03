//! An event from its arrival until what became of it is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::store::{Fetched, Outcome, Taken};

/// An event that was read, and whose outcome is not recorded yet.
#[derive(Debug)]
pub(super) struct Flight {
    /// Its key, if it goes by one.
    pub(super) key: Option<Arc<str>>,
    pub(super) origin: Origin,
    pub(super) stage: Stage,
}

/// Where it stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Among the fresh ones.
    Fresh,
    /// Aside.
    Aside,
}

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for others.
    Waits(Box<Taken>),
    /// It may run as soon as no other suspect does.
    Suspect(Box<Taken>),
    /// It is queued or delivered.
    Runs,
    /// Its outcome is being recorded.
    Ends(End),
}

impl Stage {
    fn is_ending(&self) -> bool {
        matches!(self, Self::Ends(_))
    }
}

/// Where an event is once its outcome is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nowhere that it is read from: it is done or dead.
    Over,
    /// Aside.
    Aside,
    /// Where it was: it is given back.
    Back,
}

impl End {
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Done | Outcome::FellBack { .. } | Outcome::Dead { .. } | Outcome::Parked { .. } => {
                Self::Over
            }
            Outcome::Retry { .. } | Outcome::Aside { .. } => Self::Aside,
            Outcome::Released => Self::Back,
        }
    }
}

impl Flight {
    pub(super) fn new(fetched: Fetched, key: Option<Arc<str>>, origin: Origin) -> Self {
        Self { key, origin, stage: Stage::Waits(Box::new(fetched.taken)) }
    }

    /// Whether a read of what is aside could find it: it stands there, or may by now.
    pub(super) fn may_be_aside(&self) -> bool {
        self.origin == Origin::Aside || matches!(self.stage, Stage::Ends(End::Aside))
    }

    /// Takes the event out, if it has not been begun, and leaves the stage `next`.
    pub(super) fn take(&mut self, next: Stage) -> Option<Box<Taken>> {
        match std::mem::replace(&mut self.stage, next) {
            Stage::Waits(taken) | Stage::Suspect(taken) => Some(taken),
            begun => {
                self.stage = begun;
                None
            }
        }
    }
}

/// The flights of a partition by their numbers, and how many of them are ending.
#[derive(Debug, Default)]
pub(super) struct Flights {
    by_number: BTreeMap<i64, Flight>,
    ending: usize,
}

impl Flights {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// How many have their outcome, which is being recorded.
    pub(super) fn ending(&self) -> usize {
        self.ending
    }

    pub(super) fn contains(&self, seq: i64) -> bool {
        self.by_number.contains_key(&seq)
    }

    pub(super) fn get(&self, seq: i64) -> Option<&Flight> {
        self.by_number.get(&seq)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &Flight)> {
        self.by_number.iter().map(|(&seq, flight)| (seq, flight))
    }

    /// Adds a flight that is not there.
    pub(super) fn insert(&mut self, seq: i64, flight: Flight) {
        self.ending += usize::from(flight.stage.is_ending());
        self.by_number.insert(seq, flight);
    }

    pub(super) fn remove(&mut self, seq: i64) -> Option<Flight> {
        let removed = self.by_number.remove(&seq)?;
        self.ending -= usize::from(removed.stage.is_ending());
        Some(removed)
    }

    /// Does something with a flight, if it is there: the only way to change one.
    pub(super) fn change<T>(&mut self, seq: i64, change: impl FnOnce(&mut Flight) -> T) -> Option<T> {
        let flight = self.by_number.get_mut(&seq)?;
        let was_ending = flight.stage.is_ending();
        let changed = change(flight);
        self.ending = self.ending + usize::from(flight.stage.is_ending()) - usize::from(was_ending);
        Some(changed)
    }

    /// Forgets those that have not begun.
    pub(super) fn forget_waiting(&mut self) {
        self.by_number.retain(|_, flight| matches!(flight.stage, Stage::Runs | Stage::Ends(_)));
    }
}
