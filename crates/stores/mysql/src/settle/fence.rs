//! Which leases are held: those of takes by the token on the row, those of owners by the epoch of the partition.

use std::collections::{BTreeSet, HashMap};

use pillarbox::store::{Epoch, Lease, Outcome, Settlement};
use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use crate::row;
use crate::statements::{MOST_LISTED, Statements, bind_list};

/// A pending row that is locked.
struct Held {
    event_id: String,
    token: Option<i64>,
    partition: Option<u8>,
    attempts: i64,
    has_key: bool,
    handlers: Option<String>,
}

impl Held {
    /// Whether an operator has changed what is stored of handlers since the owner of the partition read it.
    fn is_revised(&self, Settlement { lease, handlers, handlers_before, .. }: &Settlement) -> bool {
        let says_more = handlers.is_some() && lease.token.partition().is_some();
        says_more && self.handlers != *handlers_before && self.handlers != *handlers
    }
}

/// Pending rows and partitions, locked, by their numbers.
pub(super) struct Fence {
    rows: HashMap<i64, Held>,
    epochs: HashMap<u8, Epoch>,
}

impl Fence {
    /// Locks the partitions of these leases against the next owner, and then their rows; each in the order of their
    /// numbers.
    pub(super) async fn lock<'l>(
        connection: &mut MySqlConnection,
        statements: &Statements,
        leases: impl Iterator<Item = &'l Lease> + Clone,
    ) -> Result<Self, sqlx::Error> {
        let partitions = leases.clone().filter_map(|lease| Some(lease.token.partition()?.0)).collect();
        let epochs = lock_partitions(connection, statements, &partitions).await?;
        let mut numbers: Vec<i64> = leases.map(|lease| lease.seq).collect();
        numbers.sort_unstable();
        let mut rows = HashMap::with_capacity(numbers.len());
        for numbers in numbers.chunks(MOST_LISTED) {
            let query = bind_list(sqlx::query(statements.held.of(numbers.len())), numbers);
            for row in query.fetch_all(&mut *connection).await? {
                let held = Held {
                    event_id: row::event_id(&row)?,
                    token: row.try_get("token")?,
                    partition: row.try_get("event_partition")?,
                    attempts: row.try_get("attempts")?,
                    has_key: row.try_get::<i64, _>("has_key")? != 0,
                    handlers: row::lossy(&row, "handlers")?,
                };
                rows.insert(row.try_get("seq")?, held);
            }
        }
        Ok(Self { rows, epochs })
    }

    /// Whether a row carries the token of this take.
    pub(super) fn is_taken(&self, lease: &Lease) -> bool {
        self.rows.get(&lease.seq).is_some_and(|row| row.token == Some(lease.token.0))
    }

    fn holds(&self, Settlement { event_id, lease, .. }: &Settlement) -> bool {
        let Some((partition, epoch)) = lease.token.partition() else { return self.is_taken(lease) };
        let is_there = |row: &Held| row.event_id == *event_id && row.partition == Some(partition);
        self.rows.get(&lease.seq).is_some_and(is_there) && self.epochs.get(&partition) == Some(&epoch)
    }

    /// Whether an event would be set aside until its key goes on, and has none.
    pub(super) fn would_strand(&self, settlement: &Settlement) -> bool {
        let Settlement { lease, outcome, .. } = settlement;
        let is_endless = matches!(outcome, Outcome::Aside { until: None, .. });
        is_endless && self.holds(settlement) && self.rows.get(&lease.seq).is_some_and(|row| !row.has_key)
    }

    /// Whether a settlement can be recorded. The second one of the same row cannot.
    pub(super) fn pass(&mut self, settlement: &Settlement) -> bool {
        let Settlement { lease, outcome, .. } = settlement;
        let must_count = outcome.spends() && !outcome.is_done();
        let is_counted = |row: &Held| must_count && row.attempts != i64::from(lease.attempts);
        let is_passed = |row: &Held| is_counted(row) || row.is_revised(settlement);
        let passes = self.holds(settlement) && !self.rows.get(&lease.seq).is_some_and(is_passed);
        passes && self.rows.remove(&lease.seq).is_some()
    }
}

/// Locks partitions against the next owner, in the order of their numbers, and returns their epochs.
pub(super) async fn lock_partitions(
    connection: &mut MySqlConnection,
    statements: &Statements,
    partitions: &BTreeSet<u8>,
) -> Result<HashMap<u8, Epoch>, sqlx::Error> {
    if partitions.is_empty() {
        return Ok(HashMap::new());
    }
    let numbers: Vec<u8> = partitions.iter().copied().collect();
    let leases = bind_list(sqlx::query(statements.leases.of(numbers.len())), &numbers);
    let rows = leases.fetch_all(connection).await?;
    rows.iter().map(|row| Ok((row.try_get("event_partition")?, Epoch(row.try_get("epoch")?)))).collect()
}
