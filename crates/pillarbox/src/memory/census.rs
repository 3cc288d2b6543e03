//! Who takes part in the memory store, who owns what, and what waits where.

use super::table::Table;
use crate::Timestamp;
use crate::store::{Census, Mode, Status, StoreError};

impl Table {
    pub(super) fn census(&self, now: Timestamp) -> Result<Census, StoreError> {
        let mode = self.mode();
        let census = Census { mode, instances: self.membership.registrations(now), ..Census::default() };
        if mode == Mode::Claims {
            return Ok(census);
        }
        let mut partitions = self.membership.tenancies(now);
        for row in self.pending() {
            let tenancy = &mut partitions[usize::from(row.partition)];
            let waiting = if row.status == Status::Retry { &mut tenancy.aside } else { &mut tenancy.fresh };
            *waiting += 1;
            let due_for = (row.due_at <= now).then(|| now.saturating_since(row.due_at));
            tenancy.oldest_due_for = tenancy.oldest_due_for.max(due_for);
        }
        let all: Vec<u8> = (0..=u8::MAX).collect();
        Ok(Census {
            partitions,
            blocked_keys: self.blocked(&all, now)?.len() as u64,
            parked_keys: self.parked.len() as u64,
            ..census
        })
    }
}
