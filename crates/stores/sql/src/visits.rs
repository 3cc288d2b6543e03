//! Visits of partitions, as many as one statement should name.

use pillarbox::store::Visit;

/// What visits may come to in one statement, so that it fits into one record of TLS (16 KiB) with all else that it says. A
/// longer one is sent in several pieces, and each but the first waits for the server to acknowledge the one before, which
/// that puts off for up to 40 ms: the driver does not set `TCP_NODELAY`.
const MOST_BYTES: usize = 15_000;
/// A partition and its two bounds, and a number that is in flight, each with its length before it, as PostgreSQL has them.
/// In MySQL's statements they take about as much.
const VISIT_BYTES: usize = 30;
const NUMBER_BYTES: usize = 12;

/// The visits in parts, in their order, each of which should fit into one record of TLS. One that is too long for that is
/// a part by itself.
pub fn in_records(visits: &[Visit]) -> Vec<&[Visit]> {
    let mut parts = Vec::new();
    let mut rest = visits;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|visit| {
            bytes += VISIT_BYTES + NUMBER_BYTES * visit.in_flight.len();
            bytes <= MOST_BYTES
        });
        let (part, others) = rest.split_at(fitting.count().max(1));
        parts.push(part);
        rest = others;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(partition: u8, in_flight: i64) -> Visit {
        Visit { partition, epoch: Default::default(), floor: 0, in_flight: (0..in_flight).collect() }
    }

    /// P5: all partitions are one statement as long as it is short enough, and no statement is longer than that.
    #[test]
    fn visits_are_as_few_statements_as_fit_into_records() {
        let idle: Vec<Visit> = (0..=u8::MAX).map(|partition| visit(partition, 2)).collect();
        let busy: Vec<Visit> = (0..=u8::MAX).map(|partition| visit(partition, 12)).collect();

        assert_eq!(in_records(&idle), [&idle[..]]);
        assert_eq!(in_records(&busy).len(), 3);
        assert_eq!(in_records(&busy).concat(), busy);
    }

    /// P5: a partition is read by one statement, whatever is in flight of it.
    #[test]
    fn visit_that_is_too_long_is_a_statement_by_itself() {
        let visits = [visit(1, 5), visit(2, 5_000), visit(3, 5)];

        assert_eq!(in_records(&visits), [&visits[..1], &visits[1..2], &visits[2..]]);
        assert!(in_records(&[]).is_empty());
    }
}
