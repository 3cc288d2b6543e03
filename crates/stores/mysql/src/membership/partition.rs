//! One partition, as its row is.

use pillarbox::store::{Epoch, Floor, Holding, Owner};
use serde_json::{Value, json};
use sqlx::Row;
use sqlx::mysql::MySqlRow;

/// A partition whose row is locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) number: u8,
    /// `name/incarnation`; nobody if it was released, or never owned.
    holder: Option<String>,
    epoch: Epoch,
    floor: i64,
    pub(super) crashes: u32,
    pub(super) suspect_to: i64,
    /// Whether it was released, or its lease has ended.
    pub(super) is_free: bool,
}

impl Partition {
    pub(super) fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        let (name, incarnation): (Option<String>, Option<String>) =
            (row.try_get("owner")?, row.try_get("incarnation")?);
        Ok(Self {
            number: row.try_get("event_partition")?,
            holder: name.zip(incarnation).map(|(name, incarnation)| format!("{name}/{incarnation}")),
            epoch: Epoch(row.try_get("epoch")?),
            floor: row.try_get("floor")?,
            crashes: u32::try_from(row.try_get::<i32, _>("crashes")?).unwrap_or(0),
            suspect_to: row.try_get("suspect_to")?,
            is_free: row.try_get::<Option<i64>, _>("is_free")? != Some(0),
        })
    }

    pub(super) fn is_held_by(&self, owner: &Owner) -> bool {
        self.holder.as_ref().is_some_and(|holder| *holder == owner.to_string())
    }

    /// Makes `owner` the next owner. Who asks for its own has lost the answer, and is neither another owner nor dead.
    pub(super) fn pass_to(&mut self, owner: &Owner, highest: i64) {
        if self.is_held_by(owner) {
            return;
        }
        self.epoch = self.epoch.next();
        if self.holder.replace(owner.to_string()).is_some() {
            self.crashes += 1;
            self.suspect_to = highest;
        }
        if self.floor > highest {
            self.floor = 0;
        }
    }

    /// Stores a floor that was told for it.
    pub(super) fn raise(&mut self, told: &Floor) {
        if told.partition == self.number && told.epoch == self.epoch {
            self.floor = self.floor.max(told.floor);
        }
    }

    /// Whether its floor has come past the events that may be to blame.
    pub(super) fn is_past(&self) -> bool {
        self.crashes > 0 && self.floor >= self.suspect_to
    }

    pub(super) fn holding(&self) -> Holding {
        let Self { number: partition, epoch, floor, crashes, suspect_to, .. } = *self;
        Holding { partition, epoch, floor, crashes, suspect_to }
    }

    /// What of it is stored beside its owner.
    pub(super) fn to_json(&self) -> Value {
        json!([self.number, self.epoch.0, self.floor, self.crashes, self.suspect_to])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O5, D3: who gets a partition that was not given back counts a crash, and one that is its own already stays.
    #[test]
    fn a_partition_passes_on() {
        let (relay, other) = (Owner::new("relay", 1), Owner::new("relay-2", 1));
        let mut partition = Partition { floor: 9, ..Partition::default() };

        partition.pass_to(&relay, 20);
        let first = partition.clone();
        partition.pass_to(&relay, 30);
        assert_eq!(partition, first);
        partition.pass_to(&other, 8);

        assert_eq!((first.epoch, first.floor, first.crashes), (Epoch(1), 9, 0));
        let Holding { epoch, floor, crashes, suspect_to, .. } = partition.holding();
        assert_eq!((epoch, floor, crashes, suspect_to), (Epoch(2), 0, 1, 8), "numbers went back");
    }
}
