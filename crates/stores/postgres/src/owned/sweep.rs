//! Looking below the floors, a span of numbers at a time: the index has what is done as well.

use std::sync::{Mutex, PoisonError};

use pillarbox::PARTITIONS;
use pillarbox::store::{Fetched, Visit};

use super::is_of;

/// How many numbers are looked through of each partition at once.
const SPAN: i64 = 100_000;

/// How far each partition has been looked through since it was begun with.
pub(crate) struct Sweep(Mutex<[i64; PARTITIONS]>);

impl Default for Sweep {
    fn default() -> Self {
        Self(Mutex::new([0; PARTITIONS]))
    }
}

/// Where the next look at each partition begins.
pub(super) struct Spans([i64; PARTITIONS]);

impl Spans {
    /// The numbers to be looked at: above the first and up to the second.
    pub(super) fn of(&self, visit: &Visit) -> (i64, i64) {
        let above = self.0[usize::from(visit.partition)];
        (above, visit.floor.min(above.saturating_add(SPAN)))
    }
}

impl Sweep {
    /// What is to be looked at next. Whoever has got past a floor, since that fell, begins anew.
    pub(super) fn next(&self, visits: &[Visit]) -> Spans {
        let mut spans = Spans(*self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for visit in visits {
            let above = &mut spans.0[usize::from(visit.partition)];
            *above = if *above < visit.floor { *above } else { 0 };
        }
        spans
    }

    /// Notes how far a look has come that brought these events, at most `limit` of each partition.
    pub(super) fn ended(&self, spans: &Spans, visits: &[Visit], read: &[Fetched], limit: usize) {
        let mut reached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for visit in visits {
            let numbers =
                || read.iter().filter(|event| is_of(event, visit)).map(|event| event.taken.lease.seq);
            let is_full = numbers().count() >= limit;
            let (_, up_to) = spans.of(visit);
            reached[usize::from(visit.partition)] =
                if is_full { numbers().max().unwrap_or_default() } else { up_to };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(floor: i64) -> Visit {
        Visit { partition: 7, epoch: pillarbox::store::Epoch(1), floor, in_flight: Vec::new() }
    }

    /// O1: what lies below a floor is looked through from one end to the other, and then again.
    #[test]
    fn looks_go_on_where_the_last_one_ended() {
        let sweep = Sweep::default();
        let mut looks = Vec::new();
        for floor in [250_000, 250_000, 250_000, 250_000, 100_010, 100_010, 5] {
            let visit = visit(floor);
            let spans = sweep.next(std::slice::from_ref(&visit));
            looks.push(spans.of(&visit));
            sweep.ended(&spans, &[visit], &[], 16);
        }

        let expected = [
            (0, 100_000),
            (100_000, 200_000),
            (200_000, 250_000),
            (0, 100_000),
            (100_000, 100_010),
            (0, 100_000),
            (0, 5),
        ];
        assert_eq!(looks, expected);
    }
}
